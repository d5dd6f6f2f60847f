"""Pastes and answers of the terminal as bytes on a real terminal: what comes into the prompt, and what is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal
from tests.e2e.test_chat import said
from tests.tui.terminal_input import ANSWERS, BEGIN, END, PASTES

pytestmark = pytest.mark.e2e

SCRIPT = """
turns:
  - expect: {user: tell me everything}
    reply: {text: [and so on, {text: " and on", after: 600}]}
  - expect: {user: make the file}
    reply: {tool_calls: [{name: shell, arguments: {command: "echo made > made.txt"}}]}
  - expect: {tool_result: {matches: ".*"}}
    reply: {text: It is not made.}
  - repeat: forever
    reply: {text: Noted.}
"""
SENT = PASTES[:14]
HOSTILE = "\x1b[31my\x1b[0m\ry\r\x1b\x1b[A\x03a\r\x04"  # answers, keys that leave, keys that choose


def paste(chat: Terminal, text: str) -> None:
    """Paste `text`, and type a letter behind it and take it back: all of it has arrived then."""
    chat.send(f"{BEGIN}{text}{END}¶")
    chat.wait_for("¶")
    chat.send("\x7f")
    chat.wait_for(lambda screen: "¶" not in screen)


def test_a_paste_waits_for_enter_and_an_answer_of_the_terminal_is_nothing(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(script(SCRIPT))
    chat = machine.open(rows=40)
    chat.wait_for("openai/scripted")

    # While an answer streams, and in a field.
    chat.send("tell me everything", "enter")
    chat.wait_for("and so on")
    paste(chat, HOSTILE)
    chat.wait_for(lambda screen: "❯ y" in screen and "esc stops" in screen and "queued" not in screen)
    chat.send("esc")
    chat.wait_for("interrupted")
    chat.send("ctrl+c")
    chat.wait_for(lambda screen: "❯ y" not in screen)
    sent = ["tell me everything"]
    chat.send("ctrl+r")
    chat.wait_for("esc back")
    paste(chat, "\x1b[31mnone such\x1b[0m\r\x1b")
    chat.wait_for("none such")
    chat.send("esc")
    chat.wait_for(lambda screen: "none such" not in screen)

    # While a question is open.
    chat.send("make the file", "enter")
    sent.append("make the file")
    chat.wait_for(lambda screen: "made.txt" in screen and "once" in screen)
    chat.press_until("e", "enter runs")
    paste(chat, HOSTILE)
    chat.send("esc")
    chat.wait_for("once")
    for pasted in (HOSTILE, "y\r", "y"):
        chat.feed(1.5)  # only a key behind a rest would count
        chat.send(f"{BEGIN}{pasted}{END}")
    chat.press_until("n", "It is not made.")
    assert not (machine.workspace / "made.txt").exists()

    # Nothing is sent before Enter, and then exactly the text.
    for pasted, text in SENT:
        paste(chat, pasted)
        assert said(machine) == sent
        chat.send("enter")
        sent.append(text)
        chat.wait_for(lambda _: said(machine) == sent)
        chat.wait_for(lambda screen: "esc stops" not in screen)

    chat.send("a", *ANSWERS, "".join(ANSWERS), "b", "enter")
    # Each in halves, each half a read.
    chat.send("c", *(half for answer in ANSWERS for half in (answer[:4], answer[4:])), "d", "enter")
    chat.wait_for(lambda _: said(machine) == [*sent, "ab", "cd"])
