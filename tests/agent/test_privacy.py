"""Through a whole turn: what a model can learn of the user's notes, in sessions of each kind."""

from __future__ import annotations

import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.messages import Message, ToolCallBlock, ToolResultMessage
from clawbot.tools.memory import AgentMemory, memory_tools
from clawbot.tools.protocol import AnyTool
from clawbot.tools.registry import build_toolbox
from tests.agent.fakes import calls, says
from tests.agent.gate_host import House, PurposeModel, talk
from tests.memory.fake_index import FakeIndex

SECRET = "the vault's code is 4711 保险箱"
DOORS = [
    ("read", {"path": "MEMORY.md"}),
    ("read", {"path": "memory/2026-11-20.md"}),
    ("grep", {"pattern": "."}),
    ("memory_get", {"path": "MEMORY.md"}),
    ("memory_search", {"query": "vault"}),
]
REMEMBERED = {"memory_search", "memory_get"}


@pytest.fixture
def house(house: House) -> House:
    (house.workspace / "memory").mkdir()
    for name in ("MEMORY.md", "USER.md", "memory/2026-11-20.md"):
        (house.workspace / name).write_text(SECRET, encoding="utf-8")
    return house


def tools(house: House) -> tuple[AnyTool, ...]:
    """Those that change nothing, with memory."""
    index = FakeIndex(files={"MEMORY.md": SECRET})
    memory = memory_tools("main", {"main": AgentMemory(index, 4_000)}, 40_000, "auto", lambda: None)
    return build_toolbox(house.workspace, AgentSettings(), house.clock, Paths(find_home()), memory).read_only


def results(messages: tuple[Message, ...]) -> list[ToolResultMessage]:
    return [message for message in messages if isinstance(message, ToolResultMessage)]


async def tried(house: House, session: str) -> PurposeModel:
    """A model that tries every door, and is asked to save what was said."""
    asked = [ToolCallBlock(f"c{at}", name, dict(arguments)) for at, (name, arguments) in enumerate(DOORS)]
    brain = PurposeModel(chat=[calls(*asked), says("done")])
    agent = house.open(brain, *tools(house), session=session, window=64_000, memory_flush={"reset_min_tokens": 0})
    await talk(agent, "what is the code?")
    await talk(agent, "/new")
    await agent.close()
    return brain


@pytest.mark.parametrize(
    "session", ["agent:main:telegram:group:12", "agent:main:subagent:2b1c", "agent:main:discord:channel:9"]
)
async def test_where_the_user_is_not_alone_every_door_is_shut(house: House, session: str) -> None:
    brain = await tried(house, session)
    assert len(results(brain.of("chat")[1].messages)) == len(DOORS)
    for request in brain.requests:
        assert SECRET not in request.system
        assert "Memory Recall" not in request.system
        assert not any(SECRET in message.text for message in request.messages)
        assert REMEMBERED.isdisjoint(tool.name for tool in request.tools)
    assert len(brain.of("flush")) == 1


async def test_where_the_user_is_alone_all_doors_are_open(house: House) -> None:
    brain = await tried(house, "main")
    found = results(brain.of("chat")[1].messages)
    assert not any(result.is_error for result in found)
    assert all(SECRET in result.text for result in found[:4])
    assert SECRET in brain.requests[0].system
    assert all({tool.name for tool in request.tools} > REMEMBERED for request in brain.requests)


async def test_going_to_another_session_takes_its_policy(house: House) -> None:
    """One agent, one toolbox: the session decides, not what was open before."""
    brain = PurposeModel()
    agent = house.open(brain, *tools(house), window=64_000)
    await talk(agent, "hello")
    await agent.switch(agent.deps.store.open("agent:main:telegram:group:12"))
    await talk(agent, "大家好")
    first, second = brain.of("chat")
    assert {tool.name for tool in first.tools} > REMEMBERED
    assert REMEMBERED.isdisjoint(tool.name for tool in second.tools)
    assert SECRET not in second.system
