"""A fork in the chat: where it goes on, that the other conversation stays, and that memory is offered all once."""

from __future__ import annotations

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import CommandOutput, SessionChanged
from clawbot.messages import UserMessage
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.text import UserWords, last_texts
from tests.agent.gate_host import House, PurposeModel, lines, notes, offers, talk
from tests.agent.test_rewind import entry_of, said

LONG = "harbour " * 300


async def test_the_command_goes_on_in_the_fork_and_leaves_the_other_as_it_is(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model)
    for text in ("one", "two"):
        await talk(agent, text)
    old = agent.conversation.session.transcript.path
    before, session_id = old.read_bytes(), agent.conversation.session_id
    events = await talk(agent, "/fork Another way")
    changed = next(event for event in events if isinstance(event, SessionChanged))
    told = next(event for event in events if isinstance(event, CommandOutput))
    assert (changed.reason, changed.session_id) == ("fork", agent.conversation.session_id)
    assert told.data == {"sessionKey": changed.session_key, "sessionId": changed.session_id}
    assert "**Another way**" in told.text
    assert agent.conversation.session_id != session_id
    assert agent.status.title == "Another way"
    await talk(agent, "three")
    assert said(agent) == ["one", "two", "three"]
    assert old.read_bytes() == before
    one, two = model.of("chat")[1], model.of("chat")[2]
    # The provider has read the beginning already.
    assert (two.system, two.tools) == (one.system, one.tools)
    assert two.messages[: len(one.messages)] == one.messages
    again = house.open(PurposeModel(), session=session_id)
    assert said(again) == ["one", "two"]


async def test_a_fork_at_a_message_begins_before_it(house: House) -> None:
    agent = house.open(PurposeModel())
    for text in ("one", "two", "three"):
        await talk(agent, text)
    changed, text = await agent.fork(at=entry_of(agent, "two"))
    assert (text, said(agent)) == ("two", ["one"])
    assert agent.conversation.session_id == changed.session_id
    assert agent.conversation.session.record.turns == 1
    await talk(agent, "two, but otherwise")
    assert said(agent) == ["one", "two, but otherwise"]


async def test_what_can_not_be_forked_changes_nothing(house: House) -> None:
    agent = house.open(PurposeModel())
    await talk(agent, "one")
    before = agent.conversation.session_id
    with pytest.raises(SessionStoreError):
        await agent.fork(at="nothing")
    assert agent.conversation.session_id == before
    await talk(agent, "two")
    assert said(agent) == ["one", "two"]


async def test_memory_is_offered_the_talk_before_by_the_other_session_alone(house: House) -> None:
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model, window=128_000)
    for number in range(4):
        await talk(agent, f"turn {number}: {LONG}")
    old = agent.conversation.session_id
    await agent.fork()
    assert agent.ended.is_busy
    await agent.ended.settled()
    assert house.daily.read_text().count("deep") == 1
    assert not agent.will_flush
    flushes = len(model.of("flush"))
    await talk(agent, f"of the fork alone: {LONG * 4}")
    await agent.close()
    (own,) = [offer for offer in offers(agent) if offer.phase == "end"]
    asked = [message.text for message in model.of("flush")[flushes].messages if isinstance(message, UserMessage)]
    assert own.messages == 2
    assert any("of the fork alone" in text for text in asked)
    again = house.open(PurposeModel(), session=old, window=128_000)
    assert not again.will_flush
    assert said(again)[-1].startswith("turn 3")


async def test_what_memory_had_is_known_however_the_fork_goes_on(house: House) -> None:
    agent = house.open(PurposeModel(flush=notes("- the harbour is deep")), window=128_000)
    for number in range(4):
        await talk(agent, f"turn {number}: {LONG}")
    at = next(line["id"] for line in lines(agent) if "turn 2" in str(line.get("message", {}).get("content")))
    await agent.fork(at=at)
    assert agent._turns.gate.unoffered == []
    await talk(agent, "/compact")
    assert offers(agent) == []
    await talk(agent, "new words")
    kept = agent.conversation.items
    left = [kept[place].message.text for start, end in agent._turns.gate.unoffered for place in range(start, end)]
    assert left[0].endswith("new words")
    assert len(left) == 2


async def test_the_note_of_a_fork_holds_what_was_said_in_it(house: House) -> None:
    agent = house.open(PurposeModel())
    for text in ("the harbour is deep", "the tide is low"):
        await talk(agent, text)
    await agent.fork()
    transcript = agent.conversation.session.transcript
    assert last_texts(transcript, 15)[0] == []
    assert UserWords().read(transcript).texts == ()
    await talk(agent, "the wind is strong")
    assert [each.text for each in last_texts(transcript, 15, "user")[0]] == ["the wind is strong"]
    words = UserWords()
    assert [each.text for each in words.read(transcript).texts] == ["the wind is strong"]
    await talk(agent, "the sea is calm")
    assert [each.text for each in words.read(transcript).texts] == ["the wind is strong", "the sea is calm"]


async def test_a_fork_of_a_fork_and_a_way_back_before_it(house: House) -> None:
    agent = house.open(PurposeModel(), window=128_000)
    await talk(agent, "one")
    await agent.fork()
    await talk(agent, "two")
    await agent.fork()
    await talk(agent, "三")
    assert said(agent) == ["one", "two", "三"]
    assert agent.status.title == "one (fork 2)"
    await agent.rewind(entry_of(agent, "one"))
    assert said(agent) == []
    await talk(agent, "anew")
    await agent.close(hasty=True)
    again: Agent = house.open(PurposeModel(), session=agent.conversation.session_id)
    assert said(again) == ["anew"]
