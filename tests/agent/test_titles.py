"""The title that the model gives a session in the background: when it is asked for, what is taken, and that nobody ever
waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, SessionTitled
from clawbot.agent.idle_requests import MAX_TRIES
from clawbot.llm.errors import UnreachableError
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import FinalPart
from clawbot.messages import AssistantMessage, Cost, TextBlock, ToolCallBlock, Usage
from clawbot.sessions.entries import SessionInfoEntry
from clawbot.text.naming import TITLE_QUESTION
from tests.agent.fakes import Answer, Stalling, calls, says
from tests.agent.gate_host import House, PurposeModel, lines, talk

UNREACHABLE: Answer = [UnreachableError("The server is gone.", provider="fake")]
CALLING = calls(ToolCallBlock("c1", "read", {"path": "MEMORY.md"}), text="Passport renewal")
ASKED = "how do I renew my passport before June?"


def given(agent: Agent) -> list[dict[str, Any]]:
    """The names in the transcript."""
    return [line for line in lines(agent) if line["type"] == "session_info"]


def shown(agent: Agent) -> str:
    """The title in the list of sessions."""
    return str(agent.deps.store.list()[0].title)


async def test_the_first_exchange_about_something_is_given_a_title(house: House) -> None:
    model = PurposeModel(title=[says("Passport renewal before June")])
    agent = house.open(model, titles=True)
    heard: list[Event] = []
    agent.listen(heard.append)
    await talk(agent, "hi")
    await agent.titles.settled()
    assert model.purposes == ["chat"]  # nothing to name yet
    await talk(agent, ASKED)
    await agent.titles.settled()
    await talk(agent, "and what does it cost?")
    await agent.titles.settled()
    assert model.purposes == ["chat", "chat", "title", "chat"]
    assert [(line["name"], line["by"]) for line in given(agent)] == [("Passport renewal before June", "fake/model")]
    assert shown(agent) == agent.status.title == "Passport renewal before June"
    assert heard == [SessionTitled(session_id=agent.conversation.session_id, title="Passport renewal before June")]
    assert not any(line.get("message", {}).get("content") == TITLE_QUESTION for line in lines(agent))


async def test_the_question_begins_as_the_next_turn_does(house: House) -> None:
    model = PurposeModel(title=[says("Passport renewal")])
    agent = house.open(model, titles=True)
    await talk(agent, ASKED)
    await agent.titles.settled()
    await talk(agent, "thanks a lot")
    (question,) = model.of("title")
    after = model.of("chat")[-1]
    assert question.messages[-1].text == TITLE_QUESTION
    assert question.messages[:-1] == after.messages[: len(question.messages) - 1]
    assert len(question.messages) == len(after.messages)
    assert (question.system, question.tools, question.zone) == (after.system, after.tools, after.zone)


async def test_a_title_is_kept_by_a_start_and_by_an_index_made_anew(house: House) -> None:
    agent = house.open(PurposeModel(title=[says("护照续签")]), titles=True)
    await talk(agent, "我的护照要过期了，怎么续签？")
    await agent.titles.settled()
    await agent.close(hasty=True)
    assert shown(agent) == "护照续签"
    (house.folder / "sessions" / "sessions.json").unlink()
    again = house.open(PurposeModel(), titles=True)
    assert shown(again) == again.status.title == "护照续签"
    await talk(again, "还要多久？")
    await again.titles.settled()
    assert shown(again) == "护照续签"


async def test_the_title_of_the_user_stands(house: House) -> None:
    waits = asyncio.Event()

    async def answer_later() -> None:
        await waits.wait()

    late: Answer = [answer_later, *says("Passport renewal")]
    model = PurposeModel(title=[late])
    agent = house.open(model, titles=True)
    await talk(agent, ASKED)
    await talk(agent, "/rename Trip to Rome")
    waits.set()
    await agent.titles.settled()
    assert shown(agent) == "Trip to Rome"
    await talk(agent, "and the visa?")
    await agent.titles.settled()
    assert len(model.of("title")) == 1
    assert [line["name"] for line in given(agent)] == ["Trip to Rome"]


async def test_the_user_may_take_his_title_away_again(house: House) -> None:
    agent = house.open(PurposeModel(title=[says("Passport renewal")]), titles=True)
    await talk(agent, ASKED)
    await agent.titles.settled()
    await talk(agent, "/rename Rome")
    assert shown(agent) == "Rome"
    await agent.conversation.rename("")
    assert shown(agent) == "Passport renewal"


async def test_the_next_session_has_a_title_of_its_own(house: House) -> None:
    agent = house.open(PurposeModel(title=[says("Passport renewal"), says("Sourdough bread")]), titles=True)
    await talk(agent, ASKED)
    await agent.titles.settled()
    await talk(agent, "/new")
    assert agent.status.title == ""
    await talk(agent, "how do I bake sourdough bread?")
    await agent.titles.settled()
    assert {summary.title for summary in agent.deps.store.list()} == {"Passport renewal", "Sourdough bread"}


async def test_junk_is_no_title_and_asked_for_a_few_times_only(house: House) -> None:
    model = PurposeModel(title=[says("NO_REPLY"), UNREACHABLE, CALLING, says("Too late")])
    agent = house.open(model, titles=True)
    for number in range(MAX_TRIES + 2):
        await talk(agent, f"{ASKED} {number}")
        await agent.titles.settled()
    assert len(model.of("title")) == MAX_TRIES
    assert given(agent) == []
    assert shown(agent).startswith("how do I renew my passport")


@pytest.mark.parametrize("next_text", ["and what does it cost?", "/new", "/compact"])
async def test_nobody_waits_for_a_title(house: House, next_text: str) -> None:
    stalls = Stalling()
    model = PurposeModel(title=[[stalls]])
    agent = house.open(model, titles=True)
    await talk(agent, ASKED)
    await stalls.reached.wait()
    await talk(agent, next_text)
    await agent.titles.close()
    assert model.closed_streams == len(model.requests)
    assert given(agent) == []


async def test_the_end_of_the_program_does_not_wait_either(house: House) -> None:
    stalls = Stalling()
    model = PurposeModel(title=[[stalls]])
    agent = house.open(model, titles=True)
    await talk(agent, ASKED)
    await stalls.reached.wait()
    await agent.close()
    assert model.closed
    assert model.closed_streams == len(model.requests)


async def test_what_it_costs_is_counted_but_is_no_size_of_the_context(house: House) -> None:
    usage = Usage(input=900, output=7, total_tokens=907, cost=Cost(total=0.25))
    paid: Answer = [FinalPart(AssistantMessage([TextBlock("Passport renewal")], usage=usage))]
    agent = house.open(PurposeModel(title=[paid]), titles=True)
    await talk(agent, ASKED)
    before = agent.status.tokens
    await agent.titles.settled()
    assert agent.status.cost == 0.25
    assert agent.status.tokens == before


async def test_a_secret_of_the_talk_is_no_part_of_a_title(house: House) -> None:
    model = PurposeModel(title=[says("Password tr0ub4dor&3 for the router")])
    agent = house.open(model, titles=True)
    await talk(agent, "the password of my router is tr0ub4dor&3")
    await agent.titles.settled()
    assert len(model.of("title")) == 1
    assert given(agent) == []


async def test_forgetting_takes_the_title(house: House) -> None:
    agent = house.open(PurposeModel(title=[says("Passport renewal")]), titles=True)
    await talk(agent, ASKED)
    await agent.titles.settled()
    await agent.close(hasty=True)
    agent.deps.store.bury(lambda name: "Passport" in name)
    assert shown(agent).startswith("how do I renew")


async def test_titles_may_be_off(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model)
    await talk(agent, ASKED)
    await agent.titles.settled()
    assert model.purposes == ["chat"]


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Can you help me plan a trip to Rome in May?", "Plan a trip to Rome in May"),
        ("你好，我想了解数据库备份方案怎么做？", "数据库备份方案怎么做"),
    ],
)
async def test_the_offline_model_gives_titles_too(house: House, said: str, title: str) -> None:
    agent = house.open(PurposeModel(), titles=True)
    agent.deps.model.chat = OfflineModel(house.clock)
    await talk(agent, said)
    await agent.titles.settled()
    assert [(line["name"], line["by"]) for line in given(agent)] == [(title, "offline")]
    entries = agent.conversation.session.transcript.entries
    assert [entry.by for entry in entries if isinstance(entry, SessionInfoEntry)] == ["offline"]


async def test_an_export_is_headed_by_the_title(house: House) -> None:
    agent = house.open(PurposeModel(title=[says("Passport renewal")]), titles=True)
    await talk(agent, ASKED)
    await agent.titles.settled()
    path = await agent.export("md", house.folder / "talk.md")
    assert path.read_text(encoding="utf-8").startswith("# Passport renewal\n")
    await talk(agent, "/rename Mine")
    again = await agent.export("md", house.folder / "again.md")
    assert again.read_text(encoding="utf-8").startswith("# Mine\n")
