"""An embedding model behind litellm as an embedder of the memory index."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from clawbot.indexing.opening import RemoteEmbedder
from clawbot.llm.embedding import EmbeddedTexts, LiteLLMEmbedder
from clawbot.llm.errors import AuthenticationError, ModelError, RateLimitError
from clawbot.memory.embeddings.protocol import EmbeddingError
from tests.memory.index_host import House, WordEmbedder, find, paths


class Model:
    """A model without a worker process."""

    provider = "openai"
    model = "text-embedding-3-small"
    identity = "openai/text-embedding-3-small"
    address = "http://127.0.0.1:9000/v1"

    def __init__(self) -> None:
        self.error: ModelError | None = None
        self.closed = False
        self._words = WordEmbedder()

    async def embed(self, texts: Sequence[str], purpose: str) -> EmbeddedTexts:
        if self.error is not None:
            raise self.error
        found = await self._words.embed(texts, "document")
        return EmbeddedTexts(found.dimensions, found.data)

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def embedder(model: Model) -> RemoteEmbedder:
    return RemoteEmbedder(cast(LiteLLMEmbedder, model))


async def test_rows_and_names_come_through(embedder: RemoteEmbedder, model: Model) -> None:
    vectors = await embedder.embed(["tea", "茶"], "document")
    assert len(vectors) == 2
    assert sum(value * value for value in struct.unpack(f"<{vectors.dimensions}f", vectors.row(0))) == pytest.approx(1)
    assert (embedder.provider, embedder.model, embedder.remote) == ("openai", "text-embedding-3-small", True)
    assert (embedder.identity, embedder.address) == (model.identity, model.address)
    await embedder.aclose()
    assert model.closed


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (AuthenticationError("the key is wrong.", provider="OpenAI", hint="Set OPENAI_API_KEY."), False),
        (RateLimitError("too many requests.", provider="OpenAI", hint="Wait."), True),
    ],
)
async def test_errors_keep_what_they_say(
    embedder: RemoteEmbedder, model: Model, error: ModelError, retryable: bool
) -> None:
    model.error = error
    with pytest.raises(EmbeddingError) as raised:
        await embedder.embed(["tea"], "query")
    assert str(raised.value) == str(error)
    assert raised.value.hint == error.hint
    assert raised.value.retryable == retryable


async def test_an_index_with_it_goes_on_by_words_when_it_fails(
    embedder: RemoteEmbedder, model: Model, tmp_path: Path
) -> None:
    house = House(tmp_path)
    house.write("memory/a.md", "tea in the morning")
    async with house.opened(embedder, cached=True) as index:
        assert (await index.sync()).pending_vectors == 0
        assert (await find(index, "tea")).provider == "openai"
        model.error = RateLimitError("too many requests.", provider="OpenAI", hint="Wait.")
        house.write("memory/b.md", "tea in the evening")
        found = await find(index, "evening tea")
        assert paths(found)[0] == "memory/b.md"
        assert found.mode == "fts-only"
        assert found.fallback is not None
        assert found.fallback.reason == "OpenAI: too many requests. Wait."
        assert house.vectors() == 1
        status = await index.status()
        assert status.details["cache"] is not None
        # The first question's own vector is kept as well when a round was open just then.
        assert status.details["cache"]["entries"] in (1, 2)
