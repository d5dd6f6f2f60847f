"""An agent searches the memory of others by the user's leave alone, and knows whose notes it was told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clawbot.context.privacy import privacy_of
from clawbot.errors import ClawbotError
from clawbot.memory.values import Hit, SearchResult
from clawbot.tools.memory import AgentMemory, memory_tools
from clawbot.tools.protocol import ToolOutcome
from clawbot.tools.registry import Toolbox
from tests.memory.fake_index import FakeIndex
from tests.tools.conftest import call, nobody

THEIRS = Hit("memory/2026-11-01.md", 2, 2, 0.9, "- 论文截止到周五", "memory")


def theirs(**more: Any) -> FakeIndex:
    return FakeIndex(SearchResult((THEIRS,), "hybrid", "offline", "m"), files={"MEMORY.md": "one\ntwo\n"}, **more)


def toolbox(
    own: FakeIndex, other: FakeIndex | None, *, output: int = 40_000, session: str = "agent:main:main"
) -> Toolbox:
    memories = {"main": AgentMemory(own, 4_000)} | (
        {"research": AgentMemory(other, 4_000)} if other is not None else {}
    )
    tools = memory_tools("main", memories, output, "auto", lambda: None)
    return Toolbox(tools, output).for_session(privacy_of(session))


async def ask(box: Toolbox, name: str = "memory_search", **arguments: Any) -> ToolOutcome:
    return await box.run(call(name, arguments), nobody)


async def test_without_leave_the_argument_does_not_exist() -> None:
    own = FakeIndex()
    box = toolbox(own, None)
    assert all("agent" not in spec.parameters["properties"] for spec in box.specs)
    for name, argument in (("memory_search", "query"), ("memory_get", "path")):
        outcome = await ask(box, name, agent="research", **{argument: "x"})
        assert outcome.is_error
        assert "Unknown argument `agent`" in outcome.text
    assert own.requests == []


async def test_the_argument_names_those_that_may_be_asked() -> None:
    for spec in toolbox(FakeIndex(), theirs()).specs:
        argument = spec.parameters["properties"]["agent"]
        assert (argument["enum"], argument["default"]) == (["main", "research"], "main")
        assert "agent" not in spec.parameters.get("required", [])


@pytest.mark.parametrize("named", [{}, {"agent": "main"}, {"agent": ""}, {"agent": None}])
async def test_ones_own_memory_is_asked_when_no_other_is_named(named: dict[str, Any]) -> None:
    own, other = FakeIndex(), theirs()
    outcome = await ask(toolbox(own, other), query="proxy", **named)
    assert outcome.structured["results"][0]["path"] == "memory/2026-10-02.md"
    assert "agent" not in outcome.structured
    assert (len(own.requests), other.requests) == (1, [])


async def test_the_memory_of_another_agent_is_asked_and_named_in_the_answer() -> None:
    own, other = FakeIndex(), theirs()
    box = toolbox(own, other)
    outcome = await ask(box, query="论文", agent="research")
    answer = outcome.structured
    assert (answer["agent"], answer["results"][0]["snippet"]) == ("research", "- 论文截止到周五")
    assert outcome.text.startswith("From the memory of agent research.\n")
    assert outcome.details["notes"] == ["From the memory of agent research."]
    assert outcome.details["results"]
    assert own.requests == []
    assert box.title(call("memory_search", {"query": "论文", "agent": "research"})) == (
        "memory_search 论文 (agent research)"
    )
    got = json.loads((await ask(box, "memory_get", path="MEMORY.md", agent="research")).text)
    assert (got["agent"], got["text"]) == ("research", "one\ntwo")


@pytest.mark.parametrize("name", ["ops", "Research", "../research", 7, ["research"]])
async def test_a_made_up_agent_is_refused(name: Any) -> None:
    own, other = FakeIndex(), theirs()
    outcome = await ask(toolbox(own, other), query="x", agent=name)
    assert outcome.is_error
    assert "Possible: main, research." in outcome.text
    assert own.requests == other.requests == []


async def test_what_keeps_the_other_memory_from_answering_is_told_with_its_name() -> None:
    broken = FakeIndex(ClawbotError("The index is damaged.", hint="clawbot memory index --force"))
    outcome = await ask(toolbox(FakeIndex(), broken), query="x", agent="research")
    answer = json.loads(outcome.text)
    assert (answer["agent"], answer["disabled"]) == ("research", True)
    assert not outcome.is_error


async def test_naming_the_agent_does_not_cut_through_the_answer() -> None:
    long = Hit("memory/long.md", 1, 9, 0.9, "word\n" * 700, "memory")
    other = FakeIndex(SearchResult((long,), "hybrid", "offline", "m"))
    for output in range(1_500, 1_560, 7):
        outcome = await ask(toolbox(FakeIndex(), other, output=output), query="x", agent="research")
        assert len(outcome.text) <= output
        assert outcome.text.startswith("From the memory of agent research.\n")
        assert outcome.structured["agent"] == "research"


@pytest.mark.parametrize(
    ("session", "own_sources"), [("agent:main:main", ("memory", "sessions")), ("agent:main:cron:daily", ("memory",))]
)
async def test_the_talks_of_another_agent_are_never_searched(session: str, own_sources: tuple[str, ...]) -> None:
    own, other = FakeIndex(), theirs()
    box = toolbox(own, other, session=session)
    await ask(box, query="x")
    await ask(box, query="x", agent="research")
    assert own.requests[0].sources == own_sources
    assert other.requests[0].sources == ("memory",)
