"""Cosine scores: the lines nearest to a question, and the score of a line with its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import are_among, distinct, numpy, positions_in
from clawbot.memory.search.protocols import ChunkReader, Matrix, ReadVectors
from clawbot.memory.search.scope import FileScope
from clawbot.memory.search.table import LineTable

if TYPE_CHECKING:
    from clawbot.memory.arrays import Bools, Floats, Ids

_WINDOW = (-2, -1, 1, 2)
# The usual cosine of adjacent lines, to estimate the length of the sum of their vectors.
_ALIKE = 0.3
_STRETCH = 8

MEAN, DEVIATION = 0.1, 0.15
"""Cosines of a question and all lines with the offline model, with which `LineWeights` were learned; the deviation is
0.10 to 0.16, by the kind of notes."""

_FINEST = 1e-4
"""A band that is narrower is one of errors of rounding."""

FEWEST = 30
"""Fewer lines are not enough for statistics."""

NEAR = 0.3
"""The minimum cosine in that case. Offline vectors of Latin text reach 0.2 by chance."""


class AllVectors(Struct, frozen=True):
    """A `Matrix` for one search: ascending `chunks` `(n,)` and their unit vectors `(n, d)`."""

    chunks: Ids
    unit_rows: Floats

    def scores(self, vector: bytes) -> Floats:
        """Return the cosine of each row and a unit vector: `(n,)`, zeros for one of another size."""
        np = numpy()
        query = np.frombuffer(vector, "<f4")
        found: Floats = np.zeros(len(self.chunks), np.float32)
        if self.unit_rows.shape[1] == len(query):
            np.dot(self.unit_rows, query, out=found)
        return found

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Return those of `ids` that have a vector, ascending `(m,)`, and their vectors `(m, d)`."""
        np = numpy()
        positions = np.flatnonzero(are_among(self.chunks, ids))
        return self.chunks[positions], self.unit_rows[positions]

    @property
    def ids(self) -> Sequence[Ids]:
        """The ids, as one stretch."""
        return [self.chunks]

    def positions(self, ids: Ids) -> tuple[Ids, Bools]:
        """Return the row of each of the ascending `ids` `(m,)`, and which have one: both `(m,)`."""
        return positions_in(self.ids, ids)


def nearest(reader: ChunkReader, vector: bytes, limit: int, scope: FileScope) -> Ids:
    """Return ids of the lines in `scope` nearest to `vector` `(d,)`, at most `limit`, read from the index. Blocks."""
    np = numpy()
    found = reader.nearest(vector, limit, scope.narrowed)
    ids: Ids = np.fromiter((number for number, _ in found), np.int64, len(found))
    return ids


class VectorScores(Struct, frozen=True):
    """`cosines` `(n,)`, -1 to 1: that of each of n lines, with its neighbours, and a question; `own` `(n,)` without
    them; `known` `(n,)`: which lines have a vector of their own."""

    cosines: Floats
    own: Floats
    known: Bools

    def guessed(self, share: Floats) -> Floats:
        """Return the cosines `(n,)`, with missing ones estimated from words: for a line with all words of the question
        the highest cosine, for others in proportion to their `share` `(n,)`, 0 to 1. So a pending vector does not push
        a line back."""
        np = numpy()
        if self.known.all():
            return self.cosines
        nearest = self.cosines[self.known].max(initial=0)
        found: Floats = np.where(self.known, self.cosines, np.maximum(self.cosines, nearest * share))
        return found


def cosines_of(ids: Ids, matrix: Matrix, scores: Floats) -> VectorScores:
    """Return the `scores` of the rows of `matrix` `(m,)` for the ascending `ids` `(n,)`; 0 without a row."""
    np = numpy()
    found: Floats = np.zeros(len(ids), np.float32)
    positions, known = matrix.positions(ids)
    found[known] = scores[positions[known]]
    return VectorScores(found, found, known)


def rough_vector_scores(table: LineTable, alone: VectorScores) -> VectorScores:
    """Return an approximation of `LineVectors.scores` for all n lines of `table`, from the cosine of each `alone`; a
    heading's own cosine is 0."""
    np = numpy()
    is_known = alone.known
    own: Floats = np.append(alone.cosines, np.float32(0))
    has: Floats = np.append(is_known, False).astype(np.float32)
    total, count = own[:-1].copy(), has[:-1].copy()
    own[:-1][table.columns.is_heading] = has[:-1][table.columns.is_heading] = 0
    for distance in _WINDOW:
        others = table.neighbours(distance)
        total += own[others]
        count += has[others]
    around: Floats = total / np.sqrt(np.maximum(count + _ALIKE * count * (count - 1), 1))
    return VectorScores(around, own[:-1], is_known)


