"""What `tools.shell.allow` lets run in `chat -p`, where nobody can be asked: the command it names, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.tools.test_repositories import PARTS, make_bare

pytestmark = pytest.mark.e2e

GIT_STATUS: dict[str, object] = {"name": "shell", "arguments": {"command": "git status"}}


def outputs(machine: Machine, script: Callable[[str], Path], calls: list[dict[str, object]]) -> list[str]:
    """What a model that makes these calls one after the other gets back."""
    turns: list[object] = [{"reply": {"tool_calls": [call]}} for call in calls]
    path = script(json.dumps({"turns": [*turns, {"reply": {"text": "Done."}}]}))
    done = machine.run("chat", "-p", "hello", "--json", "--model", f"script:{path}")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event["output"] for event in events if event["type"] == "tool_finished"]


@pytest.mark.parametrize("rule", ["git status*", "git status <reading>", "git status"])
def test_the_calls_that_made_a_repository_of_the_workspace(
    machine: Machine, script: Callable[[str], Path], rule: str
) -> None:
    machine.configure(json.dumps({"agents": {"defaults": {"tools": {"shell": {"allow": [rule]}}}}}))
    names = ("HEAD", "config", "objects/.k", "refs/.k")
    writes: list[dict[str, object]] = [
        {"name": "write", "arguments": {"path": name, "content": PARTS[name].format(root=machine.workspace)}}
        for name in names
    ]
    refused, *others, status = outputs(machine, script, [*writes, GIT_STATUS])
    assert "HEAD is refused" in refused
    assert all("Created" in other for other in others)
    # Outside a repository of the workspace's own a rule for reading and a pattern ask; the exact one runs.
    assert ("not a git repository" if rule == "git status" else "Nobody can be asked") in status
    assert not (machine.workspace / "PWNED").exists()


def test_a_repository_that_was_there_runs_nothing(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.configure("agents: {defaults: {tools: {shell: {allow: [git status]}}}}")
    machine.workspace.mkdir(parents=True, mode=0o700)
    make_bare(machine.workspace)
    (status,) = outputs(machine, script, [GIT_STATUS])
    assert "safe.bareRepository" in status
    assert not (machine.workspace / "PWNED").exists()


def test_options_that_write_are_refused_where_nobody_can_be_asked(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.configure('agents: {defaults: {tools: {shell: {allow: ["sort *", "git *"]}}}}')
    commands = ("sort -o PWNED MEMORY.md", "git init PWNED", "sort MEMORY.md; touch PWNED", "sort missing.md")
    *refused, ran = outputs(
        machine, script, [{"name": "shell", "arguments": {"command": command}} for command in commands]
    )
    assert all("tools.shell.allow" in output for output in refused)
    assert "exit 2" in ran
    assert not (machine.workspace / "PWNED").exists()


def test_the_user_is_told_what_an_older_pattern_means(machine: Machine) -> None:
    machine.configure('agents: {defaults: {tools: {shell: {allow: ["git status*"]}}}}')
    for command in (["config", "check"], ["doctor", "--no-ping"]):
        done = machine.run(*command)
        assert "`git status*` covers what only reads" in done.stdout + done.stderr
