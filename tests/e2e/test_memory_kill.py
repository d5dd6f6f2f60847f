"""The memory index in real processes: killed at any moment, shared by two, its files changing all the time."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.indexing import open_index
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest, SearchResult
from tests.e2e.conftest import CLAWBOT, Machine

pytestmark = pytest.mark.e2e

ROUNDS = int(os.environ.get("CLAWBOT_KILL_ROUNDS", "16"))
NOTES = 150
WORDS = ["river", "lantern", "market", "harbour", "doctor", "数据库", "部署窗口", "会议", "winter", "bridge", "coffee"]


@pytest.fixture
def notes(machine: Machine) -> Path:
    """A workspace with notes that take a while to index."""
    folder = machine.workspace / "memory"
    folder.mkdir(parents=True)
    chance = random.Random(3)
    for number in range(NOTES):
        lines = [f"- {' '.join(chance.choices(WORDS, k=8))} fact{number}x{line}" for line in range(20)]
        (folder / f"note-{number:03}.md").write_text("\n".join([f"# Note {number}", "", *lines, ""]), encoding="utf-8")
    return folder


def own_index(machine: Machine, **sync: object) -> MemoryBackend:
    """The machine's index in this process, which only reads unless `sync` says otherwise."""
    search = {"sync": {"on_search": False, "watch": False, "on_session_start": False, **sync}}
    agents = {"defaults": {"workspace": str(machine.workspace), "memory_search": search}}
    index = open_index(Settings.model_validate({"agents": agents}), "main", Paths(machine.state), SystemClock())
    assert index is not None
    return index


async def ask(index: MemoryBackend, text: str) -> SearchResult:
    return await index.search(SearchRequest(queries=(text,)))


def start(machine: Machine, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CLAWBOT, "memory", *arguments],
        env=machine.env,
        cwd=machine.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def indexed(machine: Machine, *arguments: str) -> dict[str, object]:
    done = machine.run("memory", "index", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)
    assert found["error"] is None
    report: dict[str, object] = found["report"]
    return report


def assert_whole(machine: Machine) -> None:
    """The index is right, and nothing is left of those that were killed."""
    verified = machine.run("memory", "verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    [found] = json.loads(verified.stdout)
    assert found["report"]["checked"]["files"] == NOTES
    assert found["report"]["checked"]["vectors"] == found["report"]["checked"]["chunks"]
    beside = {path.name for path in (machine.state / "memory").iterdir()}
    assert not [name for name in beside if "building" in name or "set-aside" in name]


async def test_a_full_index_is_killed_at_any_point(machine: Machine, notes: Path) -> None:
    began = time.monotonic()
    assert indexed(machine)["added"] == NOTES
    full = time.monotonic() - began
    chance = random.Random(ROUNDS)
    index = own_index(machine)
    try:
        for number in range(ROUNDS):
            process = start(machine, "index", "--force")
            moment = asyncio.create_task(asyncio.sleep(chance.uniform(0.3, 1.1) * full))
            while not moment.done():
                assert (await ask(index, f"fact{number}x3")).hits
            process.kill()
            await asyncio.to_thread(process.communicate)
            found = await ask(index, f"fact{number}x3")
            assert found.hits
            assert found.hits[0].path == f"memory/note-{number % NOTES:03}.md"
    finally:
        await index.close()
    assert indexed(machine)["pendingVectors"] == 0
    assert_whole(machine)


def test_a_first_index_that_is_killed_goes_on_where_it_was(machine: Machine, notes: Path) -> None:
    chance = random.Random(5)
    began = time.monotonic()
    indexed(machine)
    full = time.monotonic() - began
    for number in range(max(2, ROUNDS // 8)):
        for path in (machine.state / "memory").iterdir():
            path.unlink()
        process = start(machine, "index")
        try:
            process.wait(chance.uniform(0.4, 0.9) * full)
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        report = indexed(machine)
        assert report["pendingVectors"] == 0, number
        assert_whole(machine)


async def test_two_processes_share_an_index_while_a_file_changes_all_the_time(machine: Machine, notes: Path) -> None:
    machine.configure("agents: {defaults: {memory_search: {sync: {watch_debounce_ms: 20}}}}\n")
    watching = start(machine, "index", "--watch")
    index = own_index(machine, on_search=True)
    try:
        busy = notes / "note-000.md"
        for number in range(200):
            text = f"# Busy\n\n- otter{number} swims\n"
            await asyncio.to_thread(busy.write_text, text, "utf-8")
            if number % 20 == 19:
                result = await ask(index, f"otter{number} fact77x7")
                assert result.hits or result.warnings
        async with asyncio.timeout(100):
            while "otter199" not in " ".join(hit.snippet for hit in (await ask(index, "otter199")).hits):
                await asyncio.to_thread(time.sleep, 0.02)
        assert watching.poll() is None
        searched = await asyncio.to_thread(machine.run, "memory", "search", "otter199")
        assert "note-000.md" in searched.stdout
    finally:
        watching.terminate()
        await asyncio.to_thread(watching.communicate)
        await index.close()
    indexed(machine)
    assert_whole(machine)
