"""Rebuilds the index of sessions from the transcripts: keys from their headers, the rest from their content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from pathlib import Path

from msgspec import structs

from clawbot.clock import moment_of
from clawbot.sessions.entries import Header, iso_ms
from clawbot.sessions.errors import Problem, store_error
from clawbot.sessions.index import FILE_NAME, IndexState, SessionRecord
from clawbot.sessions.names import MAIN, SUFFIX, fresh_key, is_session_id, key_for, short_name
from clawbot.sessions.summary import TranscriptSummary, is_blank, read_header, survey


def names_in(folder: Path) -> frozenset[str]:
    """The names of all files in `folder`; none if it does not exist. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except FileNotFoundError:
        return frozenset()


def transcripts_in(folder: Path, names: Iterable[str] | None = None) -> list[Path]:
    """The transcripts in `folder`, or those of its `names`, sorted by name. Raises OSError."""
    found = sorted(name for name in (names_in(folder) if names is None else names) if name.endswith(SUFFIX))
    return [folder / name for name in found if is_session_id(name.removesuffix(SUFFIX)) and (folder / name).is_file()]


def file_of(record: SessionRecord) -> str:
    """The name of the transcript of `record`, whatever path the record contains."""
    name = (record.session_file or "").rpartition("/")[2]
    return name if name.endswith(SUFFIX) and is_session_id(name) else f"{record.session_id}{SUFFIX}"


def transcript_of(folder: Path, record: SessionRecord) -> Path:
    """The transcript of `record`: always in `folder`."""
    return folder / file_of(record)


def parent_of(folder: Path, header: Header | None) -> Path | None:
    """The predecessor of the transcript with `header`: in `folder` too, whatever its old path."""
    return folder / Path(header.parent_session).name if header and header.parent_session else None


def rebuild_records(folder: Path, agent_id: str, zone: tzinfo | None) -> list[SessionRecord]:
    """A record for each session transcript in `folder`. Raises SessionStoreError.

    The newest open transcript that claims a key gets it; the others get new keys. If no header names a key (transcripts
    of other programs), the newest one becomes the main session: it was the one in use.
    """
    try:
        surveyed = {path: survey(path) for path in transcripts_in(folder)}
        found = [
            record_of(path, _with_choices(path, surveyed), _claimed(summary.header, agent_id))
            for path, summary in surveyed.items()
            if not _is_unused(path, summary, surveyed)
        ]
    except OSError as error:
        raise store_error("read", folder, error) from error
    found.sort(key=lambda record: (record.ended_reason is None, record.updated_at), reverse=True)
    main = key_for(agent_id, MAIN)
    if found and all(record.key == "" for record in found) and found[0].ended_reason is None:
        found[0] = structs.replace(found[0], key=main)
    taken: dict[str, SessionRecord] = {}
    for record in found:
        key = record.key
        if not key or key in taken or record.ended_reason is not None:
            stem = f"{short_name(key)}-" if key else ""
            key = fresh_key(agent_id, moment_of(record.session_started_at or 0, zone), taken, stem)
        taken[key] = structs.replace(record, key=key)
    return list(taken.values())


def adopt(state: IndexState, folder: Path, agent_id: str, zone: tzinfo | None) -> None:
    """Add the transcripts in `folder` that the settled `state` lacks and whose key is free, as a rebuild would.

    So a readable index that has lost records (emptied, of another version, without file names) does not start
    conversations over. If it has no session at all, transcripts without a key are added too. Raises SessionStoreError.
    """
    own = [record for key, record in state.records.items() if key.startswith(f"agent:{agent_id}:")]
    listed = {file_of(record): record.key for record in own}
    try:
        strays = transcripts_in(folder, state.names - listed.keys())
        headers = {path: read_header(path) for path in strays if path not in state.unused}
    except OSError as error:
        raise store_error("read", folder, error) from error
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


def unlisted_records(state: IndexState, folder: Path, agent_id: str) -> dict[str, SessionRecord]:
    """Records by key for the transcripts in `folder` that the settled `state` does not know, named by their ids.

    Raises SessionStoreError.
    """
    found = {}
    listed = {file_of(record) for record in state.records.values()}
    try:
        for path in transcripts_in(folder, state.names - listed):
            if path not in state.unused:
                header, changed = read_header(path), int(path.stat().st_mtime * 1000)
                name = path.name.removesuffix(SUFFIX)
                record = SessionRecord(
                    key=f"agent:{agent_id}:{name.lower()}",
                    session_id=name,
                    session_file=path.name,
                    updated_at=changed,
                    session_started_at=(iso_ms(header.timestamp) if header else 0) or changed,
                )
                found[record.key] = record
    except OSError as error:
        raise store_error("read", folder, error) from error
    return found


def record_of(path: Path, summary: TranscriptSummary, key: str) -> SessionRecord:
    """The record of the transcript `path` under `key`, from its `summary`. Raises OSError."""
    updated = summary.updated or int(path.stat().st_mtime * 1000)
    return SessionRecord(
        key=key,
        session_id=path.name.removesuffix(SUFFIX),
        session_file=path.name,
        updated_at=updated,
        session_started_at=summary.started or updated,
        last_interaction_at=summary.spoke or (updated if summary.turns else None),
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


def _claimed(header: Header | None, agent_id: str) -> str:
    """The key in a header; "" for none, and for one of another agent."""
    key = (header.session_key or "").lower() if header else ""
    return key if key.startswith(f"agent:{agent_id}:") else ""


def _with_choices(path: Path, surveyed: Mapping[Path, TranscriptSummary]) -> TranscriptSummary:
    """The summary of `path`, with the user's choices from its predecessors under the key."""
    summary = found = surveyed[path]
    passed = {path}
    # A fork has its own, in what it copied.
    while found.header and found.header.session_key and not found.header.fork:
        parent = parent_of(path.parent, found.header)
        if parent is None or parent not in surveyed or parent in passed:
            break
        passed.add(parent)
        found = surveyed[parent]
        summary = structs.replace(summary, model=summary.model or found.model, name=summary.name or found.name)
    return summary


def _is_unused(path: Path, summary: TranscriptSummary, surveyed: Mapping[Path, TranscriptSummary]) -> bool:
    """Whether `path` was created but never became a session because of a kill: it is empty, and its predecessor has not
    ended."""
    parent = parent_of(path.parent, summary.header)
    followed = surveyed.get(parent) if parent and parent != path else None
    return (summary.header is None or (followed is not None and not followed.ended)) and is_blank(path)
