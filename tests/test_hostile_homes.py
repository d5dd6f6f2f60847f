"""No command of the program ends in a traceback over a home whose folders somebody has filled to break it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings

from clawbot.agent.events import TurnEnded
from clawbot.cli.main import root
from clawbot.context.workspace import OLD_RECORD
from clawbot.runtime import Runtime, RuntimeOptions
from tests.hostile import Thing, make_deep, make_things, removed, things

FRONT_DOORS = (
    ("workspace", "init"),
    ("workspace", "diff"),
    ("hooks", "list"),
    ("hooks", "list", "--json"),
    ("sessions", "list"),
    ("doctor", "--no-ping"),
    ("memory", "index"),
    ("memory", "status"),
    ("memory", "search", "proxy"),
    ("schedule", "list"),
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, list(arguments))


def ends_in_words(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert "Traceback" not in result.output


@pytest.mark.long
@settings(deadline=None, max_examples=15)
@given(things)
def test_every_front_door_stands_before_a_hostile_home(chosen: list[Thing]) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        removed(Path(name) / "home") as home,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv("CLAWBOT_HOME", str(home))
        for folder in ("workspace", "workspace/memory", "workspace/hooks", "hooks", "agents/main/sessions"):
            make_things(home / folder, chosen)
        for arguments in FRONT_DOORS:
            ends_in_words(run(*arguments))


@pytest.fixture
def workspace() -> Path:
    return Path(os.environ["CLAWBOT_HOME"]) / "workspace"


async def test_a_conversation_opens_and_ends_over_a_deep_memory(workspace: Path) -> None:
    with removed(workspace):
        make_deep(workspace / "memory", 1500)
        runtime = await Runtime.open(RuntimeOptions(model="offline").unattended())
        events = [event async for event in runtime.agent.submit("hello")]
        await runtime.close()
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "done"


@pytest.mark.parametrize(
    "content",
    [b'{"x":' * 100_000, b"[" * 100_000, b"\xff", b"", b"null", b'{"version": "x"}'],
    ids=["deep objects", "deep lists", "no UTF-8", "empty", "null", "another kind"],
)
def test_a_state_of_the_workspace_that_is_none_stops_nothing(workspace: Path, content: bytes) -> None:
    assert run("workspace", "init").exit_code == 0
    [record] = (workspace.parent / "workspaces").iterdir()
    (workspace / OLD_RECORD).parent.mkdir()
    for place in (record, workspace / OLD_RECORD):
        record.unlink()
        place.write_bytes(content)
        assert run("workspace", "diff").exit_code == 0
        assert run("workspace", "init").exit_code == 0
        assert b"seeded" in record.read_bytes()


@pytest.mark.parametrize("name", ["BOOTSTRAP.md", "USER.md", "AGENTS.md"])
@pytest.mark.parametrize("kind", ["fifo", "device", "huge", "many lines"])
def test_a_workspace_file_that_is_no_text_is_told_and_waited_for_by_nobody(
    workspace: Path, name: str, kind: str
) -> None:
    workspace.mkdir(parents=True)
    file = workspace / name
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "huge":
        file.touch()
        os.truncate(file, 10 * 1024**3)
    else:
        file.write_text("a\nb\n" * 100_000, encoding="utf-8")
    for arguments in (("workspace", "init"), ("workspace", "diff"), ("doctor", "--no-ping")):
        ends_in_words(run(*arguments))
    if kind == "many lines" and name != "BOOTSTRAP.md":
        assert "200,000 lines: too many to be compared" in run("workspace", "diff", name).output


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "deep.yaml", "large.yaml"])
def test_a_script_that_is_no_file_or_no_script_is_told_in_one_line(path: str) -> None:
    os.mkfifo("pipe")
    Path("deep.yaml").write_text("turns: " + "[" * 5000)
    Path("large.yaml").touch()
    os.truncate("large.yaml", 1024**3)
    for arguments in (("script", "serve", path), ("chat", "-p", "hello", "--model", f"script:{path}")):
        result = run(*arguments)
        ends_in_words(result)
        assert result.exit_code in (1, 2), result.output
        assert path in result.output


def test_settings_in_a_pipe_are_refused(workspace: Path) -> None:
    os.mkfifo("pipe")
    result = run("config", "check", "--config", "pipe")
    ends_in_words(result)
    assert result.exit_code != 0
