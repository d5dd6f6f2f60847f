"""Homes that earlier programs made are opened, searched and gone on with: configuration, transcripts, notes, index.

`homes/COMMIT.tar.gz` is what the program of that commit left after two talks (English and Chinese, the first ended by
`/new`), `hooks enable` and `memory index`, without its locks and its log; its settings have keys that were renamed.
"""

from __future__ import annotations

import json
import tarfile
from datetime import datetime
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e
HOMES = Path(__file__).parent / "homes"


@pytest.fixture(params=["85a88e5", "99862e3"])
def old(request: pytest.FixtureRequest, machine: Machine) -> Machine:
    """A machine with such a home."""
    with tarfile.open(HOMES / f"{request.param}.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not yet in 3.11.2, a must from 3.12 on
        archive.extractall(machine.home)
    return machine


def test_its_settings_and_switches_hold(old: Machine) -> None:
    assert old.run("config", "check").returncode == 0
    hooks = json.loads(old.run("hooks", "list", "--json").stdout)
    assert {hook["name"] for hook in hooks["hooks"] if hook["enabled"]} >= {"command-logger", "session-memory"}


def test_the_record_of_its_first_run_is_adopted_once_and_left_as_it_is(old: Machine) -> None:
    left = old.workspace / ".clawbot" / "workspace-state.json"
    there = json.loads(left.read_bytes())
    for text in (left.read_text(encoding="utf-8"), '{"seeded": {}}'):
        left.write_text(text, encoding="utf-8")
        assert old.run("chat", "-p", "hello", "--model", "offline").returncode == 0
        [record] = (old.state / "workspaces").iterdir()
        here = json.loads(record.read_bytes())
        assert here["seeded"] == there["seeded"]
        assert datetime.fromisoformat(here["bootstrapSeededAt"]) == datetime.fromisoformat(there["bootstrapSeededAt"])
        assert left.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("question", "line"), [("proxy port", "8443"), ("服务器", "法兰克福")])
def test_its_notes_and_talks_are_found(old: Machine, question: str, line: str) -> None:
    found = json.loads(old.run("memory", "search", question, "--json").stdout)
    assert line in json.dumps(found, ensure_ascii=False)
    listed = json.loads(old.run("sessions", "list", "--json").stdout)
    assert [row["turns"] for row in listed] == [2, 2]
    assert old.run("memory", "status", "--deep").returncode == 0
    assert old.run("doctor").returncode == 0


def test_its_talk_goes_on_in_the_screen(old: Machine) -> None:
    terminal = old.open("chat")
    terminal.wait_for("remember that I prefer tabs")
    terminal.send("what do I prefer?", "enter")
    terminal.wait_for("Your notes say:")
    terminal.send("ctrl+d")
    terminal.wait_end()
    transcripts = (old.state / "agents" / "main" / "sessions").glob("*.jsonl")
    talks = ["what do I prefer?" in path.read_text(encoding="utf-8") for path in transcripts]
    assert sorted(talks) == [False, True]
