"""All vectors of an index in memory, for a process that searches repeatedly.

They remain codes, as in the table: 104 bytes a line of 256 dimensions. Their signs are kept apart, 64 dimensions after
another, since a scan reads nothing else: 4 ms for a million lines, a third of what the memory bus allows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from clawbot.memory.arrays import distinct, numpy, positions_in
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import ORDINAL_BITS, file_of, id_of, is_before, ranges_of
from clawbot.memory.store.vectors import PLANES, Stored, levels_of, plane_bytes, signs, unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clawbot.memory.arrays import Bools, Floats, Ids

    Planes = NDArray[np.uint8]
    Words = NDArray[np.uint64]

MAX_BYTES = 160 * 1024 * 1024
"""No matrix is built for larger indexes, whose signs are scanned in the database: 1.5 million lines of 256
dimensions."""

_BLOCK_ROWS = 32_768
"""A change copies the block that contains it: 3 MB."""

_ROWS_AT_A_TIME = 16_384
"""Rows whose signs and distances fit into the CPU cache."""

_WORD, _BYTE_WORDS = 8, 3


@dataclass(frozen=True, slots=True)
class _Block:
    """The codes of consecutive files by id: the words of their `signs` `(w, n)`, and the `lower` planes `(n, b)`."""

    ids: Ids
    signs: Words
    lower: Planes

    def chosen(self, which: NDArray[np.generic] | slice) -> _Block:
        """Return a copy of some rows."""
        np = numpy()
        parts = (self.ids[which], self.signs[:, which], self.lower[which])
        return _Block(*map(np.ascontiguousarray, parts))

    def packed(self, positions: Ids, width: int) -> Planes:
        """Return the codes at `positions` `(m,)`, with planes of `width` bytes: `(m, 3 * width)`."""
        np = numpy()
        upper = np.ascontiguousarray(self.signs[:, positions].T).view(np.uint8)[:, :width]
        found: Planes = np.concatenate([upper, self.lower[positions]], axis=1)
        return found


class VectorMatrix:
    """The vectors of one generation, of `dimensions`. Immutable: `updated` returns a new one that shares unchanged
    blocks."""

    def __init__(self, blocks: list[_Block], generation: int, dimensions: int) -> None:
        np = numpy()
        self.generation = generation
        self._blocks = blocks
        self._dimensions = dimensions
        self._starts: Ids = np.cumsum([0, *(len(block.ids) for block in blocks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def ids(self) -> Sequence[Ids]:
        """The chunks, ascending, in stretches that are the same arrays until their vectors change."""
        return [block.ids for block in self._blocks]

    @classmethod
    def load(cls, reader: IndexReader) -> VectorMatrix | None:
        """Return the vectors of the index; None if there are too many, or if they are stored exactly. Blocks: 0.4
        seconds for a million."""
        with reader.snapshot():
            dimensions = reader.dimensions
            if not _fits(sum(total.vectors for total in reader.totals().values()), dimensions):
                return None
            blocks: list[_Block] = []
            for bounds in ranges_of(reader.files().values(), _BLOCK_ROWS):
                stored = reader.codes(bounds)
                if stored is None:
                    return None
                if stored:
                    blocks.append(_block(stored, dimensions))
            return cls(blocks, reader.generation, dimensions)

    def updated(self, reader: IndexReader) -> VectorMatrix | None:
        """Return the current vectors; itself if nothing changed. None also if the reader still sees an earlier
        generation. Blocks: milliseconds for a few files."""
        with reader.snapshot():
            if reader.generation == self.generation:
                return self
            if is_before(reader.generation, self.generation):
                return None
            changed = reader.changed_since(self.generation)
            if changed is None or 2 * len(changed) > len(reader.files()):
                return VectorMatrix.load(reader)
            blocks = self._with(changed, reader)
            if not _fits(sum(len(block.ids) for block in blocks), reader.dimensions):
                return None
            return VectorMatrix(blocks, reader.generation, reader.dimensions)

    def scores(self, vector: bytes) -> Floats:
        """Return the cosine of each row with a unit vector `(d,)`, estimated from how many signs differ: `(n,)`, within
        .1; zeros for a vector of another size. Blocks: 6 ms for a million rows."""
        np = numpy()
        query = np.frombuffer(vector, "<f4")
        out: Floats = np.zeros(len(self), np.float32)
        if self._blocks and len(query) == self._dimensions:
            asked = _words(np.frombuffer(signs(query), np.uint8)[None, :])[:, 0]
            cosines = np.cos(np.arange(self._dimensions + 1) * (math.pi / self._dimensions)).astype(np.float32)
            for block, (first, end) in zip(self._blocks, pairwise(self._starts.tolist()), strict=True):
                _estimate(block.signs, asked, cosines, out[first:end])
        return out

    def positions(self, ids: Ids) -> tuple[Ids, Bools]:
        """Return the row of each of the ascending `ids` `(m,)`, and which have one: both `(m,)`."""
        return positions_in(self.ids, ids)

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Return the ids in `ids` that have a vector, ascending `(m,)`, and their unit vectors `(m, d)`."""
        np = numpy()
        wanted = distinct(np.asarray(ids, np.int64))
        positions, there = self.positions(wanted)
        wanted, positions = wanted[there], positions[there]
        width = plane_bytes(self._dimensions)
        codes: Planes = np.empty((len(wanted), PLANES * width), np.uint8)
        bounds = np.searchsorted(positions, self._starts)
        for block, start, (first, end) in zip(
            self._blocks, self._starts.tolist(), pairwise(bounds.tolist()), strict=False
        ):
            if first < end:
                codes[first:end] = block.packed(positions[first:end] - start, width)
        return wanted, unit_rows(*levels_of(codes, self._dimensions))

    def _with(self, changed: Iterable[int], reader: IndexReader) -> list[_Block]:
        """Return the blocks, with the current vectors of `changed` files."""
        np = numpy()
        firsts = [file_of(int(block.ids[0])) for block in self._blocks]
        positions: dict[int, list[int]] = {}
        for file_id in sorted(changed):
            positions.setdefault(max(0, bisect_right(firsts, file_id) - 1), []).append(file_id)
        blocks = {position: [block] for position, block in enumerate(self._blocks)}
        for position, files in positions.items():
            found = (reader.codes((id_of(one, 0), id_of(one + 1, 0))) or [] for one in files)
            parts = [_block(stored, reader.dimensions) for stored in found if stored]
            if self._blocks:
                block = self._blocks[position]
                parts.append(block.chosen(~np.isin(block.ids >> ORDINAL_BITS, files)))
            blocks[position] = _joined([part for part in parts if len(part.ids)])
        return [block for position in sorted(blocks) for block in blocks[position]]


