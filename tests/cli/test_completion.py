"""Shell completion: the scripts, and what they complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click import Context
from click.shell_completion import BashComplete
from click.testing import CliRunner

from clawbot.cli.completion import command, session_names
from clawbot.cli.main import root
from clawbot.clock import SystemClock
from clawbot.messages import UserMessage
from clawbot.sessions.store import SessionStore


def completed(words: list[str], incomplete: str) -> list[str]:
    found = BashComplete(root, {}, "clawbot", "_CLAWBOT_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    result = CliRunner().invoke(root, ["completion", shell])
    assert result.exit_code == 0
    assert "_CLAWBOT_COMPLETE" in result.stdout


def test_the_shell_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    runner = CliRunner()
    assert runner.invoke(root, ["completion"]).stdout == runner.invoke(root, ["completion", "fish"]).stdout


@pytest.mark.parametrize("path", ["", "/bin/tcsh"])
def test_another_shell_is_told(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("SHELL", path)
    result = CliRunner().invoke(root, ["completion"])
    assert result.exit_code == 1
    assert "name the shell" in result.stderr
    assert result.stdout == ""


def test_nouns_are_completed_from_the_table() -> None:
    assert completed([], "") == root.list_commands(Context(root))
    assert completed([], "se") == ["sessions", "serve"]
    assert completed([], "--v") == ["--version", "--verbose"]


def test_options_of_a_noun_are_completed() -> None:
    assert "--no-ping" in completed(["doctor"], "--no")


def test_sessions_are_completed_by_name_and_id() -> None:
    folder = Path(os.environ["CLAWBOT_HOME"]) / "agents" / "main" / "sessions"
    with SessionStore(folder, SystemClock()).open() as opened:
        opened.transcript.append_message(UserMessage(content="the staging proxy"))
        session_id = opened.record.session_id
    context = Context(command)
    parameter = command.params[0]
    found = session_names(context, parameter, "")
    assert [item.value for item in found] == ["main", session_id]
    assert found[0].help == "the staging proxy"
    assert [item.value for item in session_names(context, parameter, session_id[:4])] == [session_id]
    assert completed(["sessions", "show"], "ma") == ["main"]
    context.params["agent_id"] = "../x"
    assert session_names(context, parameter, "") == []


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_bash_completes_nouns() -> None:
    script = """
        eval "$(clawbot completion bash)"
        COMP_WORDS=(clawbot ses) COMP_CWORD=1
        _clawbot_completion clawbot
        echo "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "sessions"
