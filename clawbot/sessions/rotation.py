"""The replacement of a session by its successor, its deletion and its return, each safe against a kill at any step.

A rotation creates the new transcript, marks the end in the old one, and writes the index, in this order. The mark is
decisive: before it, the old session owns the key and the empty new transcript is not a session; after it, the new one
owns the key, whatever the index has. So the transcripts alone lead to the same result as the index: it can be rebuilt
from them, the keys from their headers, the rest from their content.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Container, Mapping
from datetime import tzinfo
from pathlib import Path

import msgspec
from msgspec import structs

from clawbot.clock import moment_of
from clawbot.files import PRIVATE_FILE, ensure_private_dir, is_aside, sync_dir, write_atomic
from clawbot.sessions.entries import Header, iso_ms
from clawbot.sessions.errors import Problem, SessionStoreError, UnknownSessionError, store_error, store_errors
from clawbot.sessions.folder import UNREADABLE, FolderContent, names_in, read_folder
from clawbot.sessions.forgotten import Forgotten
from clawbot.sessions.index import FILE_NAME, IndexState, SessionRecord
from clawbot.sessions.locks import HOLDER_SUFFIX, LOCK_SUFFIX, holder_of, is_free, remove_left_over
from clawbot.sessions.names import JOBS, MAIN, SUBAGENTS, SUFFIX, fresh_key, is_session_id, key_for, short_name
from clawbot.sessions.offsets import EMPTY, ZEROED
from clawbot.sessions.summary import End, TranscriptSummary, is_blank, read_end, read_summary


def transcripts_in(folder: Path) -> dict[Path, Header | None]:
    """The transcripts of sessions in `folder` with their headers, sorted by name. Raises OSError."""
    found = read_folder(folder).headers.items()
    return {folder / name: header for name, header in found if session_id_of(name, header)}


def session_id_of(name: str, header: Header | None) -> str:
    """The id of the session in the transcript `name`: its name, else the id in its header (a copy may be called
    anything), else what can be an id of its name; "" for archived transcripts, and without any."""
    stem = name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else ""
    ids = (stem, header.id if header and stem else "", re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._"))
    return next((found for found in ids if is_session_id(found)), "")


def file_of(record: SessionRecord) -> str:
    """The name of the transcript of `record`, whatever path the record contains."""
    name = (record.session_file or "").rpartition("/")[2]
    usable = name.lower().endswith(SUFFIX) and name.isprintable() and not name.startswith(".")
    return name if usable else f"{record.session_id}{SUFFIX}"


def transcript_of(folder: Path, record: SessionRecord) -> Path:
    """The transcript of `record`: always in `folder`."""
    return folder / file_of(record)


def parent_of(folder: Path, header: Header | None) -> Path | None:
    """The predecessor of the transcript with `header`: in `folder` too, whatever its old path."""
    return folder / Path(header.parent_session).name if header and header.parent_session else None


def rebuild_records(folder: Path, agent_id: str, zone: tzinfo | None) -> list[SessionRecord]:
    """A record for each session transcript in `folder`. Raises SessionStoreError. The newest open transcript that
    claims a key gets it; the others get new keys. If no header names a key (transcripts of other programs), the one in
    which the user spoke last becomes the main session: it was the one in use."""
    with store_errors("read", folder):
        summaries = {path: read_summary(path) for path in transcripts_in(folder)}
        found = [
            record_of(path, _with_choices(path, summaries), _claimed(summary.header, agent_id))
            for path, summary in summaries.items()
            if not _is_unused(path, summary, summaries)
        ]
    found.sort(key=lambda record: (record.ended_reason is None, record.used_at), reverse=True)
    main = key_for(agent_id, MAIN)
    used = [at for at, each in enumerate(found) if each.ended_reason is None and each.last_interaction_at]
    if used and all(record.key == "" for record in found):
        found[used[0]] = structs.replace(found[used[0]], key=main)
    taken: dict[str, SessionRecord] = {}
    for record in found:
        key = record.key
        if not key or key in taken or record.ended_reason is not None:
            stem = f"{short_name(key)}-" if key else JOBS if record.turns and not record.last_interaction_at else ""
            key = fresh_key(agent_id, moment_of(record.session_started_at or 0, zone), taken, stem)
        taken[key] = structs.replace(record, key=key)
    return list(taken.values())


def adopt(state: IndexState, folder: Path, agent_id: str, zone: tzinfo | None) -> None:
    """Add the transcripts in `folder` that the settled `state` lacks and whose key is free, as a rebuild would. So a
    readable index that has lost records (emptied, of another version, without file names) does not start conversations
    over. If it has no session at all, transcripts without a key are added too. Raises SessionStoreError."""
    own = [record for key, record in state.records.items() if key.startswith(f"agent:{agent_id}:")]
    listed = {file_of(record): record.key for record in own}
    unlisted = {path: header for path, header in state.strays.items() if path.name not in listed}
    headers = {path: header for path, header in unlisted.items() if path not in state.unused}
    held = {key for name, key in listed.items() if name in state.names}
    claimed = {_claimed(header, agent_id) for header in headers.values()} - held - {""}
    if not headers or (held and not claimed):
        return
    adopted = 0
    for record in rebuild_records(folder, agent_id, zone):
        path = transcript_of(folder, record)
        claim = _claimed(headers.get(path), agent_id)
        if path not in headers or record.key in held or (held and claim not in claimed):
            continue
        lost = state.records.get(record.key)
        state.put(record if lost is None else with_choices_of(record, lost))
        adopted += 1
    if adopted:
        names = f"{adopted} session{'' if adopted == 1 else 's'}"
        what = f"the index of sessions lacked {names}; they were restored from their transcripts"
        state.problems.append(Problem(str(folder / FILE_NAME), what))


def unlisted_records(state: IndexState, agent_id: str) -> dict[str, SessionRecord]:
    """Records by key for the transcripts in `folder` that the settled `state` does not know, named by their ids."""
    found = {}
    listed = {file_of(record) for record in state.records.values()}
    for path, header in state.strays.items():
        if path.name not in listed and path not in state.unused:
            name = session_id_of(path.name, header)
            record = SessionRecord(
                key=f"agent:{agent_id}:{name.lower()}",
                session_id=name,
                session_file=path.name,
                session_started_at=(iso_ms(header.timestamp) if header else 0) or None,
            )
            found[record.key] = record
    return found


def record_of(path: Path, summary: TranscriptSummary, key: str) -> SessionRecord:
    """The record of the transcript `path` under `key`, from its `summary`."""
    updated = summary.updated or summary.started
    return SessionRecord(
        key=key,
        session_id=session_id_of(path.name, summary.header),
        session_file=path.name,
        updated_at=updated,
        session_started_at=summary.started or None,
        last_interaction_at=summary.spoke or None,
        model_override=summary.model,
        label=summary.name or None,
        title=summary.given or None,
        turns=summary.turns,
        compaction_count=summary.compactions,
        ended_reason=summary.ended or None,
        ended_at=updated if summary.ended else None,
        previous_key=key if summary.ended and key else None,
        memory_pending=summary.pending,
    )


def with_choices_of(record: SessionRecord, other: SessionRecord) -> SessionRecord:
    """`record` with the user's choices from `other` where it has none."""
    return structs.replace(
        record, model_override=record.model_override or other.model_override, label=record.label or other.label
    )


