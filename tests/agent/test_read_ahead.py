"""A model of this machine reads what the next request begins with while the user types."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, PromptRead
from clawbot.llm.errors import UnreachableError
from clawbot.llm.protocol import ChatRequest, LoadingPart, ReadingPart
from clawbot.llm.wire import Speller
from tests.agent.fakes import FakeModel, Stalling, says
from tests.agent.gate_host import House, lines, talk

LOCAL = "http://127.0.0.1:8080/v1"


def local_agent(house: House, model: FakeModel) -> Agent:
    agent = house.open(model)
    model.info = structs.replace(model.info, local="llama.cpp")
    return agent


def spelled(request: ChatRequest) -> tuple[object, object, str]:
    """What goes over the wire: the system prompt, the tools, the text of the messages."""
    body = Speller().body(request, "openai/m", LOCAL)
    system, *messages = body["messages"]
    return system, body["tools"], msgspec.json.encode(messages).decode()


async def test_what_was_read_is_the_beginning_of_the_first_request(house: House) -> None:
    (house.workspace / "MEMORY.md").write_text("The user likes tea.\n")
    house.daily.parent.mkdir()
    house.daily.write_text("## 09:00\n\nWe spoke of tea.\n")
    model = FakeModel([ReadingPart(43), *says("x")], says("hello"))
    agent, shown = local_agent(house, model), list[Event]()
    before = lines(agent)
    await agent.read_ahead(shown.append)
    assert shown == [PromptRead(), PromptRead(share=43)]
    assert lines(agent) == before
    assert (model.requests[0].max_tokens, agent.status.cost) == (1, None)
    await talk(agent, "good morning")
    ahead, first = (spelled(request) for request in model.requests)
    assert ahead[:2] == first[:2]
    assert "We spoke of tea." in ahead[2]
    assert first[2].startswith(ahead[2].rpartition(".")[0])


async def test_so_it_is_in_a_session_that_goes_on(house: House) -> None:
    model = FakeModel(says("hello"), says("x"), says("again"))
    agent = local_agent(house, model)
    await talk(agent, "good morning")
    await agent.read_ahead(lambda _: None)
    await talk(agent, "good evening")
    ahead, second = (spelled(request) for request in model.requests[1:])
    assert ahead[:2] == second[:2]
    assert "good morning" in ahead[2]
    assert second[2].startswith(ahead[2].rpartition(".")[0])


async def test_the_first_message_does_not_wait_for_it(house: House) -> None:
    stalling = Stalling()
    model = FakeModel([stalling], says("hello"))
    agent = local_agent(house, model)
    reading = asyncio.create_task(agent.read_ahead(lambda _: None))
    await stalling.reached.wait()
    await talk(agent, "good morning")
    await reading
    assert (len(model.requests), model.closed_streams) == (2, 2)


async def test_a_failure_is_left_to_the_next_message(house: House) -> None:
    agent = local_agent(house, FakeModel([LoadingPart("m"), UnreachableError("gone", provider="m")], says("hello")))
    await agent.read_ahead(lambda _: None)
    await talk(agent, "good morning")
    assert agent.conversation.messages[-1].text == "hello"


@pytest.mark.parametrize("local", ["", "llama.cpp"])
async def test_only_a_model_of_this_machine_reads_ahead(house: House, local: str) -> None:
    model = FakeModel(says("x"))
    agent = house.open(model)
    model.info = structs.replace(model.info, local=local)
    await agent.read_ahead(lambda _: None)
    assert len(model.requests) == bool(local)
