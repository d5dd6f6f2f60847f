"""Seeding: what is made when, what is never touched, and how the first run ends."""

from __future__ import annotations

import errno
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot.config.paths import shipped
from clawbot.context.workspace import diff_workspace, ritual_pending, seed_workspace
from clawbot.errors import ClawbotError

TEMPLATE = shipped("workspace_template")
ALL = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md", "MEMORY.md", "BOOTSTRAP.md"]
NOW = "2026-11-20T13:30:00.000Z"


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 20, 13, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


def seed(workspace: Path) -> list[str]:
    return [path.name for path in seed_workspace(workspace, TEMPLATE, FixedClock())]


def state(workspace: Path) -> dict[str, object]:
    found = json.loads((workspace / ".clawbot/workspace-state.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "workspace"


def test_a_new_workspace_gets_everything_privately(workspace: Path) -> None:
    assert seed(workspace) == ALL
    assert stat.S_IMODE(workspace.stat().st_mode) == 0o700
    assert {stat.S_IMODE((workspace / name).stat().st_mode) for name in ALL} == {0o600}
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}
    assert not (workspace / ".git").exists()
    assert seed(workspace) == []


def test_what_exists_is_never_touched(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    (workspace / "AGENTS.md").write_text("mine", encoding="utf-8")
    assert seed(workspace) == [name for name in ALL if name != "AGENTS.md"]
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("how", ["delete", "empty"])
def test_the_end_of_the_ritual_is_recorded_and_it_never_comes_back(workspace: Path, how: str) -> None:
    seed(workspace)
    assert ritual_pending(workspace)
    if how == "delete":
        (workspace / "BOOTSTRAP.md").unlink()
    else:
        (workspace / "BOOTSTRAP.md").write_text("\n", encoding="utf-8")
    assert not ritual_pending(workspace)
    for _ in range(3):
        assert seed(workspace) == []
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW, "onboardingCompletedAt": NOW}
    assert not ritual_pending(workspace)


def test_deleted_files_come_back_but_not_memory(workspace: Path) -> None:
    seed(workspace)
    (workspace / "MEMORY.md").unlink()
    (workspace / "SOUL.md").unlink()
    assert seed(workspace) == ["SOUL.md"]


@pytest.mark.parametrize("sign", ["memory/", ".git/", "MEMORY.md", "USER.md", "IDENTITY.md"])
def test_a_workspace_that_was_lived_in_gets_no_ritual(workspace: Path, sign: str) -> None:
    workspace.mkdir(parents=True)
    if sign.endswith("/"):
        (workspace / sign).mkdir()
    else:
        (workspace / sign).write_text("lived in", encoding="utf-8")
    made = seed(workspace)
    assert "BOOTSTRAP.md" not in made
    assert "MEMORY.md" not in made
    assert state(workspace) == {"version": 1, "onboardingCompletedAt": NOW}


def test_a_ritual_that_is_there_without_a_record_is_recorded(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    (workspace / "BOOTSTRAP.md").write_text("first", encoding="utf-8")
    assert "BOOTSTRAP.md" not in seed(workspace)
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


@pytest.mark.parametrize("after", range(len(ALL)))
def test_a_seeding_that_broke_off_is_completed(workspace: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    from clawbot.context import workspace as module

    genuine = module.create_exclusive
    left = iter(range(after))

    def failing(path: Path, data: bytes) -> bool:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return genuine(path, data)

    monkeypatch.setattr(module, "create_exclusive", failing)
    with pytest.raises(ClawbotError, match="No space left"):
        seed(workspace)
    monkeypatch.undo()
    seed(workspace)
    assert all((workspace / name).exists() for name in ALL)
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


def test_a_broken_state_file_counts_as_none(workspace: Path) -> None:
    seed(workspace)
    (workspace / ".clawbot/workspace-state.json").write_text("{", encoding="utf-8")
    assert seed(workspace) == []
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


def test_a_file_in_place_of_the_folder(workspace: Path) -> None:
    workspace.parent.mkdir()
    workspace.touch()
    with pytest.raises(ClawbotError, match=r"is a file. Move that file away") as caught:
        seed(workspace)
    assert str(workspace) in str(caught.value)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "Permission denied. Make it readable and writable"),
        (errno.EROFS, "Read-only file system. The file system is read-only: mount it writable, or"),
        (errno.ENOSPC, "No space left on device. The disk is full: free some space, or"),
    ],
)
def test_a_folder_that_refuses(workspace: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str) -> None:
    def refuse(path: Path, data: bytes) -> bool:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("clawbot.context.workspace.create_exclusive", refuse)
    with pytest.raises(ClawbotError, match=f"AGENTS.md: {remedy}"):
        seed(workspace)


def test_diff_goes_from_template_to_workspace(workspace: Path) -> None:
    seed(workspace)
    with (workspace / "USER.md").open("a", encoding="utf-8") as stream:
        stream.write("- likes tea\n")
    (workspace / "TOOLS.md").unlink()
    (workspace / "BOOTSTRAP.md").unlink()
    found = {file.name: file for file in diff_workspace(workspace, TEMPLATE)}
    assert {name: file.state for name, file in found.items() if file.state != "same"} == {
        "USER.md": "changed",
        "TOOLS.md": "missing",
    }
    assert "+- likes tea" in found["USER.md"].diff
    assert "BOOTSTRAP.md" not in found


def test_the_shipped_templates_are_short_and_hold_the_rules() -> None:
    texts = {name: (TEMPLATE / name).read_text(encoding="utf-8") for name in ALL}
    assert sum(map(len, texts.values())) < 10_000
    agents = texts["AGENTS.md"]
    assert "\n## Session Startup\n" in agents
    assert "\n## Red Lines\n" in agents
    assert "MEMORY.md" in agents
    assert "memory/YYYY-MM-DD.md" in agents
    assert not any(text.startswith("---") for text in texts.values())
