"""The chat in lines on a real terminal: nothing is drawn, every change is told, and nothing is lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import CLAWBOT, Machine
from tests.e2e.terminal import Terminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]

OFFLINE = "agents: {defaults: {model: offline}}\n"
SCRIPT = """
turns:
  - expect: {user: list}
    reply: {tool_calls: [{name: shell, arguments: {command: echo one two}}]}
  - {expect: {tool_result: one two}, reply: Listed.}
  - {expect: {user: later}, reply: You said later.}
  - {expect: {user: wait}, reply: {text: [It is, " so"], fault: {stall: 1}}}
"""


def is_waiting(screen: str) -> bool:
    """Whether the last line is the empty prompt."""
    return screen.rstrip().endswith("\n>")


def test_a_talk_an_approval_and_a_line_that_was_entered_too_early(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(script(SCRIPT))
    chat = machine.open("--plain")
    chat.wait_for(is_waiting)
    chat.send("list it\n")
    chat.wait_for("n refuses >")
    # Neither an answer nor a word that is lost.
    chat.send("perhaps\n")
    chat.wait_for("none of the answers")
    chat.send("y\n")
    chat.wait_for(lambda screen: "Listed." in screen and is_waiting(screen))
    chat.send("later\n")
    chat.wait_for(lambda screen: "You said later." in screen and is_waiting(screen))
    chat.send("wait\n")
    chat.wait_for("It is")
    chat.send("ctrl+c")
    chat.wait_for("interrupted; what was said is kept")
    chat.send("/quit\n")
    chat.wait_end()
    assert b"\x1b" not in chat.raw


@pytest.mark.parametrize("how", ["settings", "terminal"])
def test_who_asks_for_lines_gets_them(machine: Machine, how: str) -> None:
    machine.configure(OFFLINE + ("tui: {plain: true}\n" if how == "settings" else ""))
    term = "xterm-256color" if how == "settings" else "dumb"
    argv = ["env", f"TERM={term}", *CLAWBOT]
    with Terminal(argv, env=machine.env, cwd=machine.folder) as chat:
        chat.wait_for("conversation main, model offline")
        chat.send("remember that I like green tea\n")
        chat.wait_for("green tea")
        chat.send("我的狗叫布鲁诺\n")
        chat.wait_for("布鲁诺")
        chat.send("ctrl+d")
        chat.wait_for("Resume with: clawbot")
        chat.wait_end()
        assert b"\x1b" not in chat.raw


def test_what_was_said_is_told_again_and_a_closed_window_loses_nothing(machine: Machine) -> None:
    machine.configure(OFFLINE)
    chat = machine.open("--plain")
    chat.wait_for("model offline")
    chat.send("my parrot is called Zacharias\n")
    chat.wait_for(lambda screen: "Shall I note that?" in screen and is_waiting(screen))
    chat.close_window()
    chat.wait_end(128 + signal.SIGHUP)
    said = [
        json.loads(line)
        for path in (machine.state / "agents/main/sessions").glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    assert any(entry.get("message", {}).get("role") == "assistant" for entry in said)
    again = machine.open("--plain")
    again.wait_for("earlier, you: my parrot is called Zacharias")


def test_the_chat_speaks_chinese_where_the_environment_does(machine: Machine) -> None:
    machine.configure(OFFLINE)
    machine.env["LANG"] = "zh_CN.UTF-8"
    chat = machine.open("--plain")
    chat.wait_for("会话 main，模型 offline。")
    chat.send("/status\n")
    chat.wait_for("**接下来** 再过")
    chat.send("ctrl+d")
    chat.wait_for("继续这次会话：clawbot")
    chat.wait_end()
    screen = machine.open()
    screen.wait_for("输入问题，或用 / 输入命令")
    screen.send("ctrl+d")
    screen.wait_end()
