"""A plan is made and carried out: by single turns, in lines, and on the screen, each with the scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e

SCRIPT = r"""
model: scripted
window: 32000
turns:
  - expect: {user: {contains: write it}}
    reply: "I looked.\n\n## Plan\n\n1. Write plan.txt\n"
  - expect: {user: {contains: arry}}
    reply:
      tool_calls:
        - name: write
          arguments: {path: plan.txt, content: "as planned\n"}
  - expect:
      tool_result: {not: {contains: Error}}
    reply: It is written.
"""


def test_a_single_turn_says_how_the_plan_is_carried_out(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(SCRIPT))
    planned = machine.run("chat", "--mode", "plan", "--session", "work", "-p", "write it")
    assert "## Plan" in planned.stdout
    assert "clawbot chat --session work --mode edits -p 'Carry out the plan.'" in planned.stderr
    assert not (machine.workspace / "plan.txt").exists()
    done = machine.run("chat", "--session", "work", "--mode", "edits", "-p", "Carry out the plan.")
    assert "It is written." in done.stdout
    assert (machine.workspace / "plan.txt").read_text() == "as planned\n"


def test_programs_get_the_plan_as_an_event(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(SCRIPT))
    done = machine.run("chat", "--mode", "plan", "-p", "write it", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    (plan,) = (event for event in events if event["type"] == "plan_ready")
    assert plan["plan"] == "## Plan\n\n1. Write plan.txt"
    assert done.stderr == ""


def test_in_lines_the_plan_is_a_numbered_question(machine: Machine, script: Callable[[str], Path]) -> None:
    chat = machine.open("--plain", "--mode", "plan", "--model", f"script:{script(SCRIPT)}")
    chat.wait_for(lambda screen: screen.rstrip().endswith("\n>"))
    chat.send("write it\n")
    chat.wait_for("1. accept, ask before each change")
    chat.wait_for("1, 2, 3 >")
    chat.send("2\n")
    chat.wait_for("It is written.")
    assert (machine.workspace / "plan.txt").read_text() == "as planned\n"
    chat.send("/quit\n")
    chat.wait_end()


def test_on_the_screen_a_plan_is_accepted_and_carried_out(machine: Machine, script: Callable[[str], Path]) -> None:
    chat = machine.open("--mode", "plan", "--model", f"script:{script(SCRIPT)}")
    chat.wait_for("plan mode")
    chat.send("write it", "enter")
    chat.wait_for("Carry out this plan?")
    chat.press_until("2", "It is written.")
    assert (machine.workspace / "plan.txt").read_text() == "as planned\n"
    chat.wait_for("The plan is accepted: carry it out.")
