"""Keeps the index as the files are: one state machine for all that asks for it.

A request is served by a scan of the files that began after it. One round runs at a time: it takes in what is asked
while it goes on, writes text first, and embeds whenever there is no text to write.
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
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.embedding_text import chunk_embedding_text
from clawbot.memory.embeddings.protocol import EmbeddingError, Vectors
from clawbot.memory.index_context import IndexContext
from clawbot.memory.store.errors import BusyIndexError, DamagedIndexError, WrongDimensionsError
from clawbot.memory.store.records import PendingChunk
from clawbot.memory.store.replacement import Quarantined
from clawbot.memory.sync.round import Round
from clawbot.memory.sync.text_phase import Pace
from clawbot.memory.values import Progress, SyncReport

log = logging.getLogger(__name__)

T = TypeVar("T")
Tell = Callable[[Progress | None], None]

LOCAL_SLICE = 4096
REMOTE_SLICE = 512
"""Chunks that are embedded before the next transaction: what a kill costs at most."""

BUSY_SECONDS = 2.0
"""When to look again after another process was found indexing."""

_TELL_SECONDS = 0.1


class ClosedError(ClawbotError):
    """The index was closed before the sync was done; the next one goes on from there."""

    def __init__(self) -> None:
        super().__init__("The memory index was closed while it was brought up to date.")


class Ticket:
    """A wish to have the index as the files are now.

    `text` is done when words are found (in the new index, while one is built beside the old one), `whole` when vectors
    are there too as far as they can be. Neither ever raises: an error is a result.
    """

    def __init__(self, *, force: bool, progress: Callable[[Progress], None] | None) -> None:
        """Needs a running event loop."""
        loop = asyncio.get_running_loop()
        self.force = force
        self.progress = progress
        self.text: asyncio.Future[ClawbotError | None] = loop.create_future()
        self.whole: asyncio.Future[SyncReport | ClawbotError] = loop.create_future()

    def settle(self, result: SyncReport | ClawbotError) -> None:
        """Tell those who wait."""
        self.settle_text(result if isinstance(result, ClawbotError) else None)
        if not self.whole.done():
            self.whole.set_result(result)

    def settle_text(self, error: ClawbotError | None = None) -> None:
        """Tell those who wait for words."""
        if not self.text.done():
            self.text.set_result(error)


class Synchroniser:
    """Serves requests, one round at a time. Everything but `stop` belongs to the event loop.

    `error` is why the last round failed, None after one that did not. `rebuilding` says that a new index is being
    built beside the one that is searched, `busy` that another process was writing, `pending` is how many chunks
    waited for a vector when that was looked at last. `generation` grows when a search may find something else than
    before, be it that another process has written the index. `quarantined` says of an index that could not be used
    where it is now; whoever tells the user sets it to None.
    """

    def __init__(self, context: IndexContext, handle: EmbedderHandle) -> None:
        self.error: ClawbotError | None = None
        self.rebuilding = False
        self.busy = False
        self.pending = 0
        self.generation = 0
        self.quarantined: Quarantined | None = None
        self.on_progress: Tell | None = None
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

    @property
    def running(self) -> bool:
        """Whether a round is going on."""
        return self._runner is not None and not self._runner.done()

    def request(self, *, force: bool = False, progress: Callable[[Progress], None] | None = None) -> Ticket:
        """Ask for the index to be as the files are now; `force` builds it anew."""
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
        """Ask for the index to be examined, since what was read of it can't be, and built anew where it is damaged."""
        self._doubted = True
        return self.request()

    async def between_rounds(self, work: Callable[[], T]) -> T:
        """Run `work` on the writer's thread while no round is going on."""
        async with self._alone:
            return await self._on_writer(work)

    async def _on_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer_pool, work)

    async def close(self) -> None:
        """End what runs at its next step; the next process goes on from there."""
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
            return
        self.busy = result.busy
        if result.busy:
            # Where another process writes, nobody has looked how many chunks wait.
            self._later(BUSY_SECONDS)
            return
        self.pending = result.pending_vectors
        if result.pending_vectors and self._handle.embedder is not None:
            # A question may have had its vector since those of the chunks failed: there is nothing to wait for then.
            self._later(self._handle.seconds_to_retry or BUSY_SECONDS)

    def _later(self, seconds: float) -> None:
        if self._again is not None:
            self._again.cancel()
        if not self._stop.is_set():
            self._again = asyncio.get_running_loop().call_later(seconds, self.request)

    async def _round(self, served: list[Ticket]) -> SyncReport:
        """One round; those whom it serves are added to `served`. What an examination may explain, is tried once more
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
        force = self._take(served, first=True) or any(ticket.force for ticket in served)
        embedder = await self._handle.open()
        if self._stop.is_set():
            raise ClosedError
        work = Round(
            self._context, embedder, self._stop.is_set, wants_vectors=self._handle.wanted, doubted=self._doubted
        )
        try:
            nothing = None if force else await self._on_writer(lambda: work.look(ready=self._handle.ready))
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
            # After a cancellation too: the thread is not done before this.
            await asyncio.shield(self._on_writer(work.close))

    async def _dimensions(self) -> int:
        """Those of the vectors that a remote model gives now; 0 where they can't be told, and for what is made here."""
        if not self._handle.remote:
            return 0
        task = self._embedding = asyncio.create_task(self._handle.sample())
        await asyncio.wait([task])
        self._embedding = None
        try:
            return 0 if task.cancelled() else task.result().dimensions
        except EmbeddingError:
            # The vectors that are there stay; the handle knows why.
            return 0

    def _take(self, served: list[Ticket], *, first: bool = False) -> bool:
        """Take up what was asked, as far as this round serves it; whether it is to build anew."""
        force = first and any(ticket.force for ticket in self._waiting)
        served += [ticket for ticket in self._waiting if force or not ticket.force]
        self._waiting = [ticket for ticket in self._waiting if ticket.force and not force]
        self._asked.clear()
        return force

    async def _go_on(self, work: Round, served: list[Ticket]) -> None:
        """Write text whenever somebody asks, embed meanwhile, until both are done or somebody stops it."""
        embedding = _Embedding(work, self._handle, self._clock)
        await self._write_text(work, served)
        try:
            while not self._stop.is_set():
                if self._take_more(served):
                    await self._write_text(work, served)
                    embedding.begin_again()
                    continue
                if self._embedding is None:
                    chunks = await self._on_writer(embedding.next_chunks) if self._handle.ready else []
                    if not chunks:
                        return
                    # A remote call may take long, and it is no longer files that are waited for.
                    self._tell(embedding.reached(), served)
                    self._embedding = asyncio.create_task(embedding.embed(chunks))
                await self._embedded_or_asked()
                if self._embedding.done() and not await self._store(embedding, served):
                    return
        finally:
            await self._drop_embedding()

    def _take_more(self, served: list[Ticket]) -> bool:
        before = len(served)
        self._take(served)
        return len(served) > before

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
        """Store the vectors that came; False when none did."""
        task, self._embedding = self._embedding, None
        if task is None or task.cancelled():
            return False
        try:
            vectors = task.result()
        except EmbeddingError:
            # Keywords go on; the handle knows why, and when to try again.
            return False
        try:
            progress = await self._on_writer(lambda: embedding.store(vectors))
        except WrongDimensionsError as error:
            self._handle.failed(str(error))
            return False
        self.pending = progress.total - progress.done
        self._tell(progress, served)
        return True

    async def _drop_embedding(self) -> None:
        task, self._embedding = self._embedding, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _write_text(self, work: Round, served: list[Ticket]) -> None:
        loop = asyncio.get_running_loop()
        tickets = [ticket for ticket in served if not ticket.text.done()]

        def tell(progress: Progress) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody looks any more
                loop.call_soon_threadsafe(self._tell, progress, served)

        throttle = _Throttle(tell, self._clock)
        before = work.files_changed
        done = await self._on_writer(lambda: work.write_text(throttle))
        self.generation += work.files_changed > before
        if done:
            self.pending = await self._on_writer(work.writer.pending_count) if self._handle.wanted else 0
            for ticket in tickets:
                ticket.settle_text()

    def _tell(self, progress: Progress, served: list[Ticket]) -> None:
        for ticket in served:
            if ticket.progress is not None:
                ticket.progress(progress)
        if self.on_progress is not None:
            self.on_progress(progress)


