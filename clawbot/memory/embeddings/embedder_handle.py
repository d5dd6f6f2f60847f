"""The embedder of an index and its state: whether it works, why not, and when to retry (backoff)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError, Purpose, Vectors
from clawbot.memory.values import Fallback

log = logging.getLogger(__name__)

FIRST_PAUSE = 15.0
MAX_PAUSE = 30 * 60.0
"""Maximum backoff in seconds after a failure; each failure doubles it."""


class EmbedderHandle:
    """An embedder, opened on first use, or the reason why there is none.

    `requested` is the configured provider, `answered` whether its last call succeeded. Belongs to the event loop.
    """

    def __init__(self, requested: str, opener: Callable[[], Awaitable[Embedder | None]], clock: Clock) -> None:
        """`opener` returns None if no vectors are wanted, and raises ClawbotError if they are unavailable."""
        self.requested = requested
        self.embedder: Embedder | None = None
        self.problem = ""
        self.answered = False
        self._opener = opener
        self._opening: asyncio.Lock | None = asyncio.Lock()
        self._clock = clock
        self._reason = ""
        self._pause = 0.0
        self._retry_at = 0.0

    async def open(self) -> Embedder | None:
        """Return the embedder. None if no vectors are wanted or available: `problem` is the reason."""
        if self._opening is not None:
            async with self._opening:
                await self._open()
        return self.embedder

    async def _open(self) -> None:
        if self._opening is None:
            return
        try:
            self.embedder = await self._opener()
        except ClawbotError as error:
            self.problem = str(error)
            log.warning("no vectors: %s", self.problem)
        self._opening = None

    @property
    def provider(self) -> str:
        """The embedder's provider, `none` without one."""
        return self.embedder.provider if self.embedder else "none"

    @property
    def model(self) -> str:
        """The embedder's model, empty without one."""
        return self.embedder.model if self.embedder else ""

    @property
    def address(self) -> str:
        """Where the embedder's texts go; "" for its provider's own address."""
        return self.embedder.address if self.embedder else ""

    @property
    def remote(self) -> bool:
        return self.embedder is not None and self.embedder.remote

    @property
    def fallback(self) -> Fallback | None:
        """What is unavailable now and why; None if all is well, and if only words are configured."""
        reason = self.problem or self._reason
        return Fallback(self.provider if self.embedder else self.requested, reason) if reason else None

    @property
    def seconds_to_retry(self) -> float:
        """The remaining backoff in seconds; 0 if a call is allowed."""
        return max(0.0, self._retry_at - self._clock.monotonic()) if self._reason else 0.0

    @property
    def wanted(self) -> bool:
        """Whether vectors are configured, available or not."""
        return self.embedder is not None or bool(self.problem)

    @property
    def ready(self) -> bool:
        """Whether a call is allowed now."""
        return self.embedder is not None and not self.seconds_to_retry

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return one row for each text. Raises EmbeddingError, and then backs off."""
        embedder = await self.open()
        if embedder is None:
            raise EmbeddingError(self.problem or "No embedding provider is set.")
        try:
            vectors = await embedder.embed(texts, purpose)
        except EmbeddingError as error:
            self.failed(str(error))
            raise
        if len(vectors) != len(texts):
            self.failed(f"{self.provider} gave {len(vectors)} vectors for {len(texts)} texts.")
            raise EmbeddingError(self._reason, retryable=True)
        self._reason, self._pause, self.answered = "", 0.0, True
        return vectors

    async def sample(self) -> Vectors:
        """Return the vector of a text that is never cached, from the current model. Raises EmbeddingError."""
        return await self.embed([f"now: {self._clock.now().isoformat()}"], "query")

    def failed(self, reason: str) -> None:
        """Back off after a failure, longer each time."""
        self._pause = min(max(FIRST_PAUSE, 2 * self._pause), MAX_PAUSE)
        self._retry_at = self._clock.monotonic() + self._pause
        if reason != self._reason:
            log.warning("no vectors for now: %s", reason)
        self._reason, self.answered = reason, False

    async def aclose(self) -> None:
        if self.embedder is not None:
            await self.embedder.aclose()
