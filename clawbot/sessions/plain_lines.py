"""What was said in a transcript, as plain lines with the entries that they come from."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from clawbot.messages import OFFLINE, AssistantMessage, Message, UserMessage
from clawbot.sessions.echo import REFERENCE, without_echo
from clawbot.sessions.entries import MessageEntry
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.lines import LARGEST_BLOCK, ByteSource, line_end, line_numbers, lines_on
from clawbot.sessions.offsets import read_entry, spans_backwards
from clawbot.sessions.silence import names_token, spoken, was_cut
from clawbot.sessions.transcript import SUFFIX
from clawbot.text.secrets import clean_talk

Speaker = Literal["user", "agent"]

LINE_CHARS = 700
"""From which length on what was said is told in several lines, cut between its paragraphs."""

# Other programs of the family rename a transcript to this, with the time behind it, when a session is reset.
_ARCHIVED = f"{SUFFIX}.reset."
# One word of letters after the slash, on one line: `/usr/bin/x is broken` is talk.
_COMMAND = re.compile(r"/[A-Za-z][\w-]*(?:[ \t][^\n]*)?")
_NAMES: dict[Speaker, str] = {"user": "User", "agent": "Assistant"}
_PARAGRAPH = re.compile(r"\n\s*\n")
# What stands for a quote or for what a tool printed.
_REFERENCE = re.compile(rf"[ \t]*{REFERENCE}[ \t]*$", re.MULTILINE)
_MAY_ECHO = re.compile(r">|```|~~~")
# How far behind a part the answer to its last question is looked for.
_LOOK_AHEAD_BYTES = 1024 * 1024
# What is read first around an entry: a dozen turns.
_NEAR_BYTES = 64 * 1024
# An id with its key, which two blocks may share.
_ID_BYTES = 64


class TranscriptFile(NamedTuple):
    """A transcript on disk: its name in the folder, its size in bytes, when it was changed, and its inode."""

    name: str
    size: int
    mtime_ns: int
    inode: int = 0


class Spoken(Struct, frozen=True):
    """Something that was said: `text` is one line without the name of who said it.

    `line` is its line in the file, counted from 1 where the looking began; `timestamp` is in milliseconds since the
    epoch, 0 when it is unknown. Of what is told in several lines each is one of these.
    """

    line: int
    entry: str
    who: Speaker
    timestamp: int
    text: str

    @property
    def told(self) -> str:
        """`User: …` or `Assistant: …`."""
        return f"{_NAMES[self.who]}: {self.text}"


class SpokenPart(Struct, frozen=True):
    """What was said in a part of a transcript. `settled`: nothing that is written behind the part changes it."""

    said: tuple[Spoken, ...]
    settled: bool = True


class _Said(NamedTuple):
    offset: int
    entry: MessageEntry
    text: str

    @property
    def by_user(self) -> bool:
        return isinstance(self.entry.message, UserMessage)


def list_transcripts(folder: Path) -> list[TranscriptFile]:
    """The transcripts in `folder` by name, those of ended and reset sessions among them; links are left out, and what
    is forgotten. Blocks.

    None when there is no folder. Raises OSError.
    """
    found = []
    forgotten = read_forgotten(folder)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                known = is_transcript(entry.name) and not forgotten.is_whole(entry.name)
                if known and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        found.append(file_state(entry.name, entry.stat(follow_symlinks=False)))
    except FileNotFoundError:
        return []
    return sorted(found)


def file_state(name: str, found: os.stat_result) -> TranscriptFile:
    """The transcript `name` as `found` shows it."""
    return TranscriptFile(name, found.st_size, found.st_mtime_ns, found.st_ino)


def spoken_part(path: Path, start: int = 0, end: int | None = None) -> SpokenPart:
    """What the user and the model said to each other in the transcript at `path`, oldest first. Blocks.

    `start` and `end` are bytes: the lines of the file that begin between them count, whole. Left out are tools and what
    they printed, reasoning, slash commands, what jobs said, quotes of notes, silent replies with the prompts that asked
    for them, lines that can't be read. All branches are there, and what was compacted. White space is collapsed,
    secrets are taken out, and what is forgotten is left out. Raises OSError.
    """
    forgotten = read_forgotten(path.parent)
    with ByteSource.open(path) as source:
        size = source.size
        first = line_end(source, start - 1, size) if start else 0
        stop = size if end is None or end >= size else line_end(source, end - 1, size)
        if first >= stop:
            return SpokenPart(())
        kept = _without_silence(_said(source, first, stop))
        settled = True
        if kept and _waits_for_silence(kept[-1]):
            answer = next(_said(source, stop, min(size, stop + _LOOK_AHEAD_BYTES)), None)
            settled = answer is not None
            if answer is None or len(_without_silence([kept[-1], answer])) == 0:
                kept.pop()
        lines = line_numbers(source, (part.offset for part in kept), first)
        told, _ = clean_talk(part.text for part in kept)
        said = (
            line
            for part, text in zip(kept, told, strict=True)
            for line in _lines(part, text, lines[part.offset])
            if not forgotten.holds(path.name, part.entry.id)
        )
        return SpokenPart(tuple(said), settled)


def spoken_at(path: Path, start: int, line: int) -> Spoken | None:
    """Who said what stands in the line `line`, from 1, of those that begin at the byte `start` or behind it; without
    the text. Blocks. Raises OSError."""
    with ByteSource.open(path) as source:
        size = source.size
        at = lines_on(source, line_end(source, start - 1, size) if start else 0, line - 1, size)
        span = next(spans_backwards(source, line_end(source, at, size)), None)
        entry = read_entry(source, span) if span is not None and span.start >= at else None
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage | AssistantMessage):
        return None
    who: Speaker = "user" if isinstance(entry.message, UserMessage) else "agent"
    return Spoken(line, entry.id, who, entry.message.timestamp or entry.moment, "")


def spoken_around(path: Path, entry: str, count: int) -> list[Spoken]:
    """What was said up to `count` lines before and behind the entry `entry`; the end of the talk without one. Blocks.

    Empty when there is no such entry. The lines are counted from where the looking began. Raises OSError.
    """
    size = path.stat().st_size
    at = _place_of(path, entry.encode(), size) if entry else size
    if at is None:
        return []
    said: Sequence[Spoken] = ()
    near = 0
    for reach in (_NEAR_BYTES, 8 * _NEAR_BYTES, size):
        said = spoken_part(path, max(0, at - reach), min(size, at + reach)).said
        near = next((place for place, one in enumerate(said) if one.entry == entry), len(said) if not entry else -1)
        if near >= count and (not entry or len(said) - near > count):
            break
    return list(said[max(0, near - count) : near + count + 1]) if near >= 0 else []


def is_command(text: str) -> bool:
    """Whether what the user said, without white space around, is a slash command."""
    return _COMMAND.fullmatch(text) is not None


def _place_of(path: Path, entry: bytes, size: int) -> int | None:
    """The byte at which `"id":"…"` of an entry stands, whichever program wrote it."""
    if not entry.isalnum():
        return None
    wanted = re.compile(rb'"id":\s?"%s"' % entry)
    with ByteSource.open(path) as source:
        for start in range(0, size, LARGEST_BLOCK):
            found = wanted.search(source.read(start, min(size, start + LARGEST_BLOCK + _ID_BYTES)))
            if found:
                return start + found.start()
    return None


def is_transcript(name: str) -> bool:
    """Whether a file of this name is a transcript, of a session that was reset too."""
    return name.endswith(SUFFIX) or _ARCHIVED in name


def _said(source: ByteSource, start: int, end: int) -> Iterator[_Said]:
    """The messages with words in them between two beginnings of lines, in the order of the file."""
    turn: list[Message] = []
    spans = list(takewhile(lambda span: span.start >= start, spans_backwards(source, end)))
    for span in reversed(spans):
        entry = read_entry(source, span) if span.kind == "message" else None
        if not isinstance(entry, MessageEntry):
            continue
        message = entry.message
        if not isinstance(message, UserMessage | AssistantMessage):
            turn.append(message)
            continue
        if isinstance(message, UserMessage):
            turn.clear()
            text = "" if message.scheduled or is_command(message.text.strip()) else message.text.strip()
        else:
            text = _own_words(message, turn)
            turn.append(message)
        if text:
            yield _Said(span.start, entry, text)


def _own_words(message: AssistantMessage, turn: Sequence[Message]) -> str:
    """What the model said itself: without quotes of notes and what tools of its turn printed."""
    text = message.text.strip()
    if not _MAY_ECHO.search(text):
        return text
    return _REFERENCE.sub("", without_echo(message, turn, quotes_only=message.provider == OFFLINE)).strip()


def _without_silence(said: Iterable[_Said]) -> list[_Said]:
    """`said` without silent replies and tokens beside an answer, and without the prompts of programs that asked for
    silence and got it (reference sheet 9, 12.7)."""
    kept: list[_Said] = []
    for part in said:
        message = part.entry.message
        if not isinstance(message, AssistantMessage):
            kept.append(part)
        elif text := spoken(part.text, cut=was_cut(message)):
            kept.append(part._replace(text=text))
        elif kept and _waits_for_silence(kept[-1]):
            kept.pop()
    return kept


def _waits_for_silence(part: _Said) -> bool:
    return part.by_user and names_token(part.text)


def _lines(part: _Said, text: str, line: int) -> Iterator[Spoken]:
    """What was said in `part`, which is told as `text`."""
    who: Speaker = "user" if part.by_user else "agent"
    timestamp = part.entry.message.timestamp or part.entry.moment
    for told in _paragraphs(text):
        yield Spoken(line, part.entry.id, who, timestamp, told)


def _paragraphs(text: str) -> Sequence[str]:
    """`text` in lines with white space collapsed: in one, or where it is long in as few as its paragraphs allow."""
    whole = " ".join(text.split())
    if len(whole) <= LINE_CHARS:
        return [whole] if whole else []
    found: list[str] = []
    for paragraph in _PARAGRAPH.split(text):
        told = " ".join(paragraph.split())
        if found and len(found[-1]) + len(told) < LINE_CHARS:
            found[-1] = f"{found[-1]} {told}".strip()
        elif told:
            found.append(told)
    return found