class _Throttle:
    """Passes on not more steps than eyes can follow, and the last one of each phase."""

    def __init__(self, tell: Callable[[Progress], None], clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._next = clock.monotonic() + _TELL_SECONDS

    def __call__(self, progress: Progress) -> None:
        now = self._clock.monotonic()
        if now >= self._next or (progress.done == progress.total and progress.total > 1):
            self._next = now + _TELL_SECONDS
            self._tell(progress)


class _Embedding:
    """The vectors of a round: slice after slice of the chunks that wait for one."""

    def __init__(self, work: Round, handle: EmbedderHandle, clock: Clock) -> None:
        self._work = work
        self._handle = handle
        self._clock = clock
        self._after = 0
        self._chunks: list[PendingChunk] = []
        self._pace: Pace | None = None

    def begin_again(self) -> None:
        """Look at all chunks again: some before the last ones may have changed."""
        self._after = 0

    def next_chunks(self) -> list[PendingChunk]:
        """The next chunks to embed. Blocks."""
        if self._pace is None:
            total = self._work.writer.pending_count()
            self._pace = Pace("vectors", "pieces", self._clock, total=total, weight=total)
        most = REMOTE_SLICE if self._handle.remote else LOCAL_SLICE
        self._chunks = self._work.writer.pending(self._after, most)
        if self._chunks:
            self._after = self._chunks[-1].id
        return self._chunks

    async def embed(self, chunks: list[PendingChunk]) -> Vectors:
        """Their vectors. Raises EmbeddingError."""
        remote = self._handle.remote
        texts = await asyncio.to_thread(_embedding_texts, chunks, remote)
        return await self._handle.embed(texts, "document")

    def store(self, vectors: Vectors) -> Progress:
        """Store the vectors of the last chunks. Blocks."""
        stored = self._work.put_vectors(self._chunks, vectors)
        return self.reached(stored)

    def reached(self, stored: int = 0) -> Progress:
        """How far it is, `stored` more chunks included."""
        if self._pace is None:
            raise RuntimeError("vectors came before they were asked for")
        return self._pace.step(stored, stored)


def _embedding_texts(chunks: list[PendingChunk], remote: bool) -> list[str]:
    return [chunk_embedding_text(chunk.text, chunk.kind, chunk.above, remote=remote) for chunk in chunks]
