"""Clawbot is ended while a command runs: what that made where commands must not is not there any more."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.tools.sandbox.bwrap import Missing, probe
from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

SCRIPT = """
turns:
  - reply: {tool_calls: [{name: shell, arguments: {command: "echo evil > BOOT.md; sleep 600"}}]}
  - repeat: forever
    reply: {text: Done.}
"""


@pytest.fixture
def running(machine: Machine, script: Callable[[str], Path]) -> Terminal:
    """`chat -p` in the middle of the command."""
    found = asyncio.run(probe())
    if isinstance(found, Missing):
        pytest.skip(f"no sandbox here ({found.reason}); to have it tested: {found.remedy}")
    url = machine.serve(script(SCRIPT))
    machine.configure(
        f"agents: {{defaults: {{model: openai/scripted, api_base: '{url}', api_key: test-key-123456, keep_client: 0, "
        "tools: {shell: {approval: allow, sandbox: required}}}}\n"
    )
    machine.workspace.mkdir()
    terminal = machine.open("chat", "-p", "hello")
    deadline = time.monotonic() + 60
    while not (file := machine.workspace / "BOOT.md").exists() or not file.stat().st_size:
        assert time.monotonic() < deadline, terminal.text
        terminal.feed(0.05)
    return terminal


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_an_end_that_is_told_puts_it_right(machine: Machine, running: Terminal, number: signal.Signals) -> None:
    os.kill(running.process.pid, number)
    running.wait_end(1)
    assert not (machine.workspace / "BOOT.md").exists()
    assert (machine.workspace / "BOOT.md.sandboxed").read_text(encoding="utf-8") == "evil\n"


def test_after_kill_9_the_next_start_does(machine: Machine, running: Terminal) -> None:
    os.kill(running.process.pid, signal.SIGKILL)
    running.wait_end(-signal.SIGKILL)
    assert (machine.workspace / "BOOT.md").exists()
    again = machine.run("chat", "-p", "/status", "--new")
    assert "BOOT.md.sandboxed" in again.stderr
    assert not (machine.workspace / "BOOT.md").exists()
