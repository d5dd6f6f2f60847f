"""All lines of an index in memory, without their text: cached between searches, read again where files have changed.
They are split into parts, so that a change copies one of them, and a pass over all lines fits the CPU cache."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from clawbot.memory.arrays import numpy
from clawbot.memory.search.protocols import ChunkReader
from clawbot.memory.search.table import Columns, LineTable
from clawbot.memory.store.records import ORDINAL_BITS, IdRange, file_of, id_of, is_before, ranges_of

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats, Ids

_LONG = 200
"""In sections from this length on only lines near a good one are read: a text without headings is one section."""

_NEAR = 5
"""So many on either side: as far as words and neighbours count, with their own neighbours."""

_PART_LINES = 32_768
"""About so many lines are one part."""


class Part:
    """The lines of some files by position, from 0. Immutable.

    `section` is the number of each line's section, `(n,)`; `section_starts` the position of the first line of each of
    the `sections`, and behind them n; `note_of_section` the number of its file, of the `notes`. `flow` is the section
    of a line that flows, and for others the number of sections plus that of the file.
    """

    def __init__(self, columns: Columns) -> None:
        np = numpy()
        self.columns = columns
        ids = columns.ids
        _, is_first = columns.sections()
        self.section = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
        self.section_starts: Ids = np.append(np.flatnonzero(is_first), len(ids))
        self.sections = len(self.section_starts) - 1
        files = ids >> ORDINAL_BITS
        begins = np.ones(len(ids), np.bool_)
        begins[1:] = files[1:] != files[:-1]
        self._file_starts: Ids = np.flatnonzero(begins)
        self._file_ids: Ids = ids[self._file_starts]
        self.notes = len(self._file_ids)
        note = np.cumsum(begins, dtype=np.int32) - np.int32(1)
        self.note_of_section: Ids = note[self.section_starts[:-1]]
        self.flow = np.where(columns.flowing, self.section, note + np.int32(self.sections))
        self._located: dict[int, tuple[Ids, slice, Ids]] = {}

    def __len__(self) -> int:
        return len(self.columns.ids)

    @property
    def first_id(self) -> int:
        return int(self.columns.ids[0])

    def positions(self, ids: Ids) -> Ids:
        """Return the positions of ascending `ids` `(m,)`, which are lines of it: `(m,)`.

        Files have all their chunks from the first on, so only the files are looked up: a tenth of the time.
        """
        np = numpy()
        bounds = np.append(np.searchsorted(ids, self._file_ids), len(ids))
        found: Ids = ids + np.repeat(self._file_starts - self._file_ids, np.diff(bounds))
        return found

    def spread(self, stretches: Sequence[Ids], values: Floats) -> Floats:
        """`values` `(m,)` of the ids in ascending `stretches`, together `(m,)`, by position, 0 for other lines: `(n,)`.

        The position of a stretch is cached while it is the same array.
        """
        found: Floats = numpy().zeros(len(self), numpy().float32)
        first, last = self.first_id, int(self.columns.ids[-1])
        kept: dict[int, tuple[Ids, slice, Ids]] = {}
        start = 0
        for ids in stretches:
            if len(ids) and ids[0] <= last and ids[-1] >= first:
                _, inside, positions = kept[id(ids)] = self._locate(ids)
                found[positions] = values[start : start + len(ids)][inside]
            start += len(ids)
        self._located = kept
        return found

    def _locate(self, ids: Ids) -> tuple[Ids, slice, Ids]:
        """Return which of the ascending `ids` are lines of it, and their positions."""
        located = self._located.get(id(ids))
        if located is None:
            inside = slice(*numpy().searchsorted(ids, [self.first_id, self.columns.ids[-1] + 1]).tolist())
            located = ids, inside, self.positions(ids[inside]).astype(numpy().int32)
        return located

    def around(self, positions: Ids) -> Ids:
        """Return the lines in the sections of `positions`, ascending; in a long section those near one."""
        np = numpy()
        sections = self.section[positions]
        starts, ends = self.section_starts[sections], self.section_starts[sections + 1]
        is_long = ends - starts > _LONG
        starts = np.where(is_long, np.maximum(starts, positions - _NEAR), starts)
        ends = np.where(is_long, np.minimum(ends, positions + _NEAR + 1), ends)
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        # Overlapping stretches follow each other: none begins before the end of those before.
        reach = np.maximum.accumulate(ends)
        starts[1:] = np.maximum(starts[1:], reach[:-1])
        lengths = np.maximum(0, ends - starts)
        offsets = np.cumsum(lengths) - lengths
        found: Ids = np.arange(int(lengths.sum())) + np.repeat(starts - offsets, lengths)
        return found


class Outline:
    """The lines of one source by position, from 0: its `parts`, each of complete files, by their ids. `starts` are the
    positions of their first lines, `(p,)`, and behind them the number of lines. Immutable."""

    def __init__(self, parts: Sequence[Part]) -> None:
        np = numpy()
        self.parts = parts
        self.starts: Ids = np.cumsum([0, *map(len, parts)])
        self._firsts: Ids = np.array([part.first_id for part in parts], np.int64)
        self._table: LineTable | None = None

    def __len__(self) -> int:
        return int(self.starts[-1])

    @classmethod
    def read(cls, reader: ChunkReader, id_range: IdRange) -> Outline:
        """Return all lines of `id_range`, a source."""
        first, end = map(file_of, id_range)
        files = (file for file in reader.files().values() if first <= file.id < end)
        columns = (Columns.read(reader, bounds) for bounds in ranges_of(files, _PART_LINES))
        return cls([Part(each) for each in columns if len(each.ids)])

    def updated(self, reader: ChunkReader, changed: Iterable[int]) -> Outline:
        """Return the lines with those of `changed` files as they are now."""
        positions: dict[int, list[int]] = {}
        for number in sorted(changed):
            position = int(numpy().searchsorted(self._firsts, id_of(number, 0), side="right"))
            positions.setdefault(max(0, position - 1), []).append(number)
        parts: list[Part] = []
        for position in range(max(1, len(self.parts))):
            part = self.parts[position] if self.parts else Part(Columns.of(()))
            parts += _spliced(part, positions[position], reader) if position in positions else [part]
        return Outline([part for part in parts if len(part)])

    @property
    def table(self) -> LineTable:
        """The same as a table, for few enough lines to check each."""
        if self._table is None:
            self._table = LineTable(self.columns, is_complete=True)
        return self._table

    @property
    def ids(self) -> Ids:
        found: Ids = numpy().concatenate([numpy().zeros(0, numpy().int64), *(part.columns.ids for part in self.parts)])
        return found

    @property
    def columns(self) -> Columns:
        return Columns.joined([part.columns for part in self.parts])

    def cuts(self, ids: Ids) -> list[int]:
        """Return where in the ascending `ids` those of each part begin, and their number."""
        return [*numpy().searchsorted(ids, self._firsts).tolist(), len(ids)]


def _spliced(part: Part, changed: Sequence[int], reader: ChunkReader) -> Iterator[Part]:
    """`part` with the files `changed` as they are now, or several if it has become too long."""
    np = numpy()
    slices: list[Columns] = []
    done = 0
    files, columns = reader.files(), part.columns
    for number in changed:
        bounds = id_of(number, 0), id_of(number + 1, 0)
        first, end = np.searchsorted(columns.ids, bounds).tolist()
        slices.append(columns.part(slice(done, first)))
        if number in files:
            slices.append(Columns.read(reader, bounds))
        done = end
    joined = Columns.joined([*slices, columns.part(slice(done, None))])
    first = 0
    while first < len(joined.ids):
        end = len(joined.ids)
        if end - first > 2 * _PART_LINES:
            # Up to the end of a file.
            last = file_of(int(joined.ids[first + _PART_LINES]))
            end = int(np.searchsorted(joined.ids, id_of(last + 1, 0)))
        yield Part(joined.part(slice(first, end)))
        first = end


class OutlineCache:
    """The lines of the sources of one index as of the last call."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._generation: int | None = None
        self._outlines: dict[IdRange, Outline] = {}

    def outline(self, reader: ChunkReader, id_range: IdRange) -> Outline | None:
        """Return all lines of `id_range`, a source, in the reader's snapshot; None while another thread reads them, or
        has read later ones.

        Blocks: half a second for a million lines the first time, later some milliseconds.
        """
        if not self._busy.acquire(blocking=False):
            return None
        try:
            if self._generation is not None and is_before(reader.generation, self._generation):
                return None
            self._renew(reader)
            if id_range not in self._outlines:
                self._outlines[id_range] = Outline.read(reader, id_range)
            return self._outlines[id_range]
        finally:
            self._busy.release()

    def _renew(self, reader: ChunkReader) -> None:
        if reader.generation == self._generation:
            return
        changed = None if self._generation is None else reader.changed_since(self._generation)
        if changed is None or 2 * len(changed) > len(reader.files()):
            self._outlines = {}
        else:
            outlines: dict[IdRange, Outline] = {}
            for bounds, outline in self._outlines.items():
                first, end = map(file_of, bounds)
                outlines[bounds] = outline.updated(reader, [one for one in changed if first <= one < end])
            self._outlines = outlines
        self._generation = reader.generation
