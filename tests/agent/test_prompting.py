"""What the model is shown: which sessions may see MEMORY.md, the files as they are now, the history in whole pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.agent.events import Notice
from clawbot.agent.prompting import Prompting, is_private_session
from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.protocol import ChatRequest, ModelInfo
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox
from tests.agent.fakes import FakeTool

MODEL = ModelInfo("fake/model")


@pytest.mark.parametrize(
    ("key", "private"),
    [
        ("agent:main:main", True),
        ("agent:main:work", True),
        ("agent:main:main-20261121-0216", True),
        ("agent:topic:main", True),
        ("agent:main:group", True),
        ("agent:main:telegram:direct:12", True),
        ("agent:main:telegram:group:12", False),
        ("agent:main:telegram:GROUP:12:topic:3", False),
        ("agent:main:discord:channel:9", False),
        ("agent:main:slack:channel:9:thread:1", False),
        ("agent:main:cron:daily", False),
        ("agent:main:subagent:2b1c", False),
        ("agent:main:hook:2b1c", False),
        ("hook:2b1c", False),
    ],
)
def test_only_where_the_user_is_alone_memory_may_be_shown(key: str, private: bool) -> None:
    """Reference sheet 1.7, BUG: groups and channels received MEMORY.md."""
    assert is_private_session(key) is private


async def prepared(workspace: Path, key: str = "agent:main:main", model: ModelInfo = MODEL) -> ChatRequest:
    told: list[Notice] = []
    tools = Toolbox([FakeTool("look")], 1000)
    prompting = Prompting(workspace, AgentSettings(), tools, SystemClock(), "second")
    return await prompting.for_turn(model, key, told.append)([UserMessage("hello")])


async def test_memory_is_shown_to_the_user_and_kept_from_groups(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("The user prefers tabs.")
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    assert "prefers tabs" in (await prepared(tmp_path)).system
    shared = (await prepared(tmp_path, "agent:main:telegram:group:12")).system
    assert "prefers tabs" not in shared
    assert "Be kind." in shared


@pytest.mark.parametrize(
    ("citations", "key", "named"),
    [
        ("auto", "agent:main:main", True),
        ("auto", "agent:main:telegram:group:12", False),
        ("on", "agent:main:telegram:group:12", True),
        ("off", "agent:main:main", False),
    ],
)
async def test_sources_are_named_where_the_settings_want_it(
    tmp_path: Path, citations: Citations, key: str, named: bool
) -> None:
    tools = Toolbox([FakeTool("memory_search")], 1000)
    prompting = Prompting(tmp_path, AgentSettings(), tools, SystemClock(), citations=citations)
    request = await prompting.for_turn(MODEL, key, lambda _: None)([UserMessage("hello")])
    assert ("`path:line`" in request.system) is named


async def test_the_prompt_names_agent_and_model_and_a_model_without_tools_gets_none(tmp_path: Path) -> None:
    request = await prepared(tmp_path)
    assert "agent=second | model=fake/model" in request.system
    assert [tool.name for tool in request.tools] == ["look"]
    assert "agent=second" not in request.system[: request.stable_prefix]
    assert (await prepared(tmp_path, model=ModelInfo("x/y", supports_tools=False))).tools == ()


async def test_an_edit_is_seen_by_the_next_turn_but_not_within_one(tmp_path: Path) -> None:
    agents = tmp_path / "AGENTS.md"
    agents.write_text("first rule")
    prompting = Prompting(tmp_path, AgentSettings(), Toolbox([], 1000), SystemClock())
    turn = prompting.for_turn(MODEL, "agent:main:main", lambda _: None)
    before = await turn([UserMessage("hello")])
    agents.write_text("second rule")
    assert (await turn([UserMessage("hello")])).system == before.system
    after = await prompting.for_turn(MODEL, "agent:main:main", lambda _: None)([UserMessage("hello")])
    assert "second rule" in after.system
    assert prompting.last_system == after.system


async def test_the_history_is_sent_in_whole_pairs(tmp_path: Path) -> None:
    prompting = Prompting(tmp_path, AgentSettings(), Toolbox([], 1000), SystemClock())
    call = AssistantMessage([ToolCallBlock("1", "look")], stop_reason="toolUse")
    stray = ToolResultMessage("7", "look", [TextBlock("whose?")])
    request = await prompting.for_turn(MODEL, "agent:main:main", lambda _: None)([UserMessage("go"), call, stray])
    last = request.messages[-1]
    assert isinstance(last, ToolResultMessage)
    assert (last.tool_call_id, last.is_error) == ("1", True)
    assert len(request.messages) == 3
