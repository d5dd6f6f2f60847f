"""`clawbot memory dream` as a user runs it: what it prints, what it writes, and what `memory undo` makes of that."""

from __future__ import annotations

import errno
import json
import os
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clawbot import guarded
from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home

HOMES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SETTINGS = "agents: {defaults: {model: offline, memory_search: {provider: none}}}\n"
FIELDS = {"id", "kind", "file", "text", "sources", "reason"}
EARLIER = "memory/2020-03-09.md"


class Place:
    """A home with the notes of `language`; what the command makes of it."""

    def __init__(self, language: str) -> None:
        self.home, self.wanted = Paths(find_home()), HOMES[language]
        self.workspace = self.home.home / "workspace"
        self.today = f"memory/{datetime.now().astimezone():%Y-%m-%d}.md"
        (self.workspace / "memory").mkdir(parents=True)
        self.home.config_file.write_text(SETTINGS, "utf-8")
        for path, name in (("MEMORY.md", "memory"), (self.today, "today"), (EARLIER, "earlier")):
            (self.workspace / path).write_text(self.wanted[name], "utf-8")

    def run(self, *arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(root, ["memory", *arguments])
        assert result.exit_code == code, result.output
        return result

    def dream(self, *arguments: str) -> list[list[str]]:
        """The kind of each proposal, and its text without the days."""
        found = json.loads(self.run("dream", "--json", *arguments).stdout)["proposals"]
        assert all(each.keys() >= FIELDS and each["file"] == "MEMORY.md" for each in found)
        assert all(set(each) - FIELDS <= {"old", "until", "target"} for each in found)
        return [[each["kind"], each["text"].partition(" (")[0]] for each in found]

    def files(self) -> dict[str, bytes | None]:
        """All that is there but the log and the snapshot of the settings, folders too."""
        below = self.home.home
        found = [path for path in below.rglob("*") if path.suffix not in (".log", ".snapshot") and path.name != "logs"]
        return {str(path.relative_to(below)): None if path.is_dir() else path.read_bytes() for path in found}


@pytest.fixture(params=HOMES)
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


def test_a_dry_run_leaves_nothing_behind(place: Place) -> None:
    before = place.files()
    assert place.dream("--dry-run") == place.wanted["proposed"]
    assert "--apply writes all of them" in place.run("dream", "--dry-run").stderr
    assert place.files() == before
    assert place.dream("--dry-run", "--days", "2") == place.wanted["proposed"][1:]
    place.run("dream", "--dry-run", "--apply", code=2)
    place.run("dream", "--days", "0", code=2)


def test_all_is_written_once_as_entries_that_undo_takes_back(place: Place) -> None:
    before = place.files()
    proposed = json.loads(place.run("dream", "--json").stdout)["proposals"]
    assert {source for each in proposed for source in each["sources"]} >= {f"{EARLIER}:1", f"{place.today}:2"}
    assert json.loads(place.run("dream", "--json").stdout)["proposals"] == proposed
    assert place.files()["workspace/MEMORY.md"] == before["workspace/MEMORY.md"]
    assert place.dream("--apply") == place.wanted["proposed"]
    assert place.dream() == place.dream("--days", "9999") == []
    entries = json.loads(place.run("log", "--json").stdout)["entries"]
    assert [(each["by"], each["path"]) for each in entries] == [("dream", "MEMORY.md")] * len(proposed)
    assert [each["job"] for each in entries] == [each["id"] for each in proposed][::-1]
    for each in entries:
        place.run("undo", each["id"])
    assert place.files()["workspace/MEMORY.md"] == before["workspace/MEMORY.md"]
    assert place.dream("--days", "9999") == []


def test_a_home_without_notes_or_without_memory_file(place: Place) -> None:
    memory = place.workspace / "MEMORY.md"
    memory.unlink()
    assert {kind for kind, _ in place.dream("--apply")} == {"add"}
    assert memory.read_text("utf-8").count("\n") == 3
    for each in json.loads(place.run("log", "--json").stdout)["entries"]:
        place.run("undo", each["id"])
    assert not memory.exists()
    for path in (place.today, EARLIER):
        (place.workspace / path).unlink()
    assert "Nothing to propose" in place.run("dream", "--apply", "--days", "9999").stderr


@pytest.mark.parametrize("problem", ["read-only", "MEMORY.md", ""])
def test_what_can_not_be_written_is_one_error(place: Place, monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    place.dream()
    before, create = place.files(), guarded._create
    if problem == "read-only":
        (place.workspace / "MEMORY.md").chmod(0o444)

    def full(folder: int, name: str, *rest: Any, **more: Any) -> None:
        if problem in name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        create(folder, name, *rest, **more)

    monkeypatch.setattr(guarded, "_create", full)
    failed = place.run("dream", "--apply", "--json", code=1)
    assert failed.stderr.count("\n") == 1
    assert ("is read-only" if problem == "read-only" else "No space left on device") in failed.stderr
    after = place.files()
    assert {path: after[path] for path in before if "state.json" not in path} == {
        path: data for path, data in before.items() if "state.json" not in path
    }
    assert not [path for path in after if path.endswith(".tmp")]
    monkeypatch.undo()
