"""What the model is shown: which sessions may see MEMORY.md, and the files as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.agent.events import Notice
from clawbot.agent.prompting import Prompting, is_private_session
from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.prompt import SystemPrompt
from clawbot.llm.protocol import ModelInfo
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


WINDOW = 128_000


async def prepared(workspace: Path, key: str = "agent:main:main", model: ModelInfo = MODEL) -> SystemPrompt:
    told: list[Notice] = []
    tools = Toolbox([FakeTool("look")], 1000)
    prompting = Prompting(workspace, AgentSettings(), tools, SystemClock(), "second")
    return (await prompting.build(model, key, told.append, WINDOW)).prompt


async def test_memory_is_shown_to_the_user_and_kept_from_groups(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("The user prefers tabs.")
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    assert "prefers tabs" in (await prepared(tmp_path)).text
    shared = (await prepared(tmp_path, "agent:main:telegram:group:12")).text
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
    built = await prompting.build(MODEL, key, None, WINDOW)
    assert ("`path:line`" in built.prompt.text) is named


async def test_the_prompt_names_agent_and_model_behind_what_stays_the_same(tmp_path: Path) -> None:
    prompt = await prepared(tmp_path)
    assert "agent=second | model=fake/model" in prompt.text
    assert "agent=second" not in prompt.text[: prompt.stable_prefix]


async def test_an_edit_is_seen_when_the_prompt_is_built_again(tmp_path: Path) -> None:
    agents = tmp_path / "AGENTS.md"
    agents.write_text("first rule")
    assert "first rule" in (await prepared(tmp_path)).text
    agents.write_text("second rule")
    assert "second rule" in (await prepared(tmp_path)).text


async def test_workspace_files_leave_room_for_a_conversation_in_a_small_window(tmp_path: Path) -> None:
    """Reference sheet 6.5: the caps alone would take more than a window of 8k."""
    (tmp_path / "AGENTS.md").write_text("rule " * 4_000)
    prompting = Prompting(tmp_path, AgentSettings(), Toolbox([], 1000), SystemClock())
    small = await prompting.build(MODEL, "agent:main:main", None, 8_000)
    large = await prompting.build(MODEL, "agent:main:main", None, WINDOW)
    assert sum(len(file.text) for file in small.bootstrap.files) <= 6_000
    assert sum(len(file.text) for file in large.bootstrap.files) > 19_000


async def test_what_nobody_was_told_is_told_by_the_next_turn(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("rule " * 10_000)
    prompting = Prompting(tmp_path, AgentSettings(), Toolbox([], 1000), SystemClock())
    told: list[Notice] = []
    await prompting.build(MODEL, "agent:main:main", None, WINDOW)
    for _ in range(2):
        await prompting.build(MODEL, "agent:main:main", told.append, WINDOW)
    assert [notice.level for notice in told] == ["warning"]
