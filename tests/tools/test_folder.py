"""Nothing outside the workspace is reached, whatever stands in the way, and no device is ever waited for."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.tools.folder import WorkspaceFolder, WorkspacePath
from clawbot.tools.protocol import ToolError
from tests.tools.conftest import Run, link, move, names

pytestmark = pytest.mark.usefixtures("all_seen")

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("read", {}),
    ("write", {"content": "x"}),
    ("append", {"content": "x"}),
    ("edit", {"old": "secret", "new": "x"}),
]


@pytest.mark.parametrize(("tool", "more"), CHANGES)
@pytest.mark.parametrize("path", ["../outside/secret.txt", "{outside}/secret.txt", "memory/../../outside/secret.txt"])
async def test_paths_outside_are_refused(run: Run, outside: Path, tool: str, more: dict[str, Any], path: str) -> None:
    outcome = await run(tool, path=path.format(outside=outside), **more)
    assert outcome.is_error
    assert "outside the workspace" in outcome.text
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize(("tool", "more"), CHANGES)
@pytest.mark.parametrize("path", ["link.txt", "linked/secret.txt"])
async def test_symlinks_that_lead_out_are_refused(
    run: Run, workspace: Path, outside: Path, tool: str, more: dict[str, Any], path: str
) -> None:
    (workspace / "link.txt").symlink_to(outside / "secret.txt")
    (workspace / "linked").symlink_to(outside)
    outcome = await run(tool, path=path, **more)
    assert outcome.is_error
    assert "symlink" in outcome.text
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "secret"
    assert names(outside) == ["secret.txt"]


async def test_a_dangling_symlink_makes_no_file_outside(run: Run, workspace: Path, outside: Path) -> None:
    (workspace / "new.md").symlink_to(outside / "new.md")
    assert (await run("write", path="new.md", content="x")).is_error
    assert (await run("append", path="new.md", content="x")).is_error
    assert not (outside / "new.md").exists()


async def test_a_symlink_within_is_followed(run: Run, workspace: Path) -> None:
    (workspace / "today.md").symlink_to("memory/2026-11-20.md")
    assert (await run("read", path="today.md")).text == "proxy moved to 8443\n"
    assert (await run("write", path="today.md", content="new\n")).text.startswith("Replaced memory/2026-11-20.md")
    assert (workspace / "today.md").is_symlink()


async def test_a_workspace_that_is_a_symlink_works(run: Run, workspace: Path, tmp_path: Path) -> None:
    move(workspace, tmp_path / "real")
    link(workspace, tmp_path / "real")
    assert (await run("read", path=str(workspace / "MEMORY.md"))).text.startswith("# Memory")


def _append(folder: WorkspaceFolder, place: WorkspacePath) -> None:
    with folder.appending(place) as handle:
        os.write(handle, b"x")


@pytest.mark.parametrize(
    "use",
    [lambda folder, place: folder.read(place, 100), lambda folder, place: folder.replace(place, b"x"), _append],
    ids=["read", "replace", "append"],
)
@pytest.mark.parametrize("victim", ["memory", "memory/2026-11-20.md"])
def test_a_symlink_put_there_between_check_and_use_is_refused(
    workspace: Path, outside: Path, use: Callable[[WorkspaceFolder, WorkspacePath], object], victim: str
) -> None:
    (outside / "2026-11-20.md").write_text("secret", encoding="utf-8")
    folder = WorkspaceFolder(workspace)
    place = folder.locate("memory/2026-11-20.md")
    (workspace / victim).rename(workspace / "moved")
    (workspace / victim).symlink_to(outside if victim == "memory" else outside / "2026-11-20.md")
    with pytest.raises(ToolError, match=r"symlink|refused"):
        use(folder, place)
    assert (outside / "2026-11-20.md").read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize(("tool", "more"), CHANGES)
async def test_a_pipe_is_refused_without_waiting(run: Run, workspace: Path, tool: str, more: dict[str, Any]) -> None:
    os.mkfifo(workspace / "pipe")
    outcome = await run(tool, path="pipe", **more)
    assert (outcome.is_error, outcome.text) == (True, "pipe is a named pipe, not a file: refused.")


@pytest.mark.parametrize(("tool", "more"), CHANGES[1:])
async def test_the_other_name_of_a_hard_link_is_never_changed(
    run: Run, workspace: Path, outside: Path, tool: str, more: dict[str, Any]
) -> None:
    (workspace / "hard.txt").hardlink_to(outside / "secret.txt")
    assert not (await run(tool, path="hard.txt", **more)).is_error
    assert (outside / "secret.txt").read_text(encoding="utf-8") == "secret"
    assert (workspace / "hard.txt").read_text(encoding="utf-8") != "secret"


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "project/.GIT/config"])
async def test_git_is_read_but_not_written(run: Run, workspace: Path, path: str) -> None:
    target = workspace / path
    target.parent.mkdir(parents=True)
    target.write_text("old", encoding="utf-8")
    assert (await run("read", path=path)).text == "old"
    outcome = await run("write", path=path, content="rm -rf /")
    assert outcome.is_error
    assert "changed by git alone" in outcome.text


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 300, "MEMORY.md/below", "~/x", "~nobody-of-that-name/x"])
async def test_strange_paths_are_errors_with_a_reason(run: Run, path: str) -> None:
    outcome = await run("read", path=path)
    assert outcome.is_error
    assert "failed:" not in outcome.text
    outcome.text.encode()


async def test_a_loop_of_symlinks_is_refused(run: Run, workspace: Path) -> None:
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert (await run("read", path="a")).is_error


async def test_a_missing_workspace_says_how_to_make_it(run: Run, workspace: Path) -> None:
    move(workspace, workspace.with_name("gone"))
    assert "clawbot workspace init" in (await run("read", path="MEMORY.md")).text


# -- names in another Unicode form ---------------------------------------------------------------------------------

NAME = "memory/Überblick-größe.md"


@pytest.fixture
def decomposed(workspace: Path) -> Path:
    """A note whose name is in NFD, as a Mac leaves it."""
    path = workspace / unicodedata.normalize("NFD", NAME)
    path.write_text("- the ibis\n", encoding="utf-8")
    return path


async def test_a_file_from_a_mac_is_read_searched_and_listed_by_the_name_that_is_typed(
    run: Run, decomposed: Path
) -> None:
    assert (await run("read", path=NAME)).text == "- the ibis\n"
    assert ":1:- the ibis" in (await run("grep", pattern="ibis", path=NAME)).text
    assert ":1:- the ibis" in (await run("grep", pattern="ibis", glob="Über*.md")).text
    assert "blick-gr" in (await run("list", path="memory", pattern="Überblick-*")).text


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


async def test_a_file_from_a_mac_is_changed_and_never_doubled(run: Run, decomposed: Path) -> None:
    for tool, arguments, holds in (
        ("append", {"content": "- the otter"}, "- the ibis\n- the otter\n"),
        ("edit", {"old": "ibis", "new": "badger"}, "- the badger\n- the otter\n"),
        ("write", {"content": "- all new\n"}, "- all new\n"),
    ):
        outcome = await run(tool, path=NAME, **arguments)
        assert not outcome.is_error, outcome.text
        assert text_of(decomposed) == holds
        assert len(names(decomposed.parent)) == 2


async def test_a_folder_from_a_mac_takes_new_files(run: Run, workspace: Path) -> None:
    folder = workspace / unicodedata.normalize("NFD", "Größen")
    folder.mkdir()
    assert not (await run("write", path="Größen/neu.md", content="x")).is_error
    assert (folder / "neu.md").read_text(encoding="utf-8") == "x"


async def test_a_name_that_looks_like_one_out_of_reach_leads_no_further(
    run: Run, workspace: Path, outside: Path
) -> None:
    (workspace / unicodedata.normalize("NFD", "größe.md")).symlink_to(outside / "secret.txt")
    outcome = await run("read", path="größe.md")
    assert outcome.is_error
    assert "outside" in outcome.text or "leads out" in outcome.text
