"""A served script with litellm as the client: what is scripted arrives, also what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROBE = Path(__file__).parent / "litellm_probe.py"
WITHOUT_MCP = (
    "import runpy, sys; del sys.argv[0]; sys.modules['mcp'] = None; runpy.run_path(sys.argv[0], {}, '__main__')"
)
SCRIPT = """
turns:
  - reply:
      reasoning: [Hm, " well"]
      text: ["Hi ", there]
      tool_calls:
        - {name: read, arguments: {path: A.md}}
        - {name: write, arguments: {path: B.md, content: x y}}
      usage: {prompt: 100, completion: 7, cached: 50}
  - reply: {text: [a, b, c], fault: no_finish}
  - reply: {text: [a, b, c], fault: {drop: 2}}
  - reply: {fault: drop}
  - reply: {fault: 401}
  - reply: {fault: {status: 429, retry_after: 2}}
  - reply: {fault: 500}
  - reply: {fault: {overflow: openai}}
  - {expect: {user: bye}, reply: never}
"""
WHOLE, NO_FINISH, MID_DROP, DROP, KEY, LIMIT, SERVER, OVERFLOW, MISMATCH = range(9)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What litellm saw of each turn."""
    script = tmp_path_factory.mktemp("script") / "talk.yaml"
    script.write_text(SCRIPT)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(script.parent),
        "PYTHONPATH": str(ROOT),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
    }
    done = subprocess.run(
        # Without the package `mcp`, which litellm must not ask for: that is the extra `mcp`.
        [sys.executable, "-c", WITHOUT_MCP, str(PROBE), str(script)],
        capture_output=True,
        text=True,
        env=env,
        cwd=script.parent,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_text_reasoning_parallel_calls_and_usage_survive(seen: dict[str, Any]) -> None:
    turn = seen["turns"][WHOLE]

    assert (turn["reasoning"], turn["text"], turn["finish"]) == ("Hm well", "Hi there", "tool_calls")
    assert [(name, json.loads(arguments)) for name, arguments in turn["calls"].values()] == [
        ("read", {"path": "A.md"}),
        ("write", {"path": "B.md", "content": "x y"}),
    ]
    assert turn["usage"] == [100, 7, 50]


def test_a_missing_finish_reason_can_be_told(seen: dict[str, Any]) -> None:
    turn = seen["turns"][NO_FINISH]

    assert (turn["text"], turn["finish"]) == ("abc", None)


@pytest.mark.parametrize(
    ("turn", "errors"),
    [
        (MID_DROP, {"APIConnectionError", "InternalServerError"}),
        (DROP, {"APIConnectionError", "InternalServerError"}),
        (KEY, {"AuthenticationError"}),
        (LIMIT, {"RateLimitError"}),
        (SERVER, {"InternalServerError"}),
        (OVERFLOW, {"ContextWindowExceededError"}),
        (MISMATCH, {"BadRequestError"}),
    ],
)
def test_faults_are_litellms_errors(seen: dict[str, Any], turn: int, errors: set[str]) -> None:
    assert seen["turns"][turn]["error"] in errors


def test_what_came_before_a_drop_is_kept(seen: dict[str, Any]) -> None:
    assert seen["turns"][MID_DROP]["text"] == "ab"
    assert seen["turns"][DROP]["text"] == ""


def test_the_wait_of_a_rate_limit_is_told(seen: dict[str, Any]) -> None:
    assert seen["turns"][LIMIT]["retry_after"] == "2"


def test_a_mismatch_shows_both_sides(seen: dict[str, Any]) -> None:
    assert "expected (line 17): user to contain 'bye'" in seen["turns"][MISMATCH]["message"]
    assert "came: user: 'hello'" in seen["turns"][MISMATCH]["message"]


def test_the_script_sees_the_tools(seen: dict[str, Any]) -> None:
    assert [tool["function"]["name"] for tool in seen["tools"]] == ["read"]
