"""`clawbot skills list | info | check | enable | disable` as users and scripts see it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from tests.skills.shelf import write_skill


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["skills", *arguments])


def data(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def home() -> Path:
    """One skill that is ready, one that lacks something, one that is broken, one in the workspace."""
    home = Path(os.environ["CLAWBOT_HOME"])
    about = "description: 发布网站，当用户要求上线时使用。"
    write_skill(home / "skills" / "deploy", f"{about}\nlicense: MIT\nallowed-tools: Read Bash(git:*)")
    write_skill(home / "skills" / "needy", "requires: {bins: [no-such-bin], env: [NO_TOKEN]}")
    write_skill(home / "skills" / "broken", "description: []")
    write_skill(home / "workspace" / "skills" / "found")
    return home


def test_list_says_which_are_ready(home: Path) -> None:
    lines = invoke("list").stdout.splitlines()
    assert lines[0].split() == ["Status", "Skill", "Description", "Source"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["broken", "broken"],
        ["ready", "deploy"],
        ["off", "found"],
        ["missing", "needy"],
    ]
    assert lines[2].split() == ["ready", "deploy", "发布网站，当用户要求上线时使用。", "home"]
    assert "missing bin: no-such-bin, env: NO_TOKEN" in invoke("list", "-v").stdout
    assert [skill["name"] for skill in data("list", "--eligible")["skills"]] == ["deploy"]


def test_list_as_json(home: Path) -> None:
    found = data("list")
    assert (found["enabled"], found["workspaceDir"]) == (True, str(home / "workspace"))
    assert found["managedSkillsDir"] == str(home / "skills")
    assert found["skills"][2] == {
        "name": "found",
        "description": "What found does.",
        "source": "workspace",
        "folder": str(home / "workspace" / "skills" / "found"),
        "enabled": False,
        "eligible": False,
        "state": "off",
        "missing": {"bins": [], "anyBins": [], "env": [], "os": [], "python": []},
        "problem": "",
        "changed": False,
    }


def test_info(home: Path) -> None:
    text = invoke("info", "deploy").stdout
    for said in (
        "deploy: ready",
        "发布网站",
        "MIT",
        "the model and you (/skill)",
        "Read Bash(git:*) (its own claim; that",
    ):
        assert said in text
    assert "bin: no-such-bin (missing)" in invoke("info", "needy").stdout
    assert data("info", "deploy")["allowedTools"] == ["Read Bash(git:*)"]
    assert invoke("info", "deplo").stderr.strip() == "clawbot: There is no skill 'deplo'. Did you mean deploy?"


def test_check_says_what_to_do(home: Path) -> None:
    text = invoke("check").stdout
    assert text.startswith("1 of 4 ready: deploy\n")
    assert f"broken: {home}/skills/broken/SKILL.md line 3: description: expected what" in text
    assert "  fix: install no-such-bin, so that it is on PATH\n  fix: export NO_TOKEN=…\n" in text
    read = home / "workspace" / "skills" / "found" / "SKILL.md"
    assert f"  fix: read {read}, then clawbot skills enable found" in text
    assert {skill["name"]: skill["status"] for skill in data("check")["notReady"]} == {
        "broken": "broken",
        "found": "off",
        "needy": "missing",
    }


def test_check_says_what_was_put_right(home: Path) -> None:
    write_skill(home / "skills" / "pdf-1.0", "name: pdf\ndescription: Use when: asked")
    text = invoke("check").stdout
    assert "pdf-1.0: line 2: name: 'pdf' is called pdf-1.0, as its folder\n" in text
    assert "no YAML: mapping values are not allowed here" in text
    assert list(data("check")["odd"]) == ["pdf-1.0"]
    assert invoke("info", "pdf-1.0").stdout.count("form ") == 1


def test_a_skill_of_the_workspace_is_trusted_until_it_changes_or_is_disabled(home: Path) -> None:
    done = invoke("enable", "found")
    assert done.stdout == "found is on. It takes effect with the next message.\n"
    assert "where the agent writes. Read it first" in done.stderr
    assert data("info", "found")["eligible"]
    assert data("enable", "found")["changed"] is False
    write_skill(home / "workspace" / "skills" / "found", body="Another.")
    assert data("info", "found")["changed"]
    assert "off: its files changed since you enabled it" in invoke("check").stdout
    assert data("enable", "found")["changed"]
    write_skill(home / "workspace" / "skills" / "found", body="Yet another.")
    assert data("info", "found")["changed"]
    assert data("disable", "found")["file"] == str(home / "skills.json")
    assert not data("info", "found")["changed"]
    assert not data("info", "found")["enabled"]


def test_a_skill_of_the_user_goes_off_and_on(home: Path) -> None:
    assert invoke("disable", "deploy").stdout.startswith("deploy is off.")
    assert invoke("disable", "deploy").stdout == "deploy is off already.\n"
    assert not data("info", "deploy")["enabled"]
    assert invoke("enable", "deploy").exit_code == 0
    assert data("info", "deploy")["enabled"]


@pytest.mark.parametrize(
    ("name", "why"), [("broken", "expected what the skill does"), ("needy", "missing bin: no-such-bin")]
)
def test_what_can_not_be_used_is_not_enabled(home: Path, name: str, why: str) -> None:
    done = invoke("enable", name)
    assert done.exit_code == 1
    assert why in done.stderr
    assert not (home / "skills.json").exists()


def test_off_as_a_whole(home: Path) -> None:
    (home / "config.yaml").write_text("skills: {enabled: false, dirs: [nowhere]}\n")
    done = invoke("list")
    assert "ready" in done.stdout
    assert "Skills are all off" in done.stderr
    assert f"skills.dirs: there is no folder {home / 'nowhere'}" in done.stderr
    assert data("list", "--eligible")["skills"] == []


def test_names_are_completed(home: Path) -> None:
    found = BashComplete(root, {}, "clawbot", "_CLAWBOT_COMPLETE").get_completions(["skills", "enable"], "d")
    assert [(item.value, item.help) for item in found] == [("deploy", "发布网站，当用户要求上线时使用。")]
