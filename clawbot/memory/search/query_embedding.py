"""The vectors of a query: awaited briefly, then computed in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.embedding_text import query_embedding_text
from clawbot.memory.embeddings.protocol import Vectors

log = logging.getLogger(__name__)

FIRST_SECONDS = 1.5
"""How long a search waits for a remote provider that has not answered yet: its client may have to be loaded, or it may
be unreachable, while words give results in milliseconds."""

KNOWN_SECONDS = 4.0
"""How long it waits for one that has answered before: it works, and may be slow."""

LONGEST_SECONDS = 15.0
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


class QueryEmbedder:
    """Embeds queries with a handle. Belongs to the event loop.

    One query at a time continues in the background. Meanwhile the provider is considered slow, and other queries are
    answered without waiting. `on_arrival` is called when late vectors arrive: repeating the query then uses them at
    once.
    """

    def __init__(self, handle: EmbedderHandle, timeout: float, *, patient: bool = False) -> None:
        """`timeout` is the time limit of a whole search in seconds; with `patient` all of it is spent waiting for the
        provider."""
        self.on_arrival: Callable[[], None] | None = None
        self._handle = handle
        self._timeout = timeout
        self._patient = patient
        self._late: asyncio.Task[Vectors | None] | None = None
        self._late_texts: list[str] = []
        self._arrived: tuple[list[str], Vectors] | None = None

    async def ask(self, queries: Sequence[str]) -> QueryVectors:
        """The vectors of `queries`; None for each without a provider, while it fails, and if they are late."""
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
        """The vectors; None on failure, which the handle records."""
        seconds = self._timeout if self._patient else LONGEST_SECONDS
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
