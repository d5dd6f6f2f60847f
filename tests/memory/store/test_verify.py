from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from clawbot.memory.store.errors import DamagedIndexError
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import Profile
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync.maintenance import verify
from clawbot.memory.values import VerifyReport
from tests.memory.store.making import chunks, embed_all, opened, put, record
from tests.tables import load_table

FILES = {
    "MEMORY.md": "# 人\n- Anna 住在柏林\n...\nBob: hello",
    "memory/a.md": "harbour\nlighthouse",
    "memory/b.md": "x",
}


@pytest.fixture(params=["lines", "classic"])
def index(path: Path, request: pytest.FixtureRequest) -> Iterator[IndexWriter]:
    profile: Profile = request.param
    writer = opened(path, profile)
    put(writer, FILES)
    yield writer
    writer.close()


def check(writer: IndexWriter, *, fix: bool = False, files: dict[str, str] | None = None) -> VerifyReport:
    shown = FILES if files is None else files
    return verify(writer, ((record(path, text), chunks(text)) for path, text in shown.items()), fix=fix)


def test_an_index_in_order_is_clean(index: IndexWriter) -> None:
    report = check(index)
    assert (report.problems, report.fixed, report.clean) == ((), (), True)
    assert (report.checked.files, report.checked.chunks, report.checked.keywords) == (3, 7, 7)
    assert report.checked.vectors == 7
    assert index.pending_count() == 0


@pytest.mark.parametrize(
    ("sql", "problem"),
    load_table(__file__, "what_differs_is_found_and_repaired"),
)
def test_what_differs_is_found_and_repaired(index: IndexWriter, path: Path, sql: str, problem: str) -> None:
    index.connection.execute(sql)
    report = check(index)
    assert any(problem in line for line in report.problems), report
    assert not report.clean
    assert not report.fixed
    mended = check(index, fix=True)
    assert mended.clean
    assert mended.fixed == mended.problems
    assert check(index).problems == ()
    embed_all(index)
    assert check(index).checked.vectors == 7
    reader = IndexReader(path)
    assert len(reader.postings("harbour OR lighthouse OR 柏林 OR bob", 99)) == 4


def test_files_that_came_or_went_are_found(index: IndexWriter) -> None:
    now = {"MEMORY.md": FILES["MEMORY.md"], "memory/new.md": "new"}
    report = check(index, files=now)
    assert len(report.problems) == 3
    assert check(index, files=now, fix=True).clean
    assert sorted(index.known()) == ["MEMORY.md", "memory/new.md"]
    assert check(index, files=now).problems == ()


def test_nothing_is_written_without_fix(index: IndexWriter, path: Path) -> None:
    now = {**FILES, "memory/a.md": "Dora: hello\n小红: 你好", "memory/new.md": "Emil: hello"}
    index.connection.execute("UPDATE speakers SET name = 'Zoe' WHERE name = 'Bob'")
    index.chunks.forget()
    before = _on_disk(path), index.connection.total_changes()
    assert len(check(index, files=now).problems) == 3
    assert (_on_disk(path), index.connection.total_changes()) == before
    assert check(index, files=now, fix=True).clean
    assert check(index, files=now).problems == ()
    assert set(IndexReader(path).speakers().values()) >= {"Dora", "小红", "Emil", "Bob"}


def _on_disk(path: Path) -> list[bytes]:
    return [path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()]


def test_many_problems_are_counted(index: IndexWriter) -> None:
    report = check(index, files={f"{number}.md": "x" for number in range(300)})
    assert len(report.problems) == 101
    assert "203 more" in report.problems[-1]


def test_a_broken_keyword_index_is_damage(index: IndexWriter) -> None:
    index.connection.execute("DELETE FROM chunks_fts_data WHERE id > 10")
    with pytest.raises(DamagedIndexError):
        check(index)


def test_broken_pages_are_damage(path: Path) -> None:
    writer = opened(path)
    put(writer, {"a.md": "\n".join(f"line {number}" for number in range(5000))})
    writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 20_000)
    writer = IndexWriter.open(path)
    with pytest.raises(DamagedIndexError):
        check(writer, files={})
    writer.close()


LINES = st.sampled_from(
    ["# top", "# 标题", "- 数据库", "- milk", "Bob: hello", "Eve: 你好", "one two", "...", "", "\0"]
)
TEXTS = st.lists(LINES, max_size=9).map("\n".join)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), TEXTS), st.booleans()), min_size=1, max_size=8)
WORDS = ("top", '"标题"', '"数据"', "milk", "bob", "你", "two")


def contents(path: Path) -> dict[str, Any]:
    """What the index holds of each file, by its path and not by ids."""
    reader = IndexReader(path)
    speakers = reader.speakers()
    found: dict[str, Any] = {}
    for file in reader.files().values():
        first = file.id << 20
        rows = reader.rows(range(first, first + file.chunks))
        ids, vectors = reader.vectors(range(first, first + file.chunks))
        shown = [
            structs.replace(row, id=row.id - first, heading=row.heading and row.heading - first, speaker=None)
            for row in rows
        ]
        said = [speakers[row.speaker] for row in rows if row.speaker is not None]
        words = {
            word: [one - first for one in reader.postings(word, 99).tolist() if one >> 20 == file.id] for word in WORDS
        }
        found[file.path] = shown, said, words, (ids - first).tolist(), np.round(vectors, 5).tolist()
    reader.close()
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("profile", ["lines", "classic"])
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_any_way_leads_to_the_same_index(profile: Profile, steps: list[tuple[str, str | None, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, once = Path(folder, "main.sqlite"), Path(folder, "once.sqlite")
        writer = opened(path, profile)
        files: dict[str, str] = {}
        for name, text, embed in steps:
            if text is None:
                with writer.transaction():
                    writer.remove([name])
                files.pop(name, None)
            else:
                put(writer, {name: text}, embed=embed)
                files[name] = text
        put(writer, {})
        report = verify(writer, [(record(name, text), chunks(text)) for name, text in files.items()], fix=False)
        assert report.clean, report
        assert writer.pending_count() == 0
        writer.close()
        fresh = opened(once, profile)
        put(fresh, files)
        fresh.close()
        assert contents(path) == contents(once)
