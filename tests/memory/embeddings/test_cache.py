"""Remote vectors are asked for once, and what came before a failure is kept."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from clawbot.memory.embeddings import cache
from clawbot.memory.embeddings.cache import CachedEmbedder
from clawbot.memory.embeddings.protocol import EmbeddingError, Purpose, Vectors
from tests.memory.embeddings.vectors import figures


class Inner:
    """Embeds a text as its length, and remembers what it was asked."""

    provider, model, remote, identity, address = "openai", "tiny", True, "openai/tiny", ""

    def __init__(self, dimensions: int = 2) -> None:
        self.asked: list[tuple[Purpose, list[str]]] = []
        self.dimensions = dimensions
        self.fail_on = ""
        self.closed = False

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if self.fail_on in texts:
            raise EmbeddingError("no quota")
        self.asked.append((purpose, list(texts)))
        rows = [struct.pack(f"<{self.dimensions}f", len(text), *[0] * (self.dimensions - 1)) for text in texts]
        return Vectors.of_rows(rows)

    async def aclose(self) -> None:
        self.closed = True


class Disk:
    """A table in memory."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, bytes], bytes] = {}
        self.looked_for = 0

    def get_many(self, identity: str, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.looked_for += len(hashes)
        return {key: self.rows[identity, key] for key in hashes if (identity, key) in self.rows}

    def put_many(self, identity: str, rows: Mapping[bytes, bytes]) -> None:
        self.rows |= {(identity, key): row for key, row in rows.items()}


async def test_equal_texts_are_asked_for_once_and_answered_in_order() -> None:
    inner = Inner()
    cached = CachedEmbedder(inner, Disk())
    assert [row[0] for row in figures(await cached.embed(["aa", "茶", "aa", "bbb"], "document"))] == [2, 1, 2, 3]
    assert [row[0] for row in figures(await cached.embed(["bbb", "cccc"], "document"))] == [3, 4]
    assert inner.asked == [("document", ["aa", "茶", "bbb"]), ("document", ["cccc"])]


async def test_blank_texts_are_neither_asked_for_nor_kept() -> None:
    inner, disk = Inner(), Disk()
    cached = CachedEmbedder(inner, disk)
    assert figures(await cached.embed(["", "aa", " \n"], "document")) == [(0, 0), (2, 0), (0, 0)]
    assert len(await cached.embed([" "], "query")) == 0
    assert inner.asked == [("document", ["aa"])]
    assert len(disk.rows) == 1


async def test_another_start_finds_them_on_disk_and_then_in_memory() -> None:
    disk, inner = Disk(), Inner()
    await CachedEmbedder(Inner(), disk).embed(["aa", "bbb"], "document")
    cached = CachedEmbedder(inner, disk)
    for _ in range(2):
        assert [row[0] for row in figures(await cached.embed(["bbb", "aa"], "document"))] == [3, 2]
    assert inner.asked == []
    assert disk.looked_for == 4


async def test_a_question_and_a_document_are_two_things() -> None:
    inner = Inner()
    cached = CachedEmbedder(inner, Disk())
    await cached.embed(["aa"], "document")
    await cached.embed(["aa"], "query")
    assert [purpose for purpose, _ in inner.asked] == ["document", "query"]


async def test_another_identity_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, inner = Disk(), Inner()
    await CachedEmbedder(Inner(), disk).embed(["aa"], "document")
    monkeypatch.setattr(inner, "identity", "openai/other")
    await CachedEmbedder(inner, disk).embed(["aa"], "document")
    assert len(inner.asked) == 1


async def test_what_came_before_a_failure_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SLICE", 2)
    inner = Inner()
    cached = CachedEmbedder(inner, Disk())
    inner.fail_on = "eeeee"
    with pytest.raises(EmbeddingError, match="no quota"):
        await cached.embed(["a", "bb", "ccc", "dddd", "eeeee"], "document")
    inner.fail_on = ""
    inner.asked.clear()
    assert len(await cached.embed(["a", "bb", "ccc", "dddd", "eeeee"], "document")) == 5
    assert inner.asked == [("document", ["eeeee"])]


async def test_memory_holds_the_last_used_and_no_more() -> None:
    disk = Disk()
    cached = CachedEmbedder(Inner(), disk, max_memory=16)
    await cached.embed(["a", "bb"], "document")
    await cached.embed(["a"], "document")
    await cached.embed(["ccc"], "document")
    disk.looked_for = 0
    await cached.embed(["a", "ccc"], "document")
    assert disk.looked_for == 0
    await cached.embed(["bb"], "document")
    assert disk.looked_for == 1


async def test_a_model_that_changes_its_size_is_asked_anew() -> None:
    disk, inner = Disk(), Inner(3)
    await CachedEmbedder(Inner(2), disk).embed(["a", "bb"], "document")
    vectors = await CachedEmbedder(inner, disk).embed(["a", "bb", "ccc"], "document")
    assert vectors.dimensions == 3
    assert [row[0] for row in figures(vectors)] == [1, 2, 3]
    assert (await CachedEmbedder(Inner(3), disk).embed(["a", "bb"], "document")).dimensions == 3


async def test_sizes_that_differ_in_one_answer_are_an_error() -> None:
    class Fickle(Inner):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
            self.dimensions += 1
            return await super().embed(texts, purpose)

    cached = CachedEmbedder(Fickle(), Disk())
    await cached.embed(["a"], "document")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SLICE", 1)
        with pytest.raises(EmbeddingError, match="different sizes") as caught:
            await cached.embed(["b", "c"], "document")
    assert caught.value.retryable


async def test_it_looks_like_the_inner_one_and_closes_it() -> None:
    inner = Inner()
    cached = CachedEmbedder(inner, Disk())
    assert (cached.provider, cached.model, cached.remote, cached.identity) == ("openai", "tiny", True, "openai/tiny")
    assert len(await cached.embed([], "document")) == 0
    await cached.aclose()
    assert inner.closed


def test_rows_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows of \[4, 8\] bytes"):
        Vectors.of_rows([bytes(4), bytes(8)])
