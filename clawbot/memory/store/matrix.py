"""All vectors of an index in memory, for a process that searches repeatedly.

They stay quantised, one byte per dimension: a quarter of the memory of floats and twice as fast to scan, since memory
bandwidth is the bottleneck.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from clawbot.memory.arrays import numpy
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import ORDINAL_BITS, file_of, id_of
from clawbot.memory.store.vectors import Stored, levels_of, unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clawbot.memory.arrays import Floats, Ids, Levels

MAX_ROWS = 250_000
"""No matrix is built for larger indexes: it would exceed 64 MB and take seconds to read."""

_BLOCK_ROWS = 8192
"""A change copies the block that contains it."""

_ROWS_AT_A_TIME = 512
"""Rows that fit in the CPU cache as floats."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The vectors of consecutive files by id: `levels` `(n, d)` divided by their `lengths` `(n,)`."""

    ids: Ids
    levels: Levels
    lengths: Floats

    def chosen(self, which: NDArray[np.generic] | slice) -> _Block:
        """A copy of some rows."""
        np = numpy()
        parts = (np.ascontiguousarray(each[which]) for each in (self.ids, self.levels, self.lengths))
        return _Block(*parts)


class VectorMatrix:
    """The vectors of one generation. Immutable: `updated` returns a new one that shares unchanged blocks."""

    def __init__(self, blocks: list[_Block], revisions: dict[int, tuple[int, int]], generation: int) -> None:
        np = numpy()
        self.generation = generation
        self._blocks = blocks
        self._revisions = revisions
        self.ids: Ids = np.concatenate([np.zeros(0, np.int64), *(block.ids for block in blocks)])
        """The chunks, ascending."""
        self._starts: Ids = np.cumsum([0, *(len(block.ids) for block in blocks)])

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def load(cls, reader: IndexReader) -> VectorMatrix | None:
        """The vectors of the index; None if there are too many, or if they are stored exactly. Blocks: 0.2 seconds for
        100,000."""
        with reader.snapshot():
            if sum(total.vectors for total in reader.totals().values()) > MAX_ROWS:
                return None
            stored = reader.codes()
            if stored is None:
                return None
            return cls(_split(_block(stored, reader.dimensions)), reader.revisions(), reader.generation)

    def updated(self, reader: IndexReader) -> VectorMatrix | None:
        """The current vectors; itself if nothing changed. Blocks: milliseconds for a few files."""
        with reader.snapshot():
            if reader.generation == self.generation:
                return self
            now = reader.revisions()
            changed = {one for one in now.keys() | self._revisions.keys() if now.get(one) != self._revisions.get(one)}
            if 2 * len(changed) > len(now):
                return VectorMatrix.load(reader)
            blocks = self._with(changed, reader)
            if sum(len(block.ids) for block in blocks) > MAX_ROWS:
                return None
            return VectorMatrix(blocks, now, reader.generation)

    def scores(self, vector: bytes) -> Floats:
        """The cosine of each row with a unit vector `(d,)`: `(n,)`; zeros for a vector of another size. Blocks: 5 ms
        for 100,000 rows."""
        np = numpy()
        query = np.frombuffer(vector, "<f4")
        out: Floats = np.zeros(len(self.ids), np.float32)
        if self._blocks and len(query) == self._blocks[0].levels.shape[1]:
            for block, (first, end) in zip(self._blocks, pairwise(self._starts.tolist()), strict=True):
                _products(block.levels, query, out[first:end])
                out[first:end] /= block.lengths
        return out

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """The ids in `ids` that have a vector, ascending `(m,)`, and their unit vectors `(m, d)`."""
        np = numpy()
        wanted = np.unique(np.asarray(ids, np.int64))
        places = np.searchsorted(self.ids, wanted)
        inside = places < len(self.ids)
        wanted, places = wanted[inside], places[inside]
        there = self.ids[places] == wanted
        wanted, places = wanted[there], places[there]
        dimensions = self._blocks[0].levels.shape[1] if self._blocks else 0
        out: Floats = np.empty((len(wanted), dimensions), np.float32)
        bounds = np.searchsorted(places, self._starts)
        for block, start, (first, end) in zip(
            self._blocks, self._starts.tolist(), pairwise(bounds.tolist()), strict=False
        ):
            chosen = places[first:end] - start
            out[first:end] = unit_rows(block.levels[chosen], block.lengths[chosen])
        return wanted, out

    def _with(self, changed: Iterable[int], reader: IndexReader) -> list[_Block]:
        """The blocks, with the current vectors of `changed` files."""
        np = numpy()
        firsts = [file_of(int(block.ids[0])) for block in self._blocks]
        places: dict[int, list[int]] = {}
        for file_id in sorted(changed):
            places.setdefault(max(0, bisect_right(firsts, file_id) - 1), []).append(file_id)
        blocks = {place: [block] for place, block in enumerate(self._blocks)}
        for place, files in places.items():
            parts = [_block(reader.codes(file_id) or [], reader.dimensions) for file_id in files]
            if self._blocks:
                block = self._blocks[place]
                parts.append(block.chosen(~np.isin(block.ids >> ORDINAL_BITS, files)))
            blocks[place] = _joined([part for part in parts if len(part.ids)])
        return [block for place in sorted(blocks) for block in blocks[place]]


def _products(levels: Levels, query: Floats, out: Floats) -> None:
    """Write the dot products of the rows with `query` `(d,)` to `out` `(n,)`."""
    np = numpy()
    numbers: Floats = np.empty((min(_ROWS_AT_A_TIME, len(levels)), levels.shape[1]), np.float32)
    for first in range(0, len(levels), _ROWS_AT_A_TIME):
        part = levels[first : first + _ROWS_AT_A_TIME]
        np.copyto(numbers[: len(part)], part)
        np.dot(numbers[: len(part)], query, out=out[first : first + len(part)])


def _block(stored: list[Stored], dimensions: int) -> _Block:
    np = numpy()
    levels, lengths = levels_of([code for _, code in stored], dimensions)
    return _Block(np.fromiter((one for one, _ in stored), np.int64, len(stored)), levels, lengths)


def _joined(parts: list[_Block]) -> list[_Block]:
    if not parts:
        return []
    np = numpy()
    ids = np.concatenate([part.ids for part in parts])
    levels = np.concatenate([part.levels for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    return _split(_Block(ids, levels, lengths).chosen(np.argsort(ids)))


def _split(whole: _Block) -> list[_Block]:
    """Blocks of about _BLOCK_ROWS, each starting with a new file."""
    np = numpy()
    ids = whole.ids
    blocks: list[_Block] = []
    first = 0
    while first < len(ids):
        end = min(first + _BLOCK_ROWS, len(ids))
        if end < len(ids):
            # Include the whole file in which the block ends.
            end = int(np.searchsorted(ids, id_of(file_of(int(ids[end - 1])) + 1, 0)))
        blocks.append(whole.chosen(slice(first, end)))
        first = end
    return blocks
