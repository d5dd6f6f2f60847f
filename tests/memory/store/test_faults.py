"""Deaths at any point, full disks, and several processes on one index."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clawbot.memory.store.errors import BusyIndexError, MissingIndexError, StoreError
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.matrix import VectorMatrix
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.replacement import building_path
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync.maintenance import verify
from tests.memory.store.making import chunks, embed_all, put, record, vector
from tests.memory.store.victim import NAMES, build_beside, opened, text_of, version_of

ROOT = Path(__file__).parents[3]
KILLS = int(os.environ.get("CLAWBOT_TEST_KILLS", "4"))


@contextlib.contextmanager
def victim(path: Path, *what: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.memory.store.victim", str(path), *what]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(100)
        if process.stdout is not None:
            process.stdout.close()


def seen(reader: IndexReader) -> dict[str, int]:
    """The version of each file, all of whose lines must say the same."""
    with reader.snapshot():
        found = {}
        for file in reader.files().values():
            rows = reader.rows(range(file.id << 20, (file.id << 20) + file.chunks))
            version = version_of(rows[0].text)
            assert [row.text for row in rows] == text_of(file.path, version).split("\n")
            assert len(reader.postings(f'"version {version}"', 999)) >= len(rows)
            found[file.path] = version
        reader.nearest(vector("x").tobytes(), 5)
        return found


def assert_sound(path: Path) -> None:
    lock = WriterLock(path)
    lock.acquire(10)
    writer = opened(path)
    files = seen(IndexReader(path))
    documents = [
        (record(name, text_of(name, version)), chunks(text_of(name, version))) for name, version in files.items()
    ]
    report = verify(writer, documents, fix=False)
    assert report.clean, report
    embed_all(writer)
    assert writer.pending_count() == 0
    writer.close()
    lock.release()


@pytest.fixture
def filled(path: Path) -> Path:
    writer = opened(path)
    put(writer, {name: text_of(name, 30) for name in NAMES})
    writer.close()
    return path


def test_killed_anywhere_it_is_whole_and_was_readable_all_the_time(filled: Path) -> None:
    choose = random.Random(3)
    reader = IndexReader(filled)
    for _ in range(KILLS):
        with victim(filled, "churn") as process:
            assert process.stdout is not None
            for _ in range(choose.randint(1, 6)):
                assert process.stdout.readline()
                seen(reader)
        assert set(seen(reader)) == set(NAMES)
        assert_sound(filled)


@pytest.mark.few(2)
@pytest.mark.parametrize("operation", range(1, 7))
def test_killed_while_publishing_one_of_both_is_there(filled: Path, operation: int) -> None:
    reader = IndexReader(filled)
    before = seen(reader)
    with victim(filled, "publish", str(operation)) as process:
        process.wait(60)
    assert process.returncode in (0, -signal.SIGKILL)
    assert seen(reader) == before
    assert_sound(filled)
    if building_path(filled).exists():
        build_beside(filled)
    assert seen(reader) == before
    assert_sound(filled)
    assert not list(filled.parent.glob("*.building*"))


def test_threads_read_on_while_another_writes_and_publishes(filled: Path) -> None:
    over = threading.Event()

    def read() -> int:
        reader = IndexReader(filled)
        matrix = VectorMatrix.load(reader)
        rounds = 0
        while not over.is_set() or not rounds:
            with reader.snapshot():
                seen(reader)
                matrix = matrix.updated(reader) if matrix is not None else None
                assert matrix is not None
                assert [int(one) for ids in matrix.ids for one in ids] == reader.all_vectors()[0].tolist()
            rounds += 1
        reader.close()
        return rounds

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for version in range(40):
                writer = opened(filled)
                put(writer, {name: text_of(name, version) for name in NAMES[version % 5 :]})
                writer.close()
                if version % 4 == 3:
                    build_beside(filled)
        finally:
            over.set()
        assert all(reader.result(60) > 0 for reader in readers)
    assert_sound(filled)


def test_killed_in_a_transaction_nothing_of_it_is_there(filled: Path) -> None:
    with victim(filled, "write") as process:
        process.wait(60)
    assert process.returncode == -signal.SIGKILL
    assert seen(IndexReader(filled)) == dict.fromkeys(NAMES, 30)
    assert_sound(filled)


def test_a_lock_dies_with_its_process(filled: Path) -> None:
    lock = WriterLock(filled)
    with victim(filled, "churn") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        with pytest.raises(BusyIndexError):
            lock.acquire()
    lock.acquire(10)
    assert lock.held
    lock.release()


def test_a_full_disk_is_said_and_loses_nothing(filled: Path) -> None:
    writer = IndexWriter.open(filled)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (filled.stat().st_size + 100_000, hard))
    try:
        with pytest.raises(StoreError, match=r"can't be written|full") as caught:
            put(writer, {f"memory/new{number}.md": text_of(f"memory/new{number}.md", 39) for number in range(500)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "disk is full" in caught.value.hint
    assert set(seen(IndexReader(filled))) == set(NAMES)
    put(writer, {"memory/new.md": text_of("memory/new.md", 1)})
    writer.close()
    assert_sound(filled)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "pwrite"])
def test_a_full_disk_is_said_of_each_file_beside_the_index(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    lock = WriterLock(path)
    with contextlib.closing(opened(path)) if call == "pwrite" else contextlib.nullcontext():
        lock.acquire()
        write: Callable[[], object] = lock.seal if call == "pwrite" else functools.partial(opened, path)
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(StoreError, match=f"{path} is full") as caught:
            write()
        monkeypatch.undo()
    lock.release()
    assert "Free some disk space" in caught.value.hint


def test_readers_of_a_file_that_vanishes_say_so(filled: Path) -> None:
    reader = IndexReader(filled)
    filled.unlink()
    with pytest.raises(MissingIndexError):
        reader.files()
