from __future__ import annotations

import datetime as dt
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from clawbot.memory.store.database import empty_log, open_for_writing
from clawbot.memory.store.errors import BusyIndexError, DamagedIndexError, MissingIndexError, StoreError
from clawbot.memory.store.locks import WriterLock, opening
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.replacement import (
    KEPT,
    building_path,
    discard_building,
    open_index,
    publish,
    quarantine,
    recover,
)
from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import identity, opened, put
from tests.tables import load_table

NOW = dt.datetime(2026, 11, 20, 9, 30, tzinfo=dt.UTC)


def make(path: Path, **files: str) -> None:
    writer = opened(path)
    put(writer, {f"{name}.md": text for name, text in files.items()})
    writer.close()


def paths(reader: IndexReader) -> list[str]:
    return [file.path for file in reader.files().values()]


def test_readers_see_the_old_index_and_then_the_new_one(path: Path) -> None:
    make(path, old="one")
    reader, idle = IndexReader(path), IndexReader(path)
    assert paths(idle) == ["old.md"]
    make(building_path(path), new="two")
    with reader.snapshot():
        assert paths(reader) == ["old.md"]
    publish(path)
    assert paths(reader) == ["new.md"]
    idle.close()
    writer = IndexWriter.open(path)
    put(writer, {"more.md": "three"})
    # What a reader of the old file does when it ends must not touch the log of the new one.
    reader.close()
    assert sorted(paths(IndexReader(path))) == ["more.md", "new.md"]
    assert {file.name.removeprefix(path.name) for file in path.parent.iterdir()} == {"", "-wal", "-shm", ".swap"}
    writer.close()


def test_a_first_index_is_published_too(path: Path) -> None:
    make(building_path(path), new="two")
    publish(path)
    assert paths(IndexReader(path)) == ["new.md"]
    assert not building_path(path).exists()


def test_nothing_built_is_nothing_published(path: Path) -> None:
    make(path, old="one")
    with pytest.raises(MissingIndexError):
        publish(path)
    assert paths(IndexReader(path)) == ["old.md"]


def test_a_long_read_puts_it_off_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.memory.store.database.BUSY_SECONDS", 0.05)
    make(path, old="one")
    writer = IndexWriter.open(path)
    reader = IndexReader(path)
    make(building_path(path), new="two")
    with reader.snapshot():
        put(writer, {"more.md": "three"})
        writer.close()
        with pytest.raises(BusyIndexError):
            publish(path)
        assert paths(reader) == ["old.md"]
    assert paths(reader) == ["old.md", "more.md"]
    publish(path)
    assert paths(reader) == ["new.md"]


def test_a_damaged_index_is_replaced(path: Path) -> None:
    make(path, old="one")
    path.write_bytes(b"no database" * 1000)
    make(building_path(path), new="two")
    publish(path)
    assert paths(IndexReader(path)) == ["new.md"]


def test_what_was_built_can_be_thrown_away(path: Path) -> None:
    make(building_path(path), new="two")
    discard_building(path)
    discard_building(path)
    assert not list(path.parent.glob("*.building*"))


def test_logs_without_their_database_are_removed(path: Path) -> None:
    make(path, old="one")
    make(building_path(path), new="two")
    path.unlink()
    recover(path)
    assert {file.name for file in path.parent.iterdir() if "building" not in file.name} == {f"{path.name}.swap"}
    assert building_path(path).exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    load_table(__file__, "what_is_no_index_is_set_aside"),
)
def test_what_is_no_index_is_set_aside(path: Path, content: str, reason: str) -> None:
    make(path, old="one\n" * 3000)
    before = spoil(path, content)
    with pytest.raises((DamagedIndexError, MissingIndexError)):
        IndexReader(path).rows(range(1 << 20, (1 << 20) + 9000))
    writer, aside = open_index(path, NOW)
    assert aside is not None
    assert reason in aside.reason
    assert aside.path.name in str(aside)
    assert aside.path.read_bytes() == before
    assert stat.S_IMODE(aside.path.stat().st_mode) == 0o600
    writer.set_identity(identity())
    put(writer, {"a.md": "one"})
    assert paths(IndexReader(path)) == ["a.md"]
    writer.close()


def spoil(path: Path, content: str) -> bytes:
    if content == "text":
        path.write_bytes(b"# no database at all\n" * 500)
    elif content == "garbage":
        path.write_bytes(b"SQLite format 3\0" + b"\1" * 4000)
    elif content == "torn":
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)
    elif content == "foreign":
        path.unlink()
        with closing(sqlite3.connect(path)) as foreign:
            foreign.execute("CREATE TABLE theirs (a)")
    else:
        statements = {
            "newer": "UPDATE meta SET value = value || ' 99-tomorrow' WHERE key = 'migrations'",
            "incomplete": "DROP TABLE speakers",
            "nameless": "UPDATE meta SET value = '{' WHERE key = 'identity'",
        }
        connection = open_for_writing(path)
        connection.execute(statements[content])
        assert empty_log(connection)
        connection.close()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return path.read_bytes()


def test_an_index_in_order_is_not_set_aside(path: Path) -> None:
    make(path, old="one")
    writer, aside = open_index(path, NOW)
    assert aside is None
    assert list(writer.known()) == ["old.md"]
    writer.close()


def test_of_those_set_aside_the_last_ones_stay(path: Path) -> None:
    for second in range(4):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d" % second)
        path.with_name(f"{path.name}-wal").write_bytes(b"log")
        quarantine(path, "is odd", NOW + dt.timedelta(seconds=second))
    kept = sorted(file for file in path.parent.glob("*.set-aside-*") if not file.name.endswith("-wal"))
    assert [file.read_bytes() for file in kept] == [b"2", b"3"]
    assert len(list(path.parent.glob("*-wal"))) == KEPT


def test_one_writes_at_a_time(path: Path) -> None:
    one, other = WriterLock(path), WriterLock(path)
    one.acquire()
    with pytest.raises(BusyIndexError):
        other.acquire()
    assert not other.held
    one.release()
    one.release()
    other.acquire()
    assert other.held
    other.release()


def test_a_lock_in_a_folder_that_is_a_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("no folder")
    with pytest.raises(StoreError) as caught:
        WriterLock(tmp_path / "memory" / "main.sqlite").acquire()
    assert caught.value.hint


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose folder nobody may write to, for the superuser too."""
    path = tmp_path / "main.sqlite"
    writer = opened(path)
    put(writer, {"a.md": "milk"})
    writer.close()
    for lock in (*tmp_path.glob("*.swap"), *tmp_path.glob("*.lock")):
        lock.unlink()
    real = os.open

    def refuse(name: str | Path, flags: int, *more: int, **others: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, flags, *more, **others)

    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK)
    monkeypatch.setattr(os, "open", refuse)
    return path


def test_an_index_in_a_folder_of_others_is_read_without_a_lock(read_only: Path) -> None:
    with opening(read_only):
        reader = IndexReader(read_only)
    assert reader.postings("milk", 9).tolist() != []
    reader.close()
    assert not list(read_only.parent.glob("*.swap"))


def test_it_can_not_be_written_and_says_so(read_only: Path) -> None:
    with pytest.raises(StoreError, match="Check the permissions"):
        WriterLock(read_only).acquire(0)
