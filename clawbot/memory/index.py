"""The builtin memory index: search, read, sync, status, verify. Its methods never block the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.memory.backend import FileBackend, IndexContext, IndexUnavailableError
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.protocol import EmbeddingError
from clawbot.memory.search.search_pool import SearchPool
from clawbot.memory.search.searcher import Searcher, search_mode
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError, StoreError
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import Identity, Totals
from clawbot.memory.store.replacement import SIDE_FILES, building_path
from clawbot.memory.sync.round import known_files
from clawbot.memory.sync.synchroniser import Synchroniser
from clawbot.memory.sync.watcher import SyncReminder
from clawbot.memory.values import (
    BuiltinDetails,
    CacheStatus,
    IndexStatus,
    Issue,
    Part,
    Probe,
    Progress,
    ReportProgress,
    Reranker,
    SearchRequest,
    SearchResult,
    Source,
    SourceCount,
    SyncReport,
    VerifyReport,
    split_part,
)

log = logging.getLogger(__name__)

AUTO = "auto"
"""The setting of the provider that uses whatever is available."""

REVIEWED_FILES = 500
"""Maximum number of unindexed files read to report why: a tenth of a second."""

MAX_WARNINGS = 3
"""Unreadable paths named in a search result; the status lists all."""


class MemoryIndex(FileBackend):
    """The backend `builtin`: an SQLite index over the words and vectors of each line, or of chunks of text."""

    def __init__(
        self, context: IndexContext, handle: EmbedderHandle, *, long_lived: bool = False, rerank: Reranker | None = None
    ) -> None:
        """The index of `context`, with vectors from `handle`. Opens nothing yet.

        `long_lived`: more than one search is expected, by a user who should not wait. `rerank` is used if the settings
        ask for it.
        """
        super().__init__(context.documents)
        self._context = context
        self._handle = handle
        self._sync = Synchroniser(context, handle)
        self._sync.on_progress = self._progressed
        self._pool = SearchPool(context)
        self._searcher = Searcher(context, handle, self._sync, self._pool, rerank, long_lived=long_lived)
        self._searcher.query_embedder.on_arrival = self._vector_arrived
        self._arrivals = 0
        self._reminder = SyncReminder(context.library.sources, context.settings.sync, self._sync.request)
        self._closed = False

    @property
    def generation(self) -> int:
        """Grows when the same search may have other results than before: the index has changed (through any process),
        or the vector of an earlier query has arrived late."""
        return self._sync.generation + self._arrivals

    @property
    def location(self) -> Path:
        return self._context.db

    @property
    def built(self) -> bool:
        return self._context.db.exists()

    async def search(self, request: SearchRequest, building: ReportProgress | None = None) -> SearchResult:
        """Return the best results. Any text is a valid query; one without meaningful words has no results.

        Waits up to `query.wait_for_writes` for earlier writes, and adds a warning if that was not enough; after
        `query.timeout` it returns what it has. If not long-lived, it waits just as long for the embedding provider and
        up to `query.wait_for_vectors` for missing vectors; an incomplete index is built first, with `building` called
        with the progress. Raises IndexUnavailableError.
        """
        if self._closed:
            raise IndexUnavailableError("The memory index is closed.")
        result = await self._searcher.search(request, building)
        warnings = tuple(_hidden_warnings(self._context.library.hidden))
        return msgspec.structs.replace(result, warnings=(*result.warnings, *warnings)) if warnings else result

    async def sync(self, *, force: bool = False, progress: ReportProgress | None = None) -> SyncReport:
        """Synchronise the index, vectors included, with the current files; `force` rebuilds it.

        Searches continue during it. Raises ClawbotError if it can't be written or is closed first.
        """
        result = await self._sync.request(force=force, progress=progress).complete
        if isinstance(result, ClawbotError):
            raise result
        return result

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Return the content and condition of the index; `deep` also sends one word to the embedding provider."""
        await self._handle.open()
        holdings, issues = await self._holdings()
        scan = await asyncio.to_thread(Scan.of, self._context)
        probe = await self._probe() if deep else None
        found = describe(self._context, self._handle, holdings, scan)
        return msgspec.structs.replace(
            found,
            busy=self._sync.busy,
            embedding_probe=probe,
            rerank_problem=await self._searcher.rerank_problem(),
            issues=(*issues, *self._own_issues(), *found.issues),
        )

    @property
    def problem(self) -> str:
        """Which vectors are unavailable now; empty if all is well, or if none were needed so far."""
        fallback = self._handle.fallback
        return f"words only: {fallback.reason}" if fallback is not None else ""

    async def probe(self, *, deep: bool = True) -> str:
        """Why the configured embedding provider can't be used; empty if it can, or if none is configured.

        With `deep`, one word is sent to a remote provider. What `auto` does without is not a failure.
        """
        await self._handle.open()
        if deep and self._handle.remote:
            await self._probe()
        return "" if self._handle.requested == AUTO else self.problem

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Compare the files with the chunks, and these with their words and vectors; `fix` repairs only the
        differences.

        Raises ClawbotError if the index can't be read or, with `fix`, written.
        """
        # Deferred: what only this command needs.
        from clawbot.memory.sync.maintenance import check

        embedder = await self._handle.open()
        report = await self._sync.between_rounds(lambda: check(self._context, embedder, fix=fix))
        if fix and report.fixed:
            await self.sync()
        return report

    async def scrub(self) -> bool:
        """Erase what the index held of deleted text; False if a reader kept its log. Also drops cached embeddings,
        since they can't be traced to a text. Raises ClawbotError."""
        # Deferred: what only this command needs.
        from clawbot.memory.sync.maintenance import scrub

        return await self._sync.between_rounds(lambda: scrub(self._context))

    def start(self) -> None:
        """Start watching the files and syncing in the background. Needs a running loop."""
        self._reminder.start()

    async def close(self) -> None:
        """Stop within a second; the next process continues from there.

        Never fails: the index can be rebuilt, so errors are only logged.
        """
        self._closed = True
        await _ended(self._reminder.stop())
        await asyncio.gather(_ended(self._sync.close()), _ended(self._searcher.close()))
        await _ended(self._pool.close())
        await _ended(self._handle.aclose())

    def _progressed(self, progress: Progress | None) -> None:
        self._searcher.progress = progress
        if self.on_progress is not None:
            self.on_progress(progress)

    def _vector_arrived(self) -> None:
        self._arrivals += 1
        self._progressed(self._searcher.progress)

    def _own_issues(self) -> tuple[Issue, ...]:
        """Issues of the index itself and of watching its files."""
        found = [Issue(str(self._context.db), str(self._sync.error))] if self._sync.error else []
        if self._reminder.problem:
            found.append(Issue(str(self._context.workspace), self._reminder.problem))
        return tuple(found)

    async def _holdings(self) -> tuple[Holdings, tuple[Issue, ...]]:
        """Return the content of the index. If it can't be read, it is examined; damage becomes an issue."""
        issues: tuple[Issue, ...] = ()
        try:
            return await self._pool.read(Holdings.of), issues
        except MissingIndexError:
            # Not built yet.
            return Holdings(), issues
        except DamagedIndexError as error:
            issues = (Issue(str(self._context.db), str(error)),)
        except StoreError:
            raise
        except Exception:
            log.exception("the state of the memory index could not be read; it is examined")
        await asyncio.wait([self._sync.doubt().text], timeout=self._context.settings.query.wait_for_writes)
        if self._sync.quarantined is not None:
            issues = (Issue(str(self._context.db), str(self._sync.quarantined)),)
            self._sync.quarantined = None
        with contextlib.suppress(MissingIndexError, DamagedIndexError):
            return await self._pool.read(Holdings.of), issues
        return Holdings(), issues

    async def _probe(self) -> Probe:
        started = self._context.clock.monotonic()
        try:
            await self._handle.embed(["memory"], "query")
        except EmbeddingError as error:
            return Probe(ok=False, error=str(error), seconds=self._context.clock.monotonic() - started)
        return Probe(ok=True, seconds=self._context.clock.monotonic() - started)


