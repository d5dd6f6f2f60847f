"""What runs unasked because it only reads goes no further than the file tools, whatever lies on the disk."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.config.schema_agent import AgentSettings, ShellSettings, ToolSettings
from clawbot.context.privacy import privacy_of
from clawbot.tools.paths import Barred, Fence
from clawbot.tools.registry import Toolbox
from clawbot.tools.shell_policy import reads_within
from clawbot.tools.shell_reading import reading
from tests.tables import load_table
from tests.tools.conftest import TABLES, box_of, call, nobody


def runs(command: str, workspace: Path, fence: Fence | None = None) -> bool:
    assert reading(command) is not None, f"not on the list: {command}"
    return reads_within(command, workspace, fence or Fence()) is not None


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


@pytest.mark.parametrize(
    "command",
    [
        "cat MEMORY.md", "cat memory/*.md", "cat missing.md", "ls", "ls -R memory", "grep -rn foo .",
        "diff MEMORY.md memory/2026-11-20.md", "echo hello",
    ],
)  # fmt: skip
def test_what_the_file_tools_could_read(workspace: Path, command: str) -> None:
    assert runs(command, workspace)


def make_link(workspace: Path, outside: Path) -> None:
    (workspace / "link.md").symlink_to(outside / "secret.txt")


def make_linked_folder(workspace: Path, outside: Path) -> None:
    (workspace / "sub").symlink_to(outside)


def make_pipe(workspace: Path, outside: Path) -> None:
    os.mkfifo(workspace / "pipe")


@pytest.mark.parametrize(
    ("make", "command"),
    [
        (make_link, "cat link.md"),
        (make_link, "cat ./*.md"),
        (make_link, "find . -newer link.md"),
        (make_linked_folder, "cat sub/secret.txt"),
        (make_linked_folder, "ls sub"),
        (make_linked_folder, "find sub/ -name '*.md'"),
        (make_pipe, "cat pipe"),
    ],
)
def test_links_that_lead_out_and_devices(
    workspace: Path, outside: Path, make: Callable[[Path, Path], None], command: str
) -> None:
    make(workspace, outside)
    assert not runs(command, workspace)


@pytest.mark.parametrize("command", ["cat kept/x.md", "ls -R", "grep -r x .", "find . -name x", "du", "git log -p"])
def test_what_the_fence_denies(workspace: Path, command: str) -> None:
    (workspace / "kept").mkdir()
    make_repository(workspace)
    fence = Fence(denied=(Barred(workspace / "kept", "it is kept"),))
    assert runs(command, workspace)
    assert not runs(command, workspace, fence)
    assert runs("cat MEMORY.md", workspace, fence)


def test_another_name_of_what_the_fence_denies(workspace: Path) -> None:
    (workspace / "kept.md").write_text("x", encoding="utf-8")
    (workspace / "other.md").hardlink_to(workspace / "kept.md")
    assert not runs("cat other.md", workspace, Fence(denied=(Barred(workspace / "kept.md", "it is kept"),)))


@pytest.mark.parametrize("command", ["cat id_*", "cat cred*", "cat ./*", "cat link.md", "head -n 1 i?_r??"])
def test_places_of_secrets_behind_a_pattern_or_a_link(workspace: Path, command: str) -> None:
    for name in ("id_rsa", "credentials"):
        (workspace / name).write_text("x", encoding="utf-8")
    (workspace / "link.md").symlink_to("id_rsa")
    assert not runs(command, workspace)


@pytest.mark.parametrize(("secret", "command", "within"), TABLES["secret_twins"])
def test_another_name_of_a_secret(workspace: Path, secret: str, command: str, within: bool) -> None:
    file = workspace / secret
    for folder in (file.parent, workspace / "docs"):
        folder.mkdir(parents=True, exist_ok=True)
    file.write_text("x", encoding="utf-8")
    for twin in (workspace / "twin", workspace / "docs" / "twin"):
        twin.hardlink_to(file)
    assert runs(command, workspace) is within


@pytest.mark.parametrize(("secret", "command", "within"), TABLES["secrets_below"])
def test_what_goes_down_folders_prints_no_secret(workspace: Path, secret: str, command: str, within: bool) -> None:
    make_repository(workspace)
    assert runs(command, workspace)
    (workspace / secret).parent.mkdir(parents=True, exist_ok=True)
    (workspace / secret).write_text("x", encoding="utf-8")
    assert runs(command, workspace) is within


GIT = load_table(__file__, "GIT")


@pytest.mark.parametrize("command", GIT)
def test_git_reads_the_repository_of_the_workspace_and_no_other(workspace: Path, command: str) -> None:
    """A repository around the workspace holds what is no part of it; without one `git diff` takes any files."""
    assert not runs(command, workspace)
    make_repository(workspace.parent)
    assert not runs(command, workspace)
    make_repository(workspace)
    assert runs(command, workspace)


def test_a_repository_elsewhere_is_not_that_of_the_workspace(workspace: Path, outside: Path) -> None:
    make_repository(outside)
    (workspace / ".git").write_text(f"gitdir: {outside}/.git\n", encoding="utf-8")
    assert not runs("git status", workspace)
    (workspace / ".git").unlink()
    (workspace / ".git").symlink_to(outside / ".git")
    assert not runs("git status", workspace)


@pytest.mark.parametrize("command", ["git diff link.md MEMORY.md", "git diff hard.md MEMORY.md", "git blame link.md"])
def test_what_git_is_given_as_an_operand_may_be_a_file(workspace: Path, outside: Path, command: str) -> None:
    make_repository(workspace)
    make_link(workspace, outside)
    (workspace / "hard.md").hardlink_to(outside / "secret.txt")
    assert not runs(command, workspace, Fence(denied=(Barred(outside / "secret.txt", "it is kept"),)))


@pytest.mark.parametrize(("settings", "plain"), TABLES["git_settings"])
def test_settings_of_a_repository_that_run_or_reach_something(workspace: Path, settings: str, plain: bool) -> None:
    make_repository(workspace)
    with (workspace / ".git" / "config").open("a", encoding="utf-8") as file:
        file.write(settings)
    assert runs("git diff", workspace) is plain


def test_folders_whose_links_a_program_would_follow(workspace: Path) -> None:
    (workspace / "other").mkdir()
    assert not runs("diff memory other", workspace)


def test_a_program_of_the_workspace_is_no_reading_program(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "bin").mkdir()
    (workspace / "bin" / "ls").symlink_to("/bin/true")
    (workspace / "bin" / "cat").write_text("#!/bin/sh\n", encoding="utf-8")
    (workspace / "bin" / "cat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{workspace}/bin:{os.environ['PATH']}")
    assert not runs("cat MEMORY.md", workspace)
    assert runs("ls", workspace)


async def test_sessions_with_others_read_no_hidden_file_unasked(workspace: Path) -> None:
    shell = ShellSettings(allow=["<reading>"])
    tools: Toolbox = box_of(workspace, AgentSettings(tools=ToolSettings(shell=shell)))
    alone = await tools.run(call("shell", {"command": "cat MEMORY.md"}), nobody)
    assert alone.text.endswith("[exit 0]")
    asked = await tools.for_session(privacy_of("agent:main:telegram:group:12")).run(
        call("shell", {"command": "cat MEMORY.md"}), nobody
    )
    assert asked.is_error
    assert "nobody expected to be asked" in asked.text
