"""All vectors of an index in memory, for a process that searches more than once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from clawbot.memory.arrays import numpy
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import ORDINAL_BITS, file_of, piece_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Floats = NDArray[np.float32]

MAX_ROWS = 250_000
"""Of a larger index no matrix is built: it would take 256 MB."""

_BLOCK_ROWS = 8192
"""A change copies the block that it is in."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The vectors of files that follow each other by id."""

    ids: Ids
    rows: Floats


class VectorMatrix:
    """The vectors of one generation. It never changes: `updated` gives another one, which shares what is the same."""

    def __init__(self, blocks: list[_Block], revisions: dict[int, tuple[int, int]], generation: int) -> None:
        np = numpy()
        self.generation = generation
        self._blocks = blocks
        self._revisions = revisions
        self.ids: Ids = np.concatenate([np.zeros(0, np.int64), *(block.ids for block in blocks)])
        """The pieces, ascending."""
        self._starts: Ids = np.cumsum([0, *(len(block.ids) for block in blocks)])

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def load(cls, reader: IndexReader) -> VectorMatrix | None:
        """The vectors of the index; None when there are too many. Blocks: 0.2 seconds for 100,000."""
        with reader.snapshot():
            if sum(total.vectors for total in reader.totals().values()) > MAX_ROWS:
                return None
            ids, rows = reader.all_vectors()
            return cls(_split(ids, rows), reader.revisions(), reader.generation)

    def updated(self, reader: IndexReader) -> VectorMatrix | None:
        """The vectors as they are now; itself when nothing changed. Blocks: milliseconds for a few files."""
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
        """The cosine of each row with a unit vector; zeros for one of another size. Blocks: 10 ms for 100,000 rows."""
        np = numpy()
        query = np.frombuffer(vector, "<f4")
        out: Floats = np.zeros(len(self.ids), np.float32)
        if self._blocks and len(query) == self._blocks[0].rows.shape[1]:
            for block, (first, end) in zip(self._blocks, pairwise(self._starts.tolist()), strict=True):
                np.dot(block.rows, query, out=out[first:end])
        return out

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """The ids of those pieces of `ids` that have a vector, ascending, and their unit vectors."""
        np = numpy()
        wanted = np.unique(np.asarray(ids, np.int64))
        places = np.searchsorted(self.ids, wanted)
        inside = places < len(self.ids)
        wanted, places = wanted[inside], places[inside]
        there = self.ids[places] == wanted
        wanted, places = wanted[there], places[there]
        dimensions = self._blocks[0].rows.shape[1] if self._blocks else 0
        out: Floats = np.empty((len(wanted), dimensions), np.float32)
        bounds = np.searchsorted(places, self._starts)
        for block, start, (first, end) in zip(
            self._blocks, self._starts.tolist(), pairwise(bounds.tolist()), strict=False
        ):
            out[first:end] = block.rows[places[first:end] - start]
        return wanted, out

    def _with(self, changed: Iterable[int], reader: IndexReader) -> list[_Block]:
        """The blocks, with the vectors of `changed` files as they are now."""
        np = numpy()
        firsts = [file_of(int(block.ids[0])) for block in self._blocks]
        places: dict[int, list[int]] = {}
        for file_id in sorted(changed):
            places.setdefault(max(0, bisect_right(firsts, file_id) - 1), []).append(file_id)
        blocks = {place: [block] for place, block in enumerate(self._blocks)}
        for place, files in places.items():
            parts = [reader.file_vectors(file_id) for file_id in files]
            if self._blocks:
                block = self._blocks[place]
                kept = ~np.isin(block.ids >> ORDINAL_BITS, files)
                parts.append((block.ids[kept], block.rows[kept]))
            parts = [(ids, rows) for ids, rows in parts if len(ids)]
            blocks[place] = _joined(parts)
        return [block for place in sorted(blocks) for block in blocks[place]]


def _joined(parts: list[tuple[Ids, Floats]]) -> list[_Block]:
    if not parts:
        return []
    np = numpy()
    ids = np.concatenate([part for part, _ in parts])
    rows = np.concatenate([part for _, part in parts])
    order = np.argsort(ids)
    return _split(ids[order], rows[order])


def _split(ids: Ids, rows: Floats) -> list[_Block]:
    """Blocks of about _BLOCK_ROWS, each beginning with a file."""
    np = numpy()
    blocks: list[_Block] = []
    first = 0
    while first < len(ids):
        end = min(first + _BLOCK_ROWS, len(ids))
        if end < len(ids):
            # The whole of the file that the block ends in.
            end = int(np.searchsorted(ids, piece_id(file_of(int(ids[end - 1])) + 1, 0)))
        blocks.append(_Block(np.ascontiguousarray(ids[first:end]), np.ascontiguousarray(rows[first:end])))
        first = end
    return blocks
