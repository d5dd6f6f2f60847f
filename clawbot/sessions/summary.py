"""Summaries of transcripts, including titles: for lists, to find a session by name, and to rebuild the index. Needs no
lock and changes nothing."""

from __future__ import annotations

import difflib
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from clawbot.clock import moment_of
from clawbot.messages import UserMessage
from clawbot.sessions.conversation import model_ref
from clawbot.sessions.entries import (
    FORK,
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
    user_spoke_at,
)
from clawbot.sessions.envelopes import users_text
from clawbot.sessions.errors import AmbiguousSessionError, UnknownSessionError, store_error
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.lines import ByteSource, first_line
from clawbot.sessions.locks import holder_of
from clawbot.sessions.names import END_MARK, short_name
from clawbot.sessions.offsets import HEADER, spans_backwards, valid_end
from clawbot.sessions.silence import asks_for_silence
from clawbot.text.interface import N_, _
from clawbot.text.secrets import redact

log = logging.getLogger(__name__)

TITLE_CHARS = 60
MAX_TITLE_CHARS = 120
_MARKUP = re.compile(r"^[\s#>*`\-]+")


def given_title(text: str) -> str:
    """`text`, given to a session as its title: redacted, on one line of at most `MAX_TITLE_CHARS` characters."""
    shown = "".join(char if char.isprintable() else " " for char in redact(text[: MAX_TITLE_CHARS * 8]))
    return " ".join(shown.split())[:MAX_TITLE_CHARS].rstrip()


