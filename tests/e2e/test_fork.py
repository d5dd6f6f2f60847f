"""A fork in real processes: both conversations go on by themselves, and each start finds them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e

SCRIPT = """
title: Passport renewal
turns:
  - {expect: {user: passport}, reply: At the town hall.}
  - {expect: {user: and for a child, context: [At the town hall., {not: 费用}]}, reply: With both parents.}
  - {expect: {user: 费用, context: [At the town hall., {not: With both parents.}]}, reply: 大约八十欧元。}
"""


def said(machine: Machine, name: str) -> list[str]:
    """What the user said in a session."""
    items = json.loads(machine.run("sessions", "show", name, "--json").stdout)["items"]
    return [item["message"]["content"] for item in items if item["message"] and item["message"]["role"] == "user"]


def test_both_conversations_go_on(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(SCRIPT))
    chat = machine.open()
    chat.wait_for("❯")
    chat.send("how do I renew my passport?", "enter")
    chat.wait_for("At the town hall.")
    chat.wait_for(lambda _: b"clawbot \xc2\xb7 Passport renewal\x07" in chat.raw)
    chat.send("/fork", "enter")
    chat.wait_for("Forked. The original is unchanged.")
    chat.send("and for a child?", "enter")
    chat.wait_for("With both parents.")
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    assert machine.run("chat", "-p", "费用呢？").stdout == "大约八十欧元。\n"
    found = {each["name"]: each for each in json.loads(machine.run("sessions", "list", "--json").stdout)}
    fork = next(name for name in found if name != "main")
    assert {each["title"] for each in found.values()} == {"Passport renewal", "Passport renewal (fork)"}
    assert said(machine, "main") == ["how do I renew my passport?", "费用呢？"]
    assert said(machine, fork) == ["how do I renew my passport?", "and for a child?"]


def test_a_single_turn_makes_a_fork_too(machine: Machine) -> None:
    machine.run("chat", "--model", "offline", "-p", "my passport expires in June")
    done = machine.run("chat", "--model", "offline", "-p", "/fork 签证")
    assert "a fork" in done.stdout
    found = json.loads(machine.run("sessions", "list", "--json").stdout)
    assert {each["title"] for each in found} == {"my passport expires in June", "签证"}
