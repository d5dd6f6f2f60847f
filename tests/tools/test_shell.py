"""shell: asking, running, stopping, and what the model is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings, ShellSettings, ToolSettings
from clawbot.tools.environment import SecretNames, command_environment
from clawbot.tools.process import BoundedOutput
from clawbot.tools.registry import ApprovalAnswer, ApprovalQuestion, Toolbox, build_toolbox
from tests.tools.conftest import call, move, nobody


class User:
    """Answers every question with `answer` and remembers what was asked."""

    def __init__(self, answer: ApprovalAnswer) -> None:
        self.answer = answer
        self.asked: list[ApprovalQuestion] = []

    async def __call__(self, question: ApprovalQuestion) -> ApprovalAnswer:
        self.asked.append(question)
        return self.answer


def box(workspace: Path, shell: ShellSettings, max_chars: int = 40_000) -> Toolbox:
    settings = AgentSettings(tools=ToolSettings(shell=shell, output_max_chars=max_chars))
    return build_toolbox(workspace, settings, SystemClock())


@pytest.fixture
def free(workspace: Path) -> Toolbox:
    """A toolbox whose shell does not ask."""
    return box(workspace, ShellSettings(approval="allow"))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`; the test's own time limit ends a wait that is in vain."""
    while not condition():
        await asyncio.to_thread(os.sched_yield)


def written_pid(path: Path) -> int | None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return int(text) if text.endswith("\n") else None


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody has waited for yet has ended as well."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_the_user_is_asked_with_folder_pattern_and_reach(workspace: Path) -> None:
    user = User(ApprovalAnswer("once"))
    outcome = await box(workspace, ShellSettings()).run(call("shell", {"command": "ls -1"}), user)
    assert outcome.text == "MEMORY.md\nmemory\n[exit 0]"
    [question] = user.asked
    assert (question.tool, question.command, question.folder) == ("shell", "ls -1", str(workspace))
    assert question.pattern == "ls *"
    assert "Not sandboxed" in question.reach


async def test_once_asks_again_and_always_does_not(workspace: Path) -> None:
    tools = box(workspace, ShellSettings())
    once = User(ApprovalAnswer("once"))
    await tools.run(call("shell", {"command": "ls"}), once)
    always = User(ApprovalAnswer("always"))
    await tools.run(call("shell", {"command": "ls"}), always)
    assert (len(once.asked), len(always.asked)) == (1, 1)
    assert (await tools.run(call("shell", {"command": "ls memory"}), nobody)).text == "2026-11-20.md\n[exit 0]"
    await tools.run(call("shell", {"command": "ls; pwd"}), always)
    assert len(always.asked) == 2


async def test_a_refusal_reaches_the_model_with_its_reason(workspace: Path) -> None:
    user = User(ApprovalAnswer("deny", reason="Not on Fridays."))
    outcome = await box(workspace, ShellSettings()).run(call("shell", {"command": "touch x"}), user)
    assert outcome.is_error
    assert outcome.text.startswith("Not run. Not on Fridays.")
    assert not (workspace / "x").exists()


async def test_an_edited_command_runs_instead_and_the_model_is_told(workspace: Path) -> None:
    tools = box(workspace, ShellSettings())
    user = User(ApprovalAnswer("always", command="echo edited"))
    outcome = await tools.run(call("shell", {"command": "rm -rf x"}), user)
    assert outcome.text == "[The user changed the command. What ran: echo edited]\nedited\n[exit 0]"
    assert (await tools.run(call("shell", {"command": "echo more"}), nobody)).text == "more\n[exit 0]"
    await tools.run(call("shell", {"command": "rm -rf x"}), user)
    assert len(user.asked) == 2


async def test_deny_and_allow_list(workspace: Path) -> None:
    denied = await box(workspace, ShellSettings(approval="deny")).run(call("shell", {"command": "ls"}), nobody)
    assert denied.is_error
    assert "switched off" in denied.text
    tools = box(workspace, ShellSettings(allow=["echo *"]))
    assert (await tools.run(call("shell", {"command": "echo hi"}), nobody)).text == "hi\n[exit 0]"
    user = User(ApprovalAnswer("deny"))
    await tools.run(call("shell", {"command": "echo hi; ls"}), user)
    assert len(user.asked) == 1


