"""MCP servers in the whole program: the first request has their tools, and the prompt stays as it is."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.events import CommandOutput, ToolFinished
from clawbot.messages import ToolCallBlock
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import Home, say

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
EVENING = datetime(2026, 11, 20, 21, 0, tzinfo=UTC)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    server = {"command": sys.executable, "args": [STAND_IN], "tools": {"echo": "allow"}}
    config: dict[str, Any] = {"mcp": {"servers": {"one": server}}, "agents": {"defaults": {"timezone": "UTC"}}}
    return Home(monkeypatch, EVENING, config)


async def test_the_first_request_of_a_single_turn_has_the_tools_and_each_next_one_the_same(home: Home) -> None:
    echo = ToolCallBlock("1", "mcp__one__echo", {"text": "世界"})
    home.model = PurposeModel(chat=[calls(echo, ToolCallBlock("2", "mcp__one__fail", {})), says("done")])
    runtime = await home.open()
    try:
        events = await say(runtime, "hello")
        [echoed, refused] = [event for event in events if isinstance(event, ToolFinished)]
        assert echoed.output.endswith("你好 世界")
        assert refused.output.startswith("Not run. Nobody can be asked here.")
        assert "`mcp.servers.one.tools: {fail: allow}` in the settings allows it." in refused.output
        await say(runtime, "again")
        seen = [request.tools for request in home.model.of("chat")]
        [said] = [event for event in await say(runtime, "/mcp") if isinstance(event, CommandOutput)]
        assert said.text.startswith("- **one** ready · 11 tools · python")
        assert "echo (allow), environment (ask)" in said.text
    finally:
        await runtime.close()

    home.model = PurposeModel()
    again = await home.open("other")
    try:
        await say(again, "hello")
        seen += [request.tools for request in home.model.of("chat")]
        assert seen == [seen[0]] * 4
        assert "mcp__one__echo" in {tool.name for tool in seen[0]}
        [said] = [event for event in await say(again, "/mcp") if isinstance(event, CommandOutput)]
        assert said.text.startswith("- **one** stopped · 11 tools")
    finally:
        await again.close()
