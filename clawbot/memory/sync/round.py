"""The disk work of one sync round: from the writer's lock to the published index.

All of it blocks and belongs on the writer's thread; between the calls the caller may stop, embed, or start over.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clawbot.memory.backend import IndexContext
from clawbot.memory.chunking.chunks import CHUNKER_VERSION
from clawbot.memory.documents.indexed_text import indexing_rule
from clawbot.memory.documents.library import Library, Plan, make_plan
from clawbot.memory.embeddings.embedding_text import EMBEDDING_TEXT_VERSION
from clawbot.memory.embeddings.protocol import Embedder, Vectors
from clawbot.memory.store.database import file_mark, open_for_reading
from clawbot.memory.store.errors import BusyIndexError, DamagedIndexError, MissingIndexError, StoreError
from clawbot.memory.store.locks import WriterLock, may_be_unsound, opening
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import Identity, KnownFile, PendingChunk
from clawbot.memory.store.replacement import (
    Quarantined,
    building_path,
    discard_building,
    open_index,
    open_trusted,
    publish,
)
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync.text_phase import Pace, SyncCounts, TextPhase
from clawbot.memory.values import Issue, ReportProgress, SyncReport
from clawbot.text.tokens import TOKENIZER_VERSION

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings

log = logging.getLogger(__name__)

LOCK_SECONDS = 0.5
"""How long to wait for another writing process."""

_MEANING = " #"


def wanted_identity(settings: MemorySearchSettings, library: Library, embedder: Embedder | None) -> Identity:
    """Return the identity of an index of the current code and settings, without vectors if there is no embedder."""
    rule = settings.chunking
    sizes = (rule.tokens, rule.overlap) if settings.profile == "classic" else (rule.piece_chars, rule.code_chars)
    return Identity(
        profile=settings.profile,
        chunker=f"{CHUNKER_VERSION} {sizes[0]}/{sizes[1]} {indexing_rule()}",
        tokenizer=str(TOKENIZER_VERSION),
        provider=embedder.provider if embedder else "none",
        model=embedder.model if embedder else "",
        vectors=f"{embedder.identity}{_MEANING}{EMBEDDING_TEXT_VERSION}" if embedder else "",
        sources=library.names,
    )


def effective_identity(known: Identity | None, wanted: Identity) -> Identity:
    """`wanted`, but with existing vectors kept: losing the provider is no reason to drop them."""
    if known is None:
        return wanted
    if wanted.vectors:
        return msgspec.structs.replace(wanted, dimensions=known.dimensions)
    vectors = {name: getattr(known, name) for name in ("provider", "model", "vectors", "dimensions")}
    return msgspec.structs.replace(wanted, **vectors)


def needs_rebuild(known: Identity, wanted: Identity) -> bool:
    """Return whether a sync can't turn an index of `known` into one of `wanted`."""
    if known.text_part != wanted.text_part:
        return True
    return known.dimensions > 0 and bool(wanted.vectors) and known.vector_part != wanted.vector_part


def same_vectors(identity: Identity, embedder: str) -> bool:
    """Return whether the vectors of an index are comparable with those of the embedder `embedder`."""
    return identity.dimensions > 0 and identity.vectors.rpartition(_MEANING)[0] == embedder


class KnownFiles:
    """The files of an index as the last round left them, so that the next one need not read them all. For one thread at
    a time."""

    def __init__(self) -> None:
        self._state: tuple[object, ...] = ()
        self._files: Mapping[str, KnownFile] = {}

    def of(self, index: IndexWriter) -> Mapping[str, KnownFile]:
        """The files of `index`: those kept, if it has not changed since. Others may have touched some: these are then
        compared once more."""
        if self.are_of(index):
            index.expect(self._files)
        return index.known()

    def are_of(self, index: IndexWriter) -> bool:
        """Return whether those kept are the files of `index` now."""
        return self._state == _state_of(index)

    def keep(self, index: IndexWriter) -> None:
        self._state, self._files = _state_of(index), index.known()


def _state_of(index: IndexWriter) -> tuple[object, ...]:
    return index.path, *file_mark(index.path), index.generation


