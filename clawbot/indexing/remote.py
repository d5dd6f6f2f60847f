"""Adapts an embedding model behind litellm to the `Embedder` protocol of the memory index."""

from __future__ import annotations

from collections.abc import Sequence

from clawbot.llm.embedding import LiteLLMEmbedder
from clawbot.llm.errors import ModelError
from clawbot.memory.embeddings.protocol import EmbeddingError, Purpose, Vectors


class RemoteEmbedder:
    """An `Embedder` over `inner`."""

    remote = True

    def __init__(self, inner: LiteLLMEmbedder) -> None:
        self.provider, self.model, self.identity = inner.provider, inner.model, inner.identity
        self.address = inner.address
        self._inner = inner

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """float32 vectors, one row for each text. Raises EmbeddingError."""
        try:
            found = await self._inner.embed(texts, purpose)
        except ModelError as error:
            named = str(error).removesuffix(error.hint).rstrip()
            raise EmbeddingError(named, hint=error.hint, retryable=error.retryable) from error
        return Vectors(found.dimensions, found.data)

    async def aclose(self) -> None:
        """Stop the worker process, unless a language model uses it."""
        await self._inner.aclose()
