"""Keeps the index synchronised: one state machine for all requests.

A request is served by a scan that starts after it. One round runs at a time: it accepts requests while it runs, writes
text first, and embeds whenever there is no text to write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

import msgspec

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexContext
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.embedding_text import chunk_embedding_text
from clawbot.memory.embeddings.protocol import EmbeddingError, Vectors
from clawbot.memory.store.errors import BusyIndexError, DamagedIndexError, StoreError, WrongDimensionsError
from clawbot.memory.store.records import PendingChunk
from clawbot.memory.store.replacement import Quarantined
from clawbot.memory.sync.round import KnownFiles, Round
from clawbot.memory.sync.text_phase import Pace
from clawbot.memory.values import Progress, ReportProgress, SyncReport

log = logging.getLogger(__name__)

T = TypeVar("T")
OnProgress = Callable[[Progress | None], None]

LOCAL_SLICE = 4096
REMOTE_SLICE = 512
"""Chunks embedded per transaction: the most that a kill loses."""

BUSY_SECONDS = 2.0
"""Delay before retrying after another process was found indexing."""

FAILED_SECONDS = 60.0
"""Delay before retrying after a failure, such as a full disk: the files need not change once it is over."""

_REPORT_SECONDS = 0.1


class ClosedError(ClawbotError):
    """The index was closed before the sync finished; the next one continues."""

    def __init__(self) -> None:
        super().__init__("The memory index was closed during a sync.")


class Ticket:
    """A request to synchronise the index with the current files.

    `text` is done when words are searchable (in the new index, during a rebuild), `complete` when vectors are too, if
    available. Neither raises: an error is a result.
    """

    def __init__(self, *, force: bool, progress: ReportProgress | None) -> None:
        """Needs a running event loop."""
        loop = asyncio.get_running_loop()
        self.force = force
        self.progress = progress
        self.text: asyncio.Future[ClawbotError | None] = loop.create_future()
        self.complete: asyncio.Future[SyncReport | ClawbotError] = loop.create_future()

    def settle(self, result: SyncReport | ClawbotError) -> None:
        """Complete both futures."""
        self.settle_text(result if isinstance(result, ClawbotError) else None)
        if not self.complete.done():
            self.complete.set_result(result)

    def settle_text(self, error: ClawbotError | None = None) -> None:
        if not self.text.done():
            self.text.set_result(error)


class Synchroniser:
    """Serves requests, one round at a time. Everything except `stop` belongs to the event loop.

    `error` is why the last round failed, None if it did not. `rebuilding`: a new index is being built next to the
    searched one; `busy`: another process was writing; `pending` is the last known number of chunks without a vector.
    `generation` grows when a search may find something new, also through another process. `quarantined` describes an
    unusable index that was moved; whoever reports it resets it to None.
    """

    def __init__(self, context: IndexContext, handle: EmbedderHandle) -> None:
        self.error: ClawbotError | None = None
        self.rebuilding = False
        self.busy = False
        self.pending = 0
        self.generation = 0
        self.quarantined: Quarantined | None = None
        self.on_progress: OnProgress | None = None
        self._context = context
        self._handle = handle
        self._clock = context.clock
        self._waiting: list[Ticket] = []
        self._asked = asyncio.Event()
        self._stop = threading.Event()
        self._runner: asyncio.Task[None] | None = None
        self._embedding: asyncio.Task[Vectors] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._writer_pool = ThreadPoolExecutor(1, "memory-writer")
        self._alone = asyncio.Lock()
        self._last_sync: datetime | None = None
        self._doubted = False
        self._known = KnownFiles()

    @property
    def running(self) -> bool:
        return self._runner is not None and not self._runner.done()

    def request(self, *, force: bool = False, progress: ReportProgress | None = None) -> Ticket:
        """Request a sync with the current files; `force` rebuilds the index."""
        ticket = Ticket(force=force, progress=progress)
        if self._stop.is_set():
            ticket.settle(ClosedError())
            return ticket
        self._waiting.append(ticket)
        self._asked.set()
        if not self.running:
            self._runner = asyncio.create_task(self._run())
        return ticket

    def doubt(self) -> Ticket:
        """Request an examination after invalid data was read, and a rebuild if it is damaged."""
        self._doubted = True
        return self.request()

    async def between_rounds(self, work: Callable[[], T]) -> T:
        """Run `work` on the writer's thread while no round is running."""
        async with self._alone:
            return await self._on_writer(work)

    async def _on_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer_pool, work)

    async def close(self) -> None:
        """Stop running work at its next step; the next process continues."""
        self._stop.set()
        self._asked.set()
        if self._again is not None:
            self._again.cancel()
        if self._embedding is not None:
            self._embedding.cancel()
        if self._runner is not None:
            await asyncio.wait([self._runner])
        await asyncio.to_thread(self._writer_pool.shutdown)

    async def _run(self) -> None:
        while self._waiting and not self._stop.is_set():
            served: list[Ticket] = []
            try:
                async with self._alone:
                    report = await self._round(served)
                result: SyncReport | ClawbotError = msgspec.structs.replace(report, fallback=self._handle.fallback)
                self.error = None
            except ClosedError as error:
                result = error
            except ClawbotError as error:
                # A retry that fails alike is not logged again.
                if str(error) != str(self.error):
                    log.warning("the memory index could not be brought up to date: %s", error)
                result = self.error = error
            except Exception as error:
                log.exception("the memory index could not be brought up to date")
                reason = f"{type(error).__name__}: {error}".rstrip(": ")
                result = self.error = ClawbotError(f"The memory index could not be brought up to date: {reason}")
            finally:
                self.rebuilding = False
            for ticket in served:
                ticket.settle(result)
            self._round_over(result)
        for ticket in self._waiting:
            ticket.settle(ClosedError())

    def _round_over(self, result: SyncReport | ClawbotError) -> None:
        if self.on_progress is not None:
            self.on_progress(None)
        if isinstance(result, ClawbotError):
            if isinstance(result, StoreError):
                self._later(FAILED_SECONDS)
            return
        self.busy = result.busy
        if result.busy:
            # While another process writes, the number of pending chunks is unknown.
            self._later(BUSY_SECONDS)
            return
        self.pending = result.pending_vectors
        if result.pending_vectors and self._handle.embedder is not None:
            # A query may have succeeded since the chunks failed: then there is no backoff to wait for.
            self._later(self._handle.seconds_to_retry or BUSY_SECONDS)

    def _later(self, seconds: float) -> None:
        if self._again is not None:
            self._again.cancel()
        if not self._stop.is_set():
            self._again = asyncio.get_running_loop().call_later(seconds, self.request)

    async def _round(self, served: list[Ticket]) -> SyncReport:
        """One round; served tickets are added to `served`. Failures that an examination may explain are retried once
        after one."""
        try:
            return await self._try_round(served)
        except DamagedIndexError as error:
            log.warning("%s", error)
        except ClawbotError:
            raise
        except Exception:
            log.exception("the memory index could not be brought up to date")
        self._doubted = True
        return await self._try_round(served)

    async def _try_round(self, served: list[Ticket]) -> SyncReport:
        started = self._clock.monotonic()
        self._take(served, first=True)
        force = any(ticket.force for ticket in served)
        embedder = await self._handle.open()
        if self._stop.is_set():
            raise ClosedError
        work = Round(
            self._context,
            embedder,
            self._stop.is_set,
            wants_vectors=self._handle.wanted,
            doubted=self._doubted,
            known=self._known,
        )
        try:
            nothing = None if force else await self._on_writer(lambda: work.check(ready=self._handle.ready))
            self.generation += self._last_sync not in (None, work.last_sync)
            self._last_sync = work.last_sync
            if nothing is not None:
                return nothing
            dimensions = await self._dimensions() if force else 0
            try:
                await self._on_writer(lambda: work.open(force=force, dimensions=dimensions))
            except BusyIndexError:
                return SyncReport(busy=True)
            self._doubted = False
            self.quarantined = work.quarantined or self.quarantined
            self.rebuilding = work.rebuilding
            await self._go_on(work, served)
            if not await self._on_writer(work.finish):
                raise ClosedError
            self._last_sync = work.last_sync
            report = work.report(self._clock.monotonic() - started)
            self.generation += report.rebuilt or report.pieces_embedded > 0
            return report
        finally:
            self._embedding = None
            # Also after a cancellation: the thread is still busy until then.
            await asyncio.shield(self._on_writer(work.close))

    async def _dimensions(self) -> int:
        """Dimensions of the remote model, 0 if unknown or local."""
        if not self._handle.remote:
            return 0
        task = self._embedding = asyncio.create_task(self._handle.sample())
        await asyncio.wait([task])
        self._embedding = None
        try:
            return 0 if task.cancelled() else task.result().dimensions
        except EmbeddingError:
            # Keep the existing vectors; the handle records the reason.
            return 0

    def _take(self, served: list[Ticket], *, first: bool = False) -> bool:
        """Accept the requests that this round can serve, to rebuild only at `first`; returns whether there are any."""
        before = len(served)
        served += [ticket for ticket in self._waiting if first or not ticket.force]
        self._waiting = [ticket for ticket in self._waiting if ticket.force and not first]
        self._asked.clear()
        return len(served) > before

    async def _go_on(self, work: Round, served: list[Ticket]) -> None:
        """Write text on request, embed in between, until both are done or the sync is stopped."""
        embedding = _Embedding(work, self._handle, self._clock)
        await self._write_text(work, served)
        try:
            while not self._stop.is_set():
                if self._take(served):
                    await self._write_text(work, served)
                    embedding.begin_again()
                    continue
                if self._embedding is None:
                    chunks = await self._on_writer(embedding.next_chunks) if self._handle.ready else []
                    if not chunks:
                        return
                    # Before a long remote call, report that the phase has changed from files to vectors.
                    self._report(embedding.reached(), served)
                    self._embedding = asyncio.create_task(embedding.embed(chunks))
                await self._embedded_or_asked()
                if self._embedding.done() and not await self._store(embedding, served):
                    return
        finally:
            await self._drop_embedding()

    async def _embedded_or_asked(self) -> None:
        asked = asyncio.create_task(self._asked.wait())
        waits: set[asyncio.Task[Vectors] | asyncio.Task[bool]] = {asked}
        if self._embedding is not None:
            waits.add(self._embedding)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()

    async def _store(self, embedding: _Embedding, served: list[Ticket]) -> bool:
        """Store computed vectors; False on failure."""
        task, self._embedding = self._embedding, None
        if task is None or task.cancelled():
            return False
        try:
            vectors = task.result()
        except EmbeddingError:
            # Words still work; the handle records the reason and the time of the next retry.
            return False
        try:
            progress = await self._on_writer(lambda: embedding.store(vectors))
        except WrongDimensionsError as error:
            self._handle.failed(str(error))
            return False
        self.pending = progress.total - progress.done
        self._report(progress, served)
        return True

    async def _drop_embedding(self) -> None:
        task, self._embedding = self._embedding, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _write_text(self, work: Round, served: list[Ticket]) -> None:
        loop = asyncio.get_running_loop()
        tickets = [ticket for ticket in served if not ticket.text.done()]

        def report(progress: Progress) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self._report, progress, served)

        throttle = _Throttle(report, self._clock)
        before = work.files_changed
        done = await self._on_writer(lambda: work.write_text(throttle))
        self.generation += work.files_changed > before
        if done:
            self.pending = await self._on_writer(work.writer.pending_count) if self._handle.wanted else 0
            for ticket in tickets:
                ticket.settle_text()

    def _report(self, progress: Progress, served: list[Ticket]) -> None:
        for ticket in served:
            if ticket.progress is not None:
                ticket.progress(progress)
        if self.on_progress is not None:
            self.on_progress(progress)


