from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path

from clawbot.memory.search.table import LineTable, TableCache
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import LineRow
from clawbot.memory.store.writer import IndexWriter
from tests.memory.search.notes import build, write

TALK = "# Talk\n\nAnna: Hello.\nBen: Hello?\n\n- one\n- two\n\n## Later\n\nText.\n"


class CountingReader(IndexReader):
    """Counts the chunks that are read."""

    read = 0

    def lines(self, ids: Collection[int]) -> list[LineRow]:
        self.read += len(ids)
        return super().lines(ids)


def table_of(outline: TableCache, reader: IndexReader) -> LineTable:
    with reader.snapshot():
        table = outline.table(reader, "memory")
    assert table is not None
    return table


def test_neighbours_are_lines_of_one_section_that_flow(tmp_path: Path) -> None:
    table = table_of(TableCache(), build(tmp_path / "i", {"memory/a.md": TALK, "memory/b.md": "Other.\n"}))
    nowhere = len(table)
    assert nowhere == 8
    # Heading, Anna, Ben, two items, heading, text; then the other file.
    assert table.beside(1).tolist() == [1, 2, nowhere, nowhere, nowhere, 6, nowhere, nowhere]
    assert table.beside(-1).tolist() == [nowhere, 0, 1, nowhere, nowhere, nowhere, 5, nowhere]
    assert table.beside(2).tolist()[0] == 2
    assert table.section.tolist() == [0, 0, 0, 0, 0, 1, 1, 2]


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "i"
    build(path, {f"memory/{number}.md": "One.\n\nTwo.\n" for number in range(20)}).close()
    reader, outline = CountingReader(path), TableCache()
    assert len(table_of(outline, reader)) == reader.read == 40
    table_of(outline, reader)
    assert reader.read == 40
    writer = IndexWriter.open(path)
    write(writer, {"memory/3.md": "One.\n\nTwo.\n\nThree.\n"})
    with writer.transaction():
        writer.remove(["memory/4.md"])
    table = table_of(outline, reader)
    assert reader.read == 43
    assert table.ids.tolist() == sorted(row.id for row in reader.rows(table.ids.tolist()))
    assert len(table) == 39


def test_a_file_that_was_emptied_has_no_lines_left(tmp_path: Path) -> None:
    path = tmp_path / "i"
    build(path, {"memory/a.md": "One.\n\nTwo.\n", "memory/b.md": "三。\n"}).close()
    reader, outline = IndexReader(path), TableCache()
    assert len(table_of(outline, reader)) == 3
    write(IndexWriter.open(path), {"memory/a.md": ""})
    table = table_of(outline, reader)
    assert [row.text for row in reader.rows(table.ids.tolist())] == ["三。"]
    assert len(table) == 1


def test_whoever_comes_while_it_is_read_does_without(tmp_path: Path) -> None:
    path = tmp_path / "i"
    build(path, {"memory/1.md": "One.\n"}).close()
    outline = TableCache()
    reading, go_on = threading.Event(), threading.Event()

    class SlowReader(IndexReader):
        def lines(self, ids: Collection[int]) -> list[LineRow]:
            reading.set()
            assert go_on.wait(30)
            return super().lines(ids)

    first = threading.Thread(target=lambda: table_of(outline, SlowReader(path)))
    first.start()
    assert reading.wait(30)
    reader = IndexReader(path)
    with reader.snapshot():
        assert outline.table(reader, "memory") is None
    go_on.set()
    first.join(30)
    assert len(table_of(outline, reader)) == 1
