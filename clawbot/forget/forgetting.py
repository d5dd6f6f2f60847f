"""Forgets a phrase, a note or a session, and reports what remains.

The order is safe against kills: what to forget is recorded first; then come notes, transcripts and the index. Running
it again finishes an interrupted run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from clawbot.authors import Author, recording
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.errors import ClawbotError
from clawbot.forget.files import (
    MIN_CHARS,
    Everything,
    FileEditor,
    ForgetTarget,
    Left,
    Mentions,
    Phrase,
    StubbornFileError,
    WholeLines,
    plain,
    still_there,
)
from clawbot.forget.history import HistoryWork
from clawbot.forget.notes import ForgottenPart, Notes, NoteWork
from clawbot.forget.transcripts import Transcripts, row_text, without_rows
from clawbot.history import history_of
from clawbot.indexing import memory_documents, open_index
from clawbot.memory.documents.memory_files import ForbiddenPathError, MemoryDocuments
from clawbot.memory.documents.walking import SUFFIXES
from clawbot.sessions.folder import is_transcript
from clawbot.sessions.forgotten import finish, forget, read_forgotten, session_of
from clawbot.sessions.index import FILE_NAME as INDEX_FILE
from clawbot.sessions.locks import holder_of
from clawbot.sessions.store import SessionStore

_BUSY_TRIES = 40
_BUSY_SECONDS = 0.25
_BY_HAND = "edit or delete it by hand"
_IN_TRANSCRIPTS = "--transcripts takes it out"


Held = Mapping[Path, Sequence[str]]
"""Entry ids by transcript."""


class NothingFoundError(ClawbotError):
    """Nothing matches the request."""


class Request(Struct, frozen=True):
    """What to forget: `text` is a phrase or the path of a note, `session` names a session. `transcripts`: edit these as
    well. `dry_run`: only report what would be done."""

    text: str = ""
    session: str = ""
    transcripts: bool = False
    dry_run: bool = False


class ForgetOutcome(Struct, frozen=True):
    """What was done, what remains, and whether everything requested was done; of a dry run what would be."""

    done: tuple[ForgottenPart, ...]
    left: tuple[Left, ...]
    complete: bool
    dry_run: bool = False

    def lines(self) -> Iterator[str]:
        """Yield a line for each part: its path, its lines, and what became of it."""
        would, remains = ("would be ", "would remain") if self.dry_run else ("", "still there")
        for done in self.done:
            yield f"{_position(done)}: {would}{done.what}"
        for left in self.left:
            yield f"{remains}: {_position(left)}{f' ({left.why})' if left.why else ''}"


class _Work(Struct, frozen=True):
    """`notes` is the work on notes; `sessions` are forgotten entirely, `phrase` is removed from the others; `seen` is
    searched for at the end; `typed` selects texts in the prompt's history, `quoted` text in transcripts."""

    notes: NoteWork
    seen: ForgetTarget
    sessions: tuple[str, ...] = ()
    phrase: Phrase | None = None
    typed: ForgetTarget | None = None
    quoted: ForgetTarget | None = None


class _Ground(Struct, frozen=True):
    """The input of the steps; `held` are the entries that contain the phrase."""

    transcripts: Transcripts
    notes: Notes
    work: _Work
    held: Held
    stored: HistoryWork

    @property
    def own(self) -> list[Path]:
        """The transcripts of the sessions to forget."""
        return [path for session in self.work.sessions for path in self.transcripts.of_session(session)]


def _position(part: ForgottenPart | Left) -> str:
    return f"{part.path}:{','.join(map(str, part.lines))}" if part.lines else part.path


