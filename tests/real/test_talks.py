"""Talks of the whole program with a real model server."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from clawbot import services
from clawbot.agent.events import CompactionFinished, Event, ToolFinished
from clawbot.config.paths import Paths, find_home
from clawbot.runtime import Runtime, RuntimeOptions
from tests.clocks import StillClock
from tests.e2e.conftest import ROOT, Machine
from tests.program import say
from tests.real.conftest import Serve
from tests.real.server import PATIENCE, QWEN, ModelServer

pytestmark = pytest.mark.timeout(PATIENCE)

WINDOW = 3_072
OWN = os.environ.get("CLAWBOT_TEST_GGUF", "")
"""A file with a model that calls tools, for those who have one."""


def settings(server: ModelServer) -> str:
    cap = f"max_output_tokens: {server.cap}" if server.cap else ""
    return f"agents: {{defaults: {{model: openai/small, api_base: '{server.base}', {cap}}}}}\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    """The clock of the program."""
    clock = StillClock()
    monkeypatch.setattr(services, "SystemClock", lambda _zone: clock)
    return clock


async def opened(server: ModelServer, *, new: bool = False) -> Runtime:
    """The program with the model of `server`, in the home of the test."""
    paths = Paths(find_home())
    paths.ensure_home()
    paths.config_file.write_text(settings(server), encoding="utf-8")
    return await Runtime.open(RuntimeOptions(new=new).unattended())


def test_esc_frees_the_server(serve: Serve, machine: Machine) -> None:
    server = serve(template=QWEN)
    machine.configure(settings(server))
    chat = machine.open()
    chat.wait_for("openai/small")
    chat.send("hello", "enter")
    server.wait_until(lambda: server.decoded > 0)
    chat.send("esc")
    chat.wait_for(lambda text: "esc stops" not in text)
    server.wait_until(lambda: not server.busy)
    assert server.decoded < 4_000


async def test_a_turn_of_another_minute_reads_only_what_is_new(serve: Serve, clock: StillClock) -> None:
    server = serve(window=16_384, cap=8, template=QWEN)
    runtime = await opened(server)
    await say(runtime, "Which port has the staging proxy?")
    whole = server.tokens_read
    for minutes in (1, 59):
        before = server.tokens_read
        clock.moment += timedelta(minutes=minutes)
        await say(runtime, "And the other one?")
        assert server.tokens_read - before <= 60 < whole
    await runtime.close()


async def test_twenty_turns_in_a_small_window(serve: Serve, clock: StillClock) -> None:
    """With the workspace and the tools that a fresh home has."""
    runtime = await opened(serve(window=WINDOW, cap=60, template=QWEN))
    events: list[Event] = []
    for turn in range(20):
        clock.moment += timedelta(seconds=20)
        events += await say(runtime, f"<{turn}> " + "The harbour is deep, and the ships are many. " * 8)
    finished = [event for event in events if isinstance(event, CompactionFinished)]
    assert finished
    assert {event.status for event in finished} == {"done"}
    await runtime.close()


@pytest.mark.skipif(not OWN, reason="CLAWBOT_TEST_GGUF names no model")
async def test_a_model_with_tools_appends_a_note_and_finds_it_again(serve: Serve) -> None:
    server = serve(model=Path(OWN), window=4_096, cap=400)
    calls: dict[str, list[str]] = {"append": [], "memory_search": []}
    for request in (
        "Append this line to memory/proxy.md: the staging proxy listens on port 8443",
        "Use memory_search to find the port of the staging proxy.",
    ):
        runtime = await opened(server, new=True)
        async for event in runtime.agent.submit(request):  # how a small model ends its turn does not matter
            if isinstance(event, ToolFinished):
                calls[event.name].append(event.output)
        await runtime.close()
    assert "8443" in (find_home() / "workspace/memory/proxy.md").read_text()
    assert "8443" in calls["memory_search"][0]


def test_the_benchmark_tells_what_each_call_read(small: Path) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/real_model.py"), "--turns", "4"]
    run = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=small.parent)
    assert run.returncode == 0, run.stderr
    calls, _, _ = run.stdout.partition("\n\n")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in calls.splitlines()]
    chats = [row for row in rows[2:] if row[2] not in ("flush", "summary")]
    summary = next(row for row in rows if row[2] == "summary")
    assert int(summary[5]) < int(summary[3]) // 2
    assert [row[0] for row in chats] == ["1", "2", "3", "4"]
    assert chats[3][2] == "edit of MEMORY.md"
    assert chats[0][3] == chats[0][5]
