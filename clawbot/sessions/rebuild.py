"""Makes the index of sessions again from the transcripts: keys from their headers, the rest from what they hold."""

from __future__ import annotations

from collections.abc import Container
from datetime import tzinfo
from pathlib import Path

from msgspec import structs

from clawbot.sessions.entries import iso_ms
from clawbot.sessions.errors import store_error
from clawbot.sessions.facts import Facts, read_header, survey
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.names import MAIN, fresh_key, is_session_id, key_for, short_name
from clawbot.sessions.times import moment_of
from clawbot.sessions.transcript import SUFFIX


def transcripts_in(folder: Path) -> list[Path]:
    """The transcripts in `folder`, in the order of their names; none when there is no folder. Raises OSError."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [folder / name for name in names if is_session_id(name.removesuffix(SUFFIX)) and (folder / name).is_file()]


def rebuild_records(folder: Path, agent_id: str, zone: tzinfo | None) -> list[SessionRecord]:
    """A record for each transcript in `folder`. Raises SessionStoreError.

    The newest open transcript that claims a key gets it; the others get keys of their own. Where no header names a key
    (transcripts of other programs), the newest one is taken for the main session: that is what the user was at.
    """
    try:
        found = [_record(path, survey(path), agent_id) for path in transcripts_in(folder)]
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


def unlisted_records(folder: Path, agent_id: str, listed: Container[Path]) -> dict[str, SessionRecord]:
    """Records by key for the transcripts in `folder` that are not `listed`, with their ids for names.

    Raises SessionStoreError.
    """
    found = {}
    try:
        for path in transcripts_in(folder):
            if path not in listed:
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


def _record(path: Path, facts: Facts, agent_id: str) -> SessionRecord:
    claimed = facts.header.session_key if facts.header else None
    updated = facts.updated or int(path.stat().st_mtime * 1000)
    return SessionRecord(
        key=claimed.lower() if claimed and claimed.lower().startswith(f"agent:{agent_id}:") else "",
        session_id=path.name.removesuffix(SUFFIX),
        session_file=path.name,
        updated_at=updated,
        session_started_at=facts.started or updated,
        last_interaction_at=updated,
        model_override=facts.model,
        label=facts.name or None,
        turns=facts.turns,
        compaction_count=facts.compactions,
        ended_reason=facts.ended or None,
        previous_key=claimed if facts.ended else None,
    )
