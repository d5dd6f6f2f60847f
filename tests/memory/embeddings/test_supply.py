"""Where vectors come from, and how a provider that fails is left alone."""

from __future__ import annotations

import asyncio

import pytest

from clawbot.errors import ClawbotError
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError, Purpose, Vectors
from clawbot.memory.embeddings.supply import FIRST_PAUSE, LONGEST_PAUSE, Supply
from clawbot.memory.sync.pace import Pace
from tests.memory.index_host import WordEmbedder
from tests.sessions.helpers import StillClock


def supply_of(embedder: Embedder | ClawbotError | None, clock: StillClock) -> tuple[Supply, list[int]]:
    opened: list[int] = []

    async def opener() -> Embedder | None:
        opened.append(1)
        await asyncio.sleep(0)
        if isinstance(embedder, ClawbotError):
            raise embedder
        return embedder

    return Supply("words", opener, clock), opened


async def test_it_is_opened_once_by_the_first_who_needs_it() -> None:
    embedder = WordEmbedder()
    supply, opened = supply_of(embedder, StillClock())
    assert (supply.provider, supply.ready, opened) == ("none", False, [])
    assert await asyncio.gather(*(supply.open() for _ in range(5))) == [embedder] * 5
    assert opened == [1]
    assert (supply.provider, supply.model, supply.ready, supply.fallback) == ("words", "one", True, None)


async def test_no_vectors_wanted_is_no_problem() -> None:
    supply, _ = supply_of(None, StillClock())
    assert await supply.open() is None
    assert (supply.fallback, supply.wanted, supply.ready) == (None, False, False)
    with pytest.raises(EmbeddingError):
        await supply.embed(["x"], "query")


async def test_why_there_can_be_none_is_kept() -> None:
    supply, opened = supply_of(ClawbotError("No key.", hint="Set one."), StillClock())
    assert await supply.open() is None
    assert await supply.open() is None
    assert opened == [1]
    assert supply.wanted
    assert supply.fallback is not None
    assert (supply.fallback.from_, supply.fallback.reason) == ("words", "No key. Set one.")


async def test_the_pauses_grow_and_end_with_the_first_success() -> None:
    clock = StillClock()
    embedder = WordEmbedder()
    supply, _ = supply_of(embedder, clock)
    embedder.failure = EmbeddingError("down.", retryable=True)
    pauses = []
    for _ in range(12):
        with pytest.raises(EmbeddingError):
            await supply.embed(["x"], "document")
        assert not supply.ready
        pauses.append(supply.seconds_to_retry)
        clock.forward(seconds=supply.seconds_to_retry)
        assert supply.ready
        assert supply.fallback is not None
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    embedder.failure = None
    await supply.embed(["x"], "document")
    assert supply.fallback is None
    embedder.failure = EmbeddingError("down again.")
    with pytest.raises(EmbeddingError):
        await supply.embed(["x"], "document")
    assert supply.seconds_to_retry == FIRST_PAUSE


async def test_a_wrong_number_of_vectors_is_a_failure() -> None:
    class Half(WordEmbedder):
        async def embed(self, texts: list[str], purpose: Purpose) -> Vectors:
            return await super().embed(texts[:1], purpose)

    supply, _ = supply_of(Half(), StillClock())
    with pytest.raises(EmbeddingError, match="1 vectors for 2"):
        await supply.embed(["x", "y"], "document")
    assert supply.fallback is not None


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
