"""Tools with hooks around them: a call that one refuses never runs, and all hear what came of the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import ToolFinished
from clawbot.hooks.discovery import discover
from clawbot.hooks.dispatch import Dispatcher
from clawbot.messages import ToolCallBlock
from tests.agent.fakes import FakeTool, calls, says
from tests.agent.gate_host import House, PurposeModel, talk
from tests.hooks.stage import places, settings, write_hook

CALL = ToolCallBlock("1", "look", {"where": "港口"})
REFUSE = """
    async def handle(event):
        if event.arguments["where"] == "港口":
            event.refuse("the harbour is closed")
"""
LISTEN = """
    async def handle(event):
        await event.hook.tell(f"{event.tool} {event.arguments['where']}: {event.output} {event.is_error}")
"""


@pytest.fixture
def look() -> FakeTool:
    return FakeTool("look", "ships")


async def hooked(folder: Path, look: FakeTool) -> tuple[Agent, Dispatcher]:
    """An agent with the hooks in `folder` whose model calls the tool."""
    house = House(folder)
    dispatcher = Dispatcher(lambda: discover(places(folder), settings()), house.clock, timeout=10)
    await dispatcher.load()
    plain = house.open(PurposeModel(), look)
    await asyncio.to_thread(plain.conversation.session.close)
    plain.deps.model.chat = PurposeModel(chat=[calls(CALL), says("done")])
    profile = structs.replace(plain.deps.profile, home=folder)
    deps = structs.replace(plain.deps, hooks=dispatcher, profile=profile)
    return Agent(deps, Conversation(deps.store, deps.store.open("main"), deps.clock)), dispatcher


@pytest.mark.parametrize("place", ["shipped", "home"])
async def test_a_call_that_a_hook_refuses_never_runs(tmp_path: Path, look: FakeTool, place: str) -> None:
    write_hook(tmp_path / place, "guard", REFUSE, head="events: tool:before")
    agent, dispatcher = await hooked(tmp_path, look)
    [finished] = [event for event in await talk(agent, "look") if isinstance(event, ToolFinished)]
    assert look.arguments == []
    assert finished.is_error
    assert "the harbour is closed" in finished.output
    await agent.close()
    await dispatcher.close(5)


async def test_a_hook_that_fails_refuses_nothing(tmp_path: Path, look: FakeTool) -> None:
    """List B 30."""
    write_hook(tmp_path / "home", "guard", "async def handle(event):\n    raise OSError", head="events: tool:before")
    agent, dispatcher = await hooked(tmp_path, look)
    await talk(agent, "look")
    assert look.arguments == [{"where": "港口"}]
    assert dispatcher.results["guard"].status == "failed"
    await agent.close()
    await dispatcher.close(5)


async def test_what_came_of_a_call_is_told(tmp_path: Path, look: FakeTool) -> None:
    write_hook(tmp_path / "home", "listener", LISTEN, head="events: tool:after")
    agent, dispatcher = await hooked(tmp_path, look)
    heard: list[str] = []
    agent.on_event = lambda event: heard.append(str(event))
    told = [str(event) for event in await talk(agent, "look")]
    await dispatcher.settled()
    assert sum("look 港口: ships False" in line for line in [*told, *heard]) == 1
    await agent.close()
    await dispatcher.close(5)
