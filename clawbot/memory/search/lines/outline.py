"""Owns the lines of a whole index in memory (without their text), for a process that searches more than once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

from clawbot.memory.search.lines.table import Columns, LineTable
from clawbot.memory.search.reading import Reader
from clawbot.memory.store.records import FileRow, file_of, piece_id

_BATCH = 4_096

Revision = tuple[int, int]


class Outline:
    """The lines of one index, as they were when it was last asked for."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._generation: int | None = None
        self._revisions: Mapping[int, Revision] = {}
        self._parts: dict[int, Columns] = {}
        self._table = LineTable(Columns.of(()))

    def table(self, reader: Reader) -> LineTable | None:
        """All lines as they are in the reader's snapshot; None while another thread reads them.

        Blocks: half a second for 100,000 lines the first time, then as long as the changed files take.
        """
        if not self._busy.acquire(blocking=False):
            return None
        try:
            if reader.generation != self._generation:
                self._read(reader)
            return self._table
        finally:
            self._busy.release()

    def _read(self, reader: Reader) -> None:
        now, files = reader.revisions(), reader.files()
        changed = [files[number] for number in now if now[number] != self._revisions.get(number)]
        # A changed file may have no lines any more: then nothing below takes the place of those it had.
        parts = {number: part for number, part in self._parts.items() if now.get(number) == self._revisions[number]}
        for batch in _batches(changed):
            rows = reader.lines([piece_id(file.id, ordinal) for file in batch for ordinal in range(file.chunks)])
            columns: dict[int, list[int]] = {}
            for place, row in enumerate(rows):
                columns.setdefault(file_of(row.id), []).append(place)
            for number, places in columns.items():
                parts[number] = Columns.of(rows[places[0] : places[-1] + 1])
        self._parts, self._revisions = parts, dict(now)
        self._table = LineTable(Columns.joined([parts[number] for number in sorted(parts)]), is_whole=True)
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