async def _ended(end: Awaitable[None]) -> None:
    try:
        await end
    except Exception:
        log.exception("a part of the memory index did not end well")


def _hidden_warnings(issues: Sequence[Issue]) -> Iterator[str]:
    for issue in issues[:MAX_WARNINGS]:
        yield f"{issue.path} could not be read ({issue.text}): its last known version is searched."
    if len(issues) > MAX_WARNINGS:
        yield f"{len(issues) - MAX_WARNINGS:,} more paths could not be read."


class Holdings(Struct, frozen=True):
    """The content of an index and how it was built. Empty for an index that does not exist yet."""

    totals: Mapping[Source, Totals] = {}
    identity: Identity | None = None
    last_sync: dt.datetime | None = None
    cached: int = 0

    @classmethod
    def of(cls, reader: IndexReader) -> Holdings:
        """Read them from an index. Blocks."""
        with reader.snapshot():
            return cls(reader.totals(), reader.identity, reader.last_sync, reader.cache_count())

    @property
    def total(self) -> Totals:
        counts = [msgspec.structs.astuple(total) for total in self.totals.values()]
        return Totals(*(sum(figures) for figures in zip(*counts, strict=True)))


class Scan(Struct, frozen=True):
    """The files on disk: their number by source, whether the index is outdated, and their issues."""

    files: Mapping[Source, int]
    dirty: bool
    disk_bytes: int
    building: bool
    issues: tuple[Issue, ...]

    @classmethod
    def of(cls, context: IndexContext) -> Scan:
        """Scan the files now. Blocks."""
        library = context.library
        counts: dict[Source, int] = dict.fromkeys(library.names, 0)
        for state in library.list().files:
            counts[state.source] += split_part(state.path)[1] == 0
        building = building_path(context.db)
        if library.is_stale() is None:
            library.remember(known_files(context.db))
        if context.db.exists():
            library.review(REVIEWED_FILES)
        stale = library.is_stale(surely=True)
        return cls(counts, stale is not False, _disk_bytes(context.db), building.exists(), library.issues)