def title_of(text: str) -> str:
    """The first words of `text` on one line, redacted and without control characters; "" for a slash command, empty
    text, and a prompt that asks for a silent reply."""
    if text.lstrip().startswith("/") or asks_for_silence(text):
        return ""
    # More than a title needs, but a bounded part of a pasted book.
    head = redact(text.strip()[: TITLE_CHARS * 8])
    head = "".join(char if char.isprintable() else " " for char in head)
    words = _MARKUP.sub("", " ".join(head.split()))
    if len(words) <= TITLE_CHARS:
        return words
    cut = words[: TITLE_CHARS - 1]
    # Chinese has no spaces to break at, and a single very long word must not leave nothing.
    at = cut.rfind(" ")
    return (cut[:at] if at > TITLE_CHARS // 2 else cut).rstrip() + "…"


# How far to read for the user's first message: a picture or a pasted book may come before.
TITLE_BYTES = 4 * 1024 * 1024
# The start of a partial header.
_HEADER_START = b'{"type":"session",'


class TranscriptSummary(Struct):
    """A transcript in short. Times are in milliseconds since the epoch, 0 if unknown; `turns` counts user messages,
    `spoke` is the time of the last one that no job sent; `title` are its first words, `name` is the user's name for it,
    `given` that of a model; `ended` is the reason for its end, "" while it is open; `pending`: memory had possibly not
    been offered all of it."""

    header: Header | None
    started: int = 0
    updated: int = 0
    spoke: int = 0
    turns: int = 0
    title: str = ""
    name: str = ""
    given: str = ""
    model: str | None = None
    compactions: int = 0
    ended: str = ""
    pending: bool = False


class End(Struct, frozen=True):
    """The end of a session: its reason and time in milliseconds since the epoch. `pending`: memory must still be
    offered the rest."""

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
    """The title of the transcript at `path`, reading only its start; "" if there is no user message that is not
    forgotten. Raises OSError."""
    forgotten = read_forgotten(path.parent)
    for raw in _lines(path, TITLE_BYTES):
        glance = _glance(raw)
        if glance is None or forgotten.holds(path.name, glance.id or ""):
            continue
        entry = _users_entry(raw, glance)
        if entry is not None and (title := _title(entry)):
            return title
    return ""


def read_end(path: Path) -> End | None:
    """How the session in the transcript at `path` ended; None while it is open. Reads only its last entry and the
    offers after it. Raises OSError."""
    with ByteSource.open(path) as source:
        for span in spans_backwards(source, valid_end(source, source.size)):
            entry = decode_entry(source.read(span.start, span.end), span.kind)
            if not _is_offer(entry):
                return _end(entry)
    return None


def last_spoken(path: Path) -> int:
    """The time of the user's last message in the transcript at `path`, in milliseconds since the epoch; 0 without any
    in its last `TITLE_BYTES`. Raises OSError."""
    with ByteSource.open(path) as source:
        end = valid_end(source, source.size)
        for span in takewhile(lambda span: span.end > end - TITLE_BYTES, spans_backwards(source, end)):
            entry = decode_entry(source.read(span.start, span.end), span.kind) if span.kind == "message" else None
            if entry is not None and (moment := user_spoke_at((entry,))):
                return moment
    return 0


def is_blank(path: Path) -> bool:
    """Whether the transcript at `path` contains nothing but a header, possibly incomplete. Raises OSError."""
    unread: list[int] = []
    with ByteSource.open(path) as source:
        size = source.size
        end = valid_end(source, size)
        rest = source.read(end, min(size, end + len(_HEADER_START)))
        if rest and (end or not _HEADER_START.startswith(rest)):
            return False
        spans = spans_backwards(source, end, lambda offset, _text: unread.append(offset))
        return all(span.kind == HEADER for span in spans) and not unread


def read_summary(path: Path) -> TranscriptSummary:
    """Read the is_id transcript at `path` once, decoding little. Forgotten text is not used for the title. Raises
    OSError."""
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
    if glance.type != "session_info":
        # A new name is no use of the session.
        summary.updated = max(summary.updated, moment)
    if glance.type != "session":
        summary.ended, summary.pending = "", False
    match glance.type:
        case "message" if (asked := _users_entry(raw, glance)) is not None:
            summary.turns += 1
            summary.spoke = max(summary.spoke, user_spoke_at((asked,)))
            summary.title = summary.title or ("" if nameless else _title(asked))
        case "compaction":
            summary.compactions += 1
        case "model_change" | "custom" | "session_info" if not (nameless and glance.type == "session_info"):
            _note_entry(summary, entry, raw)


def _note_entry(summary: TranscriptSummary, entry: Entry | None, raw: bytes) -> None:
    match entry:
        case ModelChangeEntry():
            summary.model = model_ref(entry)
        case CustomEntry(custom_type=kind, data={"source": _}) if kind == FORK:
            summary.model = None  # what was imported goes on with the model of the settings
        case CustomEntry():
            end = _end(entry)
            summary.ended, summary.pending = (end.reason, end.pending) if end else ("", False)
        case None:
            pass
        case _:
            found = as_object(raw) or {}
            name = found.get("name")
            if not isinstance(name, str):
                return
            if found.get("by"):
                summary.given = name
            else:
                summary.name = name


def _end(entry: Entry | None) -> End | None:
    match entry:
        case CustomEntry(custom_type=kind, data=dict() as data) if kind == END_MARK:
            return End(str(data.get("reason") or "ended"), entry.moment, data.get("pending") is True)
        case _:
            return None


def _is_offer(entry: Entry | None) -> bool:
    """Whether `entry` is a record of an offer to memory, which may follow the end of the session."""
    return isinstance(entry, CustomEntry) and entry.custom_type == OFFER


def _users_entry(raw: bytes, glance: _Glance) -> MessageEntry | None:
    entry = decode_entry(raw, "message") if glance.message is not None and glance.message.role == "user" else None
    return entry if isinstance(entry, MessageEntry) else None


def _title(entry: MessageEntry) -> str:
    return title_of(users_text(entry.message)) if isinstance(entry.message, UserMessage) else ""


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
    """The lines in the first `most` bytes of the file, without line breaks."""
    with path.open("rb") as file:
        while line := file.readline(most):
            most -= len(line)
            yield line.rstrip(b"\n")


OPEN = "open"
_ENDED = {OPEN: N_("open"), "daily": N_("daily"), "idle": N_("idle"), "imported": N_("imported")}
# A prefix of an id that is looked up as one, even if a new session could have that name.
_ID_START = re.compile(r"[0-9a-f-]{6,}")
_MAX_NAMED = 8


class SessionSummary(Struct, frozen=True, rename="camel"):
    """A session in a list. `updated_at` is the time of the user's last message, of a session without one that of its
    start; `ended` is "open", or why it ended (`/new`, `daily`); `name` is the name to type; `turns` counts user
    messages; `tokens` is the context's size after the last call, 0 if unknown; `cost` is in US dollars."""

    key: str
    name: str
    session_id: str
    title: str
    updated_at: datetime
    created_at: datetime
    turns: int
    tokens: int
    ended: str
    path: Path
    locked: bool
    model: str | None = None
    cost: float | None = None


def ended_words(ended: str) -> str:
    """Whether a session is open, or why it `ended`, for the user; commands are shown as typed."""
    return _(_ENDED.get(ended, ended))


def observed(record: SessionRecord, path: Path) -> SessionRecord:
    """`record` with what a list shows of the transcript `path`, which is not read again while it is as it was. Raises
    OSError."""
    state = path.stat()
    changed_at, last = state.st_mtime_ns // 1_000_000, record.last_interaction_at or 0
    seen = state.st_size, changed_at, read_forgotten(path.parent).mark(path.name)
    if record.seen != seen:
        # The index is outdated if the program died during a turn, or if another one wrote.
        if not last or changed_at > max(record.updated_at, record.ended_at or 0):
            last = last_spoken(path) or last
        record = structs.replace(record, seen=seen, first_words=None, last_interaction_at=last or None)
    if not record.name and record.first_words is None:
        record = structs.replace(record, first_words=read_title(path))
    return record


def summarise(record: SessionRecord, path: Path, zone: tzinfo | None) -> SessionSummary:
    """The summary of `record` with the transcript `path`, with times in `zone`; that of the index if
    it can't be read."""
    try:
        turns = read_summary(path).turns if record.turns is None else record.turns
        record = observed(record, path)
    except OSError as error:
        turns = record.turns or 0
        if not isinstance(error, FileNotFoundError):
            log.warning("%s", store_error("read", path, error))
    updated = record.last_interaction_at or record.used_at
    return SessionSummary(
        key=record.key,
        name=short_name(record.key),
        session_id=record.session_id,
        title=record.name or record.first_words or "",
        updated_at=moment_of(updated, zone),
        created_at=moment_of(record.session_started_at or updated, zone),
        turns=turns,
        tokens=record.total_tokens or 0,
        ended=record.ended_reason or OPEN,
        path=path,
        locked=holder_of(path) is not None,
        model=record.model_override,
        cost=record.cost,
    )


def pick(name: str, agent_id: str, records: Mapping[str, SessionRecord]) -> SessionRecord:
    """The one of `records` (by key) with the key, short name, id or unique id prefix `name`. Raises
    UnknownSessionError, AmbiguousSessionError."""
    wanted = name.strip().lower()
    # Other programs may use short names as keys.
    for key in (f"agent:{agent_id}:{wanted}", wanted):
        if key in records:
            return records[key]
    by_id = [record for record in records.values() if record.session_id.lower() == wanted]
    if not by_id and wanted:
        by_id = [record for record in records.values() if record.session_id.lower().startswith(wanted)]
    if len(by_id) > 1:
        names = ", ".join(f"{short_name(record.key)} ({record.session_id})" for record in by_id[:_MAX_NAMED])
        raise AmbiguousSessionError(f"{name!r} may be any of: {names}.", hint="Type more of the id, or the name.")
    if not by_id:
        raise _unknown(name, list(records.values()))
    return by_id[0]


def pick_or_new(name: str, agent_id: str, records: Mapping[str, SessionRecord]) -> SessionRecord | None:
    """Like `pick`, but None if `name` is more likely the name of a new session: one letter is a prefix of many ids."""
    wanted = name.strip().lower()
    named = {wanted, f"agent:{agent_id}:{wanted}"} & records.keys()
    is_id = any(record.session_id.lower() == wanted for record in records.values())
    if not named and not is_id and not _ID_START.fullmatch(wanted):
        return None
    try:
        return pick(name, agent_id, records)
    except UnknownSessionError:
        return None


def _unknown(name: str, records: Sequence[SessionRecord]) -> UnknownSessionError:
    known = [short_name(record.key) for record in records]
    near = difflib.get_close_matches(name.strip().lower(), known, n=3)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownSessionError(f"There is no session {name!r}.{meant}", hint="`clawbot sessions list` shows them all.")
