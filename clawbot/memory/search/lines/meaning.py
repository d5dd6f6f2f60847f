"""Owns the vectors of a search: the lines nearest to a question, and how near a line is with its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.search.lines.table import LineTable
from clawbot.memory.search.reading import Matrix, Reader
from clawbot.memory.search.scope import Scope

if TYPE_CHECKING:
    from clawbot.memory.search.reading import Floats, Ids

ReadVectors = Callable[["Ids"], tuple["Ids", "Floats"]]
"""Ids go in; out come those that have a vector, ascending, and their unit vectors."""

_WINDOW = (-2, -1, 1, 2)
# The usual cosine of two lines beside each other, to guess the length of the sum of their vectors.
_ALIKE = 0.3


class AllVectors(Struct, frozen=True):
    """A `Matrix` for one search: ascending `ids` and their unit vectors."""

    ids: Ids
    unit_rows: Floats

    def scores(self, vector: bytes) -> Floats:
        """The cosine of each row and a unit vector."""
        np = numpy()
        query = np.frombuffer(vector, "<f4")
        found: Floats = np.zeros(len(self.ids), np.float32)
        if self.unit_rows.shape[1] == len(query):
            np.dot(self.unit_rows, query, out=found)
        return found

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Those of `ids` that have a vector, ascending, and their vectors."""
        np = numpy()
        places = np.flatnonzero(np.isin(self.ids, ids))
        return self.ids[places], self.unit_rows[places]


def nearest(reader: Reader, vector: bytes, limit: int, scope: Scope) -> Ids:
    """Ids of the lines in `scope` nearest to `vector`, read from the index. Blocks."""
    np = numpy()
    found = reader.nearest(vector, limit, None if scope.is_whole else scope.files.keys())
    ids: Ids = np.fromiter((number for number, _ in found), np.int64, len(found))
    return ids


def rough_closeness(table: LineTable, matrix: Matrix, vector: bytes) -> Floats:
    """About what `closeness` is, of all lines, without reading a vector twice. Blocks."""
    np = numpy()
    own: Floats = np.zeros(len(table) + 1, np.float32)
    has: Floats = np.zeros(len(table) + 1, np.float32)
    if not len(table):
        return own[:0]
    if np.array_equal(table.ids, matrix.ids):
        own[:-1] = matrix.scores(vector)
        has[:-1] = 1
    else:
        places = np.minimum(np.searchsorted(table.ids, matrix.ids), len(table) - 1)
        known = table.ids[places] == matrix.ids
        own[places[known]] = matrix.scores(vector)[known]
        has[places[known]] = 1
    total, count = own[:-1].copy(), has[:-1].copy()
    own[:-1][table.columns.is_heading] = has[:-1][table.columns.is_heading] = 0
    for distance in _WINDOW:
        beside = table.beside(distance)
        total += own[beside]
        count += has[beside]
    around: Floats = total / np.sqrt(np.maximum(count + _ALIKE * count * (count - 1), 1))
    return around


def closeness(table: LineTable, places: Ids, read: ReadVectors, vectors: Sequence[bytes | None]) -> list[Floats]:
    """For each of `vectors` the cosine with the lines at `places` and their neighbours; 0 without a vector. Blocks."""
    np = numpy()
    asked = [np.frombuffer(vector, "<f4") for vector in vectors if vector is not None]
    nothing: Floats = np.zeros(len(places), np.float32)
    if not asked or not len(places):
        return [nothing for _ in vectors]
    around = _around(table, places, read, len(asked[0]))
    lengths = np.sqrt(np.einsum("ij,ij->i", around, around))
    lengths[lengths == 0] = 1
    found = iter([(around @ vector) / lengths for vector in asked])
    return [nothing if vector is None else next(found) for vector in vectors]


def _around(table: LineTable, places: Ids, read: ReadVectors, dimensions: int) -> Floats:
    """The sums of the vectors of the lines at `places` and their neighbours."""
    np = numpy()
    # Headings are often times and dates: the vectors of the lines below would only blur.
    is_heading = np.append(table.columns.is_heading, False)
    groups = [places]
    for distance in _WINDOW:
        beside = table.beside(distance)[places]
        groups.append(np.where(is_heading[beside], len(table), beside))
    needed = np.unique(np.concatenate(groups))
    needed = needed[needed < len(table)]
    ids, rows = read(table.ids[needed])
    local: Ids = np.full(len(table) + 1, len(ids))
    local[np.searchsorted(table.ids, ids)] = np.arange(len(ids))
    padded: Floats = np.zeros((len(ids) + 1, dimensions), np.float32)
    if rows.shape[1] == dimensions:
        padded[:-1] = rows
    around: Floats = padded[local[groups[0]]]
    for group in groups[1:]:
        around += padded[local[group]]
    return around


def places_of_best(scores: Floats, count: int) -> Ids:
    """Where the `count` highest of `scores` are, in no particular order."""
    np = numpy()
    best: Ids = np.arange(len(scores)) if len(scores) <= count else np.argpartition(-scores, count)[:count]
    return best
