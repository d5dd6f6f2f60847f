"""The file tools change nothing that git takes its settings from, and make no repository of a plain folder."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from tests.tables import load_table
from tests.tools.conftest import Run

PARTS = load_table(__file__, "PARTS")


def git_status(folder: Path) -> subprocess.CompletedProcess[str]:
    """git as the user has it: without the settings that commands of the model run with."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return subprocess.run(
        ["git", "status"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def make_bare(folder: Path) -> None:
    for name, text in PARTS.items():
        if name != "commondir":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.format(root=folder), encoding="utf-8")


def test_the_trick_works_where_nothing_hinders_it(tmp_path: Path) -> None:
    make_bare(tmp_path)
    git_status(tmp_path)
    assert (tmp_path / "PWNED").exists()


@pytest.mark.long
@pytest.mark.parametrize("sub", ["", "notes/", "a/b.git/"])
async def test_no_order_of_calls_makes_a_repository(run: Run, workspace: Path, sub: str) -> None:
    for number, order in enumerate(itertools.permutations(PARTS)):
        top = f"{number}/{sub}"
        for name in order:
            text = PARTS[name].format(root=workspace / top)
            outcome = await run("write" if number % 2 else "append", path=top + name, content=text or "x")
            assert outcome.is_error is (name == "HEAD"), outcome.text
        assert git_status(workspace / top).returncode != 0
        assert not (workspace / top / "PWNED").exists()


async def test_what_the_model_is_told_names_the_way(run: Run) -> None:
    outcome = await run("write", path="x/HEAD", content="ref: refs/heads/main\n")
    assert outcome.text == (
        "x/HEAD is refused: a file of that name makes its folder a Git repository, whose settings run commands. Take "
        "another name; a repository is made with `git init` in the shell."
    )


@pytest.mark.parametrize(
    "path",
    [
        "HEAD", "head", "Head", "HEAD.", "HEAD ", "HE\u200cAD", "HEAD::$DATA", "./sub/../HEAD", ".git", ".git/config",
        ".GIT/config", ".git /config", ".git./config", "git~1/config", ".g\u200cit/hooks/post-checkout",
        "sub/.git/hooks/post-checkout", ".hg/hgrc", ".jj/repo/config.toml",
    ],
)  # fmt: skip
async def test_names_that_are_refused(run: Run, workspace: Path, path: str) -> None:
    before = everything(workspace)
    for name, more in (("write", {"content": "x"}), ("append", {"content": "x"}), ("edit", {"old": "a", "new": "b"})):
        outcome = await run(name, path=path, **more)
        assert outcome.is_error
        assert "is refused" in outcome.text
    assert everything(workspace) == before


@pytest.mark.parametrize(
    "path", ["HEAD.md", "HEAD/notes.md", "overhead", "refs/notes.md", "config", ".gitignore", ".gitattributes", "git"]
)
async def test_other_names_are_ordinary(run: Run, path: str) -> None:
    assert not (await run("write", path=path, content="x")).is_error


@pytest.mark.parametrize("path", ["config", "hooks/post-receive", "info/attributes", "deep/er/file", "objects/x"])
async def test_a_bare_repository_that_is_there_is_left_to_git(run: Run, workspace: Path, path: str) -> None:
    (workspace / "backup.git").mkdir()
    make_bare(workspace / "backup.git")
    outcome = await run("write", path=f"backup.git/{path}", content="x")
    assert outcome.is_error
    assert "changed by git alone" in outcome.text


@pytest.mark.parametrize("path", ["objects/x", "refs/x", "commondir", "REFS/heads/x"])
async def test_a_file_head_that_is_there_becomes_no_repository(run: Run, workspace: Path, path: str) -> None:
    (workspace / "HEAD").symlink_to("refs/heads/main")
    assert (await run("write", path=path, content="x")).is_error
    assert not (await run("write", path="notes.md", content="x")).is_error
