"""A talk through the recorder, in real processes, is said again by the script that came of it."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.llm.scripted.replies import joined_answer
from tests.e2e.conftest import CLAWBOT, Machine

pytestmark = pytest.mark.e2e

TALK = """
turns:
  - reply: {tool_calls: [{name: append, arguments: {path: memory/a.md, content: "- tabs"}}]}
  - reply: I noted it.
"""


def start(machine: Machine, *command: str) -> tuple[subprocess.Popen[str], str]:
    """Run a recorder; gives its process and its address."""
    recorder = subprocess.Popen(command, env=machine.env, cwd=machine.folder, stdout=subprocess.PIPE, text=True)
    machine.stack.callback(recorder.wait)
    machine.stack.callback(recorder.kill)
    assert recorder.stdout is not None
    return recorder, recorder.stdout.readline().split(" on ")[1].split()[0]


ENOUGH = 12
SLOW_DISK = """
import os, runpy, time
fsync = os.fsync
os.fsync = lambda handle: (time.sleep(0.2), fsync(handle))
runpy.run_module("clawbot", run_name="__main__", alter_sys=True)
"""


def ask(url: str, text: str) -> bool:
    """Whether an answer came to its last event; what may follow is waited for by no client."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    try:
        with httpx.stream("POST", f"{url}/chat/completions", json=body, trust_env=False, timeout=60) as answer:
            return any("[DONE]" in line for line in answer.iter_lines())
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(("number", "clients"), [(signal.SIGKILL, 1), (signal.SIGINT, 8), (signal.SIGTERM, 8)])
def test_each_answer_that_came_is_in_the_file(
    machine: Machine, script: Callable[[str], Path], tmp_path: Path, number: signal.Signals, clients: int
) -> None:
    """The recorder ends while many ask: what they got is replayed, and the count is that of the file."""
    base = machine.serve(script("turns: [{repeat: forever, reply: 'You said: {{user}}.'}]"))
    recorded = tmp_path / "talk.yaml"
    recorder, url = start(
        machine, sys.executable, "-c", SLOW_DISK, "script", "record", "--base", base, "--to", str(recorded)
    )
    answered: list[str] = []

    def talk(client: int) -> None:
        for turn in itertools.count():
            if not ask(url, f"client {client} turn {turn}"):
                return
            answered.append(f"client {client} turn {turn}")
            if len(answered) == ENOUGH:
                recorder.send_signal(number)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(talk, range(clients)))
    printed = recorder.communicate(timeout=60)[0]

    turns = load_script(recorded).turns
    good = [turn.checks[0].value for turn in turns if turn.reply.fault is None]
    assert set(answered) <= set(good)
    assert len(answered) >= ENOUGH
    if number != signal.SIGKILL:
        assert f"{len(turns)} turns are in" in printed
    else:
        engine = ScriptEngine(load_script(recorded))
        assert [replayed(engine, text) for text in answered] == [f"You said: {text}." for text in answered]


def replayed(engine: ScriptEngine, text: str) -> str:
    """What a recording says to `text`."""

    async def chunks() -> list[dict[str, Any]]:
        return [chunk async for chunk in engine.reply({"messages": [{"role": "user", "content": text}]})]

    answer = joined_answer(asyncio.run(chunks()))
    return str(answer["choices"][0]["message"]["content"])


def test_a_recorded_talk_is_replayed(machine: Machine, script: Callable[[str], Path], tmp_path: Path) -> None:
    base = machine.serve(script(TALK))
    recorded = tmp_path / "talk.yaml"
    arguments = ["script", "record", "--base", base, "--to", str(recorded)]
    recorder, url = start(machine, *CLAWBOT, *arguments)
    config = machine.state / "config.yaml"
    machine.configure(config.read_text(encoding="utf-8").replace(base, url))
    assert machine.run("chat", "--new", "-p", "I prefer tabs").stdout == "I noted it.\n"
    recorder.send_signal(signal.SIGINT)
    assert "2 turns are in" in recorder.communicate()[0]
    assert "test-key-123456" not in recorded.read_text(encoding="utf-8")

    again = machine.run("chat", "--new", "--model", f"script:{recorded}", "-p", "I prefer tabs")
    assert (again.returncode, again.stdout) == (0, "I noted it.\n"), again.stderr
    other = machine.run("chat", "--new", "--model", f"script:{recorded}", "-p", "something else")
    assert "I prefer tabs" in other.stderr
    refused = machine.run(*arguments)
    assert "exists already" in refused.stderr
