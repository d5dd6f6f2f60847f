"""The conversation in a transcript as plain lines with the entries that they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from clawbot.messages import OFFLINE, AssistantMessage, Message, UserMessage
from clawbot.sessions.echo import REFERENCE, without_echo
from clawbot.sessions.entries import MessageEntry
from clawbot.sessions.envelopes import users_words
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.lines import LARGEST_BLOCK, ByteSource, line_end, line_numbers, lines_on
from clawbot.sessions.offsets import read_entry, spans_backwards
from clawbot.sessions.silence import names_token, spoken, was_cut
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import clean_talk

Speaker = Literal["user", "agent"]

LINE_CHARS = 700
"""Longer texts are split into several lines, between their paragraphs."""

# One word of letters after the slash, on one line: `/usr/bin/x is broken` is a message.
_COMMAND = lazy_re(r"/[A-Za-z][\w-]*(?:[ \t][^\n]*)?")
_NAMES: dict[Speaker, str] = {"user": "User", "agent": "Assistant"}
_PARAGRAPH = lazy_re(r"\n\s*\n")
# A reference that replaces a quote or a tool's output.
_REFERENCE = lazy_re(rf"[ \t]*{REFERENCE}[ \t]*$", re.MULTILINE)
_MAY_ECHO = lazy_re(r">|```|~~~")
# How far after a part the answer to its last question is searched.
_LOOK_AHEAD_BYTES = 1024 * 1024
# Bytes read first around an entry: a dozen turns.
_NEAR_BYTES = 64 * 1024
# The size of an id with its key, which may cross a block boundary.
_ID_BYTES = 64


class Spoken(Struct, frozen=True):
    """One line of a message: `text` is without the speaker.

    `line` is its line in the file, counted from 1 at the start of the search; `timestamp` is in milliseconds since the
    epoch, 0 if unknown; `by` is the other program whose assistant spoke. A long message yields several.
    """

    line: int
    entry: str
    who: Speaker
    timestamp: int
    text: str
    by: str = ""

    @property
    def told(self) -> str:
        """`User: …` or `Assistant: …`."""
        return f"{_NAMES[self.who]}: {self.text}"


class SpokenPart(Struct, frozen=True):
    """The messages in a part of a transcript. `settled`: nothing appended later changes it."""

    said: tuple[Spoken, ...]
    settled: bool = True


class _Said(NamedTuple):
    offset: int
    entry: MessageEntry
    text: str

    @property
    def by_user(self) -> bool:
        return isinstance(self.entry.message, UserMessage)


def spoken_part(path: Path, start: int = 0, end: int | None = None) -> SpokenPart:
    """The messages of user and model in the transcript at `path`, oldest first. Blocks.

    `start` and `end` are byte offsets: the lines that begin between them count entirely. Left out are tools and their
    output, reasoning, slash commands, prompts of jobs, quotes of notes, silent replies with the prompts that asked for
    them, unreadable lines and forgotten text. All branches and compacted entries are included. Whitespace is collapsed
    and secrets are redacted. Raises OSError.
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
    """The speaker of the line `line` (from 1 at the byte `start`), without the text. Blocks. Raises OSError."""
    with ByteSource.open(path) as source:
        size = source.size
        at = lines_on(source, line_end(source, start - 1, size) if start else 0, line - 1, size)
        span = next(spans_backwards(source, line_end(source, at, size)), None)
        entry = read_entry(source, span) if span is not None and span.start >= at else None
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage | AssistantMessage):
        return None
    who: Speaker = "user" if isinstance(entry.message, UserMessage) else "agent"
    return Spoken(line, entry.id, who, entry.message.timestamp or entry.moment, "", _by(entry.message))


def spoken_around(path: Path, entry: str, count: int) -> list[Spoken]:
    """The messages up to `count` lines before and after the entry `entry`; without one, the end of the conversation.
    Blocks.

    Empty if there is no such entry. Line numbers count from the start of the search. Raises OSError.
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
    """Whether a user message, stripped of whitespace, is a slash command."""
    return _COMMAND.fullmatch(text) is not None


def _place_of(path: Path, entry: bytes, size: int) -> int | None:
    """The byte offset of `"id":"…"` of an entry, whichever program wrote it."""
    if not entry.isalnum():
        return None
    wanted = re.compile(rb'"id":\s?"%s"' % entry)
    with ByteSource.open(path) as source:
        for start in range(0, size, LARGEST_BLOCK):
            found = wanted.search(source.read(start, min(size, start + LARGEST_BLOCK + _ID_BYTES)))
            if found:
                return start + found.start()
    return None


def _said(source: ByteSource, start: int, end: int) -> Iterator[_Said]:
    """The messages with text between two line starts, in file order."""
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
            text = (users_words(message.text) or "").strip()
            text = "" if message.scheduled or is_command(text) else text
        else:
            text = _own_words(message, turn)
            turn.append(message)
        if text:
            yield _Said(span.start, entry, text)


def _own_words(message: AssistantMessage, turn: Sequence[Message]) -> str:
    """The model's own text: without quotes of notes and output of the turn's tools."""
    text = message.text.strip()
    if not _MAY_ECHO.search(text):
        return text
    return _REFERENCE.sub("", without_echo(message, turn, quotes_only=message.provider == OFFLINE)).strip()


def _without_silence(said: Iterable[_Said]) -> list[_Said]:
    """`said` without silent replies, the prompts that asked for them, and tokens beside an answer."""
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
    """The lines of `part` with the text `text`."""
    who: Speaker = "user" if part.by_user else "agent"
    timestamp = part.entry.message.timestamp or part.entry.moment
    for told in _paragraphs(text):
        yield Spoken(line, part.entry.id, who, timestamp, told, _by(part.entry.message))


def _by(message: Message) -> str:
    return message.by or "" if isinstance(message, AssistantMessage) else ""


def _paragraphs(text: str) -> Sequence[str]:
    """`text` with whitespace collapsed: in one line, or if long in as few as its paragraphs allow."""
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