@pytest.mark.parametrize(
    ("command", "text", "is_error"),
    [
        ("echo out; echo err >&2; exit 3", "out\nerr\n[exit 3]", True),
        ("true", "[no output; exit 0]", False),
        ("kill -SEGV $$", "[no output; killed by SIGSEGV]", True),
        ("pwd", "{workspace}\n[exit 0]", False),
        ("cat", "[no output; exit 0]", False),
        ("printf '\\377'", "\ufffd\n[exit 0]", False),
        ("no_such_program_here", None, True),
    ],
)
async def test_results(free: Toolbox, workspace: Path, command: str, text: str | None, is_error: bool) -> None:
    outcome = await free.run(call("shell", {"command": command}), nobody)
    assert outcome.is_error is is_error
    if text is not None:
        assert outcome.text == text.format(workspace=workspace)
    else:
        assert outcome.summary == "exit 127"


async def test_what_runs_in_the_background_ends_with_the_command(free: Toolbox, workspace: Path) -> None:
    outcome = await free.run(call("shell", {"command": "sleep 600 & echo $! > pid; echo started"}), nobody)
    assert outcome.text == "started\n[exit 0]"
    pid = written_pid(workspace / "pid")
    assert pid is not None
    await until(lambda: is_gone(pid))


async def test_a_timeout_is_reported_with_what_came_until_then(free: Toolbox) -> None:
    outcome = await free.run(call("shell", {"command": "echo before; sleep 600", "timeout": 1}), nobody)
    assert outcome.is_error
    assert outcome.text in ("before\n[stopped after 1 s]", "[no output; stopped after 1 s]")


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'echo $$ > pid; sleep 600; true'; true",
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 600; done'; true",
    ],
    ids=["obedient", "deaf"],
)
async def test_a_cancellation_ends_the_whole_group(
    free: Toolbox, workspace: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("clawbot.tools.process.GRACE", 0.1)
    running = asyncio.create_task(free.run(call("shell", {"command": command}), nobody))
    await until(lambda: written_pid(workspace / "pid") is not None)
    pid = written_pid(workspace / "pid")
    assert pid is not None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: is_gone(pid))


async def test_a_flood_keeps_head_and_tail(workspace: Path) -> None:
    tools = box(workspace, ShellSettings(approval="allow"), max_chars=2000)
    outcome = await tools.run(call("shell", {"command": "seq 1 200000"}), nobody)
    assert outcome.text.startswith("1\n2\n3\n")
    assert outcome.text.count("left out here") == 1
    assert outcome.text.endswith("\n200000\n[exit 0]")
    assert len(outcome.text) <= 2000


def test_bounded_output_holds_what_it_says_and_cuts_no_character() -> None:
    output = BoundedOutput(20)
    for _ in range(1000):
        output.add("好".encode())
    head, tail = output.parts()
    assert (head, tail) == ("好好好", "好好好")
    assert output.dropped + len((head + tail).encode()) in (3000, 2999)


def test_secrets_are_not_in_the_environment(tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("PLAIN_NAME=x\nexport OTHER='y z'\n", encoding="utf-8")
    secret = SecretNames(env_file, "MY_MODEL").read()
    assert secret == {"PLAIN_NAME", "OTHER", "MY_MODEL"}
    given = {
        "PATH": "/bin",
        "HOME": "/home/x",
        "OPENAI_API_KEY": "k",
        "github_token": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "PGPASSWORD": "k",
        "PLAIN_NAME": "x",
        "MY_MODEL": "k",
        "TOKENIZERS_PARALLELISM": "true",
    }
    left = command_environment(given, secret)
    assert {name for name in given if name in left} == {"PATH", "HOME", "TOKENIZERS_PARALLELISM"}
    assert SecretNames(tmp_path / "none").read() == set()


async def test_a_command_sees_no_key(free: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-to-be-seen")
    outcome = await free.run(call("shell", {"command": "env"}), nobody)
    assert "PATH=" in outcome.text
    assert "sk-not" not in outcome.text


async def test_a_missing_workspace_is_an_error_result(free: Toolbox, workspace: Path) -> None:
    move(workspace, workspace.with_name("gone"))
    outcome = await free.run(call("shell", {"command": "true"}), nobody)
    assert outcome.is_error
    assert "could not be started" in outcome.text