def completed(record: SessionRecord, found: SessionRecord, agent_id: str) -> SessionRecord:
    """`record` completed with `found`, the record of its entire transcript."""
    last = max(record.last_interaction_at or 0, found.last_interaction_at or 0) or None
    is_job = record.key == f"agent:{agent_id}:{record.session_id.lower()}" and found.turns and not last
    return structs.replace(
        with_choices_of(record, found),
        key=f"agent:{agent_id}:{JOBS}{short_name(record.key)}" if is_job else record.key,
        turns=found.turns,
        title=record.title or found.title,
        session_started_at=record.session_started_at or found.session_started_at,
        last_interaction_at=last,
        updated_at=record.updated_at or found.updated_at,
    )


def _claimed(header: Header | None, agent_id: str) -> str:
    """The key in a header; "" for none, and for one of another agent."""
    key = (header.session_key or "").lower() if header else ""
    return key if key.startswith(f"agent:{agent_id}:") else ""


def _with_choices(path: Path, summaries: Mapping[Path, TranscriptSummary]) -> TranscriptSummary:
    """The summary of `path`, with the user's choices from its predecessors under the key."""
    summary = found = summaries[path]
    passed = {path}
    # A fork has its own, in what it copied.
    while found.header and found.header.session_key and not found.header.fork:
        parent = parent_of(path.parent, found.header)
        if parent is None or parent not in summaries or parent in passed:
            break
        passed.add(parent)
        found = summaries[parent]
        summary = structs.replace(summary, model=summary.model or found.model, name=summary.name or found.name)
    return summary


