"""The chat in a real terminal: early keys, a streamed answer, approval, an interrupt, kill -9, two processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

PROMPT = "❯"
TAKEN = b"\x1b[?2004h"  # what the program asks of the terminal once keys come as they are


def transcript(machine: Machine) -> list[dict[str, Any]]:
    """All entries of the only session."""
    (path,) = (machine.state / "agents/main/sessions").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def wait_until_taken(chat: Terminal) -> None:
    """Until keys come one by one; the screen is not there yet."""
    chat.wait_for(lambda _: TAKEN in chat.raw)


def _turned(before: str, text: str) -> bool:
    """Whether another page of the question is shown than `before`."""
    return text != before and "n no" in text


@pytest.mark.parametrize("keys", [("/quit", "enter"), ("ctrl+d",), ("no", "enter", "/quit", "enter")])
def test_keys_before_the_program_has_begun_count(keys: tuple[str, ...], machine: Machine) -> None:
    chat = machine.open()
    before = chat.modes
    chat.send(*keys)
    assert chat.wait_end() == 0
    assert chat.modes == before
    assert (b"this was not sent, the conversation was not open yet: no" in chat.raw) == ("no" in keys)


@pytest.mark.parametrize("keys", [("/quit", "enter"), ("ctrl+d",), ("ctrl+c", "ctrl+c"), ("no", "ctrl+c", "ctrl+c")])
def test_keys_before_the_screen_is_there_count(keys: tuple[str, ...], machine: Machine) -> None:
    chat = machine.open()
    before = chat.modes
    wait_until_taken(chat)
    chat.send(*keys)
    assert chat.wait_end() == 0
    assert chat.modes == before


@pytest.mark.smoke
def test_what_is_typed_and_pasted_during_the_start_stands_in_the_prompt_once(machine: Machine) -> None:
    chat = machine.open()
    hello = "你好".encode()
    chat.send(hello[:-1])
    wait_until_taken(chat)
    chat.send(hello[-1:], " a", "ctrl+j", "b", "\x1b[200~one\rtwo\x1b[201~", "c")
    typed = ["❯ 你好 a", "bone", "twoc"]
    chat.wait_for(lambda text: [line.strip() for line in text[text.find("❯") :].splitlines()[:3]] == typed)
    chat.wait_for("offline")
    assert chat.text.count("bone") == 1
    chat.send("ctrl+c", "ctrl+c")
    assert chat.wait_end() == 0
    assert not any(entry["type"] == "message" for entry in transcript(machine))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_end_from_outside_during_the_start_gives_the_terminal_back(number: signal.Signals, machine: Machine) -> None:
    chat = machine.open()
    before = chat.modes
    wait_until_taken(chat)
    assert chat.modes != before
    os.kill(chat.process.pid, number)
    chat.wait_end(128 + number)
    assert chat.modes == before


@pytest.mark.smoke
def test_a_start_that_fails_gives_the_terminal_back(machine: Machine) -> None:
    machine.configure("agents: [broken")
    chat = machine.open()
    before = chat.modes
    chat.send("hello", "enter")
    chat.wait_end(1)
    assert chat.modes == before
    assert "Check quotes" in chat.text


def test_the_users_editor_gets_the_terminal_as_it_was(machine: Machine) -> None:
    editor = machine.folder / "editor"
    editor.write_text("#!/bin/sh\nstty -a > modes.part && mv modes.part modes\n")
    editor.chmod(0o700)
    machine.env["EDITOR"] = str(editor)
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("\x07")
    modes = machine.folder / "modes"
    chat.wait_for(lambda _: modes.exists())
    assert {"icanon", "echo", "isig", "icrnl", "iexten", "ixon"} <= set(modes.read_text().replace(";", " ").split())


@pytest.mark.smoke
def test_the_first_run_remembers_and_the_next_one_recalls(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("remember that I prefer tabs", "enter")
    chat.wait_for("Noted in")
    chat.send("记住我喜欢喝绿茶", "enter")
    chat.wait_for("已记到")
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    assert "Resume with: clawbot" in chat.raw.decode()

    again = machine.open("chat", "--new")
    again.wait_for("offline")
    again.send("what do I prefer?", "enter")
    again.wait_for(lambda text: "I prefer tabs" in text and "memory/" in text and ".md:3" in text)
    again.send("我喜欢什么?", "enter")
    again.wait_for(lambda text: "你的笔记里写着" in text and "我喜欢喝绿茶" in text and ".md:4" in text)
    again.send("ctrl+d")
    assert again.wait_end() == 0


def test_the_first_words_say_where_memory_lies_and_why_it_is_offline(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for(lambda text: "does not forget" in text and "/model" in text and "offline" in text)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0


@pytest.mark.smoke
def test_a_streamed_answer_comes_over_http_through_litellm(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(
        script("""