class Round:
    """One round. Call `open` or `check` first, and `close` last in any case."""

    def __init__(
        self,
        context: IndexContext,
        embedder: Embedder | None,
        should_stop: Callable[[], bool],
        *,
        wants_vectors: bool,
        doubted: bool = False,
        known: KnownFiles | None = None,
    ) -> None:
        """`wants_vectors`: chunks should get vectors, even if there is no embedder now. `doubted`: somebody read
        invalid data, so the index must be examined. `known` are the files as the round before left them.

        `last_sync` is the time of the last sync by any process, as known to this round. `quarantined` is an unusable
        index that was moved aside.
        """
        self.rebuilding = False
        self.last_sync: datetime | None = None
        self.quarantined: Quarantined | None = None
        self._doubted = doubted
        self._known = known or KnownFiles()
        self._context = context
        self._remote = embedder is not None and embedder.remote
        self._wanted = wanted_identity(context.settings, context.library, embedder)
        self._should_stop = should_stop
        self._wants_vectors = wants_vectors
        self._lock: WriterLock | None = None
        self._done = SyncCounts()
        self._writer: IndexWriter | None = None
        self._live: IndexWriter | None = None
        self._old: IndexReader | None = None
        self._pending = 0
        self._unpublished = False
        self._dimensions = 0
        self._plan: Plan | None = None

    @property
    def writer(self) -> IndexWriter:
        """The writer of the index. Raises RuntimeError before `open`."""
        if self._writer is None:
            raise RuntimeError("the round is not open")
        return self._writer

    def check(self, *, ready: bool) -> SyncReport | None:
        """Return the report if there is nothing to do, else None. Needs no lock.

        `ready`: pending chunks could get their vectors now.
        """
        context = self._context
        if self._doubted or building_path(context.db).exists() or may_be_unsound(context.db):
            return None
        try:
            with _read_only(context.db) as index:
                identity, known, pending = index.identity, self._known.of(index), index.pending_count()
                self._known.keep(index)
                self.last_sync = index.last_sync
        except (MissingIndexError, DamagedIndexError):
            return None
        plan = self._plan = self._made_plan(known)
        if identity != effective_identity(identity, self._wanted) or not plan.is_empty or (pending and ready):
            return None
        context.library.remember(known)
        waiting = pending if self._wants_vectors else 0
        return SyncReport(unchanged=plan.unchanged, pending_vectors=waiting, issues=context.library.issues)

    def open(self, *, force: bool, dimensions: int = 0) -> None:
        """Acquire the writer's lock and open the index to write. Raises BusyIndexError, StoreError.

        A damaged, foreign or newer index is quarantined. An interrupted rebuild continues. `dimensions` are those of
        the embedder, if known: vectors of other sizes are not reused.
        """
        self._dimensions = dimensions
        db = self._context.db
        self._lock = WriterLock(db)
        self._lock.acquire(LOCK_SECONDS)
        doubted = self._doubted or not self._lock.is_sealed()
        self._doubted = True
        live, self.quarantined = open_index(db, self._context.clock.now(), doubted=doubted)
        self._doubted = False
        self._writer = live
        # Another process may have indexed files that were written after `check` listed them.
        self._plan = self._plan if self._known.are_of(live) else None
        self._known.of(live)
        if self.quarantined is not None:
            log.warning("%s", self.quarantined)
        known = live.identity
        wanted = self._wanted = effective_identity(known, self._wanted)
        begun = known is not None and self._begun_rebuild(wanted)
        if known is None or not (force or begun or needs_rebuild(known, wanted)):
            discard_building(db)
            if known != wanted:
                live.set_identity(wanted)
        else:
            self._plan = None
            self._refuse_to_empty(live)
            self._begin_rebuild(live, known, force=force)
        self._context.cache.table = self.writer.cache

    def write_text(self, report: ReportProgress) -> bool:
        """Write the text of all changed files; False if stopped. Raises StoreError."""
        if self._live is not None and not self._write(self._live, SyncCounts(), lambda progress: None):
            return False
        if not self._write(self.writer, self._done, report):
            return False
        # Already here, so that searches need not wait for vectors.
        self._context.library.remember(self.writer.known())
        return True

    @property
    def files_changed(self) -> int:
        """The number of files added, changed or removed so far."""
        return self._done.added + self._done.changed + self._done.removed

    def put_vectors(self, chunks: list[PendingChunk], vectors: Vectors) -> int:
        """Store vectors; returns for how many chunks. Raises StoreError."""
        with self.writer.transaction():
            stored = self.writer.put_vectors(chunks, vectors)
        self._done.pieces_embedded += stored
        return stored

    def finish(self) -> bool:
        """Record completion, and publish a new index; False if stopped before."""
        if self._should_stop():
            return False
        writer = self.writer
        self.last_sync = self._context.clock.now()
        writer.finish(self.last_sync)
        writer.cache.prune(self._context.settings.cache.max_entries)
        self._known.keep(writer)
        self._pending = writer.pending_count()
        if self.rebuilding:
            self._close_all()
            try:
                publish(self._context.db)
            except BusyIndexError as error:
                log.info("%s", error)
                self._unpublished = True
        return True

    def report(self, seconds: float) -> SyncReport:
        """Return the report of what was done."""
        moved = self.quarantined
        set_aside = [Issue(self._context.db.name, str(moved))] if moved is not None else []
        return SyncReport(
            **msgspec.structs.asdict(self._done),
            pending_vectors=self._pending if self._wants_vectors else 0,
            rebuilt=self.rebuilding and not self._unpublished,
            busy=self._unpublished,
            issues=(*set_aside, *self._context.library.issues),
            seconds=seconds,
        )

    def close(self) -> None:
        """Close everything and release the lock."""
        try:
            self._close_all()
            if self._lock is not None and self._doubted:
                self._lock.break_seal()
            elif self._lock is not None:
                self._lock.seal()
        finally:
            if self._lock is not None:
                self._lock.release()

    def _begun_rebuild(self, wanted: Identity) -> bool:
        """Return whether a rebuild to `wanted` was interrupted."""
        path = building_path(self._context.db)
        if not path.exists():
            return False
        try:
            index = open_trusted(path)
        except DamagedIndexError:
            return False
        begun = index.identity
        index.close()
        return begun is not None and not needs_rebuild(begun, wanted) and self._fits(begun)

    def _fits(self, identity: Identity) -> bool:
        """Return whether the vectors of an index of `identity` have the embedder's size."""
        return not self._dimensions or identity.dimensions in (0, self._dimensions)

    def _refuse_to_empty(self, live: IndexWriter) -> None:
        """Raise StoreError if a rebuilt index would be empty only because no file can be read."""
        listing = self._context.library.list()
        if listing.hidden and not listing.files and live.known():
            issue = next(iter(listing.hidden.values()))
            raise StoreError(
                f"The memory index is not rebuilt: {issue.path}: {issue.text}.",
                hint="Until the files are back, the old index is used.",
            )

    def _begin_rebuild(self, live: IndexWriter, known: Identity, *, force: bool) -> None:
        """Open the new index next to the `live` one, continuing an interrupted rebuild."""
        path = building_path(self._context.db)
        if not self._begun_rebuild(self._wanted):
            discard_building(self._context.db)
        self.rebuilding = True
        if known.text_part == self._wanted.text_part:
            self._live = live
        else:
            live.close()
        building = self._writer = IndexWriter.open(path)
        building.set_identity(self._wanted)
        # A forced rebuild may be meant for the vectors. Remote ones cost money and are reused anyway, except those of a
        # model that changed behind its name.
        if (self._remote or not force) and self._fits(known):
            self._old = IndexReader(self._context.db)
            building.inherit(self._old)

    def _write(self, writer: IndexWriter, done: SyncCounts, report: ReportProgress) -> bool:
        context = self._context
        # That of `check` is new enough for the requests that were there before it.
        plan, self._plan = self._plan or self._made_plan(writer.known()), None
        todo = plan.to_read
        pace = Pace("text", "files", context.clock, total=len(todo), weight=sum(state.size + 1 for state in todo))
        phase = TextPhase(writer, context.library, context.settings, done)
        return phase.run(plan, lambda files, size: report(pace.step(files, size + 1)), self._should_stop)

    def _made_plan(self, known: Mapping[str, KnownFile]) -> Plan:
        listing = self._context.library.list()
        return make_plan(listing.files, known, listing.hidden)

    def _close_all(self) -> None:
        self._context.cache.table = None
        for index in (self._writer, self._live, self._old):
            if index is not None:
                index.close()
        self._writer = self._live = self._old = None


def known_files(db: Path) -> dict[str, KnownFile]:
    """Return the files in the index at `db`; none if it does not exist. Blocks. Raises StoreError."""
    try:
        with _read_only(db) as index:
            return index.known()
    except (MissingIndexError, DamagedIndexError):
        return {}


@contextlib.contextmanager
def _read_only(path: Path) -> Iterator[IndexWriter]:
    """A read-only view of an index. Raises MissingIndexError, DamagedIndexError, StoreError."""
    if not path.exists():
        raise MissingIndexError(f"There is no memory index at {path} yet.")
    with opening(path):
        index = IndexWriter(open_for_reading(path), path)
    try:
        yield index
    finally:
        index.close()
