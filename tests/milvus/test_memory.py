"""The memory in a real Milvus: found like by the builtin index, shared, killed, cut off."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clawbot.errors import ClawbotError
from clawbot.memory.values import SearchRequest
from tests.milvus.machines import URI, Machines

HOUSE = """# House

- The boiler was serviced by Anna Weber on 12 March.
- The spare key lies under the blue flower pot.
- 车库的密码是四个七。
- Bins go out on Tuesday evening.
"""
WORK = """# Deployment

The staging server answers on port 8443. Its certificate ends in June.

## Database

- The nightly backup runs at 03:30 and takes forty minutes.
- 数据库连接池最多五十个连接。
- `max_replication_slots` was raised to 12.
"""
QUESTIONS = (
    "who serviced the boiler",
    "where is the spare key",
    "车库密码",
    "which port does staging use",
    "when does the backup run",
    "连接池有多少连接",
    "max_replication_slots",
    "rubbish collection day",
)
WORDS = ("river", "copper", "lantern", "meadow", "pepper", "granite", "window", "saddle", "orchard", "thunder")


def log_of(lines: int, seed: int) -> str:
    chance = random.Random(seed)
    return "".join(f"- {' '.join(chance.choices(WORDS, k=6))} n{seed}x{line}\n" for line in range(lines))


async def test_it_finds_what_the_builtin_index_finds(machines: Machines) -> None:
    machines.note("home", "house.md", HOUSE)
    machines.note("home", "work.md", WORK)
    milvus, builtin = machines.open_whole("home"), machines.open_builtin("home")
    try:
        await milvus.sync()
        await builtin.sync()
        for question in QUESTIONS:
            request = SearchRequest(queries=(question,))
            ours, theirs = await milvus.search(request), await builtin.search(request)
            assert ours.fallback is None
            assert ours.mode == theirs.mode == "hybrid"
            best = [[(hit.path, hit.line) for hit in found.hits[:1]] for found in (ours, theirs)]
            assert best[0] == best[1], question
    finally:
        await milvus.close()
        await builtin.close()


async def test_machines_share_a_memory_and_agents_do_not(machines: Machines) -> None:
    machines.note("home", "house.md", HOUSE)
    await machines.synced("home")
    machines.note("laptop", "house.md", HOUSE)
    machines.note("laptop", "secret.md", "- The violin is in the harbour.\n")
    await machines.synced("laptop", "secret")
    assert any("flower pot" in hit.snippet for hit in (await machines.found("desk", "spare key")).hits)
    assert (await machines.found("desk", "violin harbour")).hits == ()
    assert (await machines.found("desk", "violin harbour", agents={"main": ["secret"]})).hits
    assert (await machines.found("desk", "violin harbour", "research")).hits == ()


async def test_a_changed_and_a_deleted_file_are_found_as_they_are(machines: Machines) -> None:
    note = machines.note("home", "house.md", HOUSE)
    memory = machines.open("home")
    try:
        await memory.sync()
        assert "flower pot" in (await memory.search(SearchRequest(queries=("spare key",)))).hits[0].snippet
        note.write_text(HOUSE.replace("blue flower pot", "old doormat"), "utf-8")
        await memory.sync()
        assert "old doormat" in (await memory.search(SearchRequest(queries=("spare key",)))).hits[0].snippet
        note.unlink()
        await memory.sync()
        assert (await memory.search(SearchRequest(queries=("spare key",)))).hits == ()
    finally:
        await memory.close()
    assert await machines.problems("home") == ()


async def test_a_killed_sync_is_continued_without_a_lost_or_doubled_piece(machines: Machines) -> None:
    for number in range(12):
        machines.note("home", f"log-{number}.md", log_of(150, number))
    process = machines.start("home")
    memory = machines.open("laptop")
    try:
        for _ in range(2_000):
            if process.poll() is not None or (await memory.status()).details["filesOfOthers"]:
                break
            await asyncio.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        await memory.close()
    await machines.synced("home")
    assert await machines.problems("home") == ()


async def test_processes_that_write_and_search_at_once_lose_nothing(machines: Machines) -> None:
    names = [f"machine{number}" for number in range(3)]
    for number, name in enumerate(names):
        machines.note(name, "shared.md", HOUSE)
        machines.note(name, f"own-{number}.md", log_of(120, number))
    running = [machines.start(name) for name in names]
    codes = [await asyncio.to_thread(process.wait) for process in running]
    assert codes == [0, 0, 0]
    for name in names:
        assert await machines.problems(name) == ()
    found = await machines.found("desk", "n2x77")
    assert "n2x77" in found.hits[0].snippet
    keys = (await machines.found("desk", "spare key flower pot")).hits
    assert sum("flower pot" in hit.snippet for hit in keys) == 1


@pytest.mark.skipif(URI in os.environ, reason="only the server process of Lite may be killed")
async def test_a_server_that_dies_is_an_error_and_the_next_call_starts_another(machines: Machines) -> None:
    machines.note("home", "house.md", HOUSE)
    memory = machines.open("home")
    try:
        await memory.sync()
        kill_server(Path(machines.uri))
        with pytest.raises(ClawbotError, match="Milvus"):
            await memory.search(SearchRequest(queries=("spare key",)))
        assert "flower pot" in (await memory.search(SearchRequest(queries=("spare key",)))).hits[0].snippet
    finally:
        await memory.close()
    assert await machines.problems("home") == ()


async def test_without_a_server_the_builtin_index_answers_the_same_question(machines: Machines) -> None:
    machines.note("home", "house.md", HOUSE)
    memory = machines.open_whole("home", uri="http://127.0.0.1:9", timeout=1)
    try:
        found = await memory.search(SearchRequest(queries=("spare key",)))
        assert "flower pot" in found.hits[0].snippet
        assert found.fallback is not None
        assert found.fallback.from_ == "milvus"
        assert "connect" in found.fallback.reason
    finally:
        await memory.close()


@pytest.mark.parametrize("what", ["costs --pieces 200 --searches 2", "processes --count 2 --seconds 3"])
def test_the_benchmark_runs_in_a_tiny_form(uri: str, what: str) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "milvus.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(script), *what.split()], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 1
    assert "clean=False" not in done.stdout


def kill_server(database: Path) -> None:
    """Kill the server process of `database`."""
    for process in Path("/proc").glob("[0-9]*"):
        command = b""
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"lite_server" in command and str(database).encode() in command:
            os.kill(int(process.name), signal.SIGKILL)
