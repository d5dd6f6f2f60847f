"""What a transcript tells about itself: for lists, and to rebuild the index from. Needs no lock, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.messages import UserMessage
from clawbot.sessions.codec import as_object, decode_entry, decode_header
from clawbot.sessions.conversation import model_ref
from clawbot.sessions.entries import CustomEntry, Entry, Header, MessageEntry, ModelChangeEntry, iso_ms
from clawbot.sessions.lines import ByteSource, blocks, first_line
from clawbot.sessions.spans import HEADER, spans_backwards, torn_end
from clawbot.sessions.titles import title_of

# How far to look for the user's first words: a picture or a pasted book may come before.
TITLE_BYTES = 4 * 1024 * 1024
# The last entry of a session that was ended by more than the end of the process.
END_MARK = "clawbot.session-end"
# What a header that was torn while it was written begins with.
_HEADER_START = b'{"type":"session",'


class Facts(Struct):
    """A transcript in short. Times are in milliseconds since the epoch, 0 when unknown; `turns` counts what the user
    said, `spoke` is when that was last; `ended` is why it ended, "" while it is open."""

    header: Header | None
    started: int = 0
    updated: int = 0
    spoke: int = 0
    turns: int = 0
    title: str = ""
    name: str = ""
    model: str | None = None
    compactions: int = 0
    ended: str = ""


class End(Struct, frozen=True):
    """That a session ended: why, and when in milliseconds since the epoch."""

    reason: str
    at: int


class _Role(Struct):
    role: str = ""


class _Glance(Struct):
    type: str
    timestamp: str = ""
    message: _Role | None = None


_GLANCES = msgspec.json.Decoder(_Glance)


def read_header(path: Path) -> Header | None:
    """The header of the transcript at `path`; None without one. Raises OSError."""
    with ByteSource.open(path) as source:
        return decode_header(first_line(source))


def read_title(path: Path) -> str:
    """The title of the transcript at `path`, from its head alone; "" when the user has not said anything."""
    with ByteSource.open(path) as source:
        for raw in _lines(source, min(source.size, TITLE_BYTES)):
            glance = _glance(raw)
            if glance is not None and (title := _title(raw, glance)):
                return title
    return ""


def read_end(path: Path) -> End | None:
    """How the session in the transcript at `path` ended; None while it is open. Reads its last entry alone.

    Raises OSError.
    """
    with ByteSource.open(path) as source:
        torn = torn_end(source, source.size)
        spans = spans_backwards(source, source.size if torn is None else torn, lambda _offset, _text: None)
        last = next(spans, None)
        return None if last is None else _end(decode_entry(source.read(last.start, last.end), last.kind))


def is_blank(path: Path) -> bool:
    """Whether nothing but a header stands in the transcript at `path`, or the beginning of one. Raises OSError."""
    unread: list[int] = []
    with ByteSource.open(path) as source:
        size = source.size
        torn = torn_end(source, size)
        end = size if torn is None else torn
        rest = source.read(end, min(size, end + len(_HEADER_START)))
        if rest and (end or not _HEADER_START.startswith(rest)):
            return False
        spans = spans_backwards(source, end, lambda offset, _text: unread.append(offset))
        return all(span.kind == HEADER for span in spans) and not unread


def survey(path: Path) -> Facts:
    """Read the whole transcript at `path` once, decoding little. Raises OSError."""
    with ByteSource.open(path) as source:
        header = decode_header(first_line(source))
        facts = Facts(header, started=iso_ms(header.timestamp) if header else 0)
        for raw in _lines(source, source.size):
            glance = _glance(raw)
            if glance is not None:
                _note(facts, glance, raw)
    return facts


def _note(facts: Facts, glance: _Glance, raw: bytes) -> None:
    moment = iso_ms(glance.timestamp)
    facts.started = facts.started or moment
    facts.updated = max(facts.updated, moment)
    if glance.type != "session":
        facts.ended = ""
    match glance.type:
        case "message" if glance.message is not None and glance.message.role == "user":
            facts.turns += 1
            facts.spoke = max(facts.spoke, moment)
            facts.title = facts.title or _title(raw, glance)
        case "compaction":
            facts.compactions += 1
        case "model_change" | "custom" | "session_info":
            _note_entry(facts, decode_entry(raw, glance.type), raw)


def _note_entry(facts: Facts, entry: Entry | None, raw: bytes) -> None:
    match entry:
        case ModelChangeEntry():
            facts.model = model_ref(entry)
        case CustomEntry():
            end = _end(entry)
            facts.ended = end.reason if end else ""
        case None:
            pass
        case _:
            name = (as_object(raw) or {}).get("name")
            facts.name = name if isinstance(name, str) else facts.name


def _end(entry: Entry | None) -> End | None:
    match entry:
        case CustomEntry(custom_type=kind, data=dict() as data) if kind == END_MARK:
            return End(str(data.get("reason") or "ended"), entry.moment)
        case _:
            return None


def _title(raw: bytes, glance: _Glance) -> str:
    if glance.message is None or glance.message.role != "user":
        return ""
    entry = decode_entry(raw, "message")
    if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
        return title_of(entry.message.text)
    return ""


def _glance(raw: bytes) -> _Glance | None:
    try:
        return _GLANCES.decode(raw)
    except (ValueError, RecursionError):
        found: Any = as_object(raw)
    try:
        return None if found is None else msgspec.convert({**found, "timestamp": str(found.get("timestamp"))}, _Glance)
    except ValueError:
        return None


def _lines(source: ByteSource, end: int) -> Iterator[bytes]:
    """The lines before byte `end` in the file's order."""
    rest: list[bytes] = []
    for block in blocks(source, end):
        first, *others = block.split(b"\n")
        rest.append(first)
        for line in others:
            yield b"".join(rest)
            rest = [line]
    yield b"".join(rest)
