"""Vectors of an answer: in order, of unit length, and refused when they make no sense."""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from clawbot.llm.scripted.server import packed
from clawbot.llm.vectors import BadVectorsError, Rows, to_rows


def entry(vector: Any, index: int | None = None) -> dict[str, Any]:
    return {"embedding": vector} if index is None else {"embedding": vector, "index": index}


def figures(rows: Rows) -> list[tuple[float, ...]]:
    size = rows.dimensions * 4
    parts = [rows.data[start : start + size] for start in range(0, len(rows.data), size)]
    return [struct.unpack(f"<{rows.dimensions}f", part) for part in parts]


def test_rows_are_of_unit_length_or_all_zeros() -> None:
    rows = to_rows([entry([3.0, 4.0]), entry([0, 0]), entry([1e300, 0.0])], 3)
    assert figures(rows) == [pytest.approx((0.6, 0.8)), (0.0, 0.0), (1.0, 0.0)]


def test_figures_may_be_packed() -> None:
    rows = to_rows([entry(packed([3.0, 4.0])), entry([0.0, 1.0]), entry(packed([0.6, 0.8]))], 3)
    assert figures(rows) == [pytest.approx((0.6, 0.8)), (0.0, 1.0), pytest.approx((0.6, 0.8))]


def test_they_stand_in_the_order_of_their_index() -> None:
    assert figures(to_rows([entry([0, 1], 1), entry([1, 0], 0)], 2)) == [(1, 0), (0, 1)]


@pytest.mark.parametrize("indices", [(0, 0), (None, None), (5, 6), ("1", "0")])
def test_an_index_that_is_none_is_not_heeded(indices: tuple[Any, Any]) -> None:
    entries = [{"embedding": [1, 0], "index": indices[0]}, {"embedding": [0, 1], "index": indices[1]}]
    assert figures(to_rows(entries, 2)) == [(1, 0), (0, 1)]


def test_entries_may_be_objects() -> None:
    assert figures(to_rows([SimpleNamespace(embedding=[0.0, 2.0], index=0)], 1)) == [(0, 1)]


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (None, "no vectors for 1 texts"),
        ([], "0 vectors for 1 texts"),
        ([entry([1]), entry([1])], "2 vectors for 1 texts"),
        ([{}], "no list of figures"),
        ([None], "no list of figures"),
        ([entry([])], "no list of figures"),
        ([entry("AAAA")], "no list of figures"),
        ([entry("no base64!")], "no list of figures"),
        ([entry("")], "no list of figures"),
        ([entry(packed([math.nan]))], "a figure that is none"),
        ([entry(["a"])], "no list of figures"),
        ([entry([None, 1.0])], "no list of figures"),
        ([entry([math.nan, 1.0])], "a figure that is none"),
        ([entry([math.inf, 1.0])], "a figure that is none"),
    ],
)
def test_what_makes_no_sense_is_refused(entries: Any, reason: str) -> None:
    with pytest.raises(BadVectorsError, match=reason):
        to_rows(entries, 1)


def test_vectors_of_two_sizes_are_refused() -> None:
    with pytest.raises(BadVectorsError, match="differ in size"):
        to_rows([entry([1.0]), entry([1.0, 0.0])], 2)


def test_pieces_hold_whole_rows() -> None:
    rows = to_rows([entry([1.0, 0.0, 0.0])] * 5, 5)
    assert [len(piece) for piece in rows.blocks(25)] == [24, 24, 12]
    assert [len(piece) for piece in rows.blocks(1)] == [12] * 5
    assert b"".join(rows.blocks(25)) == rows.data
