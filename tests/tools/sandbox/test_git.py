"""Git in the sandbox: what the user says yes to may change git's settings, and nothing else may."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clawbot.tools.protocol import ApprovalAnswer, ToolOutcome
from tests.tools.conftest import User, call
from tests.tools.sandbox.conftest import KEPT, World, write
from tests.tools.sandbox.test_commands import toolbox

pytestmark = [
    pytest.mark.usefixtures("walls"),
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux alone"),
]
GIT_SETTINGS = "there git's settings as well"


@pytest.fixture
def project(world: World) -> World:
    """The workspace as a repository that git made, with a name to commit as in the home."""
    write(world.home / ".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main")
    shutil.rmtree(world.workspace / ".git")
    git(world.workspace, "init", "-q")
    write(world.workspace / ".git" / "hooks" / "pre-push", KEPT)
    return world


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def answered(
    world: World, command: str, answer: ApprovalAnswer | None = None, **shell: object
) -> tuple[ToolOutcome, User]:
    """What comes of `command` after a question, and who was asked."""
    user = User(answer or ApprovalAnswer("once"))
    return await toolbox(world.workspace, **shell).run(call("shell", {"command": command}), user), user


class TestAnswered:
    async def test_a_new_repository_stays(self, project: World) -> None:
        shutil.rmtree(project.workspace / ".git")
        outcome, user = await answered(project, "git init -q && git add notes.md && git commit -qm first")
        assert not outcome.is_error, outcome.text
        assert "sandboxed" not in outcome.text
        assert git(project.workspace, "log", "--format=%an %s") == "Ada first"
        assert GIT_SETTINGS in user.asked[0].reach

    @pytest.mark.parametrize("answer", [ApprovalAnswer("once"), ApprovalAnswer("always"), ApprovalAnswer("once", "E")])
    async def test_each_way_to_say_yes(self, project: World, answer: ApprovalAnswer) -> None:
        command = "git remote add origin https://example.org/x.git"
        asked = command
        if answer.command:
            asked, answer = "make", ApprovalAnswer("once", command)
        outcome, user = await answered(project, asked, answer)
        assert not outcome.is_error, outcome.text
        assert git(project.workspace, "remote", "get-url", "origin") == "https://example.org/x.git"
        assert (GIT_SETTINGS in user.asked[0].reach) == (asked == command)

    async def test_work_of_every_day(self, project: World) -> None:
        origin = project.workspace / "origin.git"
        git(project.workspace, "init", "-q", "--bare", str(origin))
        other = project.workspace / "other"
        git(project.workspace, "init", "-q", str(other))
        git(other, "commit", "-q", "--allow-empty", "-m", "x")
        for command in (
            "git add notes.md && git commit -qm first",
            "git remote add origin ./origin.git && git push -u origin main",
            "git checkout -b topic --track main",
            "git config user.name Grace",
            "git branch -d main",
            "git worktree add wt",
            "git worktree remove wt",
            "git clone ./other cloned",
            "git mv notes.md n.md; git stash; git stash pop",
        ):
            outcome, _ = await answered(project, command)
            assert not outcome.is_error, (command, outcome.text)
        assert git(project.workspace, "config", "--local", "user.name") == "Grace"
        assert (project.workspace / "cloned" / ".git" / "config").exists()

    async def test_hooks_and_instructions_stay_as_they_are(self, project: World) -> None:
        shutil.rmtree(project.workspace / "hooks")
        write(project.workspace / "x", "evil")
        await answered(project, "git config core.bare false && git mv -f x .git/hooks/pre-push")
        await answered(project, "git init && git add x && git mv -f x AGENTS.md")
        assert (project.workspace / ".git" / "hooks" / "pre-push").read_text(encoding="utf-8") == f"{KEPT}\n"
        assert (project.workspace / "AGENTS.md").read_text(encoding="utf-8") == f"{KEPT}\n"


class TestNotAnswered:
    @pytest.mark.parametrize(
        "shell",
        [{"approval": "allow"}, {"allow": ["git remote <anything>"]}, {"allow": ["git remote add o https://e.org"]}],
    )
    async def test_what_runs_unasked_changes_no_settings(self, project: World, shell: dict[str, Any]) -> None:
        outcome, user = await answered(project, "git remote add o https://e.org", **shell)
        assert user.asked == []
        assert outcome.is_error
        assert git(project.workspace, "remote") == ""

    async def test_always_holds_for_the_answer_not_for_the_rule(self, project: World) -> None:
        tools, user = toolbox(project.workspace), User(ApprovalAnswer("always"))
        command = call("shell", {"command": "git remote add o https://e.org"})
        assert not (await tools.run(command, user)).is_error
        git(project.workspace, "remote", "remove", "o")
        assert (await tools.run(command, user)).is_error
        assert len(user.asked) == 1

    async def test_what_is_not_git_alone_changes_none(self, project: World) -> None:
        for command in ("git remote add o https://e.org | cat", "echo evil >> .git/config", "git init -q; ls"):
            _, user = await answered(project, command)
            assert GIT_SETTINGS not in user.asked[0].reach
        assert git(project.workspace, "remote") == ""
        assert "evil" not in (project.workspace / ".git" / "config").read_text(encoding="utf-8")

    async def test_a_git_of_the_workspace_changes_none(self, project: World, monkeypatch: pytest.MonkeyPatch) -> None:
        program = write(project.workspace / "bin" / "git", "#!/bin/sh\necho evil >> .git/config")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        _, user = await answered(project, "git init")
        assert GIT_SETTINGS not in user.asked[0].reach
        assert "evil" not in (project.workspace / ".git" / "config").read_text(encoding="utf-8")

    async def test_commits_need_no_more(self, project: World) -> None:
        outcome = await project.run("git add notes.md && git commit -qm first && echo x >> notes.md && git stash -q")
        assert not outcome.is_error, outcome.text
        assert git(project.workspace, "log", "--format=%an", "-n", "1", "main") == "Ada"


class TestStoreElsewhere:
    """A worktree and a submodule of a repository that lies outside of the workspace."""

    async def test_what_to_set_is_said_and_then_it_works(self, project: World) -> None:
        main = project.outside / "main"
        git(project.outside, "init", "-q", str(main))
        git(main, "commit", "-q", "--allow-empty", "-m", "first")
        shutil.rmtree(project.workspace / ".git")
        git(main, "worktree", "add", "-q", str(project.outside / "tree"))
        shutil.move(project.outside / "tree" / ".git", project.workspace / ".git")
        git(main, "worktree", "repair", str(project.workspace))
        commit = "git add notes.md && git commit -qm second"
        outcome, _ = await answered(project, commit)
        assert outcome.is_error
        assert f"git keeps this repository in {main}/.git, outside" in outcome.text
        assert "tools.shell.sandbox_write" in outcome.text
        opened: dict[str, Any] = {"sandbox_write": [f"{main}/.git"]}
        outcome, _ = await answered(project, commit, **opened)
        assert not outcome.is_error, outcome.text
        assert git(project.workspace, "log", "--format=%s", "-n", "1") == "second"
        before = (main / ".git" / "config").read_bytes()
        await answered(project, f"echo evil >> {main}/.git/config; echo evil > {main}/.git/hooks/pre-push", **opened)
        assert (main / ".git" / "config").read_bytes() == before
        assert not (main / ".git" / "hooks" / "pre-push").exists()
