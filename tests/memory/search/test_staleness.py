"""Looking for files that have changed: one scan at a time, given up in time, with nothing lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clawbot.memory.documents.library import Library
from clawbot.memory.search import searcher
from clawbot.memory.search.searcher import LateScanError, StaleScan
from tests.memory.index_host import House, WordEmbedder, find, paths, until

QUICK: dict[str, Any] = {"query": {"wait_for_writes": "20ms"}, "sync": {"watch": False}}


class Hanging:
    """A scan that hangs like a network share, until `go_on` is set."""

    def __init__(self, found: bool | None = True) -> None:
        self.go_on = threading.Event()
        self.begun = 0
        self._found = found

    def __call__(self) -> bool | None:
        self.begun += 1
        assert self.go_on.wait(100)
        return self._found


@pytest.fixture
def scan(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """What looks at the files of every index of the test. It hangs until the test says so, or is over."""
    scan = Hanging()
    monkeypatch.setattr(Library, "is_stale", lambda self: scan())
    yield scan
    scan.go_on.set()


async def test_searches_answer_while_a_share_hangs_and_a_close_does_not_wait_for_it(
    tmp_path: Path, scan: Hanging
) -> None:
    house = House(tmp_path)
    house.write("memory/a.md", "alpha\n\n部署窗口")
    index = house.index(WordEmbedder(), **QUICK)
    try:
        await index.sync()
        async with asyncio.timeout(100):
            for question in ("alpha", "部署窗口", "alpha"):
                found = await find(index, question)
                assert paths(found) == ["memory/a.md"]
                assert any("may be missing" in note for note in found.warnings)
            many = await asyncio.gather(*(find(index, "alpha") for _ in range(4)))
            assert all(paths(found) == ["memory/a.md"] for found in many)
            assert scan.begun == 1
            await index.close()
        assert not scan.go_on.is_set()
    finally:
        scan.go_on.set()


async def test_what_a_search_has_not_waited_for_is_indexed_when_the_scan_is_over(tmp_path: Path, scan: Hanging) -> None:
    house = House(tmp_path)
    house.write("memory/a.md", "alpha")
    async with house.opened(WordEmbedder(), **QUICK) as index:
        await index.sync()
        house.write("memory/b.md", "beta")
        assert (await find(index, "beta")).warnings
        assert "memory/b.md" not in house.stored()
        scan.go_on.set()
        await until(lambda: "memory/b.md" in house.stored())


async def test_a_search_that_must_not_wait_misses_nothing_where_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that is slow now is not what this is about.
    monkeypatch.setattr(searcher, "MIN_SCAN_SECONDS", 20.0)
    house = House(tmp_path)
    file = house.write("memory/a.md", "alpha")
    # A file that was written this moment is looked at once more, whatever its time says.
    await until(lambda: time.time_ns() - file.stat().st_ctime_ns > 10**8)
    async with house.opened(WordEmbedder(), query={"wait_for_writes": "0s"}) as index:
        await index.sync()
        assert (await find(index, "alpha")).warnings == ()


async def test_a_scan_that_began_before_is_no_answer_and_one_more_serves_all_who_wait() -> None:
    scan = Hanging()
    stale = StaleScan(scan, lambda: None)
    first = asyncio.create_task(stale.result(20))
    await until(lambda: scan.begun == 1)
    later = [asyncio.create_task(stale.result(20)) for _ in range(3)]
    await asyncio.sleep(0)
    scan.go_on.set()
    assert await asyncio.gather(first, *later) == [True] * 4
    assert scan.begun == 2


async def test_a_scan_that_was_given_up_is_told_when_it_is_over_and_the_next_one_runs() -> None:
    over = asyncio.Event()
    scan = Hanging(found=False)
    stale = StaleScan(scan, over.set)
    for _ in range(2):
        with pytest.raises(LateScanError):
            await stale.result(0.01)
    assert scan.begun == 1
    scan.go_on.set()
    await over.wait()
    over.clear()
    assert await stale.result(20) is False
    assert (scan.begun, over.is_set()) == (2, False)


async def test_a_scan_that_fails_is_told_as_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> bool:
        raise ZeroDivisionError("division by zero")

    stale = StaleScan(fail, lambda: None)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await stale.result(20)
    assert "could not be scanned" in caplog.text
