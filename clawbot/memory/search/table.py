"""Lines as columns in id order, without their text: the candidates of a search, or a whole index in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.store.records import ORDINAL_BITS, ChunkRow, FileRow, LineRow, file_of, id_of
from clawbot.memory.values import Source

if TYPE_CHECKING:
    from clawbot.memory.arrays import Bools, Ids
    from clawbot.memory.store.reader import IndexReader


FLOWING = frozenset({"prose", "dialogue", "code", "heading"})
"""Kinds of lines that relate to their neighbours in a section. Items and table rows are independent."""

_NOBODY = -1


class Columns(Struct, frozen=True):
    """Chunks in id order: each column is `(n,)`. `above` is the id of the heading, -1 without one."""

    ids: Ids
    above: Ids
    flowing: Bools
    is_heading: Bools
    flags: Ids
    speaker: Ids

    @classmethod
    def of(cls, rows: Sequence[LineRow | ChunkRow]) -> Columns:
        """The columns of `rows`, which are in id order."""
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
        """Concatenate `parts`."""
        np = numpy()
        each = [*parts, cls.of(())]
        return cls(*(np.concatenate([getattr(part, name) for part in each]) for name in cls.__struct_fields__))


class LineTable:
    """Lines by position, from 0. `section` numbers the text under one heading, `section_names` are the headings' ids.

    `is_whole`: these are all lines of the index.
    """

    def __init__(self, known: Columns, *, is_whole: bool = False) -> None:
        np = numpy()
        self.columns = known
        self.is_whole = is_whole
        # Text above all headings of a file gets a name that no chunk has.
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
        """For each line the position of the one `distance` lines further, `(n,)`; n if that is not a neighbour."""
        if distance not in self._beside:
            self._beside[distance] = self._neighbours(distance)
        return self._beside[distance]

    def _neighbours(self, distance: int) -> Ids:
        """All lines between two candidates are present, so the difference of positions equals that of ids."""
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


_BATCH = 4_096

Revision = tuple[int, int]


class TableCache:
    """The lines of one index as of the last call."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._generation: int | None = None
        self._revisions: Mapping[int, Revision] = {}
        self._parts: dict[int, Columns] = {}
        self._tables: dict[Source, LineTable] = {}

    def table(self, reader: IndexReader, source: Source) -> LineTable | None:
        """All lines of `source` in the reader's snapshot; None while another thread reads them.

        Blocks: half a second for 100,000 lines the first time, later in proportion to the changed files.
        """
        if not self._busy.acquire(blocking=False):
            return None
        try:
            if reader.generation != self._generation:
                self._read(reader)
            return self._tables[source]
        finally:
            self._busy.release()

    def _read(self, reader: IndexReader) -> None:
        now, files = reader.revisions(), reader.files()
        changed = [files[number] for number in now if now[number] != self._revisions.get(number)]
        # A changed file may have no lines any more, so its old part is removed here.
        parts = {number: part for number, part in self._parts.items() if now.get(number) == self._revisions[number]}
        for batch in _batches(changed):
            rows = reader.lines([id_of(file.id, ordinal) for file in batch for ordinal in range(file.chunks)])
            columns: dict[int, list[int]] = {}
            for place, row in enumerate(rows):
                columns.setdefault(file_of(row.id), []).append(place)
            for number, places in columns.items():
                parts[number] = Columns.of(rows[places[0] : places[-1] + 1])
        self._parts, self._revisions = parts, dict(now)
        for source in get_args(Source):
            own = [parts[number] for number in sorted(parts) if files[number].source == source]
            self._tables[source] = LineTable(Columns.joined(own), is_whole=True)
        self._generation = reader.generation


def _batches(files: Sequence[FileRow]) -> Iterator[list[FileRow]]:
    """`files` in batches of about _BATCH chunks."""
    batch: list[FileRow] = []
    for file in files:
        batch.append(file)
        if sum(each.chunks for each in batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
