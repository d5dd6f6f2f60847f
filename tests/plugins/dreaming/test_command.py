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
TODAY = f"memory/{datetime.now().astimezone():%Y-%m-%d}.md"
FILES = {"MEMORY.md": "memory", TODAY: "today", "memory/2020-03-09.md": "earlier"}


class Place:
    """One of `HOMES`, and what the commands make of it."""

    def __init__(self, name: str) -> None:
        self.home = Paths(find_home())
        self.proposed = HOMES[name]["proposed"]
        self.memory = self.home.home / "workspace/MEMORY.md"
        self.home.home.mkdir(parents=True, exist_ok=True)
        self.home.config_file.write_text(SETTINGS, "utf-8")
        for path, key in FILES.items():
            if key in HOMES[name]:
                (self.memory.parent / path).parent.mkdir(parents=True, exist_ok=True)
                (self.memory.parent / path).write_text(HOMES[name][key], "utf-8")

    def run(self, *arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(root, ["memory", *arguments])
        assert result.exit_code == code, result.output
        return result

    def dream(self, *arguments: str) -> list[list[str]]:
        """The kind of each proposal, and its text without the days."""
        found = json.loads(self.run("dream", "--json", *arguments).stdout)["proposals"]
        assert all(each["file"] == "MEMORY.md" and set(each) - {"old", "until", "target"} == FIELDS for each in found)
        assert {source.partition(":")[0] for each in found for source in each["sources"]} <= FILES.keys()
        return [[each["kind"], each["text"].partition(" (")[0]] for each in found]

    def files(self) -> dict[str, bytes | None]:
        """All that is there but the log, the snapshot of the settings and the day of the last dream; folders too."""
        found = {path for path in self.home.home.rglob("*") if path.suffix not in (".log", ".snapshot")}
        return {
            str(path): None if path.is_dir() else path.read_bytes()
            for path in found
            if path.stem not in ("logs", "state")
        }


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


@pytest.mark.parametrize("place", HOMES, indirect=True)
def test_a_dry_run_leaves_nothing_behind(place: Place) -> None:
    before = place.files()
    assert place.dream("--dry-run") == place.proposed
    assert ("--apply writes all" if place.proposed else "Nothing to propose") in place.run("dream", "--dry-run").stderr
    assert place.dream("--dry-run", "--days", "2") == place.proposed[1:]
    place.run("dream", "--dry-run", "--apply", code=2)
    place.run("dream", "--days", "0", code=2)
    assert place.files() == before


@pytest.mark.parametrize("place", HOMES, indirect=True)
def test_all_is_written_once_as_entries_that_undo_takes_back(place: Place) -> None:
    before = place.files()
    assert place.dream() == place.dream() == place.proposed
    assert place.files().get(str(place.memory)) == before.get(str(place.memory))
    assert place.dream("--apply") == place.proposed
    assert place.dream() == place.dream("--days", "9999") == []
    entries = json.loads(place.run("log", "--json").stdout)["entries"]
    assert [(each["by"], each["path"]) for each in entries] == [("dream", "MEMORY.md")] * len(place.proposed)
    for each in entries:
        place.run("undo", each["id"])
    assert place.files().get(str(place.memory)) == before.get(str(place.memory))
    assert place.dream("--days", "9999") == []


@pytest.mark.parametrize("problem", ["read-only", "MEMORY.md", ""])
@pytest.mark.parametrize("place", ["en", "zh"], indirect=True)
def test_what_can_not_be_written_is_one_error(place: Place, monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    place.dream()
    before, create = place.files(), guarded._create

    def full(folder: int, name: str, *rest: Any, **more: Any) -> None:
        if problem in name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        create(folder, name, *rest, **more)

    monkeypatch.setattr(guarded, "_create", full)
    place.memory.chmod(0o444 if problem == "read-only" else 0o644)
    failed = place.run("dream", "--apply", "--json", code=1)
    assert failed.stderr.count("\n") == 1
    assert ("is read-only" if problem == "read-only" else "No space left on device") in failed.stderr
    after = place.files()
    assert {path: after[path] for path in before} == before
    assert not [path for path in after if path.endswith(".tmp")]
