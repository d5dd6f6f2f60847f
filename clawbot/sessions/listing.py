"""Session summaries for lists, and the lookup of a session by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path

from msgspec import Struct

from clawbot.clock import moment_of
from clawbot.sessions.errors import AmbiguousSessionError, UnknownSessionError, store_error
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.locks import holder_of
from clawbot.sessions.names import short_name
from clawbot.sessions.summary import read_title, survey
from clawbot.text.interface import N_, _

OPEN = "open"
_ENDED = {OPEN: N_("open"), "daily": N_("daily"), "idle": N_("idle")}
# A prefix of an id that is looked up as one, even if a new session could have that name.
_ID_START = re.compile(r"[0-9a-f-]{6,}")
_MOST_NAMED = 8


class SessionSummary(Struct, frozen=True, rename="camel"):
    """A session in a list. `ended` is "open", or why it ended (`/new`, `daily`); `name` is the name to type; `turns`
    counts user messages; `tokens` is the context's size after the last call, 0 if unknown; `cost` is in US dollars."""

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
    """Whether a session is open, or why it `ended`, for the user; commands stay as they are typed."""
    return _(_ENDED.get(ended, ended))


def summarise(record: SessionRecord, path: Path, zone: tzinfo | None) -> SessionSummary:
    """The summary of `record` with the transcript `path`, with times in `zone`. Raises SessionStoreError."""
    try:
        turns = survey(path).turns if record.turns is None else record.turns
        title = record.name or read_title(path)
        changed = int(path.stat().st_mtime * 1000)
    except FileNotFoundError:
        turns, title, changed = record.turns or 0, record.name, 0
    except OSError as error:
        raise store_error("read", path, error) from error
    # Later records of offers to memory don't make the session newer.
    updated = record.ended_at or max(record.updated_at, changed)
    return SessionSummary(
        key=record.key,
        name=short_name(record.key),
        session_id=record.session_id,
        title=title,
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
    """The one of `records` (by key) with the key, short name, id or unique id prefix `name`.

    Raises UnknownSessionError, AmbiguousSessionError.
    """
    wanted = name.strip().lower()
    # Other programs may use short names as keys.
    for key in (f"agent:{agent_id}:{wanted}", wanted):
        if key in records:
            return records[key]
    by_id = [record for record in records.values() if record.session_id.lower() == wanted]
    if not by_id and wanted:
        by_id = [record for record in records.values() if record.session_id.lower().startswith(wanted)]
    if len(by_id) > 1:
        names = ", ".join(f"{short_name(record.key)} ({record.session_id})" for record in by_id[:_MOST_NAMED])
        raise AmbiguousSessionError(f"{name!r} may be any of: {names}.", hint="Type more of the id, or the name.")
    if not by_id:
        raise _unknown(name, list(records.values()))
    return by_id[0]


def pick_or_new(name: str, agent_id: str, records: Mapping[str, SessionRecord]) -> SessionRecord | None:
    """Like `pick`, but None if `name` is more likely the name of a new session: one letter is a prefix of many ids."""
    wanted = name.strip().lower()
    named = {wanted, f"agent:{agent_id}:{wanted}"} & records.keys()
    whole = any(record.session_id.lower() == wanted for record in records.values())
    if not named and not whole and not _ID_START.fullmatch(wanted):
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
