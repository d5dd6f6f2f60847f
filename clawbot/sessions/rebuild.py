"""Makes the index of sessions again from the transcripts: keys from their headers, the rest from what they hold."""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import tzinfo
from pathlib import Path

from msgspec import structs

from clawbot.sessions.entries import iso_ms
from clawbot.sessions.errors import store_error
from clawbot.sessions.facts import Facts, is_blank, read_header, survey
from clawbot.sessions.folder import parent_of, transcripts_in
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.names import MAIN, fresh_key, key_for, short_name
from clawbot.sessions.times import moment_of
from clawbot.sessions.transcript import SUFFIX


def rebuild_records(folder: Path, agent_id: str, zone: tzinfo | None) -> list[SessionRecord]:
    """A record for each transcript in `folder` that is a session. Raises SessionStoreError.

    The newest open transcript that claims a key gets it; the others get keys of their own. Where no header names a key
    (transcripts of other programs), the newest one is taken for the main session: that is what the user was at.
    """
    try:
        surveyed = {path: survey(path) for path in transcripts_in(folder)}
        found = [
            record_of(path, _with_choices(path, surveyed), _claimed(facts, agent_id))
            for path, facts in surveyed.items()
            if not _is_unused(path, facts, surveyed)
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


def record_of(path: Path, facts: Facts, key: str) -> SessionRecord:
    """What `facts` tell of the session in the transcript `path`, under `key`. Raises OSError."""
    updated = facts.updated or int(path.stat().st_mtime * 1000)
    return SessionRecord(
        key=key,
        session_id=path.name.removesuffix(SUFFIX),
        session_file=path.name,
        updated_at=updated,
        session_started_at=facts.started or updated,
        last_interaction_at=facts.spoke or (updated if facts.turns else None),
        model_override=facts.model,
        label=facts.name or None,
        turns=facts.turns,
        compaction_count=facts.compactions,
        ended_reason=facts.ended or None,
        ended_at=updated if facts.ended else None,
        previous_key=key if facts.ended and key else None,
    )


def _claimed(facts: Facts, agent_id: str) -> str:
    """The key that a header names; "" for none, and for one of another agent."""
    key = (facts.header.session_key or "").lower() if facts.header else ""
    return key if key.startswith(f"agent:{agent_id}:") else ""


def _with_choices(path: Path, surveyed: Mapping[Path, Facts]) -> Facts:
    """The facts of `path`, with what the user chose for those that it follows under a key."""
    facts = found = surveyed[path]
    passed = {path}
    while found.header and found.header.session_key:
        parent = parent_of(path.parent, found.header)
        if parent is None or parent not in surveyed or parent in passed:
            break
        passed.add(parent)
        found = surveyed[parent]
        facts = structs.replace(facts, model=facts.model or found.model, name=facts.name or found.name)
    return facts


def _is_unused(path: Path, facts: Facts, surveyed: Mapping[Path, Facts]) -> bool:
    """Whether a kill left `path` before it was a session: nothing stands in it, and what it follows has not ended."""
    parent = parent_of(path.parent, facts.header)
    followed = surveyed.get(parent) if parent and parent != path else None
    return (facts.header is None or (followed is not None and not followed.ended)) and is_blank(path)
