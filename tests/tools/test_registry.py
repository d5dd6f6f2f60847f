"""Every mistake of a model becomes an error that it can act on; what it may call is what it is told."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.schema_agent import AgentSettings, ToolSettings
from clawbot.messages import ToolSpec
from clawbot.tools.arguments import Arguments, TypedTool
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Need, ToolOutcome
from clawbot.tools.registry import Toolbox, explain_malformed
from tests.tables import load_table
from tests.tools.conftest import box_of, call, nobody


async def yes(question: ApprovalQuestion) -> ApprovalAnswer:
    return ApprovalAnswer("once")


class OddTool:
    """A tool from outside that does what `act` says."""

    spec = ToolSpec("odd", "Odd.", {"type": "object", "properties": {}})
    read_only = True
    needs: frozenset[Need] | None = frozenset()

    def __init__(self, result: ToolOutcome | Exception) -> None:
        self._result = result

    def title(self, arguments: dict[str, Any]) -> str:
        return "odd"

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def test_schemas_are_flat_closed_and_described(toolbox: Toolbox) -> None:
    assert [spec.name for spec in toolbox.specs] == ["read", "write", "edit", "append", "list", "grep", "shell"]
    for spec in toolbox.specs:
        assert "$ref" not in json.dumps(spec.parameters)
        assert spec.parameters["type"] == "object"
        assert spec.parameters["additionalProperties"] is False
        assert all(item["description"] and "type" in item for item in spec.parameters["properties"].values())
    required = {spec.name: spec.parameters.get("required", []) for spec in toolbox.specs}
    assert required == {
        "read": ["path"],
        "write": ["path", "content"],
        "edit": ["path", "old", "new"],
        "append": ["path", "content"],
        "list": [],
        "grep": ["pattern"],
        "shell": ["command"],
    }


@pytest.mark.parametrize(
    ("name", "arguments", "ignored"),
    [
        ("read", {"path": "MEMORY.md", "description": "look"}, "`description`"),
        ("read", {"path": "MEMORY.md", "encoding": "utf-8", "explanation": 1}, "`encoding`, `explanation`"),
        ("shell", {"command": "echo hi", "description": "Say hi"}, "`description`"),
        ("write", {"path": "x.md", "content": "x", "reasoning": {}}, "`reasoning`"),
    ],
)
async def test_an_argument_that_changes_nothing_is_ignored_with_a_note(
    toolbox: Toolbox, name: str, arguments: dict[str, Any], ignored: str
) -> None:
    outcome = await toolbox.run(call(name, arguments), yes)
    assert not outcome.is_error
    assert outcome.text.endswith(f"(Ignored: {ignored}, no argument of {name}.)")


@pytest.mark.parametrize(
    ("name", "arguments"),
    load_table(__file__, "an_argument_that_means_something_is_refused"),
)
async def test_an_argument_that_means_something_is_refused(
    toolbox: Toolbox, name: str, arguments: dict[str, Any]
) -> None:
    outcome = await toolbox.run(call(name, arguments), yes)
    assert outcome.text.startswith("Unknown argument")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("raed", {}, "There is no tool 'raed'. Did you mean `read`? Available: read, write, edit"),
        ("read", {"pth": "x"}, "Unknown argument `pth`. Did you mean `path`? Valid arguments: path, offset, limit."),
        ("read", {}, "missing `path`"),
        ("read", {"path": "MEMORY.md", "offset": "first"}, "`offset`: Expected `int`, got `str`"),
        ("read", {"path": "MEMORY.md", "limit": 0}, "`limit`: Expected `int` >= 1"),
        ("read", {"path": None}, "`path`: Expected `str`, got `null`"),
        ("read", {"path": ["MEMORY.md"]}, "`path`: Expected `str`, got `array`"),
        ("shell", {"command": "  "}, "`command` is empty"),
        ("shell", {"command": "ls", "timeout": -1}, "`timeout`"),
    ],
)
async def test_wrong_calls(toolbox: Toolbox, name: str, arguments: dict[str, Any], said: str) -> None:
    outcome = await toolbox.run(call(name, arguments), nobody)
    assert outcome.is_error
    assert said in outcome.text


@pytest.mark.parametrize("arguments", [{"offset": "2", "limit": 1.0}, {"offset": 2, "limit": None}])
async def test_forgiving_conversion(toolbox: Toolbox, arguments: dict[str, Any]) -> None:
    outcome = await toolbox.run(call("read", {"path": "MEMORY.md", **arguments}), nobody)
    assert outcome.text.startswith("- prefers tabs")


async def test_malformed_json_shows_where(toolbox: Toolbox) -> None:
    outcome = await toolbox.run(call("read", malformed='{"path": "a" "b"}'), nobody)
    assert outcome.is_error
    assert 'character 13 (line 1): {"path": "a" >>>"b"}' in outcome.text
    assert "got an array" in explain_malformed("[1]")
    assert "nested too deeply" in explain_malformed("[" * 100_000)
    assert "nested too deeply" in explain_malformed('{"a":' * 70 + "1" + "}" * 70)


async def test_a_tool_that_breaks_does_not_break_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    outcome = await Toolbox([OddTool(RuntimeError("boom"))], 100).run(call("odd"), nobody)
    assert (outcome.is_error, outcome.text) == (True, "The tool odd failed: RuntimeError: boom")
    assert "boom" in caplog.text


async def test_output_is_capped_with_a_notice() -> None:
    text = (await Toolbox([OddTool(ToolOutcome("x" * 5000))], 1000).run(call("odd"), nobody)).text
    assert len(text) <= 1000
    assert "of 5,000 characters left out here. Ask for less." in text


async def test_half_characters_never_reach_the_transcript() -> None:
    outcome = await Toolbox([OddTool(ToolOutcome("a\udce9"))], 100).run(call("odd"), nobody)
    assert outcome.text == "a?"


def test_settings_take_tools_away_and_callers_add_some(workspace: Path) -> None:
    settings = AgentSettings(tools=ToolSettings(deny=["shell", "write"]))
    box = box_of(workspace, settings, [OddTool(ToolOutcome("x"))])
    assert [spec.name for spec in box.specs] == ["read", "edit", "append", "list", "grep", "odd"]


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    load_table(__file__, "titles_are_one_line"),
)
def test_titles_are_one_line(toolbox: Toolbox, name: str, arguments: dict[str, Any], title: str) -> None:
    assert toolbox.title(call(name, arguments)) == title


class NoArguments(Arguments, frozen=True):
    """None."""


class SlowChange(TypedTool[NoArguments]):
    """A change that waits in its thread until it is let go."""

    name = "slow"
    description = "Slow."
    read_only = False
    arguments = NoArguments

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.done = False

    def act(self, arguments: NoArguments) -> ToolOutcome:
        self.began.set()
        self.go_on.wait(100)
        self.done = True
        return ToolOutcome("done")


async def test_a_change_that_has_begun_is_completed_before_a_cancellation_goes_on() -> None:
    tool = SlowChange()
    running = asyncio.create_task(Toolbox([tool], 100).run(call("slow"), nobody))
    await asyncio.to_thread(tool.began.wait, 100)
    running.cancel()
    asyncio.get_running_loop().call_soon(tool.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tool.done
