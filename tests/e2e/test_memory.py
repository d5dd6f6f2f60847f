"""The memory in a real terminal: what was said a moment ago is found, in two languages, on screen and by commands."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e


def test_what_was_just_written_is_found_while_it_is_typed_and_opens(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("remember that the staging proxy listens on port 8443", "enter")
    chat.wait_for("Noted in")
    chat.send("记住我太太对花生过敏", "enter")
    chat.wait_for("已记到")
    chat.send("/memory stagi", "enter")
    chat.wait_for(lambda text: "memory ❯" in text and "8443" in text and ".md:3" in text)
    chat.send("enter")
    chat.wait_for(lambda text: "8443" in text and "memory ❯" not in text and ".md" in text)
    chat.send("esc")
    chat.wait_for("memory ❯ stagi")
    chat.send("esc")
    chat.wait_for(lambda text: "memory ❯" not in text and "Noted in" in text)
    chat.send("/memory 老婆忌口", "enter")
    chat.wait_for(lambda text: "memory ❯" in text and "花生" in text)
    chat.send("esc")
    chat.wait_for(lambda text: "memory ❯" not in text and "Noted in" in text)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0


def test_the_commands_find_show_and_prove_it_without_key_or_network(machine: Machine) -> None:
    (machine.workspace / "memory").mkdir(parents=True)
    (machine.workspace / "memory/2026-11-20.md").write_text("- The proxy moved to 8443.\n- 部署窗口改到周四晚上\n")
    english = machine.run("memory", "search", "where did the proxy move", "--json")
    assert json.loads(english.stdout)["results"][0]["startLine"] == 1
    chinese = machine.run("memory", "search", "什么时候部署")
    assert "memory/2026-11-20.md:2-2" in chinese.stdout.splitlines()[0]
    [status] = json.loads(machine.run("memory", "status", "--json").stdout)
    assert (status["status"]["files"], status["status"]["vectors"]) == (1, 2)
    assert machine.run("memory", "verify").returncode == 0
    assert machine.run("chat", "-p", "/memory proxy", "--model", "offline").stdout.startswith(
        "- **memory/2026-11-20.md:1**"
    )


def test_what_was_told_in_a_talk_that_ended_is_found_on_screen_and_by_the_command(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    for text in ("my dog is called Bruno", "我太太对花生过敏"):
        chat.send(text, "enter")
        chat.wait_for(text)
    chat.wait_for("这次对话")
    chat.send("/new", "enter")
    chat.wait_for("kept: memory/")
    chat.send("ctrl+f")
    chat.wait_for("memory ❯")
    chat.send("ctrl+t", "ctrl+t")
    chat.wait_for("talks ❯")
    chat.send("Bruno")
    chat.wait_for(lambda screen: "You, " in screen and "my dog is called Bruno" in screen)
    chat.send("esc")
    chat.wait_for(lambda screen: "talks ❯" not in screen)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    found = machine.run("sessions", "search", "花生").stdout
    assert "(You, " in found.splitlines()[0]
    assert "User: 我太太对花生过敏" in found