def _is_unused(path: Path, summary: TranscriptSummary, summaries: Mapping[Path, TranscriptSummary]) -> bool:
    """Whether `path` was created but never became a session because of a kill: it is empty, and its predecessor has not
    ended."""
    parent = parent_of(path.parent, summary.header)
    followed = summaries.get(parent) if parent and parent != path else None
    return (summary.header is None or (followed is not None and not followed.ended)) and is_blank(path)


FORGOTTEN = "forgotten"
"""The reason for the end of a session that the user had forgotten."""

# Part of the names of holder notes that are still being written.
_NOTE = f"{SUFFIX}{HOLDER_SUFFIX}."


def successor(record: SessionRecord) -> SessionRecord:
    """A new session under the key of `record`, with the user's choices from it."""
    return SessionRecord(
        key=record.key, session_id=str(uuid.uuid4()), model_override=record.model_override, label=record.label
    )


def key_of_ended(agent_id: str, record: SessionRecord, zone: tzinfo | None, taken: Container[str]) -> str:
    """A new key for `record` after another session took its own: the old key with the time of its start, not in
    `taken`."""
    began = moment_of(record.session_started_at or record.updated_at, zone)
    return fresh_key(agent_id, began, taken, f"{short_name(record.key)}-")


def pass_key(state: IndexState, old: SessionRecord, heir: SessionRecord, end: End, key: str) -> None:
    """Give the key of `old` to `heir`, and list `old`, ended, under `key`."""
    ended = structs.replace(
        old, key=key, ended_reason=end.reason, ended_at=end.at, previous_key=old.key, memory_pending=end.pending
    )
    state.put(ended, like=old.key)
    state.put(heir)


def settle(
    state: IndexState, folder: Path, agent_id: str, zone: tzinfo | None, *, busy: Callable[[Path], bool]
) -> None:
    """List `folder`, and complete rotations in it that a kill interrupted. The successor of a marked session gets its
    key, unless it is `busy`. Files that are not sessions are recorded as unused. Records of files that are no
    transcripts are left out, those of copies go to the file that is used. Raises SessionStoreError."""
    with store_errors("read", folder):
        state.names = names_in(folder)
        content = read_folder(folder, state.names)
    _recognise(state, folder, content)
    files = {file_of(record): record for record in state.records.values()}
    with store_errors("read", folder):
        found = {folder / name: header for name, header in content.headers.items() if name not in files}
        strays = {path: header for path, header in found.items() if session_id_of(path.name, header)}
        state.strays = strays
        live = {folder / name: record for name, record in files.items() if strays and record.ended_reason is None}
        for path, header in sorted(strays.items(), key=lambda stray: stray[1].timestamp if stray[1] else ""):
            parent = parent_of(folder, header)
            old = live.get(parent) if parent else None
            end = _end_of(parent, old, header)
            if parent and old and end and not busy(path):
                heir = with_choices_of(record_of(path, read_summary(path), old.key), old)
                pass_key(state, old, heir, end, key_of_ended(agent_id, old, zone, state.records))
                del live[parent]
                live[path] = state.records[old.key]
            elif (header is None or old) and is_blank(path):
                state.unused.add(path)


