"""Waiting for the vectors of a question: how long, what goes on meanwhile, and who gets what came late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from clawbot.memory.embeddings.protocol import EmbeddingError, Purpose, Vectors
from clawbot.memory.search import search_pool
from clawbot.memory.search.searcher import LATE_VECTOR
from tests.memory.index_host import House, WordEmbedder, find, paths, until


class SlowEmbedder(WordEmbedder):
    """A remote model; `silent`: a question waits until `answer` is set."""

    def __init__(self) -> None:
        super().__init__(remote=True)
        self.answer = asyncio.Event()
        self.asked: list[str] = []
        self.given_up = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if purpose == "query":
            self.asked += texts
            try:
                await self.answer.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
        return await super().embed(texts, purpose)


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.write("memory/a.md", "the proxy moved to port 8443")
    house.write("memory/b.md", "部署窗口改到周四晚上")
    return house


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(search_pool, "KNOWN_SECONDS", 0.02)


async def test_words_answer_while_the_vector_is_on_its_way_and_the_next_search_has_it(house: House) -> None:
    embedder = SlowEmbedder()
    async with house.opened(embedder, long_lived=True) as index:
        await index.sync()
        for query, path in (("proxy", "memory/a.md"), ("部署窗口", "memory/b.md")):
            found = await find(index, query)
            assert paths(found) == [path]
            assert (found.mode, found.provider) == ("fts-only", "none")
            assert found.fallback is not None
            assert (found.fallback.from_, found.fallback.reason) == ("words", LATE_VECTOR)
        # The second question was not sent after a provider that is known to be slow.
        assert embedder.asked == ["proxy"]
        told: list[int] = []
        before = index.generation
        index.on_progress = lambda progress: told.append(index.generation)
        embedder.answer.set()
        await until(lambda: told[-1:] == [before + 1])
        found = await find(index, "proxy")
        assert (found.mode, found.fallback) == ("hybrid", None)
        assert embedder.asked == ["proxy"]
        assert (await find(index, "部署窗口")).mode == "hybrid"


async def test_a_late_failure_is_known_to_the_next_search(house: House) -> None:
    embedder = SlowEmbedder()
    async with house.opened(embedder, long_lived=True) as index:
        await index.sync()
        await find(index, "proxy")
        embedder.failure = EmbeddingError("no route to host.", retryable=True)
        embedder.answer.set()
        await until(lambda: not index._handle.ready)
        found = await find(index, "proxy")
        assert found.fallback is not None
        assert found.fallback.reason == "no route to host."
        assert embedder.asked == ["proxy"]


async def test_a_close_gives_up_what_is_on_its_way(house: House) -> None:
    embedder = SlowEmbedder()
    async with house.opened(embedder, long_lived=True) as index:
        await index.sync()
        await find(index, "proxy")
    assert embedder.given_up == 1
    assert embedder.closed


async def test_a_provider_that_answered_before_has_more_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "KNOWN_SECONDS", 20.0)
    embedder = SlowEmbedder()
    async with house.opened(embedder, long_lived=True) as index:
        await index.sync()
        search = asyncio.create_task(find(index, "proxy"))
        await until(lambda: bool(embedder.asked))
        asyncio.get_running_loop().call_later(0.1, embedder.answer.set)
        assert (await search).mode == "hybrid"


async def test_a_question_that_is_given_up_does_not_hold_up_the_next_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_pool, "KNOWN_SECONDS", 20.0)
    embedder = SlowEmbedder()
    async with house.opened(embedder, long_lived=True) as index:
        await index.sync()
        search = asyncio.create_task(find(index, "pro"))
        await until(lambda: bool(embedder.asked))
        search.cancel()
        await asyncio.wait([search])
        embedder.answer.set()
        assert (await find(index, "proxy")).mode == "hybrid"
    assert embedder.given_up == 1


async def test_a_provider_that_never_answers_is_left_alone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_pool, "MAX_SECONDS", 0.05)
    async with house.opened(SlowEmbedder(), long_lived=True) as index:
        await index.sync()
        await find(index, "proxy")
        await until(lambda: not index._handle.ready)
        found = await find(index, "proxy")
        assert found.fallback is not None
        assert "did not answer within 0.05 s" in found.fallback.reason


async def test_on_the_command_line_a_search_waits_for_its_provider(house: House) -> None:
    embedder = SlowEmbedder()
    async with house.opened(embedder) as index:
        await index.sync()
        search = asyncio.create_task(find(index, "proxy"))
        await until(lambda: bool(embedder.asked))
        asyncio.get_running_loop().call_later(0.1, embedder.answer.set)
        found = await search
    assert (found.mode, found.provider, found.fallback) == ("hybrid", "words", None)


async def test_it_waits_no_longer_than_the_settings_say(house: House) -> None:
    embedder = SlowEmbedder()
    async with house.opened(embedder, query={"timeout": "50ms"}) as index:
        await index.sync()
        found = await find(index, "proxy")
    assert (paths(found), found.mode) == (["memory/a.md"], "fts-only")
    assert found.fallback is not None
    assert embedder.given_up == 1
