"""A window that is closed: the program ends, whatever it does at that moment, and what was said is kept."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import CLAWBOT, Machine
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

PROMPT = "❯"
ALTERNATE = b"\x1b[?1049h"  # what a screen asks of the terminal
TAKEN = b"\x1b[?2004h"  # the last thing it asks, when keys come as they are


def log_of(machine: Machine) -> str:
    return (machine.state / "logs" / "clawbot.log").read_text(encoding="utf-8")


def save_all(machine: Machine) -> None:
    """Save to memory at the end however little was said."""
    path = machine.state / "config.yaml"
    small = "{memory_flush: {quit_min_tokens: 1}}"
    path.write_text(path.read_text("utf-8").replace("}}", f", compaction: {small}}}}}"), encoding="utf-8")


@pytest.fixture
def saving(machine: Machine, script: Callable[[str], Path]) -> Terminal:
    """A chat that was left, and saves to memory without end."""
    machine.serve(script("turns: [{reply: {text: Noted.}}, {reply: {text: NO_REPLY, fault: stall}}]"))
    config = machine.state / "config.yaml"
    always = "compaction: {memory_flush: {quit_min_tokens: 1}}"
    config.write_text(config.read_text("utf-8").replace("}}", f", {always}}}}}"), encoding="utf-8")
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("the harbour is deep", "enter")
    chat.wait_for(lambda text: "Noted." in text and "esc stops" not in text)
    chat.send("ctrl+d")
    chat.wait_for("Saving what matters to memory")
    return chat


def test_a_window_that_closes_ends_a_chat_that_waits(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.close_window()
    chat.wait_end(None)


def test_a_window_that_closes_during_the_start_ends_the_chat(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for(PROMPT)
    chat.close_window()
    chat.wait_end(None)


def test_a_window_that_closes_ends_a_chat_whose_model_speaks(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script('turns: [{reply: {text: "and so on ", fault: endless}}]'))
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("tell me everything", "enter")
    chat.wait_for("and so on")
    chat.close_window()
    chat.wait_end(None)
    assert "Traceback" not in log_of(machine)


def test_a_window_that_closes_ends_a_chat_that_saves_to_memory(machine: Machine, saving: Terminal) -> None:
    saving.close_window()
    saving.wait_end(None)
    assert "the wait for it was ended" in log_of(machine)


def test_a_chat_that_saves_to_memory_can_be_stopped_and_goes_on_without_the_screen(saving: Terminal) -> None:
    saving.send("\x1a")
    os.waitid(os.P_PID, saving.process.pid, os.WSTOPPED)
    seen = len(saving.raw)
    os.kill(saving.process.pid, signal.SIGCONT)
    os.waitid(os.P_PID, saving.process.pid, os.WCONTINUED)
    saving.send("ctrl+c")
    saving.wait_end()
    assert ALTERNATE not in saving.raw[seen:]


def test_a_chat_whom_nobody_tells_sees_itself_that_the_window_has_gone(machine: Machine) -> None:
    with Terminal(CLAWBOT, env=machine.env, cwd=machine.folder, login=False) as chat:
        chat.wait_for("offline")
        chat.close_window()
        chat.wait_end(None)
    assert "Traceback" not in log_of(machine)


def test_a_chat_that_was_stopped_from_outside_takes_the_terminal_again(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    os.kill(chat.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, chat.process.pid, os.WSTOPPED)
    seen = len(chat.raw)
    os.kill(chat.process.pid, signal.SIGCONT)
    chat.wait_for(lambda _: TAKEN in chat.raw[seen:])
    chat.send("still here", "enter")
    chat.wait_for(lambda text: text.count("still here") >= 1 and "esc stops" not in text)
    chat.send("ctrl+d")
    chat.wait_end()