def _recognise(state: IndexState, folder: Path, content: FolderContent) -> None:
    """Point the records of `state` to the transcripts in the `content` of `folder`: copies are one session, and a file
    of another program is none. Their entries remain in the file of the index."""
    own = {header.id: name for name, header in content.headers.items() if header and session_id_of(name, header)}
    listed = {file_of(record): record for record in state.records.values()}
    for key, record in list(state.records.items()):
        name = file_of(record)
        if name in content.headers and (own.get(record.session_id, name) == name or not is_blank(folder / name)):
            continue
        better = content.copies.get(name) or own.get(record.session_id, "")
        if better and (holder_of(folder / name) or holder_of(folder / better)):
            # Whoever has one of them open goes on there.
            content.headers.pop(better, None)
        elif better and (better not in listed or own.get(record.session_id) == better):
            state.records.pop(listed.get(better, record).key, None)
            state.put(structs.replace(record, session_file=better, turns=None))
        elif better or content.foreign.get(name, EMPTY) not in (EMPTY, ZEROED, UNREADABLE):
            state.records.pop(key, None)


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
        if is_aside(name):
            transcript, is_note, _ = name[1:].partition(_NOTE)
            begun = name[1:].partition(f"{SUFFIX}.")[0]
            path = folder / f"{begun}{SUFFIX}"
            is_unused = path.name not in state.names or path in state.unused
            if (
                name.startswith(f".{FILE_NAME}.")
                or (is_note and is_free(folder / f"{transcript}{SUFFIX}"))
                or (is_session_id(begun) and is_unused and is_free(path))
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


_RECORD = "record.json"


class Trash:
    """The deleted sessions of an agent, whose sessions are in `folder`: each in a folder of its own with its transcript
    and its record, until it is restored or the user removes it. Blocks. Raises SessionStoreError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.parent / "trash"

    def take(self, record: SessionRecord, transcript: Path) -> Path:
        """Move `transcript` with `record` here; returns the folder that holds them."""
        stored = self.folder / record.session_id
        with store_errors("move away", transcript):
            ensure_private_dir(self.folder)
            ensure_private_dir(stored)
            write_atomic(stored / _RECORD, msgspec.json.encode(record) + b"\n", mode=PRIVATE_FILE)
            # Otherwise its copies would be listed.
            copies = read_folder(transcript.parent).copies
            for name in (*(copy for copy, used in copies.items() if used == transcript.name), transcript.name):
                (transcript.parent / name).rename(stored / name)
            _move(transcript.parent / SUBAGENTS / record.session_id, stored / SUBAGENTS)
            sync_dir(stored)
        return stored

    def settle(self, state: IndexState) -> None:
        """Complete deletions that a kill interrupted: drop from the settled `state` what is here and no longer there,
        or it would be listed as an empty session."""
        for record in [record for record in state.records.values() if file_of(record) not in state.names]:
            if self._record(self.folder / record.session_id) is not None:
                state.drop(record.key)

    def records(self) -> list[SessionRecord]:
        """The records of the deleted sessions, the one last used first."""
        with store_errors("read", self.folder):
            found = [self._record(path.parent) for path in self.folder.glob(f"*/{_RECORD}")]
        return sorted((record for record in found if record), key=lambda record: record.used_at, reverse=True)

    def restore(self, session_id: str, target: Path) -> SessionRecord:
        """Move the transcript of `session_id` back into the folder `target`; returns its record."""
        stored = self.folder / session_id
        record = self._record(stored) if is_session_id(session_id) else None
        transcript = stored / f"{session_id}{SUFFIX}"
        if record is None:
            raise UnknownSessionError(f"No deleted session {session_id!r}.", hint=f"They are in {self.folder}.")
        with store_errors("bring back", transcript):
            for file in list(stored.glob(f"*{SUFFIX}*")) or [transcript]:
                file.rename(target / file.name)
            _move(stored / SUBAGENTS, target / SUBAGENTS / session_id)
            (stored / _RECORD).unlink()
            stored.rmdir()
        return record

    def _record(self, stored: Path) -> SessionRecord | None:
        """The record in `stored`; None without its transcript: a kill came before it was here, or after its return."""
        try:
            record = msgspec.json.decode((stored / _RECORD).read_bytes(), type=SessionRecord)
        except (FileNotFoundError, ValueError):
            return None
        return record if next(stored.glob(f"*{SUFFIX}"), None) is not None else None


def _move(folder: Path, target: Path) -> None:
    """Move what the sub-agents of a session did, if there is any. Raises OSError."""
    if folder.is_dir():
        ensure_private_dir(target.parent)
        folder.rename(target)
