"""Following the folders of the memory: what is a change, what is none, and what is done without watches."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from clawbot.config.schema_memory import ExtraPath, SyncSettings
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.memory.sync import watcher as watching
from clawbot.memory.sync.observer import FolderObserver
from clawbot.memory.sync.watcher import SyncReminder, Watcher
from tests.memory.index_host import until

DEBOUNCE = 0.02


class Following:
    """A watcher over a workspace, and what it told."""

    def __init__(self, workspace: Path, *extra: str, debounce: float = DEBOUNCE) -> None:
        self.workspace = workspace
        self.told = 0
        documents = MemoryDocuments(workspace, [ExtraPath(path=Path(path)) for path in extra])
        self.watcher = Watcher([documents], debounce, self._on_change)

    def _on_change(self) -> None:
        self.told += 1

    async def expect(self, change: Callable[[], object]) -> None:
        """`change` is told."""
        before = self.told
        await asyncio.to_thread(change)
        await until(lambda: self.told > before)
        # What belongs to the same change has come to rest as well.
        told = -1
        while told != self.told:
            told = self.told
            await asyncio.sleep(4 * DEBOUNCE)

    async def expect_nothing_but(self, *changes: Callable[[], object]) -> None:
        """Only the last of `changes` is told: the watcher has seen the others by then."""
        before = self.told
        for change in changes[:-1]:
            await asyncio.to_thread(change)
        await asyncio.sleep(4 * DEBOUNCE)
        assert self.told == before
        await self.expect(changes[-1])


@pytest.fixture
async def following(tmp_path: Path) -> AsyncIterator[Following]:
    (tmp_path / "memory").mkdir()
    found = Following(tmp_path)
    await found.watcher.start()
    yield found
    await found.watcher.stop()


async def test_writes_moves_and_removals_are_told(following: Following) -> None:
    workspace = following.workspace
    await following.expect(lambda: (workspace / "MEMORY.md").write_text("x"))
    note = workspace / "memory/笔记.md"
    await following.expect(lambda: note.write_text("x"))
    await following.expect(lambda: note.rename(workspace / "memory/other.md"))
    await following.expect((workspace / "memory/other.md").unlink)


async def test_an_atomic_replace_is_told(following: Following) -> None:
    note = following.workspace / "memory/a.md"
    await following.expect(lambda: note.write_text("x"))

    def replace() -> None:
        temporary = note.with_name(".a.tmp")
        temporary.write_text("y")
        temporary.replace(note)

    await following.expect(replace)


async def test_reading_and_other_files_are_not_told(following: Following) -> None:
    workspace = following.workspace
    note = workspace / "memory/a.md"
    await following.expect(lambda: note.write_text("x"))
    await following.expect_nothing_but(
        note.read_text,
        lambda: list((workspace / "memory").iterdir()),
        lambda: (workspace / "todo.txt").write_text("x"),
        (workspace / "code").mkdir,
        lambda: (workspace / "code/readme.md").write_text("x"),
        lambda: note.write_text("y"),
    )


async def test_reading_wakes_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(FolderObserver, "on_any_event", lambda _, event: heard.append(event.event_type))
    (tmp_path / "old.md").write_text("x", encoding="utf-8")
    observer = FolderObserver(lambda _: None)
    try:
        observer.watch({tmp_path: True})
        (tmp_path / "old.md").read_text(encoding="utf-8")
        (tmp_path / "old.md").write_text("y", encoding="utf-8")
        await until(lambda: "closed" in heard)
    finally:
        observer.stop()
    assert set(heard) == {"modified", "closed"}


async def test_new_folders_are_followed(following: Following) -> None:
    deep = following.workspace / "memory/2026/11"
    await following.expect(lambda: deep.mkdir(parents=True))
    await following.expect(lambda: (deep / "a.md").write_text("x"))


async def test_the_memory_folder_may_come_go_and_come_again(following: Following) -> None:
    folder = following.workspace / "memory"
    await following.expect(lambda: (folder / "a.md").write_text("x"))
    for _ in range(2):
        await following.expect(lambda: shutil.rmtree(folder))
        await following.expect(folder.mkdir)
        await following.expect(lambda: (folder / "a.md").write_text("y"))
    away = folder.with_name("elsewhere")
    await following.expect(lambda: folder.rename(away))
    await following.expect(lambda: away.rename(folder))
    await following.expect(lambda: (folder / "a.md").write_text("z"))


async def test_extra_folders_are_followed_and_the_workspace_may_be_one(tmp_path: Path) -> None:
    workspace, other = tmp_path / "workspace", tmp_path / "other"
    (workspace / "docs/deep").mkdir(parents=True)
    other.mkdir()
    found = Following(workspace, str(other), ".")
    await found.watcher.start()
    try:
        await found.expect(lambda: (other / "a.md").write_text("x"))
        await found.expect(lambda: (workspace / "docs/deep/a.md").write_text("x"))
    finally:
        await found.watcher.stop()


async def test_a_row_of_changes_is_told_once(tmp_path: Path) -> None:
    found = Following(tmp_path, debounce=2)
    await found.watcher.start()
    try:

        def storm() -> None:
            for number in range(500):
                (tmp_path / "MEMORY.md").write_text(str(number))

        await asyncio.to_thread(storm)
        await until(lambda: found.told > 0)
        assert found.told == 1
    finally:
        await found.watcher.stop()


async def test_changes_that_never_rest_are_told_all_the_same(tmp_path: Path) -> None:
    found = Following(tmp_path, debounce=0.1)
    await found.watcher.start()
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            (tmp_path / "MEMORY.md").write_text(str(number))

    writing = asyncio.create_task(asyncio.to_thread(write))
    try:
        await until(lambda: found.told >= 2)
    finally:
        stop.set()
        await writing
        await found.watcher.stop()


async def test_without_watches_it_looks_by_itself_until_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.02)
    limit = OSError(errno.ENOSPC, "inotify watch limit reached")
    found = Following(tmp_path)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise limit

        patch.setattr(FolderObserver, "watch", fail)
        await found.watcher.start()
        assert "watch limit" in found.watcher.problem
        await until(lambda: found.told >= 3)
    await until(lambda: not found.watcher.problem)
    await found.expect(lambda: (tmp_path / "MEMORY.md").write_text("x"))
    await found.watcher.stop()


async def test_watches_that_tell_nothing_are_not_relied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SAFETY_SECONDS", 0.02)
    monkeypatch.setattr(FolderObserver, "watch", lambda *_: None)
    (tmp_path / "memory").mkdir()
    found = Following(tmp_path)
    await found.watcher.start()
    assert not found.watcher.problem
    await until(lambda: found.told >= 3)
    await found.watcher.stop()


async def test_watches_that_run_out_later_are_replaced_by_looking(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(watching, "POLL_SECONDS", 0.02)
    with monkeypatch.context() as patch:
        patch.setattr(FolderObserver, "watch", fail)
        (following.workspace / "memory/a.md").write_text("x")
        await until(lambda: bool(following.watcher.problem))
        told = following.told
        await until(lambda: following.told >= told + 3)
    await until(lambda: not following.watcher.problem)


async def test_a_workspace_that_is_not_there_yet_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.02)
    found = Following(tmp_path / "later")
    await found.watcher.start()
    try:
        assert found.watcher.problem
        (tmp_path / "later").mkdir()
        await until(lambda: not found.watcher.problem)
        await found.expect(lambda: (tmp_path / "later/MEMORY.md").write_text("x"))
    finally:
        await found.watcher.stop()


async def test_stopping_ends_all_threads_and_is_silent_afterwards(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    found = Following(tmp_path)
    await found.watcher.start()
    (tmp_path / "MEMORY.md").write_text("x")
    await found.watcher.stop()
    told = found.told
    (tmp_path / "MEMORY.md").write_text("y")
    await asyncio.sleep(4 * DEBOUNCE)
    assert found.told == told
    started = set(threading.enumerate()) - before
    assert not _watching(started)
    assert len(started) <= 6


def _watching(threads: Iterable[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threads if "watchdog" in type(thread).__module__]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_stop_that_is_cancelled_before_it_waits_ends_all_threads(tmp_path: Path, begun: bool) -> None:
    """Seen: they ran until the process ended."""
    before = set(threading.enumerate())
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += 1

    reminder = SyncReminder([MemoryDocuments(tmp_path, [])], SyncSettings(on_session_start=False), ask)
    reminder.start()
    if begun:
        await until(lambda: asked > 0)
        assert _watching(set(threading.enumerate()) - before)

    async def end() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await reminder.stop()

    [ended] = await asyncio.gather(end(), return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError)
    await until(lambda: not _watching(set(threading.enumerate()) - before))
    told = asked
    (tmp_path / "MEMORY.md").write_text("y")
    await asyncio.sleep(4 * DEBOUNCE)
    assert asked == told


async def test_a_change_that_is_noticed_when_the_loop_is_over_is_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Over:
        def time(self) -> float:
            return 0.0

        def call_soon_threadsafe(self, *_: object) -> None:
            raise RuntimeError("Event loop is closed")

    found = Following(tmp_path)
    monkeypatch.setattr(found.watcher, "_loop", Over())
    found.watcher._on_path(tmp_path / "memory/2026-11-20.md")
    assert found.told == 0