def as_offline(cosines: Floats, usual: Floats) -> Floats:
    """Return `cosines` `(n,)` of any model on the scale of the offline model; `usual` `(m,)` are those of a sample of
    all lines. If they are few, the farthest gets 0 and the nearest `NEAR`, none more than it has."""
    np = numpy()
    if not len(usual):
        return cosines
    if len(usual) < FEWEST:
        least, most = float(usual.min()), float(usual.max())
        ordered = NEAR + (cosines - most) * np.float32(NEAR / max(most - least, _FINEST))
        few: Floats = np.maximum(np.minimum(ordered, cosines), 0)
        return few
    factor = np.float32(DEVIATION / max(float(usual.std()), _FINEST))
    scaled: Floats = (cosines - usual.mean()) * factor + np.float32(MEAN)
    return scaled


class Sample(Struct, frozen=True):
    """Vectors of evenly spaced lines, less their mean `centre` `(d,)` and again of unit length: `rows` `(m, d)`. What
    all lines have in common distinguishes none, and with most models is most of a vector."""

    rows: Floats
    centre: Floats

    @classmethod
    def of(cls, rows: Floats) -> Sample:
        np = numpy()
        centre: Floats = rows.mean(axis=0) if len(rows) >= FEWEST else np.zeros(rows.shape[1], np.float32)
        return cls(centred(rows, centre), centre)


def centred(rows: Floats, centre: Floats) -> Floats:
    """Return the vectors `rows` `(n, d)` less `centre` `(d,)`, of unit length."""
    np = numpy()
    found: Floats = rows - centre
    lengths = np.sqrt(np.einsum("ij,ij->i", found, found))
    lengths[lengths == 0] = 1
    found /= lengths[:, None]
    return found


class LineVectors(Struct, frozen=True):
    """The vectors of n lines: `own` `(n, d)`, zeros for a line without one, and `around` `(n, d)`, the sums with their
    neighbours'; `known` `(n,)`: which lines have their own. With a `sample` they are less its centre, and cosines are
    on the scale of the offline model."""

    own: Floats
    around: Floats
    known: Bools
    sample: Sample | None = None

    def scores(self, vector: bytes) -> VectorScores:
        """Return the cosines with a unit `vector` `(d,)`."""
        np = numpy()
        asked = np.frombuffer(vector, "<f4")
        lengths = np.sqrt(np.einsum("ij,ij->i", self.around, self.around))
        lengths[lengths == 0] = 1
        around, own = self._cosines((self.around @ asked) / lengths, asked), self._cosines(self.own @ asked, asked)
        return VectorScores(around, own, self.known)

    def _cosines(self, cosines: Floats, vector: Floats) -> Floats:
        return cosines if self.sample is None else as_offline(cosines, self.sample.rows @ vector)

    def echo(self, scores: Floats, count: int) -> Floats:
        """Return the cosine of each line and the mean of the `count` lines with the highest `scores` `(n,)`: `(n,)`."""
        np = numpy()
        best = np.sort(positions_of_best(scores, count))
        mean = np.maximum(scores[best], 0) @ self.own[best]
        length = float(np.linalg.norm(mean))
        mean = mean / length if length else mean
        return self._cosines(self.own @ mean, mean)


def line_vectors(
    table: LineTable, positions: Ids, read: ReadVectors, dimensions: int, sample: Sample | None = None
) -> LineVectors:
    """Return the vectors of the lines at `positions` `(n,)`. Blocks."""
    np = numpy()
    # Headings are often times and dates: their vectors would only blur those of the lines below.
    is_heading = np.append(table.columns.is_heading, False)
    groups = [positions]
    for distance in _WINDOW:
        others = table.neighbours(distance)[positions]
        groups.append(np.where(is_heading[others], len(table), others))
    needed = distinct(np.concatenate(groups))
    needed = needed[needed < len(table)]
    ids, rows = read(table.ids[needed])
    local: Ids = np.full(len(table) + 1, len(ids))
    local[np.searchsorted(table.ids, ids)] = np.arange(len(ids))
    padded: Floats = np.zeros((len(ids) + 1, dimensions), np.float32)
    if rows.shape[1] == dimensions:
        padded[:-1] = rows if sample is None else centred(rows, sample.centre)
    own: Floats = padded[local[positions]]
    around = own.copy()
    for group in groups[1:]:
        around += padded[local[group]]
    return LineVectors(own, around, local[positions] < len(ids), sample)


def positions_of_best(scores: Floats, count: int) -> Ids:
    """Return the positions of the `count` highest of `scores` `(n,)`, unordered: at most `(count,)`."""
    np = numpy()
    if len(scores) <= count:
        every: Ids = np.arange(len(scores))
        return every
    among: Ids = np.arange(len(scores))
    if len(scores) > _STRETCH * count:
        # They are in as many stretches, those with the highest maxima: a fifth of the time for a million.
        full = len(scores) // _STRETCH
        maxima = scores[: full * _STRETCH].reshape(full, _STRETCH).max(axis=1)
        stretches = np.sort(positions_of_best(maxima, count))
        among = (stretches[:, None] * _STRETCH + np.arange(_STRETCH)).ravel()
        among = np.append(among, np.arange(full * _STRETCH, len(scores)))
    best: Ids = among[np.argpartition(-scores[among], count)[:count]]
    return best
