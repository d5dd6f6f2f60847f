"""Cosine scores: the lines nearest to a question, and the score of a line with its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.search.protocols import Matrix, ReadVectors
from clawbot.memory.search.scope import FileScope
from clawbot.memory.search.table import LineTable

if TYPE_CHECKING:
    from clawbot.memory.arrays import Bools, Floats, Ids
    from clawbot.memory.store.reader import IndexReader

_WINDOW = (-2, -1, 1, 2)
# The usual cosine of adjacent lines, to estimate the length of the sum of their vectors.
_ALIKE = 0.3


class AllVectors(Struct, frozen=True):
    """A `Matrix` for one search: ascending `ids` `(n,)` and their unit vectors `(n, d)`."""

    ids: Ids
    unit_rows: Floats

    def scores(self, vector: bytes) -> Floats:
        """The cosine of each row and a unit vector: `(n,)`, zeros for one of another size."""
        np = numpy()
        query = np.frombuffer(vector, "<f4")
        found: Floats = np.zeros(len(self.ids), np.float32)
        if self.unit_rows.shape[1] == len(query):
            np.dot(self.unit_rows, query, out=found)
        return found

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Those of `ids` that have a vector, ascending `(m,)`, and their vectors `(m, d)`."""
        np = numpy()
        places = np.flatnonzero(np.isin(self.ids, ids))
        return self.ids[places], self.unit_rows[places]


def nearest(reader: IndexReader, vector: bytes, limit: int, scope: FileScope) -> Ids:
    """Ids of the lines in `scope` nearest to `vector` `(d,)`, at most `limit`, read from the index. Blocks."""
    np = numpy()
    found = reader.nearest(vector, limit, scope.narrowed)
    ids: Ids = np.fromiter((number for number, _ in found), np.int64, len(found))
    return ids


class VectorScores(Struct, frozen=True):
    """`cosines` `(n,)`, -1 to 1: that of each of n lines, with its neighbours, and a question; `known` `(n,)`: which
    lines have a vector of their own."""

    cosines: Floats
    known: Bools

    def guessed(self, share: Floats) -> Floats:
        """The cosines `(n,)`, with missing ones estimated from words: for a line with all words of the question the
        highest cosine, for others in proportion to their `share` `(n,)`, 0 to 1. So a pending vector does not push a
        line back."""
        np = numpy()
        if self.known.all():
            return self.cosines
        nearest = self.cosines[self.known].max(initial=0)
        found: Floats = np.where(self.known, self.cosines, np.maximum(self.cosines, nearest * share))
        return found


def rough_vector_scores(table: LineTable, matrix: Matrix, vector: bytes) -> VectorScores:
    """An approximation of `vector_scores` for all n lines of `table` and the `vector` `(d,)`, reading each vector once.
    Blocks."""
    np = numpy()
    own: Floats = np.zeros(len(table) + 1, np.float32)
    has: Floats = np.zeros(len(table) + 1, np.float32)
    if not len(table):
        return VectorScores(own[:0], has[:0] > 0)
    if np.array_equal(table.ids, matrix.ids):
        own[:-1] = matrix.scores(vector)
        has[:-1] = 1
    else:
        places = np.minimum(np.searchsorted(table.ids, matrix.ids), len(table) - 1)
        known = table.ids[places] == matrix.ids
        own[places[known]] = matrix.scores(vector)[known]
        has[places[known]] = 1
    is_known = has[:-1] > 0
    total, count = own[:-1].copy(), has[:-1].copy()
    own[:-1][table.columns.is_heading] = has[:-1][table.columns.is_heading] = 0
    for distance in _WINDOW:
        beside = table.beside(distance)
        total += own[beside]
        count += has[beside]
    around: Floats = total / np.sqrt(np.maximum(count + _ALIKE * count * (count - 1), 1))
    return VectorScores(around, is_known)


def vector_scores(table: LineTable, places: Ids, read: ReadVectors, vectors: Sequence[bytes]) -> list[VectorScores]:
    """For each of `vectors` `(d,)`, the scores of the lines at `places` `(n,)` with their neighbours. Blocks."""
    np = numpy()
    asked = [np.frombuffer(vector, "<f4") for vector in vectors]
    if not asked:
        return []
    around, known = _around(table, places, read, len(asked[0]))
    lengths = np.sqrt(np.einsum("ij,ij->i", around, around))
    lengths[lengths == 0] = 1
    return [VectorScores((around @ vector) / lengths, known) for vector in asked]


def _around(table: LineTable, places: Ids, read: ReadVectors, dimensions: int) -> tuple[Floats, Bools]:
    """The sums of the vectors of the lines at `places` `(n,)` and their neighbours, `(n, d)`, and which lines have
    their own, `(n,)`."""
    np = numpy()
    # Headings are often times and dates: their vectors would only blur those of the lines below.
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
    known: Bools = local[places] < len(ids)
    return around, known


def places_of_best(scores: Floats, count: int) -> Ids:
    """The positions of the `count` highest of `scores` `(n,)`, unordered: at most `(count,)`."""
    np = numpy()
    best: Ids = np.arange(len(scores)) if len(scores) <= count else np.argpartition(-scores, count)[:count]
    return best