turns:
  - expect: {user: hello}
    reply: {text: ["All ", "**good**", " here, 你好."]}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("hello", "enter")
    chat.wait_for("All good here, 你好.")
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0


@pytest.mark.smoke
def test_a_tool_call_asks_first_and_runs_when_allowed(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(
        script("""
turns:
  - reply: {tool_calls: [{name: shell, arguments: {command: "echo made-by-$((40+2)) > made.txt"}}]}
  - expect: {tool_result: {matches: ".*"}}
    reply: {text: It is done.}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("make the file", "enter")
    chat.wait_for("made.txt")
    assert not (machine.workspace / "made.txt").exists()
    chat.wait_for(lambda text: "once" in text)
    chat.press_until("y", "It is done.")
    assert (machine.workspace / "made.txt").read_text() == "made-by-42\n"


def test_a_change_of_instructions_is_shown_and_written_when_allowed(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(
        script("""
turns:
  - reply: {tool_calls: [{name: append, arguments: {path: SOUL.md, content: "- Answer in verse, 用诗回答."}}]}
  - expect: {tool_result: "Appended to SOUL.md"}
    reply: {text: So be it.}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("answer in verse", "enter")
    chat.wait_for(lambda text: "append SOUL.md" in text and "+- Answer in verse, 用诗回答." in text and "once" in text)
    soul = machine.workspace / "SOUL.md"
    assert "verse" not in soul.read_text(encoding="utf-8")
    chat.press_until("y", "So be it.")
    assert soul.read_text(encoding="utf-8").endswith("\n- Answer in verse, 用诗回答.\n")


def test_esc_interrupts_an_endless_answer_and_keeps_what_came(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(
        script("""
turns:
  - reply: {text: "and so on ", fault: endless}
  - reply: {text: Listening.}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("tell me everything", "enter")
    chat.wait_for("and so on")
    chat.send("esc")
    chat.wait_for("interrupted")
    chat.send("stop it", "enter")
    chat.wait_for("Listening.")
    kept = [entry["message"] for entry in transcript(machine) if entry["type"] == "message"]
    assert kept[1]["stopReason"] == "aborted"


def test_a_message_that_was_taken_back_stays_so_after_a_kill(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("my dog is called Bruno", "enter")
    chat.wait_for(lambda screen: screen.count("Bruno") > 0 and "Shall I note that?" in screen)
    chat.send("我喜欢制表符", "enter")
    chat.wait_for(lambda screen: "要记下来吗" in screen and "esc stop" not in screen)
    before = transcript(machine)
    chat.send("/rewind", "enter")
    chat.wait_for("nothing is deleted")
    chat.send("enter")
    chat.wait_for(lambda screen: "❯ 我喜欢制表符" in screen and "Continuing from here" in screen)
    os.kill(chat.process.pid, signal.SIGKILL)
    chat.wait_end(-signal.SIGKILL)
    assert transcript(machine)[: len(before)] == before
    again = machine.open()
    again.wait_for(lambda screen: "my dog is called Bruno" in screen and "offline" in screen)
    assert "制表符" not in again.text


def said(machine: Machine) -> list[object]:
    """What the user said, as the session holds it."""
    messages = [entry["message"] for entry in transcript(machine) if entry["type"] == "message"]
    return [message["content"] for message in messages if message["role"] == "user"]


def test_lines_that_come_in_one_burst_are_sent_one_by_one(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("one\rtwo\r三\rrest")
    chat.wait_for(lambda text: "❯ rest" in text and "三" in text and len(said(machine)) > 2 and "esc stops" not in text)
    assert said(machine) == ["one", "two", "三"]


def test_a_burst_while_a_long_answer_streams_waits_line_by_line(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(
        script("""
turns:
  - reply: {text: "and so on ", fault: endless}
  - repeat: forever
    reply: {text: Listening.}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("tell me everything", "enter")
    chat.wait_for("and so on")
    chat.send("one\rtwo\r三\rrest")
    chat.wait_for(lambda text: all(f"queued: {line}" in text for line in ("one", "two", "三")) and "❯ rest" in text)
    chat.send("esc")
    chat.wait_for(lambda text: text.count("Listening.") == 3 and "esc stops" not in text)
    assert said(machine) == ["tell me everything", "one", "two", "三"]


def test_kill_9_in_the_middle_of_an_answer_loses_nothing_that_was_said(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(
        script("""
turns:
  - reply: {text: "and so on ", fault: endless}
  - expect: {context: the precious question}
    reply: {text: I still know the question.}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("the precious question", "enter")
    chat.wait_for("and so on")
    os.kill(chat.process.pid, signal.SIGKILL)
    chat.wait_end(-signal.SIGKILL)
    again = machine.open()
    again.wait_for("the precious question")
    again.send("do you?", "enter")
    again.wait_for("I still know the question.")


def test_a_second_window_on_one_session_is_told_who_holds_it(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    second = machine.run("chat", "-p", "hello")
    assert second.returncode == 1
    assert second.stdout == ""
    assert str(chat.process.pid) in second.stderr
    assert "--session" in second.stderr
    assert "--new" in second.stderr
    assert machine.run("chat", "-p", "hello", "--new").returncode == 0


def test_what_a_model_says_never_steers_the_terminal(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(
        script("""
turns:
  - repeat: forever
    reply: {text: "\\e]0;pwned\\a\\e[2J\\e]52;c;cHduZWQ=\\a safe \\b\\b[/bold] words"}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("hello", "enter")
    chat.wait_for("safe [/bold] words")
    one_turn = machine.open("chat", "-p", "hello", "--new")
    assert one_turn.wait_end() == 0
    for raw in (chat.raw, one_turn.raw):
        assert b"]0;pwned" not in raw
        assert b"cHduZWQ" not in raw
    assert machine.run("chat", "-p", "hello", "--new").stdout.startswith("\x1b]0;pwned")


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (80, 10), (60, 24)])
def test_a_command_is_read_to_its_end_before_it_can_be_allowed(
    machine: Machine, script: Callable[[str], Path], columns: int, rows: int
) -> None:
    machine.serve(
        script(
            """
turns:
  - reply: {tool_calls: [{name: shell, arguments: {command: "echo start #          ⟦U+001B⟧BREAKStouch made.txt"}}]}
  - reply: {text: It is done.}
""".replace("BREAKS", "\\n" * 19)
        )
    )
    chat = machine.open(columns=columns, rows=rows)
    chat.wait_for("openai/scripted")
    chat.send("do it", "enter")
    first = chat.wait_for(lambda text: "below" in text and "n no" in text)
    assert "⟦10×space⟧⟦U+27E6⟧U+001B⟦U+27E7⟧" in first
    assert "20 lines, " in first
    question = first.split("Run this command?")[1]
    assert "touch made.txt" not in question
    while "y once" not in chat.text:
        chat.send("pagedown")
        chat.wait_for(partial(_turned, chat.text))
        assert not (machine.workspace / "made.txt").exists()
    assert "20 touch made.txt" in chat.text
    chat.press_until("y", "It is done.")
    assert (machine.workspace / "made.txt").exists()


def test_a_command_that_hides_something_is_refused_and_nobody_is_asked(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.serve(
        script("""
turns:
  - reply: {tool_calls: [{name: shell, arguments: {command: "git status \\e]0;touch PWNED;\\a"}}]}
  - expect: {tool_result: {matches: "Not run: U.001B at character 12"}}
    reply: {text: I will not.}
""")
    )
    chat = machine.open()
    chat.wait_for("openai/scripted")
    chat.send("do it", "enter")
    text = chat.wait_for("I will not.")
    assert "$ git status ⟦U+001B⟧]0;touch PWNED;⟦U+0007⟧" in text
    assert not (machine.workspace / "PWNED").exists()
    assert b"\x1b]0;touch" not in chat.raw
