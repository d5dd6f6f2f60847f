"""The sessions of one agent: which transcript belongs to which key, and who has it open. All calls block and are
thread-safe."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Self

from msgspec import structs

from clawbot.clock import Clock, epoch_ms, iso_utc, moment_of
from clawbot.files import ensure_private_dir
from clawbot.sessions import rotation
from clawbot.sessions.entries import CustomEntry, SessionInfoEntry, iso_ms, user_spoke_at
from clawbot.sessions.errors import ForgottenSessionError, Problem, SessionStoreError, store_errors
from clawbot.sessions.folder import foreign_kind
from clawbot.sessions.forgotten import FILE_NAME as FORGOTTEN_FILE
from clawbot.sessions.forgotten import Forgotten, read_forgotten
from clawbot.sessions.forking import FORKED, ForkedSession, NewFork, fork_record, fork_title, plan_fork, put_fork
from clawbot.sessions.index import IndexState, SessionIndex, SessionRecord
from clawbot.sessions.locks import SessionLock, holder_of, is_free, remove_left_over
from clawbot.sessions.names import END_MARK, MAIN, SUBAGENTS, SUFFIX, fresh_key, key_for, short_name, stem_of
from clawbot.sessions.summary import End, SessionSummary, observed, pick, pick_or_new, read_summary, summarise
from clawbot.sessions.transcript import Transcript


@dataclass(eq=False)
class OpenSession:
    """A session held by this process; must be closed. `notices` are the problems survived while opening it;
    `others_pending`: ended sessions may have to be offered to memory; `forgotten` is what was forgotten at that time.
    """

    record: SessionRecord
    transcript: Transcript
    lock: SessionLock
    notices: list[Problem]
    is_new: bool
    others_pending: bool = False
    forgotten: Forgotten = field(default_factory=Forgotten)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the transcript and release the lock; idempotent."""
        self.transcript.close()
        self.lock.release()


