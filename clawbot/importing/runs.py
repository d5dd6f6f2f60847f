"""Imports what is at a path, and takes such a run back."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout
from msgspec import Struct, field, structs

from clawbot.clock import Clock, iso_utc
from clawbot.config.names import free_name
from clawbot.files import PRIVATE_FILE, digest_of, ensure_private_dir, write_atomic
from clawbot.guarded import GuardedFolder, reached
from clawbot.importing.coding_agents import read_claude_code, read_codex
from clawbot.importing.exports import read_export
from clawbot.importing.ledger import Ledger, Record, Run
from clawbot.importing.openclaw import read_openclaw, read_pi
from clawbot.importing.source import (
    ImportFailedError,
    Session,
    Skipped,
    Source,
    Unit,
    UnreadableError,
    files_in,
    reading,
)
from clawbot.importing.write import Composer, ids_in, own_end
from clawbot.sessions.entries import FORMAT_VERSION, Header
from clawbot.sessions.errors import SessionLockedError
from clawbot.sessions.folder import read_folder
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.locks import SessionLock, holder_of
from clawbot.sessions.names import SUBAGENTS, SUFFIX
from clawbot.sessions.offsets import CLAUDE_CODE
from clawbot.sessions.rotation import record_of
from clawbot.sessions.store import SessionStore
from clawbot.sessions.summary import read_summary

BATCH = 500  # conversations between two updates of the index of sessions
MAX_NOTE = 2 * 2**20
SEPARATE = "imported"  # the folder of a workspace for files whose name is taken
_NAMESPACE = uuid.UUID("1b7f4f8e-8d2c-4c55-9a6b-6f1f6f0d7c11")
_PASSED_OVER = {"skills", "hooks", "node_modules", "sessions", SEPARATE}
_RITUAL = "BOOTSTRAP.md"  # what a new agent is asked once
_SHAPES = (
    (read_openclaw, ("openclaw.json", "agents/*/sessions")),
    (read_claude_code, ("projects/*/*.jsonl", "-[!-]*/*.jsonl")),
    (read_codex, tuple(f"{each}rollout-*.json*" for each in ("", "*/", "*/*/*/", "sessions/*/*/*/", "sessions/"))),
    (read_pi, ("agent/sessions/*/*.jsonl", "sessions/*/*.jsonl", "--*--/*.jsonl")),
)


class Outcome(Struct):
    """What a run did, or would do: conversations that are new, that grew, that grew and were continued here (`parts`:
    their new messages are conversations of their own), that are the `same`; messages and their `size` in bytes.
    `copied` and `beside` are notes, `jobs` the file of jobs; `skipped` counts what was left out, by reason; `remarks`
    name what is not imported."""

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
    skipped: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    jobs: str = ""


class Undone(Struct):
    """What an undo took back: conversations, new parts of them, notes, jobs; and what remains, each with the reason."""

    sessions: int = 0
    shortened: int = 0
    files: int = 0
    jobs: int = 0
    stays: list[str] = field(default_factory=list)


def recognise(path: Path, skipped: Skipped) -> Source:
    """Return the source at `path`. Blocks. Raises ImportFailedError, OSError."""
    if not path.exists():
        raise ImportFailedError(f"There is no {path}.")
    for read, patterns in _SHAPES if path.is_dir() else ():
        if any(any(path.glob(pattern)) for pattern in patterns):
            return read(path, skipped)
    if found := read_export(path, skipped) or _one_project(path, skipped):
        return found
    raise ImportFailedError(
        f"{path} holds no conversations that can be imported.",
        hint="Name ~/.openclaw, ~/.pi, ~/.claude, ~/.codex, or an export of ChatGPT or Claude.ai (zip or folder).",
    )


def _one_project(path: Path, skipped: Skipped) -> Source | None:
    """Return the source of the transcripts straight in `path`; those of OpenClaw need the rest of its home."""
    if not path.is_dir() or (path / "sessions.json").exists():
        return None
    content = read_folder(path)
    if any(content.headers.values()):
        return read_pi(path, skipped)
    return read_claude_code(path, skipped) if CLAUDE_CODE in content.foreign.values() else None


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
        self._dry_run, self._notes, self._progress, self._skipped = dry_run, notes, progress, Skipped()
        self._aside = Path(os.devnull) if dry_run else store.folder / ".import.tmp"
        self._unlisted: list[tuple[str, SessionRecord]] = []
        # By the conversation that was met in this run, the ids of its entries if the run is dry.
        self._met: dict[str, set[str]] = {}

    def run(self, path: Path) -> Outcome:
        """Import what is new at `path`. What was done before an interruption is kept, and the next run goes on. Raises
        ImportFailedError, SessionStoreError."""
        try:
            ensure_private_dir(self._ledger.folder)
            with FileLock(self._ledger.folder / "lock", timeout=0, mode=PRIVATE_FILE):
                return self._run_alone(Path(os.path.realpath(path)))
        except Timeout:
            raise ImportFailedError("Another import is running.", hint="Wait for its end.") from None
        except OSError as error:
            path, reason = error.filename or self._store.folder, error.strerror or type(error).__name__
            hint = "Free some space or mend that, and run it again: it goes on from there."
            raise ImportFailedError(f"The import stopped at {path}: {reason}.", hint=hint) from error

    def _run_alone(self, path: Path) -> Outcome:
        self._source = source = recognise(path, self._skipped)
        agent, now = self._store.agent_id, self._clock.now()
        self._stamps, self._made = self._ledger.done(source.name, agent)
        self._forgotten = read_forgotten(self._store.folder)
        name = free_name(f"{now:%Y%m%d-%H%M%S}", {run.id for run, _ in self._ledger.runs()})
        self._run = Run(name, iso_utc(now), source.name, str(path), agent)
        self._outcome = Outcome(source.label, name, remarks=[*source.remarks], jobs=str(source.jobs or ""))
        if not self._dry_run:
            ensure_private_dir(self._store.folder)
        try:
            for unit in source.units:
                self._read(unit)
            if source.workspace:
                self._copy_notes(source.workspace)
        finally:
            self._list()
            if not self._dry_run:
                self._aside.unlink(missing_ok=True)
        self._outcome.skipped = {reason: count for reason, count in sorted(self._skipped.items()) if count}
        return self._outcome

    def _read(self, unit: Unit) -> None:
        outcome = self._outcome
        if self._stamps.get(unit.name) == unit.stamp:
            outcome.same += 1
            return
        try:
            for session in reading(unit.sessions()):
                self._take(session)
                self._progress(outcome.new + outcome.grown + outcome.parts)
            self.note(Record("unit", unit.name, unit.stamp))
        except UnreadableError as error:
            self._skipped[str(error)] += 1
        except SessionLockedError:
            self._skipped["conversations that are open now"] += 1
        if len(self._unlisted) >= BATCH:
            self._list()

    def _take(self, session: Session) -> None:
        """Write what is new of a conversation. Raises UnreadableError, SessionStoreError, OSError."""
        root, files = self._store.folder, self._made[session.ident]
        folder = f"{SUBAGENTS}/{self._session_id(session.parent)}/" if session.parent else ""
        first = f"{folder}{self._session_id(session.ident)}{SUFFIX}"
        if not files and (root / first).exists() and own_end(root / first) is None:
            files.append(first)  # it was continued after a kill had come before the record of it
        if files and not (root / files[-1]).exists():
            raise UnreadableError("conversations that were deleted here")
        if any(self._forgotten.is_whole(Path(file).name) for file in (*files, first)):
            raise UnreadableError("conversations that were forgotten here")
        written = [root / file for file in files if (root / file).exists()]
        known = self._met.get(session.ident, set()).union(*map(ids_in, written))
        end = own_end(root / files[-1]) if files else None
        kept = end.body if end and not end.offered else 0
        file = files[-1] if kept else f"{folder}{self._session_id(session.ident, len(files))}{SUFFIX}"
        count = "subagents" if session.parent else "grown" if kept else "parts" if files else "new"
        is_copy, is_written = session.ident in self._met, self._write(session, file, known, kept)
        self._met.setdefault(session.ident, set())
        if is_written and not kept and not self._dry_run:
            files.append(file)
        if is_copy or not (is_written or known):
            self._skipped["copies of conversations" if is_copy else "empty conversations"] += 1
        else:
            count = count if is_written else "same"
            setattr(self._outcome, count, getattr(self._outcome, count) + 1)

    def _session_id(self, ident: str, part: int = 0) -> str:
        return str(uuid.uuid5(_NAMESPACE, f"{self._source.name}:{ident}{f':{part}' if part else ''}"))

    def _write(self, session: Session, file: str, known: set[str], kept: int) -> bool:
        """Write the entries that are not `known` after the first `kept` bytes of `file`; False if there are none."""
        path, kind = self._store.folder / file, "subagent" if session.parent else session.kind
        stem = f"{kind}:{self._run.program}" if kind else self._run.program
        header = Header(FORMAT_VERSION, path.stem, "", session.cwd, session_key=f"agent:{self._store.agent_id}:{stem}")
        lock, before = SessionLock(path), b""
        try:
            if kept:
                lock.acquire(path.stem, self._clock)
                before = path.read_bytes()
            with os.fdopen(os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE), "wb") as sink:
                sink.write(before[:kept])
                composer = Composer(sink, header, self._source.label, session, known, here=kept > 0)
                is_written = composer.write(self._run, pending=self._notes and not kind)
            if self._dry_run:
                self._met.setdefault(session.ident, set()).update(composer.ids)
            self._outcome.messages += composer.messages
            self._outcome.size += composer.size
            if is_written and not self._dry_run:
                ensure_private_dir(path.parent)
                self._aside.replace(path)
                record = _record(path)
                self._unlisted += [] if session.parent else [(f"{stem}-", record)]
                self.note(Record("session", session.ident, file, kept, before[kept:].decode()))
        finally:
            lock.release()
        return is_written

    def _list(self) -> None:
        """List the sessions that were made since the last call."""
        if self._unlisted:
            os.sync()
            self._store.add(self._unlisted)
            self._unlisted = []

    def note(self, *records: Record) -> None:
        """Add to the record of the run."""
        if not self._dry_run:
            self._ledger.append(self._run, *records)

    def _copy_notes(self, folder: Path) -> None:
        """Copy the Markdown files of another workspace: where the name is taken, into a folder of their own."""
        files = GuardedFolder(self._workspace)
        for name in files_in(folder, _is_note, self._skipped):
            try:
                data = GuardedFolder(folder).read(name, MAX_NOTE, linked=False)
            except OSError as error:
                self._skipped[f"a note that {error.strerror}"] += 1
                continue
            for target in (name, f"{SEPARATE}/{self._run.program}/{name}"):
                with suppress(NotADirectoryError):  # a link or a file is in place of a folder
                    if found := files.state(target):
                        if stat.S_ISREG(found.st_mode) and files.read(target, MAX_NOTE) == data:
                            break
                        continue
                    self.note(Record("file", str((self._workspace / target).absolute()), digest_of(data)))
                    if self._dry_run or files.create(target, data):
                        (self._outcome.copied if target == name else self._outcome.beside).append(target)
                        break


def _record(path: Path) -> SessionRecord:
    """Return the record of an imported transcript for the index, and give the file the time of its last message."""
    summary = read_summary(path)
    record = record_of(path, summary, "")
    with suppress(OSError):
        os.utime(path, (record.updated_at / 1000, record.updated_at / 1000))
    return structs.replace(record, title=summary.given or summary.title or None)


def _is_note(name: str) -> bool:
    *folders, last = name.split("/")
    is_hidden = "/." in f"/{name}" or not _PASSED_OVER.isdisjoint(folders)
    return last.endswith(".md") and last != _RITUAL and not is_hidden


def undo_run(
    store: SessionStore,
    ledger: Ledger,
    run: Run,
    records: list[Record],
    drop_job: Callable[[str], str] = lambda _: "",
    *,
    workspace: Path,
) -> Undone:
    """Take back what the run made and what nobody used since; `drop_job` removes a job, or returns why it remains.
    Blocks. Raises SessionStoreError, ConfigError, OSError."""
    undone, kept, freed = Undone(), list[Record](), list[Path]()
    for record in reversed(records):
        if record.kind == "session":
            path = store.folder / record.value
            why = _undo_session(path, record, run.id, undone)
            freed += [] if why else [path]
        elif record.kind == "file":
            why = _undo_file(Path(record.name), record.value, undone, workspace)
        else:
            why = drop_job(record.name) if record.kind == "job" else ""
            undone.jobs += record.kind == "job" and not why
        if why:
            kept.append(record)
            undone.stays.append(why)
    store.drop([path.stem for path in freed if not path.exists()])
    store.add(("", _record(path)) for path in freed if path.exists() and path.parent == store.folder)
    ledger.replace(run, kept[::-1])
    return undone


def _undo_session(path: Path, record: Record, run_id: str, undone: Undone) -> str:
    """Take a session back; returns why it remains, or ""."""
    if not path.exists():
        return ""
    if holder_of(path) is not None:
        return f"{path.stem}: it is open now"
    if (end := own_end(path)) is None:
        return f"{path.stem}: it was continued here"
    if end.run != run_id:
        return f"{path.stem}: it grew in the import {end.run}; undo that one first"
    if record.kept:
        write_atomic(path, path.read_bytes()[: record.kept] + record.end.encode(), mode=PRIVATE_FILE)
        undone.shortened += 1
    else:
        path.unlink()
        undone.sessions += 1
    return ""


def _undo_file(path: Path, digest: str, undone: Undone, workspace: Path) -> str:
    folder, name = reached(path, workspace)
    try:
        if digest_of(folder.read(name, MAX_NOTE)) != digest:
            return f"{path}: it was changed since"
        folder.erase(name)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    undone.files += 1
    return ""
