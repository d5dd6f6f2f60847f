"""Lines as columns in id order, without their text: the candidates of a search, or an entire index in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.search.protocols import ChunkReader
from clawbot.memory.store.records import KINDS, ORDINAL_BITS, ChunkRow, IdRange, LineRow, id_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clawbot.memory.arrays import Bools, Ids
    from clawbot.memory.values import ChunkKind

    Flags = NDArray[np.uint16]
    Kinds = NDArray[np.int8]
    Speakers = NDArray[np.int32]


FLOWING: frozenset[ChunkKind] = frozenset({"prose", "dialogue", "code", "heading"})
"""Kinds of lines that relate to their neighbours in a section. Items and table rows are independent."""

_NOBODY = -1
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


class Columns(Struct, frozen=True):
    """Chunks in id order: each column is `(n,)`. `above` is the id of the heading, -1 without one."""

    ids: Ids
    above: Ids
    flowing: Bools
    is_heading: Bools
    flags: Flags
    speaker: Speakers

    @classmethod
    def of(cls, rows: Sequence[LineRow | ChunkRow]) -> Columns:
        """The columns of `rows`, which are in id order."""
        above = [-1 if row.heading is None else row.heading for row in rows]
        speakers = [_NOBODY if row.speaker is None else row.speaker for row in rows]
        kinds = [_NUMBERS[row.kind] for row in rows]
        return cls._from([row.id for row in rows], above, speakers, kinds, [row.flags for row in rows])

    @classmethod
    def read(cls, reader: ChunkReader, id_range: IdRange) -> Columns:
        """Return the columns of all chunks in `id_range`. Blocks: 4 ms for ten thousand."""
        np = numpy()
        ids, headings, *others = reader.columns(id_range)
        below = np.array(headings, np.int64)
        files = np.array(ids, np.int64) >> ORDINAL_BITS
        return cls._from(ids, np.where(below >= 0, id_of(files, 0) + below, -1), *others)

    @classmethod
    def _from(
        cls,
        ids: Sequence[int],
        above: Ids | Sequence[int],
        speakers: Sequence[int],
        kinds: Sequence[int],
        flags: Sequence[int],
    ) -> Columns:
        np = numpy()
        numbers, kind = np.array(ids, np.int64), np.array(kinds, np.int8)
        return cls(
            ids=numbers,
            above=np.asarray(above, np.int64),
            flowing=_flowing(numbers, kind),
            is_heading=kind == _NUMBERS["heading"],
            flags=np.array(flags, np.uint16),
            speaker=np.array(speakers, np.int32),
        )

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        np = numpy()
        each = [*parts, cls.of(())]
        return cls(*(np.concatenate([getattr(part, name) for part in each]) for name in cls.__struct_fields__))

    def part(self, which: slice | Ids) -> Columns:
        """Return some of the chunks, in order."""
        return Columns(*(getattr(self, name)[which] for name in self.__struct_fields__))

    def sections(self) -> tuple[Ids, Bools]:
        """Return the section of each chunk, named by the id of its heading, and which chunks begin one: both `(n,)`."""
        np = numpy()
        # Text above all headings of a file gets a name that no chunk has.
        names = np.where(self.above >= 0, self.above, -1 - (self.ids >> ORDINAL_BITS))
        names = np.where(self.is_heading, self.ids, names)
        is_first = np.ones(len(names), np.bool_)
        is_first[1:] = names[1:] != names[:-1]
        return names, is_first


def _flowing(ids: Ids, kinds: Kinds) -> Bools:
    """Return whether each line flows. Items below a line of dialogue belong to it."""
    np = numpy()
    follows = np.zeros(len(ids), np.bool_)
    follows[1:] = (kinds[1:] == _NUMBERS["item"]) & (ids[1:] == ids[:-1] + 1)
    # The last line at or above each one that is no item below another line.
    above = np.maximum.accumulate(np.where(follows, 0, np.arange(len(ids))))
    flows: Bools = np.isin(kinds, [_NUMBERS[kind] for kind in FLOWING])
    flows |= (kinds == _NUMBERS["item"]) & (kinds[above] == _NUMBERS["dialogue"])
    return flows


class LineTable:
    """Lines by position, from 0. `section` numbers the text under one heading, `section_names` are the headings' ids;
    `note` numbers the `notes` files.

    `is_complete`: these are all lines of the index.
    """

    def __init__(self, known: Columns, *, is_complete: bool = False) -> None:
        np = numpy()
        self.columns = known
        self.is_complete = is_complete
        names, is_first = known.sections()
        self.section_names: Ids = names[is_first]
        self.section: Ids = np.cumsum(is_first) - 1
        self.note: Ids = np.zeros(len(names), np.int64)
        np.cumsum(np.diff(known.ids >> ORDINAL_BITS) != 0, out=self.note[1:])
        self.notes = int(self.note[-1]) + 1 if len(names) else 0
        self._cached: dict[int, Ids] = {}

    def __len__(self) -> int:
        return len(self.columns.ids)

    @property
    def ids(self) -> Ids:
        return self.columns.ids

    def neighbours(self, distance: int) -> Ids:
        """Return by line the position of the one `distance` lines further, `(n,)`; n if it is no neighbour."""
        if distance not in self._cached:
            self._cached[distance] = self._shifted(distance)
        return self._cached[distance]

    def _shifted(self, distance: int) -> Ids:
        """All lines between two candidates are present, so the difference of positions equals that of ids."""
        np = numpy()
        count, near = len(self), abs(distance)
        found: Ids = np.full(count, count)
        first, second = slice(0, max(0, count - near)), slice(near, None)
        good = (self.ids[second] - self.ids[first] == near) & (self.section[second] == self.section[first])
        good &= self.columns.flowing[second] & self.columns.flowing[first]
        positions = np.flatnonzero(good)
        if distance > 0:
            found[positions] = positions + near
        else:
            found[positions + near] = positions
        return found
