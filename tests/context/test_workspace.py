"""Seeding: what is made when, what is never touched, and how the first run ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot import guarded
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.context.bootstrap import SEEDED
from clawbot.context.workspace import OLD_RECORD, diff_workspace, ritual_pending, seed_workspace
from clawbot.errors import ClawbotError
from clawbot.files import digest_of
from clawbot.guarded import PRIVATE_FILE, GuardedFolder
from clawbot.scheduling.runner import is_empty

TEMPLATE = shipped("workspace_template")
ALL = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md", "HEARTBEAT.md", "MEMORY.md", "BOOTSTRAP.md"]
NOW = "2026-11-20T13:30:00Z"
DIGEST = digest_of(b"older")


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 20, 13, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


def record_of(workspace: Path) -> Path:
    return Paths(find_home()).workspace_record(workspace)


def seed(workspace: Path, templates: Path = TEMPLATE) -> list[str]:
    return [path.name for path in seed_workspace(workspace, templates, FixedClock(), record_of(workspace))]


def state(workspace: Path) -> dict[str, object]:
    """The record of the first run, as far as it says anything."""
    found = json.loads(record_of(workspace).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return {key: value for key, value in found.items() if key != "seeded" and value is not None}


def from_before(workspace: Path, **entries: object) -> None:
    """Make the record one that an earlier version left in the workspace, with these entries."""
    record_of(workspace).unlink(missing_ok=True)
    (workspace / ".clawbot").mkdir(parents=True, exist_ok=True)
    put(workspace / OLD_RECORD, json.dumps({"version": 1, "bootstrapSeededAt": NOW, **entries}))


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """Templates that a test may change."""
    return Path(shutil.copytree(TEMPLATE, tmp_path / "templates"))


def put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def states(workspace: Path, templates: Path, *names: str) -> dict[str, str]:
    """The states that are not `same`."""
    found = diff_workspace(workspace, templates, record_of(workspace), names)
    return {file.name: file.state for file in found if file.state != "same"}


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
    left = iter(range(after))

    class FullFolder(GuardedFolder):
        def create(self, path: str | Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return super().create(path, data, mode=mode)

    monkeypatch.setattr("clawbot.context.workspace.GuardedFolder", FullFolder)
    with pytest.raises(ClawbotError, match="No space left"):
        seed(workspace)
    monkeypatch.undo()
    seed(workspace)
    assert all((workspace / name).exists() for name in ALL)
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


def test_a_broken_state_file_counts_as_none(workspace: Path) -> None:
    seed(workspace)
    put(record_of(workspace), "{")
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
    def refuse(folder: GuardedFolder, path: str, data: bytes) -> bool:
        raise OSError(number, os.strerror(number), str(folder.root / path))

    monkeypatch.setattr(GuardedFolder, "create", refuse)
    with pytest.raises(ClawbotError, match=f"AGENTS.md: {remedy}"):
        seed(workspace)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_a_used_workspace_that_refuses_stops_no_start(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise OSError(number, os.strerror(number))

    seed(workspace)
    monkeypatch.setattr(guarded, "_write_aside", refuse)
    assert seed(workspace) == []
    (workspace / "TOOLS.md").unlink()
    assert seed(workspace) == []
    assert GuardedFolder(workspace).create("SOUL.md", b"") is False


def test_diff_goes_from_template_to_workspace(workspace: Path) -> None:
    seed(workspace)
    with (workspace / "USER.md").open("a", encoding="utf-8") as stream:
        stream.write("- likes tea\n")
    (workspace / "TOOLS.md").unlink()
    (workspace / "BOOTSTRAP.md").unlink()
    found = {file.name: file for file in diff_workspace(workspace, TEMPLATE, record_of(workspace))}
    assert {name: file.state for name, file in found.items() if file.state != "same"} == {
        "USER.md": "changed",
        "TOOLS.md": "missing",
    }
    assert "+- likes tea" in found["USER.md"].diff
    assert "BOOTSTRAP.md" not in found


def test_who_has_changed_since_a_file_was_seeded_is_told(workspace: Path, templates: Path) -> None:
    seed(workspace, templates)
    for name in ("AGENTS.md", "USER.md"):
        put(workspace / name, "我的规则\n")
    for name in ("USER.md", "SOUL.md"):
        put(templates / name, "newer\n")
    (workspace / "TOOLS.md").unlink()
    expected = {"AGENTS.md": "changed", "USER.md": "both", "SOUL.md": "outdated", "TOOLS.md": "missing"}
    assert states(workspace, templates) == expected
    assert states(workspace, templates, "soul.md") == {"SOUL.md": "outdated"}
    [soul] = diff_workspace(workspace, templates, record_of(workspace), ["SOUL.md"])
    assert "-newer" in soul.diff.splitlines()


def test_an_update_of_the_templates_overwrites_nothing(workspace: Path, templates: Path) -> None:
    seed(workspace, templates)
    before = {name: (workspace / name).read_bytes() for name in ALL}
    for name in ALL:
        put(templates / name, "newer\n")
    assert seed(workspace, templates) == []
    assert {name: (workspace / name).read_bytes() for name in ALL} == before
    assert states(workspace, templates)["SOUL.md"] == "outdated", "a start does not take the file for the new template"


def test_a_template_that_was_taken_over_is_what_later_ones_are_compared_with(workspace: Path, templates: Path) -> None:
    seed(workspace, templates)
    for version in ("second\n", "third\n"):
        put(templates / "SOUL.md", version)
        assert states(workspace, templates) == {"SOUL.md": "outdated"}
        put(workspace / "SOUL.md", version)
        assert states(workspace, templates) == {}
        seed(workspace, templates)
    put(workspace / "SOUL.md", "mine\n")
    assert states(workspace, templates) == {"SOUL.md": "changed"}


def test_a_workspace_from_before_hashes_goes_on(workspace: Path, templates: Path) -> None:
    seed(workspace, templates)
    put(workspace / "USER.md", "me\n")
    from_before(workspace)
    put(templates / "SOUL.md", "newer\n")
    assert states(workspace, templates) == {"USER.md": "changed", "SOUL.md": "changed"}, "nobody noted who did it"
    assert seed(workspace, templates) == []
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}
    put(templates / "AGENTS.md", "newer\n")
    assert states(workspace, templates, "AGENTS.md") == {"AGENTS.md": "outdated"}, "it was the same at that start"


def test_the_record_of_an_earlier_version_is_adopted_once_and_left_as_it_is(workspace: Path, templates: Path) -> None:
    put(templates / "SOUL.md", "older")
    seed(workspace, templates)
    put(templates / "SOUL.md", "newer")
    (workspace / "BOOTSTRAP.md").unlink()
    from_before(workspace, onboardingCompletedAt=NOW, seeded={"SOUL.md": DIGEST})
    left = (workspace / OLD_RECORD).read_bytes()
    assert states(workspace, templates)["SOUL.md"] == "outdated", "also before the first start"
    assert seed(workspace, templates) == []
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW, "onboardingCompletedAt": NOW}
    assert (workspace / OLD_RECORD).read_bytes() == left
    from_later = json.dumps({"version": 1, "seeded": {"SOUL.md": digest_of(b"a model's")}})
    put(workspace / OLD_RECORD, from_later)
    seed(workspace, templates)
    assert states(workspace, templates)["SOUL.md"] == "outdated"
    assert (workspace / OLD_RECORD).read_text(encoding="utf-8") == from_later


@pytest.mark.parametrize(
    "entries",
    [
        {"seeded": {"$(touch x)": DIGEST, "../SOUL.md": DIGEST}},
        {"seeded": {"SOUL.md": "$(touch x)"}},
        {"seeded": {"SOUL.md": DIGEST + "\n$(touch x)"}},
        {"seeded": {"SOUL.md": DIGEST.upper()}},
        {"seeded": {"SOUL.md": 1}},
        {"bootstrapSeededAt": "$(touch x)"},
        {"onboardingCompletedAt": "2026-11-20T13:30:00Z$(touch x)"},
        {"$(touch x)": NOW, "seeded": {}},
        {"version": "$(touch x)"},
        {"more": "x" * 3_000_000},
    ],
    ids=lambda entries: f"{entries}"[:40],
)
def test_of_what_lies_in_the_workspace_only_a_valid_record_is_taken(
    workspace: Path, entries: dict[str, object]
) -> None:
    seed(workspace)
    put(workspace / "SOUL.md", "mine")
    from_before(workspace, **entries)
    seed(workspace)
    written = record_of(workspace).read_text(encoding="utf-8")
    assert "touch" not in written
    assert set(json.loads(written)["seeded"]) == set(ALL) - {"SOUL.md"}
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


@pytest.mark.parametrize("place", [OLD_RECORD, OLD_RECORD.parent], ids=str)
def test_a_record_behind_a_link_is_not_adopted(workspace: Path, place: Path) -> None:
    seed(workspace)
    from_before(workspace, onboardingCompletedAt=NOW)
    (workspace / place).rename(workspace.parent / place.name)
    (workspace / place).symlink_to(workspace.parent / place.name)
    seed(workspace)
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


def test_a_workspace_that_was_deleted_starts_anew(workspace: Path) -> None:
    seed(workspace)
    (workspace / "BOOTSTRAP.md").unlink()
    seed(workspace)
    shutil.rmtree(workspace)
    assert seed(workspace) == ALL
    assert state(workspace) == {"version": 1, "bootstrapSeededAt": NOW}


@pytest.mark.parametrize("name", ["workspace", "link", "agents/../workspace"])
def test_a_workspace_has_one_record_by_whatever_name_and_wherever_its_home_is_moved(tmp_path: Path, name: str) -> None:
    home, other = Paths(tmp_path / "home"), Paths(tmp_path / "moved")
    record = home.workspace_record(home.home / "workspace")
    (home.home / "workspace").mkdir(parents=True)
    (home.home / "agents").mkdir()
    (home.home / "link").symlink_to("workspace")
    assert home.workspace_record(home.home / name) == record
    home.home.rename(other.home)
    assert other.workspace_record(other.home / name).name == record.name
    assert other.workspace_record(tmp_path / "home/workspace").name != record.name


def test_a_record_that_can_not_be_written_stops_no_start(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: GuardedFolder, path: str, _data: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(GuardedFolder, "replace", refuse)
    assert seed(workspace) == ALL
    assert seed(workspace) == []


def test_a_name_without_a_template_is_an_error_with_the_nearest(workspace: Path) -> None:
    seed(workspace)
    for name, said in (
        ("SOULS.md", "Did you mean SOUL.md?"),
        ("BOOT.md", "BOOTSTRAP.md"),
        ("x", "There are: AGENTS.md"),
    ):
        with pytest.raises(ClawbotError, match="There is no template") as caught:
            diff_workspace(workspace, TEMPLATE, record_of(workspace), [name])
        assert said in caught.value.hint


def test_a_fresh_heartbeat_file_asks_for_nothing_and_stands_in_no_prompt(workspace: Path) -> None:
    seed(workspace)
    assert is_empty((workspace / "HEARTBEAT.md").read_text(encoding="utf-8"))
    assert "HEARTBEAT.md" not in SEEDED
    assert not (workspace / "BOOT.md").exists()


def test_the_shipped_templates_are_short_and_hold_the_rules() -> None:
    texts = {name: (TEMPLATE / name).read_text(encoding="utf-8") for name in ALL}
    assert sum(map(len, texts.values())) < 10_000
    agents = texts["AGENTS.md"]
    assert "\n## Session Startup\n" in agents
    assert "\n## Red Lines\n" in agents
    assert "MEMORY.md" in agents
    assert "memory/YYYY-MM-DD.md" in agents
    assert not any(text.startswith("---") for text in texts.values())
