"""Messages that wait when the screen is left, in a real terminal: offered at the next start, and said once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

SLOW = """
turns:
  # What was not answered is sent together with what is said next.
  - expect: {user: {matches: "^first$"}}
    reply: {text: [pondering, {text: " more", after: 600}]}
    repeat: forever
  - {reply: done, repeat: forever}
"""
WAITING = ("second", "第三条消息", "/new and the fourth")


def said(machine: Machine) -> list[str]:
    """What the user said, in all transcripts, in the order of the files' making."""
    texts = []
    for path in sorted((machine.state / "agents/main/sessions").glob("*.jsonl"), key=lambda each: each.stat().st_ctime):
        for line in path.read_text("utf-8").splitlines():
            message = json.loads(line).get("message") or {}
            texts += [message["content"]] if message.get("role") == "user" else []
    return [text for text in texts if isinstance(text, str) and not text.startswith("Notes from")]


def leave_by_keys(chat: Terminal) -> None:
    chat.send("/quit", "enter")
    chat.wait_end()


def leave_by_signal(number: signal.Signals) -> Callable[[Terminal], None]:
    def leave(chat: Terminal) -> None:
        os.kill(chat.process.pid, number)
        chat.wait_end(None)

    return leave


@pytest.mark.parametrize(
    "leave",
    [leave_by_keys, leave_by_signal(signal.SIGTERM), leave_by_signal(signal.SIGHUP), Terminal.kill],
    ids=["quit", "term", "hup", "kill"],
)
def test_what_waits_is_offered_at_the_next_start_and_said_once(
    leave: Callable[[Terminal], None], machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(script(SLOW))
    chat = machine.open()
    chat.wait_for("scripted")
    chat.send("first", "enter")
    chat.wait_for("pondering")
    for text in WAITING:
        chat.send(text, "enter")
        chat.wait_for(f"queued: {text}" if text.isascii() else "queued: 第")
    leave(chat)
    [kept] = (machine.state / "agents/main/sessions").glob("*.unsent")
    assert kept.stat().st_mode & 0o777 == 0o600

    told = machine.run("sessions", "show", "main")
    assert "3 messages were not sent:" in told.stdout
    assert all(text in told.stdout for text in WAITING)

    again = machine.open()
    again.wait_for("3 messages were not sent")
    again.send("s")
    again.wait_for(lambda text: "new conversation" in text and "and the fourth" in text and text.count("done") >= 1)
    again.wait_for(lambda text: "esc stops" not in text and "f2 all" in text)
    again.send("/quit", "enter")
    again.wait_end()
    assert sorted(said(machine)) == sorted(["first", "second", "第三条消息", "and the fourth"])
    assert not list((machine.state / "agents/main/sessions").glob("*.unsent"))


def test_one_turn_without_a_screen_sends_nothing_of_it_and_says_so(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(script(SLOW))
    chat = machine.open()
    chat.wait_for("scripted")
    chat.send("first", "enter")
    chat.wait_for("pondering")
    chat.send("second", "enter")
    chat.wait_for("queued: second")
    chat.kill()
    one = machine.run("chat", "-p", "something else")
    assert one.stdout == "done\n"
    assert "1 message was not sent: open clawbot" in one.stderr
    assert said(machine) == ["first", "something else"]
