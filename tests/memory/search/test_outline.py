from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from clawbot.memory.search import outline as outlines
from clawbot.memory.search.outline import Outline, OutlineCache, Part
from clawbot.memory.search.table import Columns, LineTable
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import EVERYWHERE, IdRange, id_of, id_range_of
from clawbot.memory.store.writer import IndexWriter
from tests.memory.search.notes import build, write

TALK = "# Talk\n\nAnna: Hello.\nBen: Hello?\n\n- one\n- two\n\n## Later\n\nText.\n"


class CountingReader(IndexReader):
    """Counts the chunks that are read."""

    read = 0

    def columns(self, id_range: IdRange) -> tuple[list[int], ...]:
        found = super().columns(id_range)
        self.read += len(found[0])
        return found


def outline_of(cache: OutlineCache, reader: IndexReader) -> Outline:
    with reader.snapshot():
        found = cache.outline(reader, id_range_of("memory"))
    assert found is not None
    return found


def table_of(cache: OutlineCache, reader: IndexReader) -> LineTable:
    return outline_of(cache, reader).table


def test_neighbours_are_lines_of_one_section_that_flow(tmp_path: Path) -> None:
    table = table_of(OutlineCache(), build(tmp_path / "i", {"memory/a.md": TALK, "memory/b.md": "Other.\n"}))
    nowhere = len(table)
    assert nowhere == 8
    # Heading, Anna, Ben, two items that Ben lists, heading, text; then the other file.
    assert table.neighbours(1).tolist() == [1, 2, 3, 4, nowhere, 6, nowhere, nowhere]
    assert table.neighbours(-1).tolist() == [nowhere, 0, 1, 2, 3, nowhere, 5, nowhere]
    assert table.neighbours(2).tolist()[0] == 2
    assert table.section.tolist() == [0, 0, 0, 0, 0, 1, 1, 2]


def test_columns_are_the_same_however_they_are_read(tmp_path: Path) -> None:
    files = {
        "memory/a.md": TALK,
        "memory/b.md": "- alone\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "memory/c.md": "三。\n",
    }
    reader = build(tmp_path / "i", files)
    every = Columns.read(reader, EVERYWHERE)
    rows = Columns.of(reader.lines(every.ids.tolist()))
    for name in Columns.__struct_fields__:
        assert getattr(every, name).tolist() == getattr(rows, name).tolist()


@pytest.mark.parametrize("few", [1, 1_000])
def test_after_any_changes_it_is_as_if_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(outlines, "_PART_LINES", few)
    path, choose, cache = tmp_path / "i", random.Random(5), OutlineCache()
    reader = build(path, {f"memory/{number}.md": TALK for number in range(9)})
    writer = IndexWriter.open(path)
    for step in range(25):
        names = [f"memory/{number}.md" for number in choose.sample(range(12), choose.choice((1, 2, 9)))]
        if step % 4 == 3:
            with writer.transaction():
                writer.remove(names)
        else:
            lines = "\n\n".join(f"Line {step}." for _ in range(choose.randint(0, 5)))
            write(writer, dict.fromkeys(names, lines), embed=step % 2 > 0)
        changed, anew = outline_of(cache, reader), outline_of(OutlineCache(), reader)
        for name in Columns.__struct_fields__:
            assert getattr(changed.columns, name).tolist() == getattr(anew.columns, name).tolist()
        for part in changed.parts:
            assert part.positions(part.columns.ids).tolist() == list(range(len(part)))
        assert [each.tolist() for each in (changed.starts, changed.columns.ids)] == [
            [0, *np.cumsum([len(part) for part in changed.parts])],
            sorted(changed.columns.ids.tolist()),
        ]
    writer.close()


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "i"
    build(path, {f"memory/{number}.md": "One.\n\nTwo.\n" for number in range(20)}).close()
    reader, cache = CountingReader(path), OutlineCache()
    assert len(table_of(cache, reader)) == reader.read == 40
    table_of(cache, reader)
    assert reader.read == 40
    writer = IndexWriter.open(path)
    write(writer, {"memory/3.md": "One.\n\nTwo.\n\nThree.\n"})
    with writer.transaction():
        writer.remove(["memory/4.md"])
    table = table_of(cache, reader)
    assert reader.read == 43
    assert table.ids.tolist() == sorted(row.id for row in reader.rows(table.ids.tolist()))
    assert len(table) == 39


def test_a_file_that_was_emptied_has_no_lines_left(tmp_path: Path) -> None:
    path = tmp_path / "i"
    build(path, {"memory/a.md": "One.\n\nTwo.\n", "memory/b.md": "三。\n"}).close()
    reader, cache = IndexReader(path), OutlineCache()
    assert len(table_of(cache, reader)) == 3
    write(IndexWriter.open(path), {"memory/a.md": ""})
    table = table_of(cache, reader)
    assert [row.text for row in reader.rows(table.ids.tolist())] == ["三。"]
    assert len(table) == 1


def test_whoever_comes_while_it_is_read_does_without(tmp_path: Path) -> None:
    path = tmp_path / "i"
    build(path, {"memory/1.md": "One.\n"}).close()
    cache = OutlineCache()
    reading, go_on = threading.Event(), threading.Event()

    class SlowReader(IndexReader):
        def columns(self, id_range: IdRange) -> tuple[list[int], ...]:
            reading.set()
            assert go_on.wait(100)
            return super().columns(id_range)

    first = threading.Thread(target=lambda: table_of(cache, SlowReader(path)))
    first.start()
    assert reading.wait(100)
    reader = IndexReader(path)
    with reader.snapshot():
        assert cache.outline(reader, id_range_of("memory")) is None
    go_on.set()
    first.join(100)
    assert len(table_of(cache, reader)) == 1


def sections(lengths: list[int]) -> Part:
    """A part with sections of so many lines, all of one file."""
    firsts = np.cumsum([0, *lengths])
    above = np.concatenate([np.full(end - first, id_of(1, int(first))) for first, end in pairwise(firsts.tolist())])
    count = len(above)
    ids = np.arange(count) + id_of(1, 0)
    flags = np.zeros(count, np.uint16)
    return Part(Columns(ids, above, flags == 0, ids == above, flags, np.full(count, -1, np.int32)))


def wanted(outline: Part, places: list[int]) -> Iterator[int]:
    starts = outline.section_starts.tolist()
    for first, end in pairwise(starts):
        for line in range(first, end):
            near = [
                place for place in places if first <= place < end and (end - first <= 200 or abs(place - line) <= 5)
            ]
            if near:
                yield line


def test_around_lines_are_their_sections_and_of_long_ones_a_part() -> None:
    choose = random.Random(3)
    for _ in range(30):
        outline = sections([choose.choice((1, 2, 7, 200, 201, 900)) for _ in range(12)])
        places = choose.sample(range(len(outline)), choose.randint(0, 60) if len(outline) > 60 else 1)
        found = outline.around(np.array(places, np.int64))
        assert found.tolist() == list(wanted(outline, places))


def test_values_of_some_lines_are_spread_over_all() -> None:
    outline = sections([2, 3])
    ids = np.array([id_of(0, 5), id_of(1, 1), id_of(1, 4), id_of(2, 0)])
    values = np.array([9, 1, 2, 9], np.float32)
    assert outline.spread([ids[:2], ids[2:]], values).tolist() == [0, 1, 0, 0, 2]
    assert outline.spread([ids[:1]], values[:1]).tolist() == [0] * 5
