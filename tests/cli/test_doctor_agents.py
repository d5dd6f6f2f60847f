"""What the doctor says about several agents."""

from __future__ import annotations

import os
from pathlib import Path

from clawbot.cli.doctor import inspect_setup
from clawbot.cli.doctor_setup import agents
from clawbot.cli.doctor_storage import Findings


def look(config: str) -> Findings:
    home = Path(os.environ["CLAWBOT_HOME"])
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(config, encoding="utf-8")
    return agents(inspect_setup("main", ping=False))


def test_one_agent_is_nothing_to_tell() -> None:
    assert look("tui: {theme: dark}") == []


def test_agents_with_workspaces_of_their_own_are_fine() -> None:
    [finding] = look("agents: {research: {}, ops: {}}")
    assert (finding.state, finding.message) == ("ok", "main, research, ops: each has a workspace of its own")


def test_a_workspace_in_anothers_is_a_warning_that_says_what_to_do() -> None:
    nested = "research: {workspace: workspace/research}"
    [finding] = look(f"agents: {{{nested}}}")
    assert finding.state == "warning"
    assert "the workspace of research" in finding.message
    assert "is in that of main" in finding.message
    assert finding.fix is not None
    assert "agents.main.tools.agents: [research]" in finding.fix
    [allowed] = look(f"agents: {{{nested}, main: {{tools: {{agents: [research]}}}}}}")
    assert allowed.state == "ok"


def test_a_shared_workspace_is_said_to_be_one() -> None:
    [finding] = look("agents: {research: {workspace: workspace}}")
    assert finding.state == "ok"
    assert "main, research share the workspace" in finding.message


def test_settings_that_cannot_be_used_are_for_another_check() -> None:
    assert look("agents: {research: 5}") == []
