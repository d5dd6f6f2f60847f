"""What a transcript tells about itself, its title among it: for lists, and to rebuild the index from. Needs no lock,
changes nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.messages import UserMessage
from clawbot.sessions.conversation import model_ref
from clawbot.sessions.entries import (
    OFFER,
    CustomEntry,
    Entry,
    Header,
    MessageEntry,
    ModelChangeEntry,
    as_object,
    decode_entry,
    decode_header,
    iso_ms,
)
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.lines import ByteSource, first_line
from clawbot.sessions.offsets import HEADER, spans_backwards, whole_end
from clawbot.sessions.silence import asks_for_silence
from clawbot.text.secrets import redact

TITLE_CHARS = 60
_MARKUP = re.compile(r"^[\s#>*`\-]+")


def title_of(text: str) -> str:
    """The first words of `text` on one line, without secrets and control characters; "" for a slash command, for
    nothing, and for the prompt of a program that wants no answer."""
    if text.lstrip().startswith("/") or asks_for_silence(text):
        return ""
    # Far more than a title needs, so that a pasted book costs nothing.
    head = redact(text.strip()[: TITLE_CHARS * 8])
    head = "".join(char if char.isprintable() else " " for char in head)
    words = _MARKUP.sub("", " ".join(head.split()))
    if len(words) <= TITLE_CHARS:
        return words
    cut = words[: TITLE_CHARS - 1]
    # Chinese has no blanks to cut at; nor should one very long word leave nothing.
    at = cut.rfind(" ")
    return (cut[:at] if at > TITLE_CHARS // 2 else cut).rstrip() + "…"


# How far to look for the user's first words: a picture or a pasted book may come before.
TITLE_BYTES = 4 * 1024 * 1024
# The last entry of a session that was ended by more than the end of the process. Behind it only records of what memory
# was offered of the session afterwards may stand.
END_MARK = "clawbot.session-end"
# What a header that was torn while it was written begins with.
_HEADER_START = b'{"type":"session",'


class TranscriptSummary(Struct):
    """A transcript in short. Times are in milliseconds since the epoch, 0 when unknown; `turns` counts what the user
    said, `spoke` is when that was last; `ended` is why it ended, "" while it is open; `pending`: memory may not have
    been offered all of it then."""

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
    pending: bool = False


class End(Struct, frozen=True):
    """That a session ended: why, and when in milliseconds since the epoch. `pending`: memory is to be offered what it
    was not offered by then."""

    reason: str
    at: int
    pending: bool = False


class _Role(Struct):
    role: str = ""


class _Glance(Struct):
    type: str
    id: str | None = None
    timestamp: str = ""
    message: _Role | None = None


_GLANCES = msgspec.json.Decoder(_Glance)


def read_header(path: Path) -> Header | None:
    """The header of the transcript at `path`; None without one. Raises OSError."""
    with ByteSource.open(path) as source:
        return decode_header(first_line(source))


def read_title(path: Path) -> str:
    """The title of the transcript at `path`, from its head alone; "" when the user has not said anything
    that is not forgotten."""
    forgotten = read_forgotten(path.parent)
    for raw in _lines(path, TITLE_BYTES):
        glance = _glance(raw)
        if glance is None or forgotten.holds(path.name, glance.id or ""):
            continue
        if title := _title(raw, glance):
            return title
    return ""


def read_end(path: Path) -> End | None:
    """How the session in the transcript at `path` ended; None while it is open. Reads its last entry alone, and the
    records of offers behind that.

    Raises OSError.
    """
    with ByteSource.open(path) as source:
        for span in spans_backwards(source, whole_end(source, source.size)):
            entry = decode_entry(source.read(span.start, span.end), span.kind)
            if not _is_offer(entry):
                return _end(entry)
    return None


def is_blank(path: Path) -> bool:
    """Whether nothing but a header stands in the transcript at `path`, or the beginning of one. Raises OSError."""
    unread: list[int] = []
    with ByteSource.open(path) as source:
        size = source.size
        end = whole_end(source, size)
        rest = source.read(end, min(size, end + len(_HEADER_START)))
        if rest and (end or not _HEADER_START.startswith(rest)):
            return False
        spans = spans_backwards(source, end, lambda offset, _text: unread.append(offset))
        return all(span.kind == HEADER for span in spans) and not unread


def survey(path: Path) -> TranscriptSummary:
    """Read the whole transcript at `path` once, decoding little. What is forgotten names nothing. Raises OSError."""
    forgotten = read_forgotten(path.parent)
    header = read_header(path)
    summary = TranscriptSummary(header, started=iso_ms(header.timestamp) if header else 0)
    for raw in _lines(path):
        glance = _glance(raw)
        if glance is not None:
            _note(summary, glance, raw, nameless=forgotten.holds(path.name, glance.id or ""))
    return summary


def _note(summary: TranscriptSummary, glance: _Glance, raw: bytes, *, nameless: bool) -> None:
    moment = iso_ms(glance.timestamp)
    entry = decode_entry(raw, glance.type) if glance.type in ("model_change", "custom", "session_info") else None
    if summary.ended and _is_offer(entry):
        return
    summary.started = summary.started or moment
    summary.updated = max(summary.updated, moment)
    if glance.type != "session":
        summary.ended, summary.pending = "", False
    match glance.type:
        case "message" if glance.message is not None and glance.message.role == "user":
            summary.turns += 1
            summary.spoke = max(summary.spoke, moment)
            summary.title = summary.title or ("" if nameless else _title(raw, glance))
        case "compaction":
            summary.compactions += 1
        case "model_change" | "custom" | "session_info" if not (nameless and glance.type == "session_info"):
            _note_entry(summary, entry, raw)


def _note_entry(summary: TranscriptSummary, entry: Entry | None, raw: bytes) -> None:
    match entry:
        case ModelChangeEntry():
            summary.model = model_ref(entry)
        case CustomEntry():
            end = _end(entry)
            summary.ended, summary.pending = (end.reason, end.pending) if end else ("", False)
        case None:
            pass
        case _:
            name = (as_object(raw) or {}).get("name")
            summary.name = name if isinstance(name, str) else summary.name


def _end(entry: Entry | None) -> End | None:
    match entry:
        case CustomEntry(custom_type=kind, data=dict() as data) if kind == END_MARK:
            return End(str(data.get("reason") or "ended"), entry.moment, data.get("pending") is True)
        case _:
            return None


def _is_offer(entry: Entry | None) -> bool:
    """Whether `entry` is a record of an offer to memory: one may come when the session has ended."""
    return isinstance(entry, CustomEntry) and entry.custom_type == OFFER


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


def _lines(path: Path, most: int = sys.maxsize) -> Iterator[bytes]:
    """The lines in the first `most` bytes of the file, without their line breaks."""
    with path.open("rb") as file:
        while line := file.readline(most):
            most -= len(line)
            yield line.rstrip(b"\n")