class _Throttle:
    """Limits the rate of progress reports, but always passes the last one of a phase."""

    def __init__(self, report: ReportProgress, clock: Clock) -> None:
        self._report = report
        self._clock = clock
        self._next = clock.monotonic() + _REPORT_SECONDS

    def __call__(self, progress: Progress) -> None:
        now = self._clock.monotonic()
        if now >= self._next or (progress.done == progress.total and progress.total > 1):
            self._next = now + _REPORT_SECONDS
            self._report(progress)


class _Embedding:
    """The vectors of a round: slices of the pending chunks."""

    def __init__(self, work: Round, handle: EmbedderHandle, clock: Clock) -> None:
        self._work = work
        self._handle = handle
        self._clock = clock
        self._after = 0
        self._chunks: list[PendingChunk] = []
        self._pace: Pace | None = None

    def begin_again(self) -> None:
        """Start over with all chunks: earlier ones may have changed."""
        self._after = 0

    def next_chunks(self) -> list[PendingChunk]:
        """Return the next slice. Blocks."""
        if self._pace is None:
            total = self._work.writer.pending_count()
            self._pace = Pace("vectors", "pieces", self._clock, total=total, weight=total)
        most = REMOTE_SLICE if self._handle.remote else LOCAL_SLICE
        self._chunks = self._work.writer.pending(self._after, most)
        if self._chunks:
            self._after = self._chunks[-1].id
        return self._chunks

    async def embed(self, chunks: list[PendingChunk]) -> Vectors:
        """Raises EmbeddingError."""
        remote = self._handle.remote

        def texts() -> list[str]:
            return [chunk_embedding_text(each.text, each.kind, each.above, remote=remote) for each in chunks]

        return await self._handle.embed(await asyncio.to_thread(texts), "document")

    def store(self, vectors: Vectors) -> Progress:
        """Store the vectors of the last slice. Blocks."""
        stored = self._work.put_vectors(self._chunks, vectors)
        return self.reached(stored)

    def reached(self, stored: int = 0) -> Progress:
        """Return the progress, including `stored` more chunks."""
        if self._pace is None:
            raise RuntimeError("vectors came before they were asked for")
        return self._pace.step(stored, stored)
