"""The choice of an agent."""

from __future__ import annotations

from pathlib import Path

from clawbot.agent.status_types import AgentInfo
from clawbot.tui.screens.choices import AgentsScreen
from tests.tui.screens.host import PENDING, Runtime, seen, showing, until


def agents() -> AgentsScreen:
    below = Runtime()
    below.agents = [
        AgentInfo("main", Path("/home/ada/.clawbot/workspace"), "openai/gpt-5", current=False),
        AgentInfo("work", Path("/home/ada/工作"), "offline", current=True),
        AgentInfo("study", Path("/home/ada/study"), "auto", current=False),
    ]
    return AgentsScreen(below)


async def test_each_agent_is_told_with_its_model_and_its_workspace() -> None:
    async with showing(agents()) as (host, pilot):
        await until(pilot, lambda: "study" in seen(host))
        assert "openai/gpt-5 · /home/ada/.clawbot/workspace" in seen(host)
        assert "● work" in seen(host)
        assert "this one · offline · /home/ada/工作" in seen(host)
        assert "only agent" not in seen(host)


async def test_another_agent_is_given_back() -> None:
    async with showing(agents()) as (host, pilot):
        await until(pilot, lambda: "study" in seen(host))
        await pilot.press("down", "enter")
        assert host.result == "study"


async def test_the_one_that_is_talked_to_changes_nothing() -> None:
    async with showing(agents()) as (host, pilot):
        await until(pilot, lambda: "study" in seen(host))
        await pilot.press("enter")
        assert host.result is None


async def test_with_one_agent_it_is_said_how_there_can_be_another() -> None:
    async with showing(AgentsScreen(Runtime()), (100, 24)) as (host, pilot):
        await until(pilot, lambda: "this is the only agent" in seen(host))
        assert "write `agents: {work: {}}` into /home/ada/.clawbot/config.yaml, then /agent work" in seen(host)
        await pilot.press("down", "enter")
        assert host.result is PENDING
