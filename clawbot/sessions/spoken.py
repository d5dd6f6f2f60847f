"""What was said in a transcript, as plain lines with the lines of the file that they come from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from clawbot.logs import redact
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.entries import MessageEntry
from clawbot.sessions.lines import ByteSource, line_numbers
from clawbot.sessions.silence import names_token, spoken, was_cut
from clawbot.sessions.spans import read_entry, spans_backwards
from clawbot.sessions.transcript import SUFFIX

# Other programs of the family rename a transcript to this, with the time behind it, when a session is reset.
_ARCHIVED = f"{SUFFIX}.reset."
# One word of letters after the slash, on one line: `/usr/bin/x is broken` is talk.
_COMMAND = re.compile(r"/[A-Za-z][\w-]*(?:[ \t][^\n]*)?")


class TranscriptFile(NamedTuple):
    """A transcript on disk: its name in the folder, its size in bytes, and when it was changed."""

    name: str
    size: int
    mtime_ns: int


class _Said(NamedTuple):
    offset: int
    message: UserMessage | AssistantMessage
    text: str


def list_transcripts(folder: Path) -> list[TranscriptFile]:
    """The transcripts in `folder` by name, those of ended and reset sessions among them; links are left out. Blocks.

    None when there is no folder. Raises OSError.
    """
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if _is_transcript(entry.name) and entry.is_file(follow_symlinks=False):
                    state = _state(entry)
                    found += [TranscriptFile(entry.name, state.st_size, state.st_mtime_ns)] if state else []
    except FileNotFoundError:
        return []
    return sorted(found)


def spoken_lines(path: Path) -> tuple[list[str], list[int]]:
    """What the user and the model said to each other in the transcript at `path`, oldest first. Blocks.

    Returns the lines (`User: …`, `Assistant: …`, white space collapsed, secrets redacted) and for each the number
    (from 1) of its line in the file. Left out: tools and what they printed, reasoning, slash commands, what jobs said,
    silent replies with the prompts that asked for them, lines that can't be read. All branches are there, and what was
    compacted. Raises OSError.
    """
    with ByteSource.open(path) as source:
        said = _without_silence(_said(source))
        numbers = line_numbers(source, [part.offset for part in said])
    return [_line(part) for part in said], [numbers[part.offset] for part in said]


def is_command(text: str) -> bool:
    """Whether what the user said, without white space around, is a slash command."""
    return _COMMAND.fullmatch(text) is not None


def _is_transcript(name: str) -> bool:
    return name.endswith(SUFFIX) or _ARCHIVED in name


def _state(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def _said(source: ByteSource) -> Iterator[_Said]:
    """The messages with words in them, in the order of the file."""
    for span in list(spans_backwards(source, source.size, _ignored))[::-1]:
        if span.kind != "message":
            continue
        entry = read_entry(source, span, _ignored, None)
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage | AssistantMessage):
            text = entry.message.text.strip()
            if text and not (isinstance(entry.message, UserMessage) and (entry.message.scheduled or is_command(text))):
                yield _Said(span.start, entry.message, text)


def _ignored(_offset: int, _text: str) -> None:
    """Who opens the session is told what is wrong with its file."""


def _without_silence(said: Iterable[_Said]) -> list[_Said]:
    """`said` without silent replies and tokens beside an answer, and without the prompts of programs that asked for
    silence and got it (reference sheet 9, 12.7)."""
    kept: list[_Said] = []
    for part in said:
        if isinstance(part.message, UserMessage):
            kept.append(part)
        elif text := spoken(part.text, cut=was_cut(part.message)):
            kept.append(part._replace(text=text))
        elif kept and isinstance(kept[-1].message, UserMessage) and names_token(kept[-1].text):
            kept.pop()
    return kept


def _line(part: _Said) -> str:
    who = "User" if isinstance(part.message, UserMessage) else "Assistant"
    return f"{who}: {redact(' '.join(part.text.split()))}"
