"""The memory in a real terminal: what was said a moment ago is found, in two languages, on screen and by commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

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
    chat.wait_for(lambda text: "Memory · " in text and "8443" in text and ".md:3" in text)
    chat.send("enter")
    chat.wait_for(lambda text: "8443" in text and "Memory · " not in text and ".md" in text)
    chat.send("esc")
    chat.wait_for(lambda text: "Memory · " in text and "❯ stagi" in text)
    chat.send("esc")
    chat.wait_for(lambda text: "Memory · " not in text and "Noted in" in text)
    chat.send("/memory 老婆忌口", "enter")
    chat.wait_for(lambda text: "Memory · " in text and "花生" in text)
    chat.send("esc")
    chat.wait_for(lambda text: "Memory · " not in text and "Noted in" in text)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0


@pytest.mark.smoke
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
    chat.wait_for("要记下来吗")
    chat.send("/new", "enter")
    chat.wait_for("kept: memory/")
    chat.send("ctrl+f")
    chat.wait_for("Memory · ")
    chat.send("ctrl+t", "ctrl+t")
    chat.wait_for("Conversations")
    chat.send("Bruno")
    chat.wait_for(lambda screen: "You, " in screen and "my dog is called Bruno" in screen)
    chat.send("esc")
    chat.wait_for(lambda screen: "│  ❯" not in screen)
    chat.send("/quit", "enter")
    assert chat.wait_end() == 0
    found = machine.run("sessions", "search", "花生").stdout
    assert "(You, " in found.splitlines()[0]
    assert "User: 我太太对花生过敏" in found


QUESTION = "preferred programming language"
SCORED_CALL = """
turns:
  - expect: {{user: language}}
    reply: {{tool_calls: [{{name: memory_search, arguments: {{query: {question}, maxResults: 6, {score}}}}}]}}
  - expect: {{tool_result: {{contains: ["偏好TypeScript"]}}}}
    reply: TypeScript.
"""


@pytest.fixture
def preferences(machine: Machine) -> Machine:
    """A machine whose memory knows a preference that has .31 of a perfect line's score."""
    machine.workspace.mkdir(parents=True)
    notes = "# 长期记忆\n\n## 用户偏好\n\n- 偏好TypeScript > JavaScript\n- 编辑器: VS Code\n- 我们使用 Postgres\n"
    (machine.workspace / "MEMORY.md").write_text(notes, encoding="utf-8")
    return machine


@pytest.mark.parametrize("score", ["minScore: 0.35", "min_score: 0.4", 'min_score: "0.35"', "min_score: 0"])
def test_a_least_score_of_the_model_loses_nothing(
    preferences: Machine, script: Callable[[str], Path], score: str
) -> None:
    turns = script(SCORED_CALL.format(question=QUESTION, score=score))
    done = preferences.run("chat", "-p", "which language do I like?", "--model", f"script:{turns}")
    assert (done.returncode, done.stdout) == (0, "TypeScript.\n"), done.stderr


def test_a_least_score_on_the_command_line_drops_what_is_shown_below_it(preferences: Machine) -> None:
    preferences.run("chat", "-p", "I play the oboe in an orchestra", "--model", "offline")
    without = preferences.run("memory", "search", QUESTION)
    assert "偏好TypeScript > JavaScript" in without.stdout
    shown = [line.split()[0] for line in without.stdout.splitlines() if "MEMORY.md:" in line]
    for score in ("0.35", *shown, "1"):
        found = preferences.run("memory", "search", QUESTION, "--min-score", score)
        kept = [line.split()[0] for line in found.stdout.splitlines() if "MEMORY.md:" in line]
        assert (found.returncode, found.stderr) == (0, "")
        assert kept == [each for each in shown if float(each) >= float(score)]
    as_data = json.loads(preferences.run("memory", "search", QUESTION, "--min-score", shown[0], "--json").stdout)
    assert f"{as_data['results'][0]['score']:.3f}" == shown[0]


COMMON = "maxResults: 6, minScore: 0.35, hybrid: {vectorWeight: 0.7, textWeight: 0.3}"


@pytest.mark.parametrize(
    "settings",
    [
        "agents: {defaults: {memorySearch: {query: {minScore: 0.35}}}}",
        f"agents: {{defaults: {{memorySearch: {{query: {{{COMMON}}}}}}}}}",
        f"memory: {{search: {{query: {{{COMMON}}}}}}}",
        f"agent: {{memorySearch: {{query: {{{COMMON}}}}}}}",
        "agents: {main: {memory: {minScore: 0.35, maxResults: 6, searchWeights: {vector: 0.7, keyword: 0.3}}}}",
    ],
)
def test_the_usual_numbers_of_older_settings_change_no_result(preferences: Machine, settings: str) -> None:
    without = preferences.run("memory", "search", QUESTION)
    preferences.configure(settings + "\n")
    assert preferences.run("memory", "search", QUESTION).stdout == without.stdout
    assert "no effect" not in preferences.run("config", "check").stderr


def test_a_least_score_counts_in_the_profile_classic(preferences: Machine) -> None:
    preferences.configure("agents: {defaults: {memory_search: {profile: classic, query: {min_score: 0.01}}}}\n")
    assert "TypeScript" in preferences.run("memory", "search", QUESTION).stdout
    strict = preferences.run("memory", "search", QUESTION, "--min-score", "0.9")
    assert (strict.stdout, strict.stderr) == ("No matches.\n", "")
    assert "no effect" not in preferences.run("config", "check").stderr
