"""Going on from an earlier message: a branch in the transcript, which all that reads it follows."""

from __future__ import annotations

from itertools import takewhile

import pytest

from clawbot.agent.agent import Agent
from clawbot.messages import UserMessage
from clawbot.sessions.entries import FINAL
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.export import to_markdown
from clawbot.sessions.lines import LineAppender
from clawbot.sessions.transcript import Transcript
from tests.agent.gate_host import House, PurposeModel, compactions, lines, notes, offers, talk


def said(agent: Agent) -> list[str]:
    """What the user says in the model's context."""
    return [message.text for message in agent.conversation.messages if isinstance(message, UserMessage)]


def entry_of(agent: Agent, text: str) -> str:
    """The id of the user's message `text`."""
    found = [line["id"] for line in lines(agent) if line.get("message", {}).get("content") == text]
    return str(found[-1])


async def test_the_model_sees_the_branch_alone_and_nothing_is_deleted(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model)
    for text in ("one", "two", "three"):
        await talk(agent, text)
    before = agent.conversation.session.transcript.path.read_bytes()
    assert await agent.rewind(entry_of(agent, "two")) == "two"
    assert said(agent) == ["one"]
    await talk(agent, "two, but otherwise")
    asked = [message.text for message in model.of("chat")[-1].messages if isinstance(message, UserMessage)]
    assert [text.rpartition("\n")[2] for text in asked] == ["one", "two, but otherwise"]
    assert agent.conversation.session.transcript.path.read_bytes().startswith(before)


async def test_a_start_goes_on_in_the_branch_even_if_nothing_was_said_in_it(house: House) -> None:
    agent = house.open(PurposeModel())
    for text in ("one", "two"):
        await talk(agent, text)
    await agent.rewind(entry_of(agent, "two"))
    await agent.close(hasty=True)
    again = house.open(PurposeModel())
    assert said(again) == ["one"]
    await talk(again, "three")
    assert said(again) == ["one", "three"]


async def test_the_first_message_can_be_taken_back(house: House) -> None:
    agent = house.open(PurposeModel())
    await talk(agent, "one")
    await agent.rewind(entry_of(agent, "one"))
    assert said(agent) == []
    await talk(agent, "anew")
    await agent.close(hasty=True)
    assert said(house.open(PurposeModel())) == ["anew"]


async def test_history_and_export_follow_the_branch(house: House) -> None:
    agent = house.open(PurposeModel())
    for text in ("one", "two"):
        await talk(agent, text)
    await agent.rewind(entry_of(agent, "two"))
    await talk(agent, "three")
    path = agent.conversation.session.transcript.path
    with Transcript.open(path, clock=house.clock, writable=False) as transcript:
        items = transcript.history(limit=100)
    shown = "".join(to_markdown(items, "", None))
    assert "one" in shown
    assert "three" in shown
    assert "two" not in shown


async def test_what_memory_has_is_not_offered_again_on_the_branch(house: House) -> None:
    agent = house.open(PurposeModel(flush=notes("- the harbour is deep")), window=128_000)
    for number in range(4):
        await talk(agent, f"turn {number}: " + "harbour " * 300)
    await agent.close()
    assert [offer.result for offer in offers(agent)] == ["written"]
    again = house.open(PurposeModel(flush=notes("- it is wide as well")), window=128_000)
    ids = [line["id"] for line in lines(again) if line["type"] == "message"]
    third = next(line["id"] for line in lines(again) if "turn 2" in str(line.get("message", {}).get("content")))
    await again.rewind(third)
    await talk(again, "instead: " + "harbour " * 2_000)
    await again.close()
    taken = [offer for offer in offers(again) if offer.result in FINAL]
    assert len(taken) == 2
    assert not {taken[1].first, taken[1].last} & set(ids)
    assert house.daily.read_text().count("deep") == 1


async def test_what_was_offered_in_one_cycle_stays_so_when_its_summary_is_taken_back(house: House) -> None:
    agent = house.open(PurposeModel(flush=notes("- the harbour is deep")), window=128_000)
    for number in range(5):
        await talk(agent, f"turn {number}: " + "harbour " * 300)
    await talk(agent, "/compact")
    assert len(compactions(agent)) == 1
    [first] = offers(agent)
    target = next(line["id"] for line in lines(agent) if "turn 2" in str(line.get("message", {}).get("content")))
    await agent.rewind(target)
    assert [text.partition(":")[0] for text in said(agent)] == ["turn 0", "turn 1"]
    ids = [line["id"] for line in lines(agent) if line["type"] == "message"]
    offered = set(takewhile(lambda each: each != first.last, ids)) | {first.last}
    gate = agent._turns.gate
    kept = [item.entry_id for item in agent.conversation.items]
    left = {each for start, end in gate.unoffered for each in kept[start:end]}
    assert left == set(kept) - offered


async def test_a_full_disk_changes_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = house.open(PurposeModel())
    for text in ("one", "two"):
        await talk(agent, text)

    def full(*_: object, **__: object) -> None:
        raise SessionStoreError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(LineAppender, "append", full)
        with pytest.raises(SessionStoreError):
            await agent.rewind(entry_of(agent, "two"))
    assert said(agent) == ["one", "two"]
    await talk(agent, "three")
    assert said(agent) == ["one", "two", "three"]


async def test_only_a_message_of_the_user_that_is_there_is_taken_back(house: House) -> None:
    agent = house.open(PurposeModel())
    await talk(agent, "one")
    answer = next(line["id"] for line in lines(agent) if line.get("message", {}).get("role") == "assistant")
    for entry in (answer, "nothing"):
        with pytest.raises(SessionStoreError):
            await agent.rewind(entry)
    assert said(agent) == ["one"]
