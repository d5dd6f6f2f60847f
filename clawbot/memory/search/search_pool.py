"""Runs searches on a thread pool: with a deadline, cancellable, and with the vectors in memory. The vectors of the
question are awaited briefly, then computed in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexContext
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.embedding_text import query_embedding_text
from clawbot.memory.embeddings.offline import IDENTITY
from clawbot.memory.embeddings.protocol import FLOAT_BYTES, Vectors
from clawbot.memory.store.errors import InterruptedSearchError, StoreError
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import is_before
from clawbot.memory.sync.round import same_vectors
from clawbot.memory.values import SearchRequest

if TYPE_CHECKING:
    from clawbot.memory.search.engine import SearchEngine
    from clawbot.memory.search.protocols import Ranked, Ranking
    from clawbot.memory.store.matrix import VectorMatrix
    from clawbot.memory.store.records import Identity


log = logging.getLogger(__name__)

FIRST_SECONDS = 1.5
"""How long a search waits for a remote provider that has not answered yet: its client may have to be loaded, or it may
be unreachable, while words give results in milliseconds."""

KNOWN_SECONDS = 4.0
"""How long it waits for one that has answered before: it works, and may be slow."""

MAX_SECONDS = 15.0
"""Time limit in the background."""

QUERY_CHARS = 2_000
"""Characters of a query that are embedded; `query.parse` limits its words."""


class QueryVectors(Struct, frozen=True):
    """The vectors of a request's queries, None if missing, and the identity of the embedder.

    `late`: they are still being computed.
    """

    vectors: tuple[bytes | None, ...]
    identity: str = ""
    late: bool = False

    @property
    def offline(self) -> bool:
        """Whether they are of the offline model."""
        return self.identity == IDENTITY


class QueryEmbedder:
    """Embeds queries with a handle. Belongs to the event loop.

    One query at a time continues in the background. Until then the provider is considered slow, and other queries are
    answered without waiting. `on_arrival` is called when late vectors arrive: repeating the query then uses them at
    once.
    """

    def __init__(self, handle: EmbedderHandle, timeout: float, *, patient: bool = False) -> None:
        """`timeout` is the time limit of an entire search in seconds; with `patient` all of it is spent waiting for the
        provider."""
        self.on_arrival: Callable[[], None] | None = None
        self._handle = handle
        self._timeout = timeout
        self._patient = patient
        self._late: asyncio.Task[Vectors | None] | None = None
        self._late_texts: list[str] = []
        self._arrived: tuple[list[str], Vectors] | None = None

    async def ask(self, queries: Sequence[str]) -> QueryVectors:
        """Return the vectors of `queries`; None for each without a provider, while it fails, and if they are late."""
        start = asyncio.get_running_loop().time()
        nothing = (None,) * len(queries)
        embedder = await self._handle.open()
        texts = [query_embedding_text(_plain(text), remote=self._handle.remote) for text in queries]
        if embedder is None or not any(text.strip() for text in texts):
            return QueryVectors(nothing)
        if self._arrived is not None and self._arrived[0] == texts:
            vectors: Vectors | None = self._arrived[1]
        elif self._late is not None and self._late_texts != texts:
            return QueryVectors(nothing, late=True)
        elif self._late is None and not self._handle.ready:
            return QueryVectors(nothing)
        else:
            task = self._late or asyncio.create_task(self._embed(texts))
            if not await self._wait(task, texts, start + self._patience):
                return QueryVectors(nothing, late=True)
            vectors = task.result()
        if vectors is None or not vectors.dimensions:
            return QueryVectors(nothing)
        return QueryVectors(tuple(vectors.rows()), embedder.identity)

    async def close(self) -> None:
        """Cancel the query in the background."""
        if self._late is not None:
            self._late.cancel()
            await asyncio.wait([self._late])

    @property
    def _patience(self) -> float:
        if self._patient or not self._handle.remote:
            return self._timeout
        return min(KNOWN_SECONDS if self._handle.answered else FIRST_SECONDS, self._timeout)

    async def _wait(self, task: asyncio.Task[Vectors | None], texts: list[str], end: float) -> bool:
        """Wait for `task` until `end`; then it continues in the background."""
        try:
            await asyncio.wait([task], timeout=max(0.0, end - asyncio.get_running_loop().time()))
        except asyncio.CancelledError:
            # Cancelled. But a provider that has never answered may still have to be loaded, so let it.
            if self._late is None and self._handle.answered:
                task.cancel()
            else:
                self._keep(task, texts)
            raise
        if not task.done():
            self._keep(task, texts)
        return task.done()

    def _keep(self, task: asyncio.Task[Vectors | None], texts: list[str]) -> None:
        """Let `task` continue in the background, unless another one does."""
        if self._late is None:
            self._late, self._late_texts = task, texts
            task.add_done_callback(self._over)
        elif self._late is not task:
            task.cancel()

    def _over(self, task: asyncio.Task[Vectors | None]) -> None:
        """The background query has finished."""
        self._late = None
        if task.cancelled():
            return
        if error := task.exception():
            log.error("a question could not be embedded", exc_info=error)
        elif (vectors := task.result()) is not None:
            self._arrived = (self._late_texts, vectors)
            if self.on_arrival is not None:
                self.on_arrival()

    async def _embed(self, texts: list[str]) -> Vectors | None:
        """Return the vectors; None on failure, which the handle records."""
        seconds = self._timeout if self._patient else MAX_SECONDS
        try:
            async with deadline(seconds):
                return await self._handle.embed(texts, "query")
        except ClawbotError:
            return None
        except TimeoutError:
            self._handle.failed(f"{self._handle.provider} did not answer within {seconds:g} s.")
            return None


def _plain(text: str) -> str:
    return text[:QUERY_CHARS].encode("utf-8", "replace").decode()


T = TypeVar("T")

THREADS = 2
"""Parallel searches; more would only compete for memory bandwidth."""

_GRACE_SECONDS = 0.5


class FoundRanking(Struct, frozen=True):
    """A ranking, its results in the original order, and whether vectors were used.

    `other_size`: they were not, because the model's vectors have another size than those of the index.
    """

    ranking: Ranking
    ranked: Ranked
    with_vectors: bool
    other_size: bool


class SearchPool:
    """Readers of one index, one per thread. Everything except the threads' work belongs to the event loop."""

    def __init__(self, context: IndexContext) -> None:
        self._db = context.db
        self._library = context.library
        self._settings = context.settings
        self._clock = context.clock
        self._engine: SearchEngine | None = None
        self._opening = threading.Lock()
        self._pool = ThreadPoolExecutor(THREADS, "memory-search")
        self._local = threading.local()
        self._readers: list[IndexReader] = []
        self._matrix: VectorMatrix | None = None
        self._loading: asyncio.Future[None] | None = None
        self._jobs: set[_Job] = set()
        self._closed = False

    async def read(self, work: Callable[[IndexReader], T]) -> T:
        """Run `work` with a reader on a thread. Raises MissingIndexError, StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: work(self._reader()))

    async def rank(
        self, request: SearchRequest, asked: QueryVectors, seconds: float, *, exact: bool
    ) -> FoundRanking | None:
        """Rank `request` within `seconds`; None if time ran out before there was any result.

        `exact`: update the vectors in memory first; otherwise they are ignored if outdated. Raises MissingIndexError,
        StoreError.
        """
        job = _Job(self._clock.monotonic() + seconds, self._clock)
        loop = asyncio.get_running_loop()
        self._jobs.add(job)
        stopping = loop.call_later(seconds, job.stop)
        running = loop.run_in_executor(self._pool, self._rank, job, request, asked, exact)
        try:
            async with deadline(seconds + _GRACE_SECONDS):
                return await running
        except TimeoutError:
            return None
        finally:
            stopping.cancel()
            # Stop the work if the caller was cancelled.
            job.stop()
            self._jobs.discard(job)

    def keep_vectors(self) -> None:
        loading = self._loading is not None and not self._loading.done()
        if self._matrix is None and not loading and not self._closed:
            self._loading = asyncio.get_running_loop().run_in_executor(self._pool, self._load)

    async def close(self) -> None:
        self._closed = True
        for job in self._jobs:
            job.stop()
        await asyncio.to_thread(self._pool.shutdown)
        for reader in self._readers:
            reader.close()
        self._matrix = None

    def _rank(self, job: _Job, request: SearchRequest, asked: QueryVectors, exact: bool) -> FoundRanking | None:
        reader = self._reader()
        try:
            with job.working(reader), reader.snapshot():
                # Deferred: with numpy a third of a command's time, which a sync does without.
                from clawbot.memory.search.engine import Search

                vectors, other_size = _usable(reader.identity, asked)
                today, matrix = self._clock.now().date(), self._current(reader, exact=exact)
                search = Search(
                    reader, request, vectors, self._settings, today, matrix, job.is_over, offline=asked.offline
                )
                ranking = self._search_engine().rank(search, self._library.describe)
                return FoundRanking(ranking, ranking.results(), with_vectors=any(vectors), other_size=other_size)
        except InterruptedSearchError:
            return None

    def _search_engine(self) -> SearchEngine:
        from clawbot.memory.search.engine import SearchEngine

        with self._opening:
            if self._engine is None:
                self._engine = SearchEngine()
            return self._engine

    def _reader(self) -> IndexReader:
        reader: IndexReader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = IndexReader(self._db)
            self._readers.append(reader)
        return reader

    def _load(self) -> None:
        """Read all vectors; after a failure the next search tries again."""
        try:
            # Deferred: numpy, which a single search of few notes does without.
            from clawbot.memory.store.matrix import VectorMatrix

            reader = self._reader()
            with reader.snapshot():
                matrix = VectorMatrix.load(reader)
                if matrix is not None:
                    self._search_engine().prepare(reader)
            self._matrix = matrix
        except StoreError as error:
            log.info("the vectors are not in memory yet: %s", error)
        except Exception:
            log.exception("the vectors could not be read into memory")

    def _current(self, reader: IndexReader, *, exact: bool) -> VectorMatrix | None:
        matrix = self._matrix
        if matrix is None or reader.generation == matrix.generation:
            return matrix
        if not exact:
            return None
        updated = matrix.updated(reader)
        if updated is not None or not is_before(reader.generation, matrix.generation):
            self._matrix = updated
        return updated


def _usable(identity: Identity | None, asked: QueryVectors) -> tuple[tuple[bytes | None, ...], bool]:
    """Return the vectors of the question that are comparable with those of an index of `identity`, and whether one has
    another size."""
    if identity is None or not same_vectors(identity, asked.identity):
        return (None,) * len(asked.vectors), False
    size = FLOAT_BYTES * identity.dimensions
    usable = tuple(row if row is not None and len(row) == size and any(row) else None for row in asked.vectors)
    return usable, any(row is not None and len(row) != size for row in asked.vectors)


class _Job:
    """One search on a thread, which the event loop can stop."""

    def __init__(self, deadline: float, clock: Clock) -> None:
        self._deadline = deadline
        self._clock = clock
        self._stopped = False
        self._reader: IndexReader | None = None
        self._lock = threading.Lock()

    def is_over(self) -> bool:
        """Return whether to stop: the deadline has passed, or the caller is gone."""
        return self._stopped or self._clock.monotonic() >= self._deadline

    def stop(self) -> None:
        """Stop at once, even during a query."""
        with self._lock:
            self._stopped = True
            if self._reader is not None:
                self._reader.interrupt()

    @contextlib.contextmanager
    def working(self, reader: IndexReader) -> Iterator[None]:
        """Let `reader` work for this search only. Raises InterruptedSearchError if it is already over."""
        with self._lock:
            if self._stopped:
                raise InterruptedSearchError("The search was stopped.")
            self._reader = reader
        try:
            yield
        finally:
            with self._lock:
                self._reader = None
