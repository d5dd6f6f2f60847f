"""shell: asking, running, stopping, and what the model is told."""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from clawbot.config.schema_agent import AgentSettings, ShellSettings, ToolSettings
from clawbot.text.visible import visible
from clawbot.tools.process import BoundedOutput, CommandLine, SecretNames, command_environment, run_command
from clawbot.tools.protocol import ApprovalAnswer
from clawbot.tools.registry import Toolbox
from tests.tools.conftest import User, box_of, call, move, names, nobody


def box(workspace: Path, shell: ShellSettings, max_chars: int = 40_000) -> Toolbox:
    settings = AgentSettings(tools=ToolSettings(shell=shell, output_max_chars=max_chars))
    return box_of(workspace, settings)


@pytest.fixture
def free(workspace: Path) -> Toolbox:
    """A toolbox whose shell does not ask."""
    return box(workspace, ShellSettings(approval="allow", sandbox="off"))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`; the test's own time limit ends a wait that is in vain."""
    while not condition():
        await asyncio.to_thread(time.sleep, 0.005)


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
    outcome = await box(workspace, ShellSettings(sandbox="off")).run(call("shell", {"command": "ls -1"}), user)
    assert outcome.text == "MEMORY.md\nmemory\n[exit 0]"
    [question] = user.asked
    assert (question.tool, question.command, question.folder) == ("shell", "ls -1", str(workspace))
    assert question.pattern == "ls <reading>"
    assert "Not sandboxed" in question.reach


async def test_once_asks_again_and_always_does_not(workspace: Path) -> None:
    tools = box(workspace, ShellSettings(sandbox="off"))
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
    outcome = await box(workspace, ShellSettings(sandbox="off")).run(call("shell", {"command": "touch x"}), user)
    assert outcome.is_error
    assert outcome.text.startswith("Not run. Not on Fridays.")
    assert not (workspace / "x").exists()


async def test_an_edited_command_runs_instead_and_the_model_is_told(workspace: Path) -> None:
    tools = box(workspace, ShellSettings(sandbox="off"))
    user = User(ApprovalAnswer("always", command="echo edited"))
    outcome = await tools.run(call("shell", {"command": "rm -rf x"}), user)
    assert outcome.text == "[The user changed the command. What ran: echo edited]\nedited\n[exit 0]"
    assert (await tools.run(call("shell", {"command": "echo more"}), nobody)).text == "more\n[exit 0]"
    await tools.run(call("shell", {"command": "rm -rf x"}), user)
    assert len(user.asked) == 2


async def test_deny_and_allow_list(workspace: Path) -> None:
    denied = await box(workspace, ShellSettings(approval="deny", sandbox="off")).run(
        call("shell", {"command": "ls"}), nobody
    )
    assert denied.is_error
    assert "switched off" in denied.text
    tools = box(workspace, ShellSettings(allow=["echo <anything>"], sandbox="off"))
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


async def test_a_deaf_command_that_is_stopped_while_it_starts_is_ended(
    free: Toolbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clawbot.tools.process.GRACE", 0.1)
    start = asyncio.create_subprocess_exec

    async def slow_start(*argv: str, **options: Any) -> Process:
        process = await start(*argv, **options)
        await until(lambda: written_pid(workspace / "pid") is not None)
        running.cancel()
        await asyncio.sleep(0)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow_start)
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 600; done"
    running = asyncio.create_task(free.run(call("shell", {"command": command}), nobody))
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = written_pid(workspace / "pid")
    assert pid is not None
    await until(lambda: is_gone(pid))


@pytest.mark.parametrize("steps", range(4))
async def test_a_stop_in_the_very_moment_of_the_end_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """`wait_for` of Python 3.11 would return as if nobody had stopped the command."""
    ended = asyncio.get_running_loop().create_future()
    waited = asyncio.Event()

    class Ending:
        pid, returncode = 2**30, 0

        async def wait(self) -> int:
            waited.set()
            await asyncio.shield(ended)
            return 0

    async def start(*_: object) -> Ending:
        return Ending()

    monkeypatch.setattr("clawbot.tools.process._start", start)
    running = asyncio.create_task(run_command(CommandLine(["true"], {}), folder=tmp_path, seconds=60, max_bytes=100))
    await waited.wait()
    ended.set_result(None)
    for _ in range(steps):
        await asyncio.sleep(0)
    assert running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_flood_keeps_head_and_tail(workspace: Path) -> None:
    tools = box(workspace, ShellSettings(approval="allow", sandbox="off"), max_chars=2000)
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
    keys = ["OPENAI_API_KEY", "github_token", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "PLAIN_NAME", "MY_MODEL"]
    given = {"PATH": "/bin", "HOME": "/home/x", "TOKENIZERS_PARALLELISM": "true", **dict.fromkeys(keys, "k")}
    left = command_environment(given, secret, tmp_path)
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


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        ("\x1b]0;touch PWNED;\x07", "U+001B at character 12 of `command`"),
        ("\x9d0;touch PWNED;\x9c", "printf '\\302\\235'"),
        ("\x1bP;touch PWNED;\x1b\\", "printf '\\033'"),
        ("\x1b_;touch PWNED;\x1b\\", "U+001B"),
        ("\x1bX;touch PWNED;\x1b\\", "U+001B"),
        ("\x1b^;touch PWNED;\x1b\\", "U+001B"),
        ("\x1b[;touch PWNED", "U+001B"),
        ("\x1b# ;touch PWNED", "U+001B"),
        (" " * 400 + "\x1b]0;touch PWNED;\x07", "U+001B at character 412"),
        ("#\rtouch PWNED", "U+000D at character 13"),
        ("\u202e;touch PWNED", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("\u200b;touch PWNED", "U+200B (ZERO WIDTH SPACE)"),
        ("\ud800;touch PWNED", "U+D800"),
        ("\0;touch PWNED", "U+0000"),
    ],
)
@pytest.mark.parametrize("approval", ["ask", "allow"])
async def test_a_command_that_nobody_could_read_is_refused_before_anything_is_asked(
    workspace: Path, hidden: str, said: str, approval: Literal["ask", "allow"]
) -> None:
    outcome = await box(workspace, ShellSettings(approval=approval)).run(
        call("shell", {"command": f"git status {hidden}"}), nobody
    )
    assert outcome.is_error
    assert outcome.text.startswith("Not run: U+")
    assert said in outcome.text
    assert names(workspace) == ["MEMORY.md", "memory"]


async def test_an_edited_command_is_held_to_the_same(workspace: Path) -> None:
    user = User(ApprovalAnswer("once", command="ls \x1b]0;\x07; touch PWNED"))
    outcome = await box(workspace, ShellSettings()).run(call("shell", {"command": "ls"}), user)
    assert "U+001B at character 4" in outcome.text
    assert names(workspace) == ["MEMORY.md", "memory"]


@pytest.mark.parametrize(
    ("edited", "made"), [("touch a\\ ", "a "), ("touch b\u00a0", "b\u00a0"), ("touch c\u3000", "c\u3000")]
)
async def test_an_edited_command_runs_to_the_last_byte(workspace: Path, edited: str, made: str) -> None:
    user = User(ApprovalAnswer("always", command=edited))
    outcome = await box(workspace, ShellSettings(sandbox="off")).run(call("shell", {"command": "ls"}), user)
    assert outcome.text.startswith(f"[The user changed the command. What ran: {visible(edited)}]")
    assert names(workspace) == sorted(["MEMORY.md", "memory", made])


@pytest.mark.parametrize("edited", ["", " ", "\n"])
async def test_an_answer_that_leaves_nothing_of_the_command_runs_nothing(workspace: Path, edited: str) -> None:
    user = User(ApprovalAnswer("once", command=edited))
    outcome = await box(workspace, ShellSettings(sandbox="off")).run(call("shell", {"command": "touch PWNED"}), user)
    assert outcome.is_error
    assert names(workspace) == ["MEMORY.md", "memory"]


async def test_writing_in_all_scripts_runs(workspace: Path) -> None:
    words = "因为　冲突 👩\u200d👩\u200d👧 ❤\ufe0f שלום عربى می\u200cخواهم"
    user = User(ApprovalAnswer("once"))
    outcome = await box(workspace, ShellSettings()).run(call("shell", {"command": f"echo '{words}'"}), user)
    assert outcome.text == f"{words}\n[exit 0]"
    assert user.asked[0].command == f"echo '{words}'"


async def test_what_a_command_prints_is_told_while_it_runs(workspace: Path) -> None:
    """It goes on only when its first line was heard."""
    told: list[str] = []

    def hear(text: str) -> None:
        told.append(text)
        if "first" in "".join(told):
            (workspace / "heard").touch()

    free = box(workspace, ShellSettings(approval="allow", sandbox="off"))
    command = "echo first; until test -e heard; do sleep 0.05; done; echo last"
    outcome = await free.run(call("shell", {"command": command}), nobody, hear)
    assert "".join(told).startswith("first")
    assert outcome.text == "first\nlast\n[exit 0]"


async def test_a_command_that_the_user_declines_says_so_to_the_screen(workspace: Path) -> None:
    user = User(ApprovalAnswer("deny"))
    outcome = await box(workspace, ShellSettings(sandbox="off")).run(call("shell", {"command": "touch x"}), user)
    assert (outcome.summary, outcome.details, outcome.is_error) == ("declined", {"declined": True}, True)
    assert outcome.text.startswith("Not run. The user declined.")
