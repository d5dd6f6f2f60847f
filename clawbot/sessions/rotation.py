"""How one session follows another under a key, and what is true when the process dies in the middle of that.

A rotation makes the new transcript, marks the end in the old one, and writes the index, in this order. The mark is
what counts: before it the old session has the key and the new transcript, in which nothing stands, is no session; from
it on the new one has the key, whatever the index still says. So the transcripts alone tell the same as with the index.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container
from datetime import tzinfo
from pathlib import Path

from msgspec import structs

from clawbot.clock import moment_of
from clawbot.sessions.entries import Header
from clawbot.sessions.errors import Problem, SessionStoreError, store_error
from clawbot.sessions.forgotten import Forgotten
from clawbot.sessions.index import FILE_NAME, IndexState, SessionRecord
from clawbot.sessions.locks import HOLDER_SUFFIX, LOCK_SUFFIX, is_free, remove_left_over
from clawbot.sessions.names import fresh_key, short_name
from clawbot.sessions.rebuild import parent_of, record_of, transcript_of, transcripts_in, with_choices_of
from clawbot.sessions.summary import End, is_blank, read_end, read_header, survey
from clawbot.sessions.transcript import SUFFIX

FORGOTTEN = "forgotten"
"""Why a session ended that the user had forgotten."""

# In the names of what is still written of who holds a transcript.
_NOTE = f"{SUFFIX}{HOLDER_SUFFIX}."


def successor(record: SessionRecord) -> SessionRecord:
    """A new session under the key of `record`, with what the user chose for that one (reference sheet 4.1)."""
    return SessionRecord(
        key=record.key,
        session_id=str(uuid.uuid4()),
        model_override=record.model_override,
        label=record.label,
    )


def key_of_ended(agent_id: str, record: SessionRecord, zone: tzinfo | None, taken: Container[str]) -> str:
    """The key of `record` once another has its own: that one and when the session began. It is none of `taken`."""
    began = moment_of(record.session_started_at or record.updated_at, zone)
    return fresh_key(agent_id, began, taken, f"{short_name(record.key)}-")


def hand_over(state: IndexState, old: SessionRecord, heir: SessionRecord, end: End, key: str) -> None:
    """Give the key of `old` to `heir`, and list `old`, ended, under `key`."""
    ended = structs.replace(
        old, key=key, ended_reason=end.reason, ended_at=end.at, previous_key=old.key, memory_pending=end.pending
    )
    state.put(ended, like=old.key)
    state.put(heir)


def settle(
    state: IndexState, folder: Path, agent_id: str, zone: tzinfo | None, *, busy: Callable[[Path], bool]
) -> None:
    """Bring `state` in line with what the transcripts in `folder` say about rotations that a kill broke off.

    What follows a session with a mark gets its key, unless it is `busy`. What is no session is noted as unused. Raises
    SessionStoreError.
    """
    live = {transcript_of(folder, record): record for record in state.records.values()}
    try:
        strays = {path: read_header(path) for path in transcripts_in(folder) if path not in live}
        live = {path: record for path, record in live.items() if record.ended_reason is None}
        for path, header in sorted(strays.items(), key=lambda stray: stray[1].timestamp if stray[1] else ""):
            parent = parent_of(folder, header)
            old = live.get(parent) if parent else None
            end = _end_of(parent, old, header)
            if parent and old and end and not busy(path):
                heir = with_choices_of(record_of(path, survey(path), old.key), old)
                hand_over(state, old, heir, end, key_of_ended(agent_id, old, zone, state.records))
                del live[parent]
                live[path] = state.records[old.key]
            elif (header is None or old) and is_blank(path):
                state.unused.add(path)
    except OSError as error:
        raise store_error("read", folder, error) from error


def bury(state: IndexState, forgotten: Forgotten, agent_id: str, zone: tzinfo | None) -> None:
    """Let no session that is forgotten have its key, a name, or anything that memory is still to be offered."""
    for record in [record for record in state.records.values() if record.session_id in forgotten.sessions]:
        if record.ended_reason is None:
            state.drop(record.key)
            key = key_of_ended(agent_id, record, zone, state.records)
            state.put(
                structs.replace(
                    record,
                    key=key,
                    ended_reason=FORGOTTEN,
                    ended_at=record.updated_at,
                    previous_key=record.key,
                    memory_pending=False,
                    label=None,
                )
            )
        elif record.memory_pending or record.label:
            state.put(structs.replace(record, memory_pending=False, label=None))


def clean_up(state: IndexState, folder: Path) -> None:
    """Remove what a kill left in `folder` and nobody holds: unused transcripts, locks of such as are gone, files that
    were not renamed yet. Who calls this holds the index. What can't be removed is a problem of `state`.
    """
    locked = {path.with_name(path.name.removesuffix(LOCK_SUFFIX)) for path in folder.glob(f"*{SUFFIX}{LOCK_SUFFIX}")}
    for path in state.unused | {path for path in locked if not path.exists()}:
        if is_free(path):
            _remove(path, state)
    for path in folder.glob(".*.tmp"):
        transcript, is_note, _ = path.name[1:].partition(_NOTE)
        if path.name.startswith(f".{FILE_NAME}.") or (is_note and is_free(folder / f"{transcript}{SUFFIX}")):
            _remove(path, state)


def _remove(path: Path, state: IndexState) -> None:
    try:
        path.unlink(missing_ok=True)
        remove_left_over(path)
    except OSError as error:
        state.problems.append(Problem(str(path), store_error("remove", path, error).message))
    except SessionStoreError as error:
        state.problems.append(Problem(str(path), error.message))


def _end_of(parent: Path | None, old: SessionRecord | None, header: Header | None) -> End | None:
    """How `old`, whose transcript is `parent`, ended, if what has `header` took its key then."""
    if parent is None or old is None or header is None or header.session_key != old.key or not parent.exists():
        return None
    return read_end(parent)
