"""A provider of vectors that can't work is told of once, when a chat begins, and nothing waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from clawbot.indexing import VectorProbe
from clawbot.memory.embeddings.protocol import EmbeddingError, Purpose, Vectors
from tests.memory.fake_index import FakeIndex
from tests.memory.index_host import House, WordEmbedder, find, until

NO_KEY = EmbeddingError("OPENAI_API_KEY is not set.")


class Silent(WordEmbedder):
    """A remote model that never answers. `asked` are the words that were sent to it."""

    def __init__(self) -> None:
        super().__init__(remote=True)
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        self.asked += texts
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def told_of(probe: VectorProbe, *, deep: bool = True) -> list[str]:
    """What is told when the probe is over."""
    told: list[str] = []
    probe.start(told.append, deep=deep)
    await until(lambda: probe._task is not None and probe._task.done())
    await probe.close()
    return told


@pytest.mark.parametrize("deep", [True, False])
async def test_a_key_that_is_missing_is_told_and_stands_in_the_status(house: House, deep: bool) -> None:
    async with house.opened(NO_KEY) as index:
        probe = VectorProbe("main", {"main": index})
        assert index.problem == ""
        assert await told_of(probe, deep=deep) == ["memory: words only: OPENAI_API_KEY is not set."]
        assert index.problem == "words only: OPENAI_API_KEY is not set."


async def test_a_provider_that_refuses_is_told_once_and_forgotten_when_it_works_again(house: House) -> None:
    house.write("memory/a.md", "alpha")
    embedder = WordEmbedder(remote=True)
    embedder.failure = EmbeddingError("the key is wrong.")
    async with house.opened(embedder, long_lived=True) as index:
        probe = VectorProbe("main", {"main": index})
        assert await told_of(probe) == ["memory: words only: the key is wrong."]
        embedder.failure = None
        index._handle._retry_at = 0.0
        await find(index, "alpha")
        assert index.problem == ""


async def test_a_provider_that_works_is_asked_for_one_word_and_nothing_is_told(house: House) -> None:
    embedder = WordEmbedder(remote=True)
    async with house.opened(embedder) as index:
        probe = VectorProbe("main", {"main": index})
        assert (await told_of(probe), index.problem) == ([], "")
    assert len(embedder.queries) == 1


async def test_without_vectors_wanted_and_with_those_made_here_nothing_is_sent_and_nothing_told(house: House) -> None:
    embedder = WordEmbedder()
    for wanted in (None, embedder):
        async with house.opened(wanted) as index:
            probe = VectorProbe("main", {"main": index})
            assert (await told_of(probe), index.problem) == ([], "")
    assert embedder.queries == []


async def test_it_is_told_of_which_agent_it_is_and_one_failure_holds_up_no_other(house: House, tmp_path: Path) -> None:
    class Broken(FakeIndex):
        async def probe(self, *, deep: bool = True) -> str:
            raise RuntimeError("an error of the program")

    async with house.opened(NO_KEY) as index:
        probe = VectorProbe("main", {"main": Broken(), "work": index})
        assert await told_of(probe) == ["memory of work: words only: OPENAI_API_KEY is not set."]


async def test_one_that_does_not_answer_is_given_up_at_the_end(house: House) -> None:
    embedder = Silent()
    async with house.opened(embedder) as index:
        probe = VectorProbe("main", {"main": index})
        probe.start(pytest.fail, deep=True)
        await until(lambda: bool(embedder.asked))
        await probe.close()
    assert embedder.asked == ["memory"]
