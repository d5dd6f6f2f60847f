"""Where vectors come from, and how a provider that fails is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clawbot.errors import ClawbotError
from clawbot.memory.embeddings.embedder_handle import FIRST_PAUSE, MAX_PAUSE, EmbedderHandle
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError, Purpose, Vectors
from clawbot.memory.sync.text_phase import Pace
from tests.clocks import StillClock
from tests.memory.index_host import WordEmbedder


def handle_of(embedder: Embedder | ClawbotError | None, clock: StillClock) -> tuple[EmbedderHandle, list[int]]:
    opened: list[int] = []

    async def opener() -> Embedder | None:
        opened.append(1)
        await asyncio.sleep(0)
        if isinstance(embedder, ClawbotError):
            raise embedder
        return embedder

    return EmbedderHandle("words", opener, clock), opened


async def test_it_is_opened_once_by_the_first_who_needs_it() -> None:
    embedder = WordEmbedder()
    handle, opened = handle_of(embedder, StillClock())
    assert (handle.provider, handle.ready, opened) == ("none", False, [])
    assert await asyncio.gather(*(handle.open() for _ in range(5))) == [embedder] * 5
    assert opened == [1]
    assert (handle.provider, handle.model, handle.ready, handle.fallback) == ("words", "one", True, None)


async def test_no_vectors_wanted_is_no_problem() -> None:
    handle, _ = handle_of(None, StillClock())
    assert await handle.open() is None
    assert (handle.fallback, handle.wanted, handle.ready) == (None, False, False)
    with pytest.raises(EmbeddingError):
        await handle.embed(["x"], "query")


async def test_why_there_can_be_none_is_kept() -> None:
    handle, opened = handle_of(ClawbotError("No key.", hint="Set one."), StillClock())
    assert await handle.open() is None
    assert await handle.open() is None
    assert opened == [1]
    assert handle.wanted
    assert handle.fallback is not None
    assert (handle.fallback.from_, handle.fallback.reason) == ("words", "No key. Set one.")


async def test_the_pauses_grow_and_end_with_the_first_success() -> None:
    clock = StillClock()
    embedder = WordEmbedder()
    handle, _ = handle_of(embedder, clock)
    embedder.failure = EmbeddingError("down.", retryable=True)
    pauses = []
    for _ in range(12):
        with pytest.raises(EmbeddingError):
            await handle.embed(["x"], "document")
        assert not handle.ready
        pauses.append(handle.seconds_to_retry)
        clock.forward(seconds=handle.seconds_to_retry)
        assert handle.ready
        assert handle.fallback is not None
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE
    embedder.failure = None
    await handle.embed(["x"], "document")
    assert handle.fallback is None
    embedder.failure = EmbeddingError("down again.")
    with pytest.raises(EmbeddingError):
        await handle.embed(["x"], "document")
    assert handle.seconds_to_retry == FIRST_PAUSE


async def test_a_wrong_number_of_vectors_is_a_failure() -> None:
    class Half(WordEmbedder):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
            return await super().embed(texts[:1], purpose)

    handle, _ = handle_of(Half(), StillClock())
    with pytest.raises(EmbeddingError, match="1 vectors for 2"):
        await handle.embed(["x", "y"], "document")
    assert handle.fallback is not None


def test_the_pace_foretells_by_weight() -> None:
    clock = StillClock()
    pace = Pace("text", "files", clock, total=4, weight=100)
    assert pace.step(1, 10).seconds_left is None
    clock.forward(seconds=2)
    step = pace.step(1, 10)
    assert (step.done, step.total, step.rate, step.seconds_left) == (2, 4, 1.0, 8.0)
    clock.forward(seconds=8)
    assert pace.step(2, 80).seconds_left == 0
    more = pace.step(1, 10)
    assert (more.done, more.total) == (5, 5)
