"""Paths outside the workspace in the prompt: how they are completed, and what a pasted one means."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.tui.pasting import complete_path, pasted_mention


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Pictures").mkdir()
    for name in ("plan.md", "my shot.png", ".hidden", "图.png"):
        (tmp_path / name).write_text("x")
    return tmp_path


def test_a_path_is_completed_by_what_is_in_its_folder(home: Path) -> None:
    assert complete_path("~") == ["@~/"]
    assert complete_path("~/p") == ["@~/Pictures/", "@~/plan.md"]
    assert complete_path("~/my") == ['@"~/my shot.png"']
    assert complete_path(f"{home}/.h") == [f"@{home}/.hidden"]
    assert not any("hidden" in found for found in complete_path("~/"))
    assert complete_path("/no/such/folder/x") == complete_path("~nobody-here/x") == complete_path("/\0/x") == []


@pytest.mark.parametrize(
    "pasted", ["{}/my shot.png", "'{}/my shot.png'", "{}/my\\ shot.png", "file://{}/my%20shot.png "]
)
def test_a_path_that_was_dragged_into_the_terminal_is_a_mention(home: Path, pasted: str) -> None:
    assert pasted_mention(pasted.format(home), Path("/elsewhere")) == f'@"{home}/my shot.png"'


def test_a_file_of_the_workspace_is_named_as_there(home: Path) -> None:
    assert pasted_mention(f"{home}/图.png\n", home) == "@图.png"
    assert pasted_mention("~/plan.md", home) == "@plan.md"


@pytest.mark.parametrize(
    "pasted",
    [
        "",
        "plan.md",
        "/gone.png",
        "{}",
        "{}/plan.md and more",
        "{}/plan.md\n{}/plan.md",
        "file://host{}/plan.md",
        "/'",
        "/\0",
    ],
)
def test_any_other_text_stays_as_it_is(home: Path, pasted: str) -> None:
    assert pasted_mention(pasted.format(home, home), home) is None