def _fits(rows: int, dimensions: int) -> bool:
    return rows * (PLANES * plane_bytes(dimensions) + _WORD) <= MAX_BYTES


def _estimate(signs: Words, asked: Words, cosines: Floats, out: Floats) -> None:
    """Write the cosine of each row to `out` `(n,)`: that of `cosines` for as many signs as differ from `asked`
    `(w,)`."""
    np = numpy()
    for first in range(0, len(out), _ROWS_AT_A_TIME):
        part = signs[:, first : first + _ROWS_AT_A_TIME]
        different = np.bitwise_count(part[0] ^ asked[0])
        for word in range(1, len(part)):
            # A byte holds the sum of three.
            kind = np.uint8 if word < _BYTE_WORDS else np.uint16
            different = np.add(different, np.bitwise_count(part[word] ^ asked[word]), dtype=kind)
        np.take(cosines, different, out=out[first : first + _ROWS_AT_A_TIME], mode="clip")


def _words(planes: Planes) -> Words:
    """Planes `(n, b)` as columns of eight bytes: `(w, n)`."""
    np = numpy()
    count, width = planes.shape
    padded: Planes = np.zeros((count, -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = planes
    found: Words = np.ascontiguousarray(padded.view(np.uint64).T)
    return found


def _block(stored: list[Stored], dimensions: int) -> _Block:
    np = numpy()
    width = plane_bytes(dimensions)
    codes = np.frombuffer(b"".join(code for _, code in stored), np.uint8).reshape(len(stored), PLANES * width)
    ids: Ids = np.fromiter((one for one, _ in stored), np.int64, len(stored))
    return _Block(ids, _words(codes[:, :width]), np.ascontiguousarray(codes[:, width:]))


def _joined(parts: list[_Block]) -> list[_Block]:
    if not parts:
        return []
    np = numpy()
    ids = np.concatenate([part.ids for part in parts])
    upper = np.concatenate([part.signs for part in parts], axis=1)
    lower = np.concatenate([part.lower for part in parts])
    return _split(_Block(ids, upper, lower).chosen(np.argsort(ids)))


def _split(rows: _Block) -> list[_Block]:
    """Blocks of about _BLOCK_ROWS, each starting with a new file."""
    np = numpy()
    ids = rows.ids
    blocks: list[_Block] = []
    first = 0
    while first < len(ids):
        end = min(first + _BLOCK_ROWS, len(ids))
        if end < len(ids):
            # Include all of the file in which the block ends.
            end = int(np.searchsorted(ids, id_of(file_of(int(ids[end - 1])) + 1, 0)))
        blocks.append(rows.chosen(slice(first, end)))
        first = end
    return blocks
