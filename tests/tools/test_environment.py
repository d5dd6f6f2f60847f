"""What the model can write in the workspace is no setting, no program and no library of the commands that run there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clawbot.tools.process import command_environment
from tests.tables import load_table
from tests.tools.test_repositories import make_bare


@pytest.fixture
def given(workspace: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose home is beside the workspace."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(workspace.parent)}


def shell(
    command: str, environment: dict[str, str], workspace: Path, *, closed: bool = True
) -> subprocess.CompletedProcess[str]:
    """`command` in the environment as it is `closed`, or as it is given."""
    if closed:
        environment = command_environment(environment, (), workspace)
    return subprocess.run(
        ["bash", "-c", command],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def commit(workspace: Path, given: dict[str, str]) -> None:
    who = "-c user.name=a -c user.email=a@example.org"
    assert shell(f"git init -q && git add -A && git {who} commit -qm one", given, workspace).returncode == 0


def trap(workspace: Path) -> str:
    """A program that leaves a trace; the file tools could not make it runnable, a command could."""
    path = workspace / "planted"
    path.write_text(f"#!/bin/sh\ntouch {workspace}/PWNED\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("closed", [False, True])
def test_a_folder_that_looks_like_a_repository(workspace: Path, given: dict[str, str], closed: bool) -> None:
    make_bare(workspace)
    done = shell("git status", given, workspace, closed=closed)
    assert (workspace / "PWNED").exists() is not closed
    assert ("safe.bareRepository" in done.stderr) is closed


@pytest.mark.parametrize("closed", [False, True])
def test_the_monitor_of_a_repository_and_of_its_submodules(
    workspace: Path, given: dict[str, str], closed: bool
) -> None:
    commit(workspace, given)
    add = "git clone -q . sub && git -c user.name=a -c user.email=a@example.org submodule --quiet add ./sub sub"
    assert shell(add, given, workspace).returncode == 0
    for folder in (workspace, workspace / "sub"):
        config = shell(f"git config core.fsmonitor 'touch {workspace}/PWNED; false'", given, folder)
        assert config.returncode == 0
        (workspace / "PWNED").unlink(missing_ok=True)
        assert shell("git status", given, workspace, closed=closed).returncode == 0
        assert (workspace / "PWNED").exists() is not closed
        shell("git config --unset core.fsmonitor", given, folder)


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "variables",
    load_table(__file__, "settings_of_the_workspaces_making_variables"),
    ids=lambda variables: next(iter(variables)),
)
def test_settings_of_the_workspaces_making(
    workspace: Path, given: dict[str, str], variables: dict[str, str], closed: bool
) -> None:
    text = '[alias]\n\thello = "!touch PWNED"\n'
    for name in ("settings", ".gitconfig", "git/config"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text, encoding="utf-8")
    (workspace / "git-hello").symlink_to(trap(workspace))
    inside = {name: str(workspace / value) if "PARAM" not in name else value for name, value in variables.items()}
    done = shell("git hello", given | inside, workspace, closed=closed)
    assert (workspace / "PWNED").exists() is not closed, done.stderr


def test_a_link_of_the_home_into_the_workspace_is_no_setting(workspace: Path, given: dict[str, str]) -> None:
    (workspace / "dotfiles").write_text('[alias]\n\thello = "!touch PWNED"\n', encoding="utf-8")
    (Path(given["HOME"]) / ".gitconfig").symlink_to(workspace / "dotfiles")
    shell("git hello", given, workspace)
    assert not (workspace / "PWNED").exists()


def test_the_users_own_settings_count(workspace: Path, given: dict[str, str]) -> None:
    (Path(given["HOME"]) / ".gitconfig").write_text("[user]\n\tname = Own\n[alias]\n\twho = var GIT_AUTHOR_IDENT\n")
    more = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.email", "GIT_CONFIG_VALUE_0": "own@example.org"}
    assert "Own <own@example.org>" in shell("git who", given | more, workspace).stdout
    bad = shell("git config --list", given | {"GIT_CONFIG_COUNT": "x"}, workspace)
    assert "safe.barerepository=explicit" in bad.stdout


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"BASH_ENV": "{trap}"}, "pwd"),
        ({"BASH_FUNC_ls%%": "() {{ touch PWNED; }}"}, "ls"),
        ({"PATH": ".:{path}"}, "planted"),
        ({"PATH": ":{path}"}, "planted"),
        ({"PATH": "bin:{path}"}, "ls"),
        ({"GIT_EXTERNAL_DIFF": "{trap}"}, "git diff"),
        ({"GIT_EDITOR": "{trap}"}, "git -c user.name=a -c user.email=a@example.org commit --allow-empty"),
        ({"GIT_TRACE": "{workspace}/PWNED"}, "git status"),
        ({"GIT_DIR": "{workspace}/.git", "GIT_INDEX_FILE": "{workspace}/PWNED"}, "git add notes.md"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_variables_that_start_something_else(
    workspace: Path, given: dict[str, str], variables: dict[str, str], command: str, closed: bool
) -> None:
    (workspace / "notes.md").write_text("one\n", encoding="utf-8")
    commit(workspace, given)
    (workspace / "notes.md").write_text("two\n", encoding="utf-8")
    program = trap(workspace)
    (workspace / "bin").mkdir()
    (workspace / "bin" / "ls").symlink_to(program)
    texts = {"trap": program, "path": given["PATH"], "workspace": str(workspace)}
    more = {name: value.format(**texts) for name, value in variables.items()}
    shell(command, given | more, workspace, closed=closed)
    assert (workspace / "PWNED").exists() is not closed


def test_libraries_of_the_workspace_are_loaded_into_no_program(workspace: Path, given: dict[str, str]) -> None:
    more = {"LD_PRELOAD": f"{workspace}/x.so /usr/lib/own.so lib/y.so", "LD_LIBRARY_PATH": str(workspace)}
    left = command_environment(given | more, (), workspace)
    assert left["LD_PRELOAD"] == "/usr/lib/own.so"
    assert "LD_LIBRARY_PATH" not in left


def test_reading_writes_no_index(workspace: Path, given: dict[str, str]) -> None:
    commit(workspace, given)
    hook = workspace / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(trap(workspace))
    os.utime(workspace / "MEMORY.md", (1, 1))
    shell("git status", given, workspace)
    assert not (workspace / "PWNED").exists()
    shell("git status", given, workspace, closed=False)
    assert (workspace / "PWNED").exists()