class Forgetting:
    """One run for one agent. Blocks, except `tidy`. Raises ClawbotError, OSError."""

    def __init__(self, settings: Settings, paths: Paths, agent_id: str, request: Request) -> None:
        self._settings = settings
        self._paths = paths
        self._agent_id = agent_id
        self._request = request
        self._clock = SystemClock()
        self._workspace = settings.agent(agent_id).workspace
        self._store = SessionStore(paths.sessions(agent_id), self._clock, agent_id=agent_id)
        self._history = history_of(settings, paths, agent_id, self._clock)

    def run(self) -> ForgetOutcome:
        """Raises NothingFoundError if nothing matches, SessionLockedError if the session is open."""
        with ExitStack() as locks:
            transcripts = Transcripts(self._store, self._clock, locks)
            documents = memory_documents(self._settings, self._agent_id, self._paths)
            notes = Notes(self._workspace, documents)
            work = self._work(transcripts, notes, documents)
            held = transcripts.holding(work.phrase) if work.phrase is not None else {}
            stored = HistoryWork(self._history, work.notes, work.sessions)
            ground = _Ground(transcripts, notes, work, held, stored)
            plan = FileEditor(self._workspace, dry_run=True)
            found = list(self._steps(ground, plan))
            stored.remove(os.path.relpath(path, self._workspace) for path in plan.renamed)
            found += stored.run(dry_run=True)
            if not found and not read_forgotten(self._store.folder).unfinished:
                left = tuple(self._still_there(ground, plan, ()))
                if not left and not work.sessions:
                    raise _nothing(self._request)
                return ForgetOutcome((), left, complete=True)
            if self._request.dry_run:
                return self._outcome(ground, plan, found)
            editor = FileEditor(self._workspace, dry_run=False)
            # First, since the names of notes are found by the notes.
            taken_out = list(stored.run(dry_run=False))
            with recording(self._history, Author("forget")):
                found = [*self._steps(ground, editor), *taken_out]
            # Names that forgetting itself recorded.
            list(stored.run(dry_run=False))
            outcome = self._outcome(ground, editor, [*found, *asyncio.run(self._tidy())])
            if outcome.complete:
                finish(self._store.folder)
            return outcome

    def _outcome(self, ground: _Ground, editor: FileEditor, found: Sequence[ForgottenPart | Left]) -> ForgetOutcome:
        done = [each for each in found if isinstance(each, ForgottenPart)]
        left = [each for each in found if isinstance(each, Left)]
        still = self._still_there(ground, editor, [each.path for each in left])
        done.append(ForgottenPart("memory index", "synchronised and rewritten"))
        complete = not any(each.failed for each in left)
        return ForgetOutcome(tuple(done), (*left, *still), complete, dry_run=editor.dry_run)

    # -- what goes ----------------------------------------------------------------------------------------------------

    def _work(self, transcripts: Transcripts, notes: Notes, documents: MemoryDocuments) -> _Work:
        if self._request.session:
            return self._session_work(transcripts, notes)
        path = _note_at(documents, self._request.text)
        if path is not None:
            return self._note_work(notes, path)
        phrase = Phrase(self._request.text)
        if not phrase.is_long_enough:
            raise NothingFoundError(
                f"That is too short: at least {MIN_CHARS} characters are needed.", hint="Give the words to forget."
            )
        return _Work(NoteWork(phrase=phrase), phrase, phrase=phrase, typed=phrase)

    def _note_work(self, notes: Notes, path: Path) -> _Work:
        shown = next((each for each in notes.paths if notes.absolute(each) == path), None)
        if shown is not None:
            lines = WholeLines([notes.text(shown)])
            return _Work(NoteWork(removed=(shown,), quoted=lines), Mentions(lines), quoted=lines)
        if read_forgotten(self._store.folder).unfinished:
            # An interrupted run has already removed it, as its last note.
            return _Work(NoteWork(), WholeLines([]))
        raise NothingFoundError(
            f"There is no note {self._request.text} that can be read.",
            hint="`clawbot memory search` finds notes, and `clawbot memory status` lists what can't be read.",
        )

    def _session_work(self, transcripts: Transcripts, notes: Notes) -> _Work:
        session_id = self._store.find(self._request.session).session_id
        own = transcripts.of_session(session_id)
        for path in own:
            transcripts.lock(path, dry_run=self._request.dry_run)
        kept, writes = notes.of_session(session_id), transcripts.writes(own)
        gone = WholeLines([*map(notes.text, kept), *notes.written(writes)])
        texts, users = transcripts.texts(own)
        seen = Mentions(WholeLines([*map(notes.text, kept), *notes.written(writes), *texts]))
        is_new = session_id not in read_forgotten(self._store.folder).sessions
        note_work = NoteWork(removed=tuple(kept), writes=tuple(writes), quoted=gone, is_new=is_new)
        return _Work(note_work, seen, (session_id,), typed=_Typed(users), quoted=gone)

    # -- the steps ----------------------------------------------------------------------------------------------------

    def _steps(self, ground: _Ground, editor: FileEditor) -> Iterator[ForgottenPart | Left]:
        yield from self._note_down(ground.work, ground.held, editor)
        if not editor.dry_run:
            ground.transcripts.sweep()
        yield from ground.notes.take_out(ground.work.notes, editor)
        if ground.work.typed is not None:
            yield from self._typed(ground.work.typed, ground.transcripts, editor)
        if self._request.transcripts:
            yield from self._redact_others(ground, editor)
        yield from ground.notes.remove(ground.work.notes, editor)
        # Last, because the earlier steps read them.
        for path in ground.own if self._request.transcripts else ():
            yield from ground.transcripts.redact(path, Everything(), editor, quotes=False)

    def _note_down(self, work: _Work, held: Held, editor: FileEditor) -> Iterator[ForgottenPart]:
        """Record what is forgotten of the conversations, before anything else."""
        known = read_forgotten(self._store.folder)
        entries: dict[str, list[str]] = {}
        for path, ids in held.items():
            entries.setdefault(session_of(path.name), []).extend(ids)
            if new := [each for each in ids if not known.holds(path.name, each)]:
                count = f"{len(new)} {'entry' if len(new) == 1 else 'entries'}"
                yield ForgottenPart(f"sessions/{path.name}", f"removed from search and memory, {count}")
        for session in work.sessions:
            if session not in known.sessions:
                yield ForgottenPart(f"sessions/{session}.jsonl", "removed from search and memory, all of it")
        if not editor.dry_run:
            forget(self._store.folder, work.sessions, entries)
        unnamed = work.phrase.holds if work.phrase is not None else lambda _label: False
        labelled = [each for each in self._store.records() if any(map(unnamed, each.names))]
        if labelled:
            yield ForgottenPart("sessions/sessions.json", f"removed, the names of {len(labelled)}")
        index = self._store.bury(unnamed, dry_run=editor.dry_run)
        if labelled and editor.dry_run:
            editor.planned[self._store.folder / INDEX_FILE] = index

    def _typed(
        self, wanted: ForgetTarget, transcripts: Transcripts, editor: FileEditor
    ) -> Iterator[ForgottenPart | Left]:
        """Matching texts in the prompt's history."""
        if isinstance(wanted, Phrase):
            yield from transcripts.unsent(wanted, editor)
        try:
            yield from without_rows(self._paths.history_file, lambda row: wanted.holds(row_text(row)), editor)
        except StubbornFileError as error:
            yield Left(str(self._paths.history_file), str(error), failed=True)

    def _redact_others(self, ground: _Ground, editor: FileEditor) -> Iterator[ForgottenPart | Left]:
        work, transcripts = ground.work, ground.transcripts
        if work.phrase is not None:
            for path in ground.held:
                yield from transcripts.redact(path, work.phrase, editor, quotes=False)
        elif work.quoted is not None:
            for path in transcripts.holding(work.quoted):
                if path not in ground.own:
                    yield from transcripts.redact(path, work.quoted, editor, quotes=True)

    # -- what is left -------------------------------------------------------------------------------------------------

    def _still_there(self, ground: _Ground, editor: FileEditor, reported: Collection[str]) -> Iterator[Left]:
        work = ground.work
        notes = {str(ground.notes.absolute(path)) for path in ground.notes.paths}
        noted = any(str(ground.notes.absolute(path)) in notes for path in reported)
        home, folder = self._paths.home, self._store.folder
        roots = [home] if self._workspace.is_relative_to(home) else [home, self._workspace]
        own = {path for path in folder.glob("*.jsonl*") if session_of(path.name) in work.sessions}
        passed = {
            *(home / "memory").glob("*.sqlite*"),
            *self._history.files,
            *map(ground.notes.absolute, reported),
            *own,
        }
        for path in sorted(own) if not self._request.transcripts else ():
            if path.suffix == ".jsonl" or ".jsonl.reset." in path.name:
                yield Left(str(path), f"all of the conversation; {_IN_TRANSCRIPTS}")
        for left in still_there(roots, work.seen, editor, passed):
            how = "" if left.unseen else self._advice(Path(left.path), work)
            noted = noted or (not left.unseen and left.path in notes)
            yield Left(left.path, "; ".join(part for part in (left.why, how) if part), left.lines)
        if ground.stored.holds(work.seen):
            yield Left(str(self._history.folder), "earlier contents of these notes")
        if noted:
            yield Left(str(self._paths.memory_db(self._agent_id)), "the index of these notes")

    def _advice(self, path: Path, work: _Work) -> str:
        """What the user can do about the remains in `path`."""
        for agent_id in self._settings.agent_ids:
            own = (self._settings.agent(agent_id).workspace, self._paths.sessions(agent_id))
            if agent_id != self._agent_id and any(map(path.is_relative_to, own)):
                return f"--agent {agent_id} forgets it there"
        if self._store.folder not in path.parents or not is_transcript(path.name):
            return _BY_HAND
        if (holder := holder_of(path)) is not None and holder.pid != os.getpid():
            return f"open in process {holder.pid}, which still uses it"
        if work.phrase is None:
            return "also said there: forget it as a phrase" if self._request.transcripts else _IN_TRANSCRIPTS
        return f"a resumed session does not use it; {_IN_TRANSCRIPTS}"

    async def _tidy(self) -> list[Left]:
        """Synchronise and rewrite the indexes; returns what could not be done."""
        left: list[Left] = []
        for agent_id in self._settings.agent_ids:
            try:
                left += await self._tidy_one(agent_id)
            except ClawbotError as error:
                db = self._paths.memory_db(agent_id)
                left.append(Left(str(db), f"{error} Run the command again.", failed=True))
        return left

    async def _tidy_one(self, agent_id: str) -> Sequence[Left]:
        """Raises ClawbotError."""
        index = open_index(self._settings, agent_id, self._paths, self._clock)
        if index is None:
            db = self._paths.memory_db(agent_id)
            return [Left(str(db), "the index is switched off; delete it")] if db.exists() else []
        name = str(index.location or f"the memory index of {agent_id}")
        try:
            if not index.built and agent_id != self._agent_id:
                return []
            for _ in range(_BUSY_TRIES):
                if not (await index.sync()).busy:
                    break
                await asyncio.sleep(_BUSY_SECONDS)
            else:
                return [Left(name, "another process writes it; run the command again", failed=True)]
            if not await index.scrub():
                return [Left(f"{name}-wal", "another process reads it; run the command again", failed=True)]
            return []
        finally:
            await index.close()


class _Typed:
    """Texts exactly as they were typed."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(map(plain, texts))

    def holds(self, text: str) -> bool:
        return bool(text.strip()) and plain(text) in self._texts


def _note_at(documents: MemoryDocuments, text: str) -> Path | None:
    """The note with the path `text`, existing or not; None for other text. Raises ForbiddenPathError for the path of a
    file that is not a note."""
    is_path = len(text.split()) == 1 and text.lower().endswith(SUFFIXES)
    try:
        path = documents.locate(text)
    except ForbiddenPathError:
        if is_path and "/" in text:
            raise
        return None
    return path if is_path or path.is_file() else None


def _nothing(request: Request) -> NothingFoundError:
    what = request.session or request.text
    return NothingFoundError(
        f"Nothing holds {what!r}: no note, no conversation.",
        hint="Only exact words match: `clawbot memory search` finds similar text and shows its wording.",
    )