def describe(context: IndexContext, handle: EmbedderHandle, holdings: Holdings, scan: Scan) -> IndexStatus:
    """Return the status of an index, without what only the running process knows."""
    settings, total, identity = context.settings, holdings.total, holdings.identity
    embedder, kept = handle.embedder, settings.cache
    details = BuiltinDetails(
        db_path=str(context.db),
        profile=settings.profile,
        dimensions=identity.dimensions if identity else 0,
        vector=Part(available=not handle.problem, error=handle.problem or None),
        cache=CacheStatus(kept.enabled, holdings.cached, kept.max_entries) if handle.remote else None,
    )
    return IndexStatus(
        provider=handle.provider,
        requested_provider=handle.requested,
        model=handle.model,
        remote=handle.remote,
        address=handle.address,
        mode=search_mode(with_vectors=embedder is not None and total.vectors > 0, hybrid=settings.query.hybrid.enabled),
        files=total.files,
        total_files=sum(scan.files.values()),
        chunks=total.chunks,
        vectors=total.vectors,
        tokens=total.tokens,
        text_bytes=total.bytes,
        disk_bytes=scan.disk_bytes,
        workspace_dir=str(context.workspace),
        identity=_in_words(identity),
        dirty=scan.dirty,
        rebuilding=scan.building,
        pending_vectors=total.pending if handle.wanted else 0,
        last_sync=holdings.last_sync,
        sources=context.library.names,
        extra_paths=tuple(str(extra.path) for extra in settings.extra_paths),
        source_counts=tuple(_count(name, holdings, scan) for name in context.library.names),
        fallback=handle.fallback,
        issues=scan.issues,
        details=msgspec.to_builtins(details),
    )


def _count(name: Source, holdings: Holdings, scan: Scan) -> SourceCount:
    total = holdings.totals.get(name, Totals())
    return SourceCount(name, total.files, scan.files[name], total.chunks)


def _in_words(identity: Identity | None) -> str:
    if identity is None:
        return "not built yet"
    vectors = f"{identity.provider} {identity.model}" if identity.vectors else "no vectors"
    size = f", {identity.dimensions} dimensions" if identity.dimensions else ""
    sources = " and ".join(identity.sources)
    return f"{identity.profile} {identity.chunker}, tokenizer {identity.tokenizer}, {vectors}{size}, {sources}"


def _disk_bytes(db: Path) -> int:
    total = 0
    for path in (db, building_path(db)):
        for suffix in ("", *SIDE_FILES):
            try:
                total += path.with_name(f"{path.name}{suffix}").stat().st_size
            except OSError:
                continue
    return total
