"""The title of a conversation in real processes: over HTTP, in the terminal, by the offline model, and never where a
script did not speak of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e

SCRIPT = """
turns:
  - {expect: {user: passport}, reply: At the town hall.}
  - {expect: {user: cost}, reply: About 80 euros.}
"""


def titles(machine: Machine) -> list[str]:
    """As the list of sessions has them."""
    return [each["title"] for each in json.loads(machine.run("sessions", "list", "--json").stdout)]


def test_the_terminal_and_the_list_show_the_title_of_the_model(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(f"title: Passport renewal\n{SCRIPT}"))
    chat = machine.open()
    chat.wait_for("❯")
    chat.send("how do I renew my passport?", "enter")
    chat.wait_for("At the town hall.")
    chat.wait_for(lambda _: b"Passport renewal" in chat.raw)
    chat.send("what does it cost?", "enter")
    chat.wait_for("About 80 euros.")
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    assert titles(machine) == ["Passport renewal"]


def test_a_script_that_gives_no_title_is_played_as_it_was_written(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    path = script(SCRIPT)
    chat = machine.open("--model", f"script:{path}")
    chat.wait_for("❯")
    chat.send("how do I renew my passport?", "enter")
    chat.wait_for("At the town hall.")
    chat.send("what does it cost?", "enter")
    chat.wait_for("About 80 euros.")
    chat.send("/quit", "enter")
    # Its model raises for each request that did not fit, and for turns that are left.
    assert chat.wait_end() == 0
    assert titles(machine) == ["how do I renew my passport?"]


def test_the_offline_model_gives_titles_in_the_language_of_the_talk(machine: Machine) -> None:
    chat = machine.open("--model", "offline")
    chat.wait_for("❯")
    chat.send("你好，我想了解数据库备份方案", "enter")
    chat.wait_for(lambda _: "clawbot · 数据库备份方案".encode() in chat.raw)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    assert titles(machine) == ["数据库备份方案"]


def test_a_single_turn_asks_for_none(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(f"title: Passport renewal\n{SCRIPT}"))
    assert machine.run("chat", "-p", "how do I renew my passport?").stdout == "At the town hall.\n"
    assert titles(machine) == ["how do I renew my passport?"]
