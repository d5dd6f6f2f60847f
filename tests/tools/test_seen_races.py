"""Several processes change one file, each as a session of its own: no line is lost."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from clawbot import guarded
from clawbot.guarded import GuardedFolder, hold_folder
from clawbot.locks import try_lock
from tests.tools.conftest import names
from tests.tools.test_seen import FILE, Session, Step, append, edit, read, wrote

ROUNDS = 12
KINDS = ["write", "write", "append", "edit"]


def work(workspace: str, kind: str, name: str) -> None:
    """Add a line in each round, with the tool `kind`."""
    asyncio.run(_work(Session(Path(workspace)), kind, name))


async def _work(session: Session, kind: str, name: str) -> None:
    for number in range(ROUNDS):
        line = f"- {name} {number} 茶\n"
        while True:
            [shown] = await session.answer(read())
            step = {
                "write": wrote(shown.text + line),
                "append": append(line),
                "edit": edit("# Plan\n", f"# Plan\n{line}"),
            }[kind]
            [outcome] = await session.answer(step)
            if not outcome.is_error:
                break
        session.request.clear()


def test_no_line_is_lost_between_processes(workspace: Path) -> None:
    (workspace / FILE).write_text("# Plan\n", encoding="utf-8")
    with ProcessPoolExecutor(len(KINDS), mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(work, str(workspace), kind, str(at)) for at, kind in enumerate(KINDS)]
        for job in jobs:
            job.result()
    lines = (workspace / FILE).read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == sorted(["# Plan", *(f"- {at} {n} 茶" for at in range(len(KINDS)) for n in range(ROUNDS))])


@pytest.mark.parametrize("step", [wrote("new\n"), edit("tea", "coffee")], ids=lambda step: step[0])
async def test_an_append_waits_for_a_change_that_is_being_made(
    workspace: Path, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / FILE).write_text("- tea\n", encoding="utf-8")
    session = Session(workspace)
    await session.take([read()])
    genuine, waits = os.replace, threading.Event()
    other = threading.Thread(target=lambda: asyncio.run(Session(workspace).take([append("- theirs")])))

    def pause(_seconds: float) -> None:
        waits.set()

    def replaced_while_another_appends(*places: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "replace", genuine)
        other.start()
        while other.is_alive() and not waits.wait(0.01):
            pass
        genuine(*places, **folders)

    monkeypatch.setattr(guarded, "_LOCK_TRIES", 10**9)
    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setattr(os, "replace", replaced_while_another_appends)
    [outcome] = await session.answer(step)
    await asyncio.to_thread(other.join)
    assert not outcome.is_error
    assert (workspace / FILE).read_text(encoding="utf-8").endswith("\n- theirs\n")


@pytest.mark.parametrize("kind", ["a file", "a link", "a hard link", "a folder"])
async def test_a_file_that_appears_at_the_last_moment_is_not_replaced(
    workspace: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine, file, other = os.link, workspace / FILE, workspace / "MEMORY.md"

    def made_meanwhile(*names: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "link", genuine)
        match kind:
            case "a file":
                file.write_text("- theirs\n", encoding="utf-8")
            case "a link":
                file.symlink_to(other)
            case "a hard link":
                file.hardlink_to(other)
            case _:
                file.mkdir()
        genuine(*names, **folders)

    before = other.read_bytes()
    monkeypatch.setattr(os, "link", made_meanwhile)
    outcome = await Session(workspace).write("mine\n")
    assert ("is a folder" if kind == "a folder" else "has become another one") in outcome.text
    assert other.read_bytes() == before
    assert kind == "a folder" or file.read_text(encoding="utf-8") != "mine\n"
    assert len(names(workspace)) == 3


def test_a_lock_that_is_held_for_ever_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in "12")
    try:
        assert try_lock(first)
        hold_folder(second)
        (tmp_path / "a").write_bytes(b"one")
        GuardedFolder(tmp_path).replace_known("a", b"one", b"two")
    finally:
        os.close(first)
        os.close(second)
    assert 0.5 < sum(naps) / 2 < 2
    assert (tmp_path / "a").read_bytes() == b"two"
