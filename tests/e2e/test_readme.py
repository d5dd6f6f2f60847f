"""What README says to try without a key, typed as it is written there."""

from __future__ import annotations

import json
import re

import pytest

from clawbot.agent.slash import parse_shell
from tests.e2e.conftest import Machine
from tests.test_ci import ROOT

pytestmark = pytest.mark.e2e


def test_what_readme_says_to_try_works_without_a_key(machine: Machine) -> None:
    lines = re.findall(r"^\d\. (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    (remember, new, ask), (run, own), (search,) = (re.findall(r"`([^`]+)`", line) for line in lines[:3])
    replies = [machine.run("chat", "-p", text) for text in (remember, new, ask, search)]
    assert [reply.returncode for reply in replies] == [0, 0, 0, 0]
    assert "I prefer tabs" in replies[2].stdout
    assert "I prefer tabs" in replies[3].stdout
    events = [json.loads(line) for line in machine.run("chat", "-p", run, "--json").stdout.splitlines()]
    assert [event["arguments"] for event in events if event["type"] == "tool_started"] == [{"command": "ls"}]
    assert ["Not run" in event["output"] for event in events if event["type"] == "tool_finished"] == [True]
    shell = parse_shell(own)
    assert shell is not None
    assert (shell.command, shell.shared) == ("ls", False)
