"""Owns the lines of an index, or some of them, as arrays: what each is, and which stand beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.store.records import ORDINAL_BITS, ChunkRow, LineRow

if TYPE_CHECKING:
    from clawbot.memory.search.reading import Bools, Ids

FLOWING = frozenset({"prose", "dialogue", "code", "heading"})
"""Kinds whose neighbours in a section say something about them. Items and rows of tables stand for themselves."""

_NOBODY = -1


class Columns(Struct, frozen=True):
    """Chunks in the order of their ids: what is known of each. `above` is the id of its heading, -1 without one."""

    ids: Ids
    above: Ids
    flowing: Bools
    is_heading: Bools
    flags: Ids
    speaker: Ids

    @classmethod
    def of(cls, rows: Sequence[LineRow | ChunkRow]) -> Columns:
        """The columns of `rows`, which are in the order of their ids."""
        np = numpy()
        count = len(rows)
        return cls(
            ids=np.fromiter((row.id for row in rows), np.int64, count),
            above=np.fromiter((-1 if row.heading is None else row.heading for row in rows), np.int64, count),
            flowing=np.fromiter((row.kind in FLOWING for row in rows), np.bool_, count),
            is_heading=np.fromiter((row.kind == "heading" for row in rows), np.bool_, count),
            flags=np.fromiter((row.flags for row in rows), np.int64, count),
            speaker=np.fromiter((_NOBODY if row.speaker is None else row.speaker for row in rows), np.int64, count),
        )

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """The columns of `parts`, one after the other."""
        np = numpy()
        each = [*parts, cls.of(())]
        return cls(
            ids=np.concatenate([part.ids for part in each]),
            above=np.concatenate([part.above for part in each]),
            flowing=np.concatenate([part.flowing for part in each]),
            is_heading=np.concatenate([part.is_heading for part in each]),
            flags=np.concatenate([part.flags for part in each]),
            speaker=np.concatenate([part.speaker for part in each]),
        )


class LineTable:
    """Lines by place, from 0. `section` numbers what stands under one heading, `section_names` are these headings' ids.

    `is_whole`: these are all lines of the index.
    """

    def __init__(self, known: Columns, *, is_whole: bool = False) -> None:
        np = numpy()
        self.columns = known
        self.is_whole = is_whole
        # What stands above all headings of a file is named by what no chunk has.
        names = np.where(known.above >= 0, known.above, -1 - (known.ids >> ORDINAL_BITS))
        names = np.where(known.is_heading, known.ids, names)
        is_first = np.ones(len(names), np.bool_)
        is_first[1:] = names[1:] != names[:-1]
        self.section_names: Ids = names[is_first]
        self.section: Ids = np.cumsum(is_first) - 1
        self._beside: dict[int, Ids] = {}

    def __len__(self) -> int:
        return len(self.columns.ids)

    @property
    def ids(self) -> Ids:
        """The ids of the lines, ascending."""
        return self.columns.ids

    def beside(self, distance: int) -> Ids:
        """For each line the place of the one `distance` lines on; `len(self)` where that is no neighbour of it."""
        if distance not in self._beside:
            self._beside[distance] = self._neighbours(distance)
        return self._beside[distance]

    def _neighbours(self, distance: int) -> Ids:
        """Between two lines that are looked at all others are, too: a neighbour's place is as far as its id."""
        np = numpy()
        count, near = len(self), abs(distance)
        found: Ids = np.full(count, count)
        first, second = slice(0, max(0, count - near)), slice(near, None)
        good = (self.ids[second] - self.ids[first] == near) & (self.section[second] == self.section[first])
        good &= self.columns.flowing[second] & self.columns.flowing[first]
        places = np.flatnonzero(good)
        if distance > 0:
            found[places] = places + near
        else:
            found[places + near] = places
        return found
