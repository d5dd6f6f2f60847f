"""One search from request to result: detects changed files, waits for earlier writes and vectors, ranks, and collects
warnings.

Files are scanned on a separate thread that nobody has to wait for: a hanging network share may block it forever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexContext, IndexUnavailableError
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.search.protocols import reranked
from clawbot.memory.search.search_pool import FoundRanking, QueryEmbedder, QueryVectors, SearchPool
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError, StoreError
from clawbot.memory.store.locks import may_be_unsound
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.sync.synchroniser import Synchroniser, Ticket
from clawbot.memory.values import (
    MAX_QUERIES,
    Fallback,
    Hit,
    Mode,
    Progress,
    ReportProgress,
    Reranker,
    SearchRequest,
    SearchResult,
)
from clawbot.text.interface import N_

if TYPE_CHECKING:
    from clawbot.memory.search.protocols import Ranked


log = logging.getLogger(__name__)

T = TypeVar("T")

Jobs = SimpleQueue["Callable[[], None] | None"]
"""The work of a thread; None ends it."""


class OwnThreads:
    """Runs work that may hang, such as a check of a dead mount, on threads that nobody waits for. The last one that
    became free is kept for the next work: starting one stops the event loop until it runs. Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._spare: Jobs | None = None
        self._closed = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Return the result of `work`; exceptions are logged."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        jobs, self._spare = self._spare or _begin_thread(), None

        def done(settle: Callable[[], None]) -> None:
            if not future.done():
                settle()
            self._free(jobs)

        def job() -> None:
            try:
                found = work()
            except Exception as error:
                log.exception("the files could not be scanned")
                failed = error
                loop.call_soon_threadsafe(done, lambda: future.set_exception(failed))
            else:
                loop.call_soon_threadsafe(done, lambda: future.set_result(found))

        jobs.put(job)
        return future

    def _free(self, jobs: Jobs) -> None:
        if self._spare is None and not self._closed:
            self._spare = jobs
        else:
            jobs.put(None)

    def close(self) -> None:
        """End the thread that waits for work."""
        self._closed = True
        if self._spare is not None:
            self._spare.put(None)


def _begin_thread() -> Jobs:
    jobs: Jobs = SimpleQueue()

    def work_off() -> None:
        # The event loop was closed in between: nobody will send more work.
        with contextlib.suppress(RuntimeError):
            while (job := jobs.get()) is not None:
                job()

    threading.Thread(target=work_off, name="memory-check", daemon=True).start()
    return jobs


class LateScanError(Exception):
    """A scan did not finish in time."""


class StaleScan:
    """One scan at a time, shared by all callers. Belongs to the event loop."""

    def __init__(
        self, scan: Callable[[], bool | None], on_late: Callable[[], object], threads: OwnThreads | None = None
    ) -> None:
        """`scan` blocks; `on_late` is called when a scan finishes after a caller has given up on it."""
        self._threads = threads or OwnThreads()
        self._scan = scan
        self._on_late = on_late
        self._running: asyncio.Future[bool | None] | None = None
        self._begun = 0
        self._given_up = False

    async def result(self, seconds: float) -> bool | None:
        """Return the result of a scan that starts after this call. Raises LateScanError after `seconds`, and whatever
        `scan` raises.

        A running scan may have missed recent writes: it is awaited and followed by another one.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        earlier = self._begun
        while True:
            running = self._running or self._begin()
            sees_all = self._begun > earlier
            await asyncio.wait([running], timeout=max(0.0, end - loop.time()))
            if not running.done():
                self._given_up = True
                raise LateScanError
            if sees_all:
                return running.result()

    def _begin(self) -> asyncio.Future[bool | None]:
        future = self._threads.run(self._scan)
        # Registered first, so that waiting callers find the scan finished.
        future.add_done_callback(self._over)
        self._running, self._given_up = future, False
        self._begun += 1
        return future

    def _over(self, future: asyncio.Future[bool | None]) -> None:
        self._running = None
        # Already logged: keeps asyncio from complaining if nobody waits.
        future.exception()
        if self._given_up:
            self._on_late()


WORTH_WAITING = 2_000
"""At most this many vectors are computed within a search's usual waiting time; for more it does not wait."""

FEW_PENDING = 50
"""Up to this many chunks without a vector need no warning."""

MIN_SCAN_SECONDS = 0.1
"""Minimum time for a scan even if a search must not wait for writes: otherwise every search would miss some."""

CHECK_SECONDS = 0.5
"""Time limit for checking that the quoted files still exist."""