class SessionStore:
    """The sessions of the agent `agent_id` in `folder`. `cwd` is recorded in new transcripts. Every call may raise
    SessionStoreError; `open` and `rotate` may raise SessionLockedError."""

    def __init__(self, folder: Path, clock: Clock, *, agent_id: str = MAIN, cwd: Path | None = None) -> None:
        self.folder = folder
        self.agent_id = agent_id
        self._clock = clock
        self._cwd = cwd
        self.trash = rotation.Trash(folder)
        self._index = SessionIndex(folder, clock, lambda: rotation.rebuild_records(folder, agent_id, self._zone))

    def current(self, name: str = MAIN) -> SessionRecord | None:
        """The current record of `name` (a key or a short name); None if there is no such session."""
        return self._read().records.get(key_for(self.agent_id, name))

    def path_of(self, record: SessionRecord) -> Path:
        """The transcript of `record`: always in this folder."""
        return rotation.transcript_of(self.folder, record)

    def subagents(self, session_id: str) -> SessionStore:
        """The sessions of the sub-agents of the session `session_id`, in a folder of their own: no list, search or
        memory includes them."""
        folder = self.folder / SUBAGENTS / session_id
        return SessionStore(folder, self._clock, agent_id=self.agent_id, cwd=self._cwd)

    def open(self, name: str = MAIN, *, fresh: bool = False) -> OpenSession:
        """Open the session `name` (as in `pick`, an id prefix has six characters or more), or create it. `fresh`:
        create a new session under an unused key, which begins with `name` unless that is the main session."""
        with ExitStack() as undo:
            with self._editing() as state:
                rotation.clean_up(state, self.folder)
                record = None if fresh else pick_or_new(name, self.agent_id, self._known(state))
                if record is None:
                    key = key_for(self.agent_id, name)
                    if fresh:
                        stem = "" if short_name(key) == MAIN else f"{short_name(key)}-"
                        key = fresh_key(self.agent_id, self._clock.now(), self._known(state), stem)
                    begun = self._begin(rotation.successor(SessionRecord(key=key, session_id="")), undo)
                    state.put(begun.record)
                elif not self.path_of(record).exists():
                    begun = self._begin(rotation.successor(record), undo)
                    state.put(begun.record)
                    gone = f"the transcript of session {short_name(record.key)} is gone; a new one was started"
                    begun.notices.append(Problem(str(self.path_of(record)), gone))
                else:
                    self._check_remembered(record)
                    begun = self._resume(record, undo)
                    if record.ended_reason is not None or record.key not in state.records:
                        now = epoch_ms(self._clock.now())
                        begun.record = structs.replace(begun.record, ended_reason=None, ended_at=None, resumed_at=now)
                        state.put(begun.record)
                    if begun.record.memory_pending:
                        # An open session is offered together with its new messages.
                        begun.record = structs.replace(begun.record, memory_pending=False)
                        state.put(begun.record)
                begun.notices[:0] = state.problems
                begun.others_pending = any(other.memory_pending for other in state.records.values())
            undo.pop_all()
            return begun

    def rotate(self, opened: OpenSession, reason: str, *, pending: bool = False) -> OpenSession:
        """End `opened` for `reason` ("/new", "daily"); returns a new session under its key, with the user's choices
        (model, label). `pending`: memory must still be offered the rest of the old one, which gets a new key. If this
        raises, `opened` is still open; if the process dies, either the old session or the new one exists."""
        with ExitStack() as undo:
            with self._editing() as state:
                old = state.records.get(opened.record.key)
                if old is None or old.session_id != opened.record.session_id:
                    old = opened.record
                begun = self._begin(rotation.successor(old), undo, parent=opened.transcript.path)
                begun.notices += [*state.problems, *self._mark_end(opened, reason, pending=pending)]
                end = End(reason, epoch_ms(self._clock.now()), pending)
                key = rotation.key_of_ended(self.agent_id, old, self._zone, self._known(state))
                rotation.pass_key(state, old, begun.record, end, key)
            undo.pop_all()
        opened.close()
        return begun

    def _mark_end(self, opened: OpenSession, reason: str, *, pending: bool) -> list[Problem]:
        """Record the end in the transcript of `opened`. Skipped if the file is deleted or full."""
        data = {"reason": reason, "pending": True} if pending else {"reason": reason}
        try:
            opened.transcript.append(CustomEntry(custom_type=END_MARK, data=data), sync=True)
        except SessionStoreError as error:
            return [Problem(str(opened.transcript.path), error.message)]
        return []

    def pending(self) -> Sequence[SessionRecord]:
        """Ended sessions that may have to be offered to memory, least recently used first. Reads only the index."""
        forgotten = self._forgotten().sessions
        found = [
            record
            for record in self._index.read().records.values()
            if record.memory_pending and record.session_id not in forgotten and not foreign_kind(self.path_of(record))
        ]
        return sorted(found, key=lambda record: record.used_at)

    def left_pending(self, record: SessionRecord) -> SessionRecord:
        """Record that the session of `record` must be offered unless it is continued; returns the new record."""
        return self._put(structs.replace(record, memory_pending=True))

    def borrow(self, record: SessionRecord) -> OpenSession:
        """Lock the ended session of `record` to add records to its transcript, without changing its state and age.
        Raises SessionLockedError while it is in use."""
        with ExitStack() as undo:
            borrowed = self._resume(record, undo)
            undo.pop_all()
            return borrowed

    def offered(self, record: SessionRecord) -> None:
        """Record that memory was offered all of the borrowed session of `record`."""
        at, count = record.memory_flush_at, record.memory_flush_compaction_count
        done = {"memory_pending": False, "memory_flush_at": at, "memory_flush_compaction_count": count}
        with self._editing() as state:
            for known in list(state.records.values()):
                if known.session_id == record.session_id and known.memory_pending:
                    state.put(structs.replace(known, **done))

    def bury(self, unnamed: Callable[[str], bool], *, dry_run: bool = False) -> bytes:
        """Apply the consequences of forgotten sessions, and remove names for which `unnamed` is true; returns the new
        index. `dry_run`: without writing it."""
        with nullcontext(self._read()) if dry_run else self._editing() as state:
            for record in list(state.records.values()):
                gone = {name: None for name in ("label", "title") if unnamed(getattr(record, name) or "")}
                if gone or record.first_words is not None:
                    # The first words may be a part of what is gone.
                    state.put(structs.replace(record, first_words=None, seen=None, **gone))
            return state.encoded()

    def resumed(self, record: SessionRecord) -> SessionRecord:
        """Let the age of the session count from now, since the user returned to it; returns the new record."""
        return self._put(structs.replace(record, resumed_at=epoch_ms(self._clock.now())))

    def restart(self, record: SessionRecord) -> SessionRecord:
        """Let the empty session of `record` begin now; returns the new record."""
        return self._put(structs.replace(record, session_started_at=epoch_ms(self._clock.now())))

    def update(self, record: SessionRecord) -> SessionRecord:
        """Store `record` under its key with the current time; returns the new record."""
        return self._put(structs.replace(record, updated_at=epoch_ms(self._clock.now())))

    def rename(self, name: str, title: str) -> SessionRecord:
        """Give the session `name` the title `title`, as `named` does; returns its record. Its age is kept. Raises
        SessionLockedError while it is open elsewhere."""
        record = self.find(name)
        with self.borrow(record) as opened:
            return self.named(opened, title)

    def named(self, opened: OpenSession, title: str, by: str = "") -> SessionRecord:
        """Record `title`, given by the user or by the model `by`, in the transcript and in the index; returns the new
        record. "" removes the title."""
        opened.transcript.append(SessionInfoEntry(name=title, by=by or None), sync=True)
        given = {"title" if by else "label": title or None}
        return self._put(structs.replace(opened.record, **given))

    def fork(self, name: str, at: str = "", title: str = "") -> ForkedSession:
        """Create a session that begins with the messages of the session `name` up to `at` (`plan_fork`), with the
        user's `title`, or one derived from the other's. It exists once its transcript does, which is written
        atomically; an index without it is completed by the next start. The other session may be open."""
        record = self.find(name)
        self._check_remembered(record)
        old_title = self.summary(record).title
        with Transcript.open(self.path_of(record), clock=self._clock, writable=False) as transcript:
            plan = plan_fork(transcript, at)
            with self._editing() as state, ExitStack() as locked:
                now, known = self._clock.now(), self._known(state)
                stem = stem_of(record.previous_key or record.key)
                new = NewFork(
                    session_id=str(uuid.uuid4()),
                    key=fresh_key(self.agent_id, now, known, f"{stem}-" if stem else ""),
                    cwd=str(self._cwd or Path.cwd()),
                    began=iso_utc(now),
                    title=title or fork_title(old_title, {each.name for each in known.values()}),
                    by=None if title else FORKED,
                )
                forked = fork_record(new, plan, record, epoch_ms(now))
                self._locked(self.path_of(forked), forked, locked)
                put_fork(self.folder, transcript, plan, new)
                state.put(forked)
        return ForkedSession(forked, plan.text)

    def delete(self, name: str) -> Path:
        """Move the session `name` to the trash; returns the folder there. Raises SessionLockedError while it is open.
        The index may be restored from the transcripts at any time, so they go first."""
        record = self.find(name)
        path = self.path_of(record)
        with ExitStack() as undo, self._editing() as state:
            self._locked(path, record, undo)
            folder = self.trash.take(record, path)
            state.drop(record.key)
        # The next start cleans up what can't be removed now.
        with suppress(SessionStoreError):
            remove_left_over(path)
        return folder

    def restore(self, session_id: str) -> SessionRecord:
        """Restore a deleted session; returns its record, with a new key if its own was taken since."""
        with self._editing() as state:
            record = self.trash.restore(session_id, self.folder)
            if record.key in state.records:
                stem = f"{short_name(record.key)}-"
                key = fresh_key(self.agent_id, moment_of(record.used_at, self._zone), self._known(state), stem)
                record = structs.replace(record, key=key)
            state.put(record)
        return record

    def add(self, records: Iterable[tuple[str, SessionRecord]]) -> None:
        """List sessions whose transcripts are complete, each with the beginning of a new key. The folder is not
        scanned: there may be thousands."""
        with store_errors("use the folder", self.folder):
            ensure_private_dir(self.folder)
        with self._index.edit() as state:
            keys = {record.session_id: record.key for record in state.records.values()}
            for stem, record in records:
                began = moment_of(record.session_started_at or 0, self._zone)
                key = f"agent:{self.agent_id}:{stem}{began:%Y%m%d-%H%M}"
                key = f"{key}-{record.session_id[:8]}" if key in state.records else key
                state.put(structs.replace(record, key=keys.get(record.session_id, key)))

    def drop(self, session_ids: Collection[str]) -> None:
        """Remove the sessions with these ids, whose transcripts are gone, from the index."""
        with self._index.edit() as state:
            for key in [key for key, record in state.records.items() if record.session_id in session_ids]:
                state.drop(key)

    def records(self) -> Sequence[SessionRecord]:
        """All sessions, including transcripts missing from the index; last used first."""
        return sorted(self._known(self._read()).values(), key=lambda record: record.used_at, reverse=True)

    def list(self) -> Sequence[SessionSummary]:
        """Summaries of all sessions, last used first. What had to be read is recorded in the index, unless that has
        problems, which the next `open` reports."""
        state = self._read()
        known = self._known(state)
        read = {key: self._observed(record) for key, record in known.items()}
        changed = {key: record for key, record in read.items() if record != known[key]}
        if changed and not state.problems:
            with suppress(SessionStoreError), self._editing() as state:
                now = self._known(state)
                for key, record in changed.items():
                    # The record of an open session is written by its holder.
                    if now.get(key) == known[key] and holder_of(self.path_of(record)) is None:
                        state.put(record)
        found = [self.summary(record) for record in read.values()]
        return sorted(found, key=lambda summary: summary.updated_at, reverse=True)

    def _observed(self, record: SessionRecord) -> SessionRecord:
        """`record` with what a list shows of its transcript; unchanged if that is missing or unreadable."""
        path = self.path_of(record)
        with suppress(OSError):  # which `summary` reports
            if record.turns is None and holder_of(path) is None:
                record = rotation.completed(
                    record, rotation.record_of(path, read_summary(path), record.key), self.agent_id
                )
            record = observed(record, path)
        return record

    def summary(self, record: SessionRecord) -> SessionSummary:
        return summarise(record, self.path_of(record), self._zone)

    def find(self, name: str) -> SessionRecord:
        """The session `name`, as `pick` chooses it. Raises UnknownSessionError, AmbiguousSessionError."""
        return pick(name, self.agent_id, self._known(self._read()))

    def clean_up(self) -> Sequence[Problem]:
        """Remove incomplete files of dead processes; returns what could not be removed. `open` does it too."""
        with self._editing() as state:
            rotation.clean_up(state, self.folder)
        return state.problems

    def repair_index(self, *, dry_run: bool = False) -> Sequence[Problem]:
        """Rewrite a missing, unreadable or incomplete index; returns what was (or would be) repaired."""
        if dry_run and not self.folder.is_dir():
            return []
        state = self._read()
        unlisted = rotation.unlisted_records(state, self.agent_id)
        if not dry_run and (unlisted or state.changed or state.unreadable):
            with self._editing() as state:
                unlisted = rotation.unlisted_records(state, self.agent_id)
                for record in unlisted.values():
                    state.put(record)
        added = [Problem(str(self.path_of(record)), "was not in the index; added") for record in unlisted.values()]
        lost = [
            Problem(str(self.path_of(record)), f"is gone; {short_name(record.key)} starts over when it is opened")
            for record in state.records.values()
            if not self.path_of(record).exists()
        ]
        return [*state.problems, *added, *lost]

    @property
    def _zone(self) -> tzinfo | None:
        return self._clock.now().tzinfo

    def _read(self) -> IndexState:
        state = self._index.read()
        self._complete(state, lambda _path: False)
        return state

    def _complete(self, state: IndexState, busy: Callable[[Path], bool]) -> None:
        """Bring `state` in line with the transcripts in the folder. Those that are `busy` get no key."""
        rotation.settle(state, self.folder, self.agent_id, self._zone, busy=busy)
        self.trash.settle(state)
        rotation.adopt(state, self.folder, self.agent_id, self._zone)
        rotation.bury(state, self._forgotten(), self.agent_id, self._zone)

    def _forgotten(self) -> Forgotten:
        with store_errors("read", self.folder / FORGOTTEN_FILE):
            return read_forgotten(self.folder)

    def _put(self, record: SessionRecord) -> SessionRecord:
        with self._editing(record) as state:
            state.put(record)
        return record

    @contextmanager
    def _editing(self, known: SessionRecord | None = None) -> Iterator[IndexState]:
        """The index, to be changed. The folder, which may hold thousands of sessions, is not scanned while the index
        has the session `known`: then it has lost nothing since that was opened."""
        with store_errors("use the folder", self.folder):
            ensure_private_dir(self.folder)
        with self._index.edit() as state:
            found = state.records.get(known.key) if known is not None else None
            if known is None or found is None or found.session_id != known.session_id:
                self._complete(state, lambda path: not is_free(path))
            yield state

    def _known(self, state: IndexState) -> dict[str, SessionRecord]:
        return {**rotation.unlisted_records(state, self.agent_id), **state.records}

    def _check_remembered(self, record: SessionRecord) -> None:
        if record.session_id in self._forgotten().sessions:
            raise ForgottenSessionError(
                f"Session {short_name(record.key)} was forgotten.",
                hint="`clawbot sessions show` has its transcript; start a fresh one with --new.",
            )

    def _begin(self, record: SessionRecord, undo: ExitStack, *, parent: Path | None = None) -> OpenSession:
        """Create and lock the transcript of `record`; `undo` reverts it."""
        now = epoch_ms(self._clock.now())
        path = self.folder / f"{record.session_id}{SUFFIX}"
        record = structs.replace(record, session_file=path.name, session_started_at=now, updated_at=now)
        lock = self._locked(path, record, undo)
        transcript = Transcript.create(
            self.folder,
            cwd=self._cwd or Path.cwd(),
            clock=self._clock,
            session_id=record.session_id,
            parent=parent,
            key=record.key,
        )
        undo.callback(path.unlink, missing_ok=True)
        undo.callback(transcript.close)
        return OpenSession(record, transcript, lock, [], is_new=True)

    def _resume(self, record: SessionRecord, undo: ExitStack) -> OpenSession:
        path = self.path_of(record)
        if kind := foreign_kind(path):
            raise SessionStoreError(f"{path} is no transcript: {kind}.", hint="`clawbot doctor` names all such files.")
        lock = self._locked(path, record, undo)
        transcript = Transcript.open(path, clock=self._clock)
        undo.callback(transcript.close)
        if not record.session_started_at:
            first = transcript.header or next(iter(transcript.entries), None)
            record = structs.replace(record, session_started_at=iso_ms(first.timestamp) or None if first else None)
        # The index is outdated if the program died during a turn.
        spoke = user_spoke_at(transcript.entries)
        if spoke > (record.last_interaction_at or 0):
            record = structs.replace(record, last_interaction_at=spoke)
        opened = OpenSession(record, transcript, lock, transcript.problems, is_new=False)
        opened.forgotten = self._forgotten()
        return opened

    def _locked(self, path: Path, record: SessionRecord, undo: ExitStack) -> SessionLock:
        lock = SessionLock(path)
        lock.acquire(short_name(record.key), self._clock)
        undo.callback(lock.release)
        return lock
