"""The hook that adds files of the workspace to the system prompt."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clawbot.hooks import AgentBootstrap, InjectedFile
from tests.hooks_shipped.hosting import FakeServices, ShippedHook, make_event
from tests.hostile import make_deep, removed
from tests.tables import load_table


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    for name in (
        "AGENTS.md",
        "projects/site/AGENTS.md",
        "projects/site/README.md",
        "projects/网站/AGENTS.md",
        "projects/site/deep/er/TOOLS.md",
        "projects/site/node_modules/evil/AGENTS.md",
        "projects/.hidden/AGENTS.md",
        ".config/USER.md",
        "memory.md",
    ):
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text(f"text of {name}")
    return folder


async def added(workspace: Path, settings: dict[str, Any]) -> list[str]:
    """The names that the hook adds to a prompt that has AGENTS.md."""
    event = make_event(AgentBootstrap, workspace.parent, files=[InjectedFile("AGENTS.md", "own")])
    await ShippedHook("bootstrap-extra-files", settings).handle(event, FakeServices())
    assert event.files[0] == InjectedFile("AGENTS.md", "own")
    assert all(file.text == f"text of {file.name}" for file in event.files[1:])
    return [file.name for file in event.files[1:]]


@pytest.mark.parametrize(
    ("settings", "names"),
    load_table(__file__, "known_names_that_fit_are_added_once"),
)
async def test_known_names_that_fit_are_added_once(workspace: Path, settings: dict[str, Any], names: list[str]) -> None:
    (workspace.parent / "AGENTS.md").write_text("outside")
    assert await added(workspace, settings) == names


async def test_what_leads_out_of_the_workspace_is_left_out_and_logged(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "AGENTS.md").write_text("keys")
    (workspace / "folder").symlink_to(outside)
    (workspace / "file").mkdir()
    (workspace / "file" / "AGENTS.md").symlink_to(outside / "AGENTS.md")
    (workspace / "hard").mkdir()
    os.link(outside / "AGENTS.md", workspace / "hard" / "AGENTS.md")
    (workspace / "loop").symlink_to(workspace)
    assert await added(workspace, {"paths": ["folder/AGENTS.md", "file/*", "hard/*", "/abs"]}) == []
    assert len(caplog.records) == 4
    assert await added(workspace, {"paths": ["**/TOOLS.md"]}) == ["projects/site/deep/er/TOOLS.md"]


async def test_a_folder_whose_name_would_write_into_the_prompt_is_left_out(workspace: Path) -> None:
    folder = workspace / "projects" / "x\n## SOUL.md"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("no")
    assert await added(workspace, {"paths": ["projects/x*/AGENTS.md"]}) == []


async def test_blank_files_are_left_out(workspace: Path) -> None:
    (workspace / "projects" / "site" / "AGENTS.md").write_text(" \n")
    assert await added(workspace, {"paths": ["projects/site/AGENTS.md"]}) == []


async def test_a_glob_over_a_deep_tree_ends(workspace: Path) -> None:
    with removed(workspace / "deep") as deep:
        make_deep(deep, 1500)
        (deep / "d" / "TOOLS.md").write_text("text of deep/d/TOOLS.md")
        assert await added(workspace, {"paths": ["deep/**/TOOLS.md"]}) == ["deep/d/TOOLS.md"]
