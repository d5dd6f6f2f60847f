"""What the model is shown: what the session may know of the workspace, as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import Struct, structs

from clawbot.agent import request_builder
from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import MemoryAccess
from clawbot.agent.events import ContextUsed, Event, Notice
from clawbot.agent.prompt_builder import PromptBuilder
from clawbot.config.schema import MemorySettings
from clawbot.context.bootstrap import BootstrapFile, NamedText
from clawbot.context.prompt import SystemPrompt
from clawbot.llm.tokens import count_now
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox
from tests.agent.fakes import FakeTool, agent_deps, says
from tests.agent.gate_host import House, PurposeModel, compactions, talk

WINDOW = 128_000


async def prepared(workspace: Path, key: str = "agent:main:main") -> SystemPrompt:
    told: list[Event] = []
    tools = Toolbox([FakeTool("look")], 1000)
    prompting = PromptBuilder(agent_deps(workspace, tools=tools, agent_id="second"))
    return (await prompting.build(key, told.append, WINDOW)).prompt


async def test_memory_is_shown_to_the_user_and_kept_from_groups(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("The user prefers tabs.")
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    assert "prefers tabs" in (await prepared(tmp_path)).text
    shared = (await prepared(tmp_path, "agent:main:telegram:group:12")).text
    assert "prefers tabs" not in shared
    assert "Be kind." in shared


@pytest.mark.parametrize(
    ("key", "told"), [("agent:main:main", True), ("agent:main:cron:x", True), ("agent:main:telegram:group:12", False)]
)
async def test_nobody_is_sent_to_notes_that_they_may_not_know(tmp_path: Path, key: str, told: bool) -> None:
    tools = Toolbox([FakeTool("memory_search", needs=frozenset({"notes"})), FakeTool("grep")], 1000)
    built = await PromptBuilder(agent_deps(tmp_path, tools=tools)).build(key, None, WINDOW)
    assert ("## Memory Recall" in built.prompt.text) is told
    assert ("Today's notes" in built.prompt.text) is told
    assert ([spec.name for spec in built.inputs.tools] == ["memory_search", "grep"]) is told
    assert "grep" in [spec.name for spec in built.inputs.tools]


class Named(Struct, frozen=True):
    name: str
    text: str


async def test_hooks_change_the_files_within_what_the_session_may_know(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("The user prefers tabs.")

    async def hooks(files: Sequence[BootstrapFile]) -> Sequence[NamedText]:
        return [*files, Named("MEMORY.md", "Smuggled."), Named("packages/a/AGENTS.md", "Tests first.")]

    prompting = PromptBuilder(agent_deps(tmp_path), hooks)
    built = await prompting.build("agent:main:telegram:group:12", None, WINDOW)
    assert "Smuggled." not in built.prompt.text
    assert "## packages/a/AGENTS.md\n\n```text\nTests first.\n```" in built.prompt.text


@pytest.mark.parametrize(
    ("citations", "key", "named"),
    [
        ("auto", "agent:main:main", True),
        ("auto", "agent:main:cron:daily", False),
        ("on", "agent:main:cron:daily", True),
        ("off", "agent:main:main", False),
    ],
)
async def test_sources_are_named_where_the_settings_want_it(
    tmp_path: Path, citations: Citations, key: str, named: bool
) -> None:
    tools = Toolbox([FakeTool("memory_search")], 1000)
    memory = MemoryAccess(settings=MemorySettings(citations=citations))
    prompting = PromptBuilder(structs.replace(agent_deps(tmp_path, tools=tools), memory=memory))
    built = await prompting.build(key, None, WINDOW)
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
    prompting = PromptBuilder(agent_deps(tmp_path))
    small = await prompting.build("agent:main:main", None, 8_000)
    large = await prompting.build("agent:main:main", None, WINDOW)
    assert sum(len(file.text) for file in small.inputs.bootstrap.files) <= 6_000
    assert sum(len(file.text) for file in large.inputs.bootstrap.files) > 19_000


async def test_what_nobody_was_told_is_told_by_the_next_turn(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("rule " * 10_000)
    prompting = PromptBuilder(agent_deps(tmp_path))
    told: list[Event] = []
    await prompting.build("agent:main:main", None, WINDOW)
    for _ in range(2):
        await prompting.build("agent:main:main", told.append, WINDOW)
    assert [event.level for event in told if isinstance(event, Notice)] == ["warning"]


# Of each text: whether the window is large enough for an estimate.
TEXTS = [
    ("hello", 128_000, True),
    ("部署在周二。" * 100, 128_000, True),
    ("0f3a9c" * 5_000, 400_000, True),
    ("hello", 8_000, False),
    ("deploys go out on Tuesdays, " * 4_000, 128_000, False),
    ("部署在周二。" * 4_000, 128_000, False),
    ("0f3a9c" * 20_000, 128_000, False),
]


def used(events: list[Event]) -> int:
    return [event.tokens for event in events if isinstance(event, ContextUsed)][-1]


@pytest.mark.parametrize(("text", "window", "estimated"), TEXTS)
async def test_a_turn_counts_where_an_estimate_could_pass_a_mark(
    house: House, monkeypatch: pytest.MonkeyPatch, text: str, window: int, estimated: bool
) -> None:
    brain = PurposeModel(chat=[says("fine")])
    usual = house.open(brain, window=window)
    exact = used(await talk(usual, text))
    deps = structs.replace(usual.deps, front=structs.replace(usual.deps.front, estimates=True))
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return count_now(text)

    monkeypatch.setattr(request_builder, "count_now", count)
    agent = Agent(deps, Conversation(deps.store, deps.store.open("other"), deps.clock))
    events = await talk(agent, text)
    assert (not counted) is estimated
    # A character is one token at most, four count as one and 15 %.
    assert exact / 3.5 < used(events) < exact * 1.3 if estimated else used(events) == exact
    assert compactions(agent) == compactions(usual) == []
    await agent.close(hasty=True)
