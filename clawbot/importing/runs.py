"""Imports what is at a path, and takes such a run back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from msgspec import Struct, field, structs

from clawbot.clock import Clock, iso_utc
from clawbot.files import PRIVATE_FILE, create_whole, digest_of, ensure_private_dir, erase, read_plain, write_atomic
from clawbot.importing.claude_code import read_claude_code
from clawbot.importing.codex import read_codex
from clawbot.importing.exports import read_export
from clawbot.importing.ledger import Ledger, MadeFile, MadeJob, MadeSession, ReadUnit, Record, Run
from clawbot.importing.openclaw import read_openclaw, read_pi
from clawbot.importing.source import ImportFailedError, Skipped, Source, Talk, Unit, UnreadableError, files_in, reading
from clawbot.importing.write import Composer, OwnEnd, Target, ids_in, own_end
from clawbot.sessions.errors import SessionLockedError
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.locks import SessionLock, holder_of
from clawbot.sessions.names import SUBAGENTS, SUFFIX
from clawbot.sessions.rotation import record_of
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import survey

BATCH = 500  # conversations between two updates of the index of sessions
LARGEST_NOTE = 2 * 2**20
MOST_NOTES = 10_000
BESIDE = "imported"
"""The folder of a workspace for files whose name is taken."""
_NAMESPACE = uuid.UUID("1b7f4f8e-8d2c-4c55-9a6b-6f1f6f0d7c11")
_ASIDE = ".import.tmp"
_PASSED_OVER = {"skills", "hooks", "node_modules", "sessions", BESIDE}
_RITUAL = "BOOTSTRAP.md"  # what a new agent is asked once


class Outcome(Struct):
    """What a run did, or would do: conversations that are new, that grew, that grew and were continued here (`parts`:
    their new messages are conversations of their own), that are the `same`; messages and their `size` in bytes.
    `copied` and `beside` are notes, `jobs` the file of jobs; `skipped` counts what was left out, by reason; `remarks`
    say what is not imported."""

    program: str
    run: str = ""
    new: int = 0
    grown: int = 0
    parts: int = 0
    same: int = 0
    subagents: int = 0
    messages: int = 0
    size: int = 0
    copied: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    same_files: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    jobs: str = ""


class Undone(Struct):
    """What an undo took back: conversations, new parts of them, notes, jobs; and what stays, each with the reason."""

    sessions: int = 0
    shortened: int = 0
    files: int = 0
    jobs: int = 0
    stays: list[str] = field(default_factory=list)


def recognise(path: Path, skipped: Skipped) -> Source:
    """The program whose data is at `path`. Blocks. Raises ImportFailedError, OSError."""
    if not path.exists():
        raise ImportFailedError(f"There is no {path}.")
    if path.is_dir():
        if any(path.glob("agents/*/sessions")) or (path / "openclaw.json").is_file():
            return read_openclaw(path, skipped)
        if any(path.glob("projects/*/*.jsonl")) or (path.name == "projects" and any(path.glob("*/*.jsonl"))):
            return read_claude_code(path, skipped)
        if any(any(path.glob(f"{each}rollout-*.jsonl*")) for each in ("", "*/", "*/*/*/", "sessions/*/*/*/")):
            return read_codex(path, skipped)
        if any(any(path.glob(f"{each}/*.jsonl")) for each in ("agent/sessions/*", "sessions/*", "--*--")):
            return read_pi(path, skipped)
    found = read_export(path, skipped)
    if found is None:
        raise ImportFailedError(
            f"{path} holds no conversations that can be imported.",
            hint="Name ~/.openclaw, ~/.pi, ~/.claude, ~/.codex, or an export of ChatGPT or Claude.ai (zip or folder).",
        )
    return found


class Importer:
    """One run into the sessions of `store` and the `workspace`. `notes`: memory is to be offered the conversations;
    `progress` is called with their number. All calls block."""

    def __init__(
        self,
        store: SessionStore,
        workspace: Path,
        ledger: Ledger,
        clock: Clock,
        *,
        dry_run: bool = False,
        notes: bool = False,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._store, self._workspace, self._ledger, self._clock = store, workspace, ledger, clock
        self._dry_run, self._notes, self._progress = dry_run, notes, progress
        self._skipped = Skipped()
        self._records: list[tuple[str, SessionRecord]] = []
        self._entries: list[Record] = []

    def run(self, path: Path) -> Outcome:
        """Import what is new at `path`. What was done before an interruption is kept, and the next run goes on. Raises
        ImportFailedError, SessionStoreError, OSError."""
        ensure_private_dir(self._ledger.folder)
        try:
            with FileLock(self._ledger.folder / "lock", timeout=0, mode=PRIVATE_FILE):
                return self._run_alone(Path(os.path.realpath(path)))
        except Timeout:
            raise ImportFailedError("Another import is running.", hint="Wait for its end.") from None

    def _run_alone(self, path: Path) -> Outcome:
        for left in self._store.folder.rglob(f".*{_ASIDE}"):  # by a kill
            left.unlink()
        self._source = source = recognise(path, self._skipped)
        agent, now = self._store.agent_id, self._clock.now()
        self._stamps, self._made = self._ledger.done(source.name, agent)
        self._forgotten = read_forgotten(self._store.folder)
        run = Run(self._ledger.fresh_id(f"{now:%Y%m%d-%H%M%S}"), iso_utc(now), source.name, str(path), agent)
        self.outcome = Outcome(source.label, run.id, remarks=[*source.remarks], jobs=str(source.jobs or ""))
        self._run, self._entries = run.id, [run]
        try:
            for unit in source.units:
                self._read(unit)
            for folder in source.workspace:
                self._copy_notes(folder)
        finally:
            self._save()
        self.outcome.skipped = {reason: count for reason, count in sorted(self._skipped.items()) if count}
        return self.outcome

    def _read(self, unit: Unit) -> None:
        if self._stamps.get(unit.name) == unit.stamp:
            self.outcome.same += 1
            return
        try:
            for talk in reading(unit.talks()):
                self._take(talk)
                self._progress(self.outcome.new + self.outcome.grown + self.outcome.parts)
            self._entries.append(ReadUnit(unit.name, unit.stamp))
        except UnreadableError as error:
            self._skipped[str(error)] += 1
        if len(self._records) >= BATCH:
            self._save()

    def _take(self, talk: Talk) -> None:
        """Write what is new of a conversation. Raises UnreadableError, SessionStoreError, OSError."""
        root = self._store.folder
        folder = f"{SUBAGENTS}/{self._session_id(talk.parent)}/" if talk.parent else ""
        first = f"{folder}{self._session_id(talk.ident)}{SUFFIX}"
        files = self._made.get(talk.ident) or []
        if not files and (root / first).exists() and own_end(root / first) is None:
            files = [first]  # it was continued after a kill had come before the record of it
        if files and not (root / files[-1]).exists():
            raise UnreadableError("conversations that were deleted here")
        if any(self._forgotten.is_whole(Path(file).name) for file in (*files, first)):
            raise UnreadableError("conversations that were forgotten here")
        known: set[str] = set().union(*(ids_in(root / file) for file in files if (root / file).exists()))
        end = own_end(root / files[-1]) if files else None
        end = end if end and not end.offered else None
        file = files[-1] if end else f"{folder}{self._session_id(talk.ident, len(files))}{SUFFIX}"
        try:
            written = self._write(talk, file, known, end)
        except SessionLockedError:
            raise UnreadableError("conversations that are open now") from None
        count = (
            "same" if not written else "subagents" if talk.parent else "grown" if end else "parts" if files else "new"
        )
        if written or known:
            setattr(self.outcome, count, getattr(self.outcome, count) + 1)
        else:
            self._skipped["empty conversations"] += 1

    def _session_id(self, ident: str, part: int = 0) -> str:
        return str(uuid.uuid5(_NAMESPACE, f"{self._source.name}:{ident}{f':{part}' if part else ''}"))

    def _write(self, talk: Talk, file: str, known: set[str], end: OwnEnd | None) -> bool:
        path = self._store.folder / file
        stem = f"{talk.kind}:{self._source.name}" if talk.kind else self._source.name
        stem = f"subagent:{self._source.name}" if talk.parent else stem
        key = f"agent:{self._store.agent_id}:{stem}"
        pending = self._notes and not (talk.parent or talk.kind)
        target = Target(path.stem, key, self._source.name, self._source.label, self._run, pending)
        aside = Path(os.devnull) if self._dry_run else path.with_name(f".{path.name}{_ASIDE}")
        with ExitStack() as undo:
            if not self._dry_run:
                ensure_private_dir(path.parent)
                undo.callback(aside.unlink, missing_ok=True)
            if end is not None:
                lock = SessionLock(path)
                lock.acquire(path.stem, self._clock)
                undo.callback(lock.release)
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as sink:
                rest = _copy(path, end.body, sink) if end is not None else ""
                composer = Composer(sink, target, talk, known, here=end is not None)
                written = composer.write()
            self.outcome.messages += composer.messages
            self.outcome.size += composer.size
            if written and not self._dry_run:
                aside.replace(path)
                record = _record(path)
                if not talk.parent:
                    self._records.append((f"{stem}-", record))
                self.note(MadeSession(talk.ident, file, end.body if end else 0, rest))
        return written

    def _save(self) -> None:
        """Record what was read, and list the sessions that were made."""
        if any(not isinstance(each, Run) for each in self._entries):
            self.note()
        if self._records:
            os.sync()
            self._store.add(self._records)
            self._records = []

    def note(self, *records: Record) -> None:
        """Add to the record of the run."""
        if not self._dry_run:
            self._ledger.append(self._run, [*self._entries, *records])
        self._entries = []

    def _copy_notes(self, folder: Path) -> None:
        """Copy the Markdown files of another workspace: where the name is taken, into a folder of their own."""
        found = files_in(folder, _is_note, self._skipped)
        self._skipped["notes beyond the first 10,000"] += max(0, len(found) - MOST_NOTES)
        for path, state in found[:MOST_NOTES]:
            name = str(path.relative_to(folder))
            if state.st_size > LARGEST_NOTE:
                self._skipped["notes larger than 2 MiB"] += 1
                continue
            data = read_plain(path, LARGEST_NOTE, linked=False)
            for place in (name, f"{BESIDE}/{self._source.name}/{name}"):
                target = self._workspace / place
                with suppress(NotADirectoryError):  # a link or a file is in the place of a folder
                    if target.is_file() and read_plain(target, LARGEST_NOTE) == data:
                        self.outcome.same_files += 1
                        break
                    if os.path.lexists(target):
                        continue
                    self.note(MadeFile(str(target.absolute()), digest_of(data)))
                    if self._dry_run or create_whole(target, data, below=self._workspace):
                        (self.outcome.copied if place == name else self.outcome.beside).append(place)
                        break


def _record(path: Path) -> SessionRecord:
    """The record of an imported transcript for the index; the file gets the time of the last message."""
    summary = survey(path)
    record = record_of(path, summary, "")
    with suppress(OSError):
        os.utime(path, (record.updated_at / 1000, record.updated_at / 1000))
    return structs.replace(record, title=summary.given or summary.title or None, model_override=None)


def _is_note(name: str) -> bool:
    *folders, last = name.split("/")
    hidden = any(part.startswith(".") or part in _PASSED_OVER for part in folders)
    return last.endswith(".md") and not last.startswith(".") and last != _RITUAL and not hidden


def _copy(path: Path, size: int, sink) -> str:  # type: ignore[no-untyped-def]
    """Write the first `size` bytes of `path` to `sink`; returns the rest."""
    with path.open("rb") as file:
        while size and (data := file.read(min(size, 1 << 20))):
            sink.write(data)
            size -= len(data)
        return file.read().decode()


def undo_run(
    store: SessionStore, ledger: Ledger, run: Run, records: list[Record], drop_job: Callable[[str], str] = lambda _: ""
) -> Undone:
    """Take back what the run made and what nobody used since; `drop_job` removes a job, or returns why it stays.
    Blocks. Raises SessionStoreError, ConfigError, OSError."""
    undone, kept = Undone(), list[Record]()
    gone, shorter = list[str](), list[Path]()
    for record in reversed(records):
        match record:
            case MadeSession():
                why = _undo_session(store.folder / record.file, record, run.id, undone)
                path = store.folder / record.file
                if not why and record.kept and path.exists() and "/" not in record.file:
                    shorter.append(path)
                elif not why:
                    gone.append(path.stem)
            case MadeFile():
                why = _undo_file(Path(record.path), record.digest, undone)
            case MadeJob():
                why = drop_job(record.name)
                undone.jobs += not why
            case _:
                continue
        if why:
            kept.append(record)
            undone.stays.append(why)
    store.drop(gone)
    store.add(("", _record(path)) for path in shorter)
    ledger.replace(run, kept[::-1])
    return undone


def _undo_session(path: Path, record: MadeSession, run_id: str, undone: Undone) -> str:
    """Why the session stays; "" if it is taken back."""
    if not path.exists():
        return ""
    if holder_of(path) is not None:
        return f"{path.stem}: it is open now"
    end = own_end(path)
    if end is None:
        return f"{path.stem}: it was continued here"
    if end.run != run_id:
        return f"{path.stem}: it grew in the import {end.run}; undo that one first"
    if record.kept:
        with path.open("rb") as file:
            body = file.read(record.kept)
        write_atomic(path, body + record.end.encode(), mode=PRIVATE_FILE)
        undone.shortened += 1
    else:
        path.unlink()
        undone.sessions += 1
    return ""


def _undo_file(path: Path, digest: str, undone: Undone) -> str:
    try:
        data = read_plain(path, LARGEST_NOTE)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if digest_of(data) != digest:
        return f"{path}: it was changed since"
    erase(path)
    undone.files += 1
    return ""
