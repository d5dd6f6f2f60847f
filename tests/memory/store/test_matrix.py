from __future__ import annotations

import random
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from clawbot.memory.store import matrix as matrices
from clawbot.memory.store.matrix import VectorMatrix
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.vectors import plane_bytes
from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import DIMENSIONS, opened, put, vector


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "_BLOCK_ROWS", 8)


def load(reader: IndexReader) -> VectorMatrix:
    found = VectorMatrix.load(reader)
    assert found is not None
    return found


def same(one: VectorMatrix, other: VectorMatrix) -> bool:
    query = vector("query").tobytes()
    return (
        one.generation == other.generation
        and [*map(int, chain(*one.ids))] == [*map(int, chain(*other.ids))]
        and np.allclose(one.scores(query), other.scores(query), atol=1e-6)
    )


def test_it_scores_as_the_reader_does(path: Path, writer: IndexWriter) -> None:
    put(writer, {f"{number}.md": "\n".join(f"{number} {line}" for line in range(5)) for number in range(9)})
    reader = IndexReader(path)
    matrix = load(reader)
    query = vector("3 2").tobytes()
    scores = matrix.scores(query)
    best = int(np.argmax(scores))
    [(nearest, cosine)] = reader.nearest(query, 1)
    assert nearest == [*chain(*matrix.ids)][best]
    assert cosine == pytest.approx(float(scores[best]), abs=0.3)
    assert matrix.scores(vector("x", 32).tobytes()).tolist() == [0.0] * 45
    ids, rows = matrix.rows(np.array([(9 << 20) + 4, 5, (2 << 20) + 1, 99 << 20]))
    wanted, expected = reader.vectors([(2 << 20) + 1, (9 << 20) + 4])
    assert np.array_equal(ids, wanted)
    assert np.allclose(rows, expected)


def test_an_empty_index_has_an_empty_one(path: Path, writer: IndexWriter) -> None:
    matrix = load(IndexReader(path))
    assert len(matrix) == 0
    assert matrix.scores(vector("x").tobytes()).tolist() == []
    assert matrix.rows(np.array([1, 2]))[0].tolist() == []
    put(writer, {"a.md": "one"})
    updated = matrix.updated(IndexReader(path))
    assert updated is not None
    assert len(updated) == 1


def test_after_any_changes_it_is_as_if_loaded_anew(path: Path, writer: IndexWriter) -> None:
    choose = random.Random(7)
    put(writer, {f"{number}.md": "\n".join(f"{number} {line}" for line in range(6)) for number in range(12)})
    reader = IndexReader(path)
    matrix = load(reader)
    for step in range(40):
        names = choose.sample(range(14), 2)
        if step % 5 == 4:
            with writer.transaction():
                writer.remove([f"{name}.md" for name in names])
        else:
            lines = [f"{step} {choose.random()}" for _ in range(choose.randint(1, 30))]
            put(writer, {f"{name}.md": "\n".join(lines) for name in names}, embed=step % 3 > 0)
        before = matrix.scores(vector("query").tobytes())
        updated = matrix.updated(reader)
        assert updated is not None
        assert np.array_equal(before, matrix.scores(vector("query").tobytes()))
        assert same(updated, load(reader))
        matrix = updated
    assert matrix.updated(reader) is matrix


def test_another_index_in_its_place_is_loaded_whole(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one\ntwo"})
    matrix = load(IndexReader(path))
    writer.close()
    for file in path.parent.iterdir():
        file.unlink()
    again = opened(path)
    put(again, {"a.md": "two\none"})
    updated = matrix.updated(IndexReader(path))
    assert updated is not None
    assert same(updated, load(IndexReader(path)))
    assert not same(updated, matrix)
    again.close()


def test_of_too_many_there_is_none(path: Path, writer: IndexWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    put(writer, {"a.md": "one\ntwo", "b.md": "three", "c.md": "four"})
    reader = IndexReader(path)
    monkeypatch.setattr(matrices, "MAX_BYTES", 4 * (3 * plane_bytes(DIMENSIONS) + 8))
    matrix = load(reader)
    put(writer, {"d.md": "five"})
    assert matrix.updated(reader) is None
    assert VectorMatrix.load(reader) is None
