"""What somebody adds to a file between two runs of the program is not lost by a `write` of the second one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e

SCRIPT = r"""
model: scripted
window: 32000
turns:
  - expect: {user: {contains: read it}}
    reply: {tool_calls: [{name: read, arguments: {path: NAME}}]}
  - expect: {tool_result: {contains: "by the user"}}
    reply: I have read it.
  - expect: {user: {contains: tidy up}}
    reply: {tool_calls: [{name: write, arguments: {path: ./NAME, content: "# tidy\n"}}]}
  - expect: {tool_result: RESULT}
    reply: It was tried.
  - expect: {user: {contains: merge it}}
    reply: {tool_calls: [{name: write, arguments: {path: NAME, content: "# tidy\n- 手写\n"}}]}
  - expect: {tool_result: {contains: "Replaced"}}
    reply: It is merged.
"""


@pytest.mark.parametrize("name", ["MEMORY.md", "memory/plan.md"])
@pytest.mark.parametrize("changed", [True, False])
def test_a_resumed_session_writes_what_it_has_seen(
    machine: Machine, script: Callable[[str], Path], name: str, *, changed: bool
) -> None:
    result = '{contains: "+- 手写"}' if changed else '{contains: "Replaced"}'
    machine.serve(script(SCRIPT.replace("NAME", name).replace("RESULT", result)))
    file = machine.workspace / name
    file.parent.mkdir(parents=True)
    file.write_text("- by the user\n", encoding="utf-8")
    assert "I have read it." in machine.run("chat", "-p", "read it").stdout
    if changed:
        file.write_text("- by the user\n- 手写\n", encoding="utf-8")
    second = machine.run("chat", "-p", "tidy up")
    assert "It was tried." in second.stdout, second.stderr
    assert file.read_text(encoding="utf-8") == ("- by the user\n- 手写\n" if changed else "# tidy\n")
    assert "It is merged." in machine.run("chat", "-p", "merge it").stdout
    assert file.read_text(encoding="utf-8") == "# tidy\n- 手写\n"
