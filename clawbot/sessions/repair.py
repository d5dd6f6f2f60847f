"""Checks the sessions of an agent and repairs what can be repaired, without losing anything that a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.sessions.errors import Problem, SessionLockedError, store_errors
from clawbot.sessions.lines import ByteSource, line_numbers
from clawbot.sessions.locks import SessionLock, holder_of, is_left_over, remove_left_over
from clawbot.sessions.names import SUFFIX
from clawbot.sessions.offsets import HEADER, read_entry, spans_backwards, valid_end
from clawbot.sessions.rotation import transcripts_in
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript


class TranscriptReport(Struct, frozen=True, rename="camel"):
    """One transcript: its problems, the side file with its partial end, and whether it is open elsewhere (then it was
    only checked)."""

    path: str
    problems: list[Problem]
    torn_to: str | None = None
    in_use: bool = False


class RepairReport(Struct, frozen=True, rename="camel"):
    """What was found and repaired; nothing was changed with `dry_run`. `index` concerns sessions.json, `removed_locks`
    are files left by dead processes."""

    dry_run: bool
    index: list[Problem]
    transcripts: list[TranscriptReport]
    removed_locks: list[str]


def repair(store: SessionStore, clock: Clock, *, only: Path | None = None, dry_run: bool = False) -> RepairReport:
    """Cut off partial ends, list bad lines, complete the index, remove stale locks: of all transcripts, or `only` one.
    Raises SessionStoreError."""
    cleaned: Sequence[Problem] = []
    with store_errors("read", store.folder):
        locks = _left_over_locks(store.folder, only)
        if not dry_run:
            for path in locks:
                remove_left_over(path)
            cleaned = store.clean_up() if only is None and store.folder.is_dir() else []
        paths = [only] if only is not None else list(transcripts_in(store.folder))
    reports = [_repair_one(path, clock, dry_run=dry_run) for path in paths]
    return RepairReport(
        dry_run=dry_run,
        index=[*cleaned, *store.repair_index(dry_run=dry_run)] if only is None else [],
        transcripts=reports,
        removed_locks=[f"{path}.lock" for path in locks],
    )


def check(path: Path) -> Sequence[Problem]:
    """The problems in the lines of the transcript at `path`, except an unfinished last one. Raises
    SessionStoreError."""
    found: dict[int, str] = {}
    with store_errors("read", path), ByteSource.open(path) as source:
        for span in spans_backwards(source, valid_end(source, source.size), found.setdefault):
            if span.kind != HEADER:
                read_entry(source, span, found.setdefault)
        numbers = line_numbers(source, found)
    return [Problem(str(path), found[offset], numbers[offset]) for offset in sorted(found)]


def _repair_one(path: Path, clock: Clock, *, dry_run: bool) -> TranscriptReport:
    lock = SessionLock(path)
    in_use = False
    if not dry_run:
        try:
            lock.acquire(path.stem, clock)
        except SessionLockedError:
            in_use = True
    try:
        with Transcript.open(path, clock=clock, writable=lock.held) as opened:
            problems = dict.fromkeys([*opened.problems, *check(path)])
            side_file = opened.torn
    finally:
        lock.release()
    return TranscriptReport(
        path=str(path),
        problems=sorted(problems, key=lambda problem: problem.line or 0),
        torn_to=str(side_file) if side_file else None,
        in_use=in_use or (dry_run and holder_of(path) is not None),
    )


def _left_over_locks(folder: Path, only: Path | None) -> list[Path]:
    """The transcripts, existing or not, with stale locks."""
    if not folder.is_dir():
        return []
    found = {folder / name.name.split(f"{SUFFIX}.lock")[0] for name in folder.glob(f"*{SUFFIX}.lock*")}
    paths = sorted(path.with_name(path.name + SUFFIX) for path in found)
    return [path for path in paths if only in (None, path) and is_left_over(path)]
