"""A sub-agent in real processes: killed in the middle, the talk stays whole; the next one reports, step by step."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import CLAWBOT, Machine

pytestmark = pytest.mark.e2e

HANDS_OUT = """
  - expect: {user: count the files}
    reply: {tool_calls: [{name: task, arguments: {description: count files, prompt: "How many are there?"}}]}
"""
KILLED = f"""
turns:
{HANDS_OUT}
  - expect: {{user: "How many are there?", system: sub-agent}}
    reply: {{text: I am at it, fault: stall}}
"""
WHOLE = f"""
turns:
{HANDS_OUT}
  - expect: {{user: "How many are there?", system: sub-agent}}
    reply: {{tool_calls: [{{name: list, arguments: {{}}}}]}}
  - expect: {{user: "How many are there?"}}
    reply: {{text: There are seven.}}
  - expect: {{tool_result: There are seven.}}
    reply: {{text: Seven.}}
"""


def test_a_killed_sub_agent_leaves_a_talk_that_goes_on(machine: Machine, script: Callable[[str], Path]) -> None:
    ask = ("chat", "-p", "count the files", "--json", "--model")
    with subprocess.Popen(
        [*CLAWBOT, *ask, f"script:{script(KILLED)}"], env=machine.env, cwd=machine.folder, stdout=subprocess.PIPE
    ) as killed:
        assert killed.stdout is not None
        # Its first words are not told: what began is its call.
        assert any(b'"tool_started"' in line for line in killed.stdout)
        folder = machine.state / "agents" / "main" / "sessions" / "subagents"
        wait_for(killed, folder)
        killed.kill()
    done = machine.run(*ask, f"script:{script(WHOLE)}")
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [event for event in events if event["type"] == "subagent_step"]
    assert {(step["parentCallId"], step["description"]) for step in steps} == {(call_of(events), "count files")}
    assert [step["step"]["type"] for step in steps if "tool" in step["step"]["type"]] == [
        "tool_started",
        "tool_finished",
    ]
    assert events[-1]["status"] == "done"
    listed = json.loads(machine.run("sessions", "list", "--subagents", "main", "--json").stdout)
    assert [session["title"] for session in listed] == ["How many are there?"] * 2
    shown = machine.run("sessions", "show", f"main/{listed[0]['sessionId']}")
    assert "There are seven." in shown.stdout


def wait_for(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Until the sub-agent's prompt is on disk, which comes before its first call of the model."""
    while not any(b"How many" in path.read_bytes() for path in folder.glob("*/*.jsonl")):
        assert process.poll() is None


def call_of(events: list[dict[str, object]]) -> object:
    return next(event["callId"] for event in events if event["type"] == "tool_started")
