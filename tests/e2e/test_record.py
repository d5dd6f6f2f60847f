"""A talk through the recorder, in real processes, is said again by the script that came of it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import CLAWBOT, Machine

pytestmark = pytest.mark.e2e

TALK = """
turns:
  - reply: {tool_calls: [{name: append, arguments: {path: memory/a.md, content: "- tabs"}}]}
  - reply: I noted it.
"""


def test_a_recorded_talk_is_replayed(machine: Machine, script: Callable[[str], Path], tmp_path: Path) -> None:
    base = machine.serve(script(TALK))
    recorded = tmp_path / "talk.yaml"
    arguments = ["script", "record", "--base", base, "--to", str(recorded)]
    recorder = subprocess.Popen(
        [*CLAWBOT, *arguments], env=machine.env, cwd=machine.folder, stdout=subprocess.PIPE, text=True
    )
    machine.stack.callback(recorder.wait)
    machine.stack.callback(recorder.kill)
    assert recorder.stdout is not None
    url = recorder.stdout.readline().split(" on ")[1].split()[0]
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
