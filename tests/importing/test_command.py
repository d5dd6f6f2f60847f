"""`clawbot import` as it is typed, and where it is offered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clawbot.cli.doctor import inspect_setup
from clawbot.cli.doctor_setup import other_programs
from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home
from clawbot.importing.ledger import found_homes
from tests.importing import homes
from tests.importing.test_import import COUNTS

LABELS = {"openclaw": "OpenClaw", "pi": "pi", "claude-code": "Claude Code", "codex": "Codex"}
LABELS |= {"chatgpt": "ChatGPT", "claude-ai": "Claude.ai"}


def clawbot(*arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments])


@pytest.fixture
def home() -> Path:
    return Path.home()


@pytest.mark.few(4)
@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("language", list(homes.WORDS))
@pytest.mark.parametrize("program", list(homes.HOMES))
def test_import_list_show_search_continue_again_undo(program: str, language: str, damaged: bool, home: Path) -> None:
    words = homes.WORDS[language]
    path = homes.HOMES[program](home, words)
    if damaged:
        homes.damage(program, path)
    label = LABELS[program]
    counted = json.loads(clawbot("import", str(path), "--dry-run", "--json").stdout)
    assert counted["new"] == COUNTS[program]
    shown = clawbot("import", str(path))
    assert f"{COUNTS[program]} conversations imported" in shown.stdout
    (run,) = json.loads(clawbot("import", "list", "--json").stdout)
    assert f"clawbot import undo {run['id']}" in shown.stdout
    listed = json.loads(clawbot("sessions", "list", "--json").stdout)
    assert {each["ended"] for each in listed} == {"imported"}
    for each in listed:
        told = clawbot("sessions", "show", each["name"]).stdout
        assert all(said in told for pair in words for said in pair)
        assert f"\n{label} 2026-03-05" in told
        assert "\nClawbot" not in told
    export = home / "out.md"
    clawbot("sessions", "export", listed[0]["name"], "--output", str(export))
    assert f"## {label} · 2026-03-05" in export.read_text()
    found = clawbot("sessions", "search", words[0][1]).stdout
    assert words[0][1].rstrip(".。") in found
    assert f"({label}, 2026-03-05" in found
    again = clawbot("import", str(path)).stdout
    assert "0 conversations imported" in again
    assert "take it back" not in again
    continued = clawbot("chat", "-p", "hello", "--session", listed[0]["name"])
    assert continued.exit_code == 0, continued.stderr
    told = clawbot("sessions", "show", listed[0]["name"]).stdout
    assert "\nClawbot" in told[told.index("hello") :]
    undone = clawbot("import", "undo", run["id"])
    (stays,) = (line for line in undone.stdout.splitlines() if line.startswith("Stays"))
    assert stays.endswith("it was continued here")
    left = json.loads(clawbot("sessions", "list", "--json").stdout)
    assert [each["sessionId"] for each in left] == [listed[0]["sessionId"]]


def test_what_cannot_be_imported_or_undone_is_one_line_with_a_hint(home: Path) -> None:
    for arguments in (("import", str(home)), ("import", str(home / "gone")), ("import", "undo", "x")):
        result = clawbot(*arguments)
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1
    assert clawbot("import").exit_code in (0, 2)
    assert "PATH" in clawbot("import", "--help").stdout


def test_jobs_come_switched_off_and_settings_and_skills_are_named(home: Path) -> None:
    path = homes.openclaw(home)
    homes.put_lines(path / "skills/pdf/SKILL.md", [b"---\nname: pdf\n---\n"])
    (path / "openclaw.json").write_text("{}")
    counted = clawbot("import", str(path), "--dry-run").stdout
    assert "would be copied to the workspace" in counted
    assert "1 job would be added, switched off" in counted
    assert "feeds" not in clawbot("schedule", "list").stdout
    shown = clawbot("import", str(path)).stdout
    for words in ("1 job added, switched off", "skills (1)", "clawbot config check"):
        assert words in shown
    (run,) = json.loads(clawbot("import", "list", "--json").stdout)
    jobs = {each["name"]: each["enabled"] for each in json.loads(clawbot("schedule", "list", "--json").stdout)}
    assert jobs["feeds"] is False
    assert "there is a job of this name" in clawbot("import", str(path)).stdout
    assert "1 job." in clawbot("import", "undo", run["id"]).stdout
    assert "feeds" not in clawbot("schedule", "list").stdout
    assert not (Paths(find_home()).skills / "pdf").exists()


def test_homes_are_offered_until_they_were_imported_or_dismissed(home: Path) -> None:
    for make in (homes.openclaw, homes.pi, homes.claude_code, homes.codex):
        make(home)
    (home / ".clawdbot").symlink_to(home / ".openclaw")
    paths = Paths(find_home())
    found = {each.label: (each.count, each.command) for each in found_homes(paths)}
    assert found["OpenClaw"][1] == "clawbot import ~/.openclaw"
    assert found["Claude Code"] == (3, "clawbot import ~/.claude")
    assert "clawbot import ~/.openclaw" in {each.fix for each in other_programs(inspect_setup("main", ping=False))}
    clawbot("import", str(home / ".codex"))
    assert "Codex" not in {each.label for each in found_homes(paths)}
    clawbot("import", "dismiss")
    assert found_homes(paths) == []


def test_a_home_that_cannot_be_read_is_no_home(home: Path) -> None:
    (home / ".openclaw").write_text("a file")
    (home / ".claude").symlink_to(home / "nowhere")
    homes.pi(home)
    (home / ".pi/agent").chmod(0)
    try:
        found_homes(Paths(find_home()))
    finally:
        (home / ".pi/agent").chmod(0o700)