PATIENT_SECONDS = 10.0
"""Time limit for reading the index on the command line, however long it waited for the provider before."""

LATE_VECTOR = N_("The vector of the question was not ready in time.")
"""Why a result is by words alone although the embedding provider has not failed."""

OTHER_SIZE = N_("The model's vectors have another size than those in the index: run `clawbot memory index --force`.")


class Searcher:
    """Searches one index. Belongs to the event loop.

    `progress` is that of a running sync, set by the owner; None if none runs. `query_embedder` computes the vectors of
    questions.
    """

    def __init__(
        self,
        context: IndexContext,
        handle: EmbedderHandle,
        sync: Synchroniser,
        pool: SearchPool,
        rerank: Reranker | None = None,
        *,
        long_lived: bool,
    ) -> None:
        """`long_lived`: a user types more searches; otherwise a single one may take longer."""
        self.progress: Progress | None = None
        self._keeps_vectors = long_lived
        self._patient = not long_lived
        self._context = context
        self._query = context.settings.query
        self._handle = handle
        self.query_embedder = QueryEmbedder(handle, self._query.timeout, patient=self._patient)
        self._sync = sync
        self._threads = OwnThreads()
        self._stale = StaleScan(self._is_stale, sync.request, self._threads)
        self._pool = pool
        self._rerank = rerank if self._query.rerank != "off" else None

    async def search(self, request: SearchRequest, building: ReportProgress | None = None) -> SearchResult:
        """Return the best results; see `MemoryIndex.search`. Raises IndexUnavailableError."""
        clock = self._context.clock
        end = clock.monotonic() + self._query.timeout
        asking = self.query_embedder.ask(request.queries[:MAX_QUERIES])
        late, asked = await asyncio.gather(self._freshen(building), asking)
        seconds = max(PATIENT_SECONDS if self._patient else 0.0, end - clock.monotonic())
        found = await self._find(request, asked, seconds)
        ranked = await self._results(request, found)
        hits = await self._there(ranked.hits) if ranked else ()
        if self._keeps_vectors:
            self._pool.keep_vectors()
        # A process that has searched once is likely to search again.
        self._keeps_vectors = True
        with_vectors = found is not None and found.with_vectors
        return SearchResult(
            hits=hits,
            mode=search_mode(with_vectors=with_vectors, hybrid=self._query.hybrid.enabled),
            provider=self._handle.provider if with_vectors else "none",
            model=self._handle.model if with_vectors else "",
            fallback=None if with_vectors else self._fallback(asked, found),
            partial=late or ranked is None or ranked.partial,
            warnings=(*(ranked.warnings if ranked else ()), *self._warnings(late=late)),
            evidence=ranked.evidence if ranked and hits else "weak",
        )

    async def _freshen(self, building: ReportProgress | None) -> bool:
        """Wait for earlier writes to be indexed; returns whether some are still missing after the time limit."""
        if self._patient and await self._has_nothing_old():
            return await self._build(building)
        if not self._context.settings.sync.on_search:
            return False
        limit = self._query.wait_for_writes
        loop = asyncio.get_running_loop()
        end = loop.time() + limit
        try:
            is_stale = await self._stale.result(max(limit, MIN_SCAN_SECONDS))
            if is_stale is False and self._sync.error is None:
                await self._go_on_with_vectors()
                return False
        except LateScanError:
            return True
        ticket = self._sync.request()
        await asyncio.wait([ticket.text], timeout=max(0.0, end - loop.time()))
        if not ticket.text.done():
            return True
        if self._patient:
            await self._wait_for_vectors(ticket)
        elif not self._handle.remote and self._sync.pending <= WORTH_WAITING:
            # Local vectors take little time.
            await asyncio.wait([ticket.complete], timeout=max(0.0, end - loop.time()))
        return ticket.text.result() is not None or self._sync.busy

    async def _has_nothing_old(self) -> bool:
        """Return whether the index was never complete: missing results would then mean nothing."""
        try:
            return await self._pool.read(lambda reader: reader.last_sync) is None
        except (MissingIndexError, DamagedIndexError):
            return True
        except StoreError:
            return False

    async def _build(self, progress: ReportProgress | None) -> bool:
        """Index everything, however long it takes; returns whether something is still missing."""
        ticket = self._sync.request(progress=progress)
        error = await ticket.text
        await self._wait_for_vectors(ticket)
        return error is not None or self._sync.busy

    async def _go_on_with_vectors(self) -> None:
        """Compute for a while the vectors that an earlier process left pending."""
        if self._patient and not self._sync.running:
            with contextlib.suppress(MissingIndexError, DamagedIndexError, StoreError):
                self._sync.pending = await self._pool.read(_pending)
            if self._sync.pending and not self._handle.remote:
                await self._wait_for_vectors(self._sync.request())

    async def _wait_for_vectors(self, ticket: Ticket) -> None:
        """Wait for a while for local vectors."""
        await self._handle.open()
        if not self._handle.remote:
            await asyncio.wait([ticket.complete], timeout=self._query.wait_for_vectors)

    def _is_stale(self) -> bool | None:
        return may_be_unsound(self._context.db) or self._context.library.is_stale()

    async def close(self) -> None:
        """Cancel vectors still being computed."""
        self._threads.close()
        await self.query_embedder.close()

    def _fallback(self, asked: QueryVectors, found: FoundRanking | None) -> Fallback | None:
        """Why vectors were not used, unless none are configured."""
        reason = LATE_VECTOR if asked.late else OTHER_SIZE if found is not None and found.other_size else ""
        return self._handle.fallback or (Fallback(self._handle.provider, reason) if reason else None)

    async def _find(self, request: SearchRequest, asked: QueryVectors, seconds: float) -> FoundRanking | None:
        """Search the index. Raises IndexUnavailableError."""
        exact = not self._sync.running
        try:
            try:
                return await self._pool.rank(request, asked, seconds, exact=exact)
            except MissingIndexError:
                ticket = self._sync.request()
            except DamagedIndexError:
                ticket = self._sync.doubt()
            except StoreError:
                raise
            except Exception:
                log.exception("the memory index could not be searched; it is examined")
                ticket = self._sync.doubt()
            # The sync rebuilds it, possibly in time.
            await asyncio.wait([ticket.text], timeout=min(seconds, self._query.wait_for_writes))
            return await self._pool.rank(request, asked, seconds, exact=exact)
        except (MissingIndexError, DamagedIndexError) as error:
            if self._sync.running or self._sync.error is None:
                return None
            raise _unavailable(self._sync.error) from error
        except StoreError as error:
            raise _unavailable(error) from error
        except Exception as error:
            log.exception("the memory index could not be searched")
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            raise IndexUnavailableError(f"The memory index could not be searched ({reason}).") from error

    async def _results(self, request: SearchRequest, found: FoundRanking | None) -> Ranked | None:
        if found is None:
            return None
        if self._rerank is None or not request.queries:
            return found.ranked
        return await reranked(self._rerank, request.queries, found.ranking)

    async def rerank_problem(self) -> str:
        """Why the configured model does not order results; empty if it does, or if none is configured."""
        return await self._rerank.problem() if self._rerank is not None else ""

    async def _there(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return the `hits` whose file still exists, if that can be checked in time."""
        if not hits:
            return hits
        check = self._threads.run(lambda: self._context.library.gone(hits))
        await asyncio.wait([check], timeout=CHECK_SECONDS)
        if not check.done():
            check.add_done_callback(lambda late: late.exception())
            return hits
        gone = frozenset() if check.exception() is not None else check.result()
        return tuple(hit for hit in hits if hit.path not in gone)

    def _warnings(self, *, late: bool) -> Iterator[str]:
        sync, progress = self._sync, self.progress
        if sync.quarantined is not None:
            yield str(sync.quarantined)
            sync.quarantined = None
        if sync.error is not None:
            yield f"The index could not be synchronised: {sync.error}"
        elif sync.rebuilding:
            yield "The index is being rebuilt; until then the old one is searched."
        elif late:
            yield _late(progress, busy=sync.busy)
        if sync.pending > FEW_PENDING and self._handle.provider != "none":
            yield f"{sync.pending:,} passages have no vector yet and are only found by their words."


def search_mode(*, with_vectors: bool, hybrid: bool) -> Mode:
    """Return the mode of a search."""
    if not with_vectors:
        return "fts-only"
    return "hybrid" if hybrid else "vector-only"


def _pending(reader: IndexReader) -> int:
    return sum(total.pending for total in reader.totals().values())


def _late(progress: Progress | None, *, busy: bool) -> str:
    if busy:
        return "Another process is indexing: recent changes may be missing."
    if progress is not None and progress.phase == "text" and progress.total > 1:
        seconds = f", {progress.seconds_left:.0f} s left" if progress.seconds_left is not None else ""
        return f"Indexing {progress.done:,} of {progress.total:,} files{seconds}: results from the others are missing."
    return "Recent changes are still being indexed and may be missing."


def _unavailable(error: ClawbotError) -> IndexUnavailableError:
    return IndexUnavailableError(error.message, hint=error.hint)
