"""A command of the model in the sandbox, from the command line on, and what doctor says of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Machine
from tests.tools.sandbox.conftest import SECRET, top, walls, write

__all__ = ["top", "walls"]

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux alone")]

SCRIPT = """
turns:
  - reply:
      tool_calls:
        - {name: shell, arguments: {command: "cat ~/.ssh/id_x; echo tried > tried; echo x > ~/x"}}
  - reply: {text: Done.}
"""
ALLOWED = "agents: {defaults: {tools: {shell: {approval: allow}}}}\n"


@pytest.fixture
def seen_machine(machine: Machine, top: Path) -> Iterator[Machine]:
    """A machine whose home commands in the sandbox see: it is not in the folder for temporary files."""
    write(top / "home" / ".ssh" / "id_x")
    with ExitStack() as stack:
        yield Machine(top / "home", machine.folder, {**machine.env, "HOME": str(top / "home")}, stack)


def told(machine: Machine, script: Path, **env: str) -> tuple[str, list[str]]:
    """What came of the command, and the notices."""
    done = machine.run("chat", "-p", "try it", "--json", "--model", f"script:{script}", **env)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    [output] = [event["output"] for event in events if event["type"] == "tool_finished"]
    return output, [event["text"] for event in events if event["type"] == "notice"]


@pytest.mark.usefixtures("walls")
def test_a_command_in_the_sandbox_gets_no_key_and_says_that_it_ran_there(
    seen_machine: Machine, script: Callable[[str], Path]
) -> None:
    seen_machine.configure(ALLOWED)
    output, notices = told(seen_machine, script(SCRIPT))
    assert SECRET not in output
    assert "This ran in a sandbox" in output
    assert notices == []
    assert (seen_machine.workspace / "tried").exists()
    assert not (seen_machine.home / "x").exists()
    doctor = seen_machine.run("doctor", "--no-ping").stdout
    assert "shell commands run in bubblewrap" in doctor


PLANTING = """
turns:
  - reply:
      tool_calls:
        - name: shell
          arguments:
            command: >-
              mkdir -p .clawbot; ln -sfn ../../../.bashrc .clawbot/workspace-state.json; ln -s ../../own exports
  - reply: {text: Done.}
"""


@pytest.mark.usefixtures("walls")
def test_a_planted_link_leads_neither_a_start_nor_an_export_out(
    seen_machine: Machine, script: Callable[[str], Path]
) -> None:
    write(seen_machine.home / ".bashrc")
    (seen_machine.home / "own").mkdir()
    seen_machine.configure(ALLOWED)
    told(seen_machine, script(PLANTING))
    assert (seen_machine.workspace / "exports").readlink() == Path("../../own")
    assert (seen_machine.workspace / ".clawbot/workspace-state.json").is_symlink()
    [record] = (seen_machine.state / "workspaces").iterdir()
    record.unlink()
    assert seen_machine.run("chat", "-p", "hello", "--model", "offline").returncode == 0
    assert (seen_machine.home / ".bashrc").read_text(encoding="utf-8") == f"{SECRET}\n"
    assert record.exists()
    done = seen_machine.run("chat", "-p", "/export", "--model", "offline")
    assert "exports is a link or a file, not a folder" in done.stdout + done.stderr
    assert list((seen_machine.home / "own").iterdir()) == []


def test_without_one_the_command_runs_and_the_user_is_told_how_to_have_one(
    seen_machine: Machine, script: Callable[[str], Path]
) -> None:
    """With a program in place of Python that finds no bubblewrap."""
    (seen_machine.home / "sitecustomize.py").write_text(
        "from clawbot.tools.sandbox import bwrap\nbwrap.PROGRAM_FOLDERS = '/nowhere'\n", encoding="utf-8"
    )
    path = os.pathsep.join([str(seen_machine.home), str(ROOT)])
    seen_machine.configure(ALLOWED)
    output, [notice] = told(seen_machine, script(SCRIPT), PYTHONPATH=path)
    assert SECRET in output
    assert notice.startswith("Commands run without a sandbox: bubblewrap is not installed.")
    found = json.loads(seen_machine.run("doctor", "--json", "--no-ping", PYTHONPATH=path).stdout)["findings"]
    [finding] = [finding for finding in found if finding["check"] == "sandbox"]
    assert finding["state"] == "warning"
    assert "bubblewrap" in finding["fix"]

    seen_machine.configure(ALLOWED.replace("approval: allow", "approval: allow, sandbox: required"))
    output, _ = told(seen_machine, script(SCRIPT), PYTHONPATH=path)
    assert output.startswith("Not run: tools.shell.sandbox is required")
