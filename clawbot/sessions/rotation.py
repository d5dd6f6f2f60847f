"""The replacement of a session by its successor under the same key, safe against a kill at any step.

A rotation creates the new transcript, marks the end in the old one, and writes the index, in this order. The mark is
decisive: before it, the old session owns the key and the empty new transcript is not a session; after it, the new one
owns the key, whatever the index says. So the transcripts alone lead to the same result as the index.
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
from clawbot.sessions.names import SUFFIX, fresh_key, is_session_id, short_name
from clawbot.sessions.rebuild import file_of, names_in, parent_of, record_of, transcripts_in, with_choices_of
from clawbot.sessions.summary import End, is_blank, read_end, read_header, survey

FORGOTTEN = "forgotten"
"""The reason for the end of a session that the user had forgotten."""

# Part of the names of holder notes that are still being written.
_NOTE = f"{SUFFIX}{HOLDER_SUFFIX}."


def successor(record: SessionRecord) -> SessionRecord:
    """A new session under the key of `record`, with the user's choices from it."""
    return SessionRecord(
        key=record.key,
        session_id=str(uuid.uuid4()),
        model_override=record.model_override,
        label=record.label,
    )


def key_of_ended(agent_id: str, record: SessionRecord, zone: tzinfo | None, taken: Container[str]) -> str:
    """A new key for `record` after another session took its own: the old key with the time of its start, not in
    `taken`."""
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
    """List `folder`, and complete rotations in it that a kill interrupted.

    The successor of a marked session gets its key, unless it is `busy`. Files that are not sessions are recorded as
    unused. Raises SessionStoreError.
    """
    files = {file_of(record): record for record in state.records.values()}
    try:
        state.names = names_in(folder)
        strays = {path: read_header(path) for path in transcripts_in(folder, state.names - files.keys())}
        live = {folder / name: record for name, record in files.items() if strays and record.ended_reason is None}
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
    """Remove the keys, names and pending memory offers of forgotten sessions."""
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
                    title=None,
                )
            )
        elif record.memory_pending or record.name:
            state.put(structs.replace(record, memory_pending=False, label=None, title=None))


def clean_up(state: IndexState, folder: Path) -> None:
    """Remove what a kill left in `folder` and nobody holds: unused transcripts, locks of deleted ones, files not
    renamed yet, unfinished forks. The caller holds the settled index. Failures become problems of `state`."""
    locked = {name.removesuffix(LOCK_SUFFIX) for name in state.names if name.endswith(f"{SUFFIX}{LOCK_SUFFIX}")}
    for path in state.unused | {folder / name for name in locked - state.names}:
        if is_free(path):
            _remove(path, state)
    for name in state.names:
        if name.startswith(".") and name.endswith(".tmp"):
            transcript, is_note, _ = name[1:].partition(_NOTE)
            fork = name[1:].partition(f"{SUFFIX}.")[0]
            if (
                name.startswith(f".{FILE_NAME}.")
                or (is_note and is_free(folder / f"{transcript}{SUFFIX}"))
                or (
                    is_session_id(fork) and f"{fork}{SUFFIX}" not in state.names and is_free(folder / f"{fork}{SUFFIX}")
                )
            ):
                _remove(folder / name, state)


def _remove(path: Path, state: IndexState) -> None:
    try:
        path.unlink(missing_ok=True)
        remove_left_over(path)
    except OSError as error:
        state.problems.append(Problem(str(path), store_error("remove", path, error).message))
    except SessionStoreError as error:
        state.problems.append(Problem(str(path), error.message))


def _end_of(parent: Path | None, old: SessionRecord | None, header: Header | None) -> End | None:
    """How `old`, with the transcript `parent`, ended, if the one with `header` took its key then."""
    if parent is None or old is None or header is None or header.session_key != old.key or not parent.exists():
        return None
    return read_end(parent)
