"""What the user notices of the housekeeping: what Esc stops, what a cut turn still knows, what runs silently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clawbot.agent import request_builder
from clawbot.agent.events import CommandOutput, ContextUsed, MessageFinished, SessionChanged
from clawbot.context.counting import QuickSize, quick_size
from clawbot.llm.errors import UnreachableError
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, Usage
from clawbot.sessions.conversation import REQUEST
from tests.agent.fakes import FakeTool, Stalling, calls, says
from tests.agent.gate_host import House, PurposeModel, compactions, ended, fill, offers, talk

REQUEST_TEXT = "Read all of it. " + "The ports matter most. " * 40 + "Answer in the voice of a pirate."


async def test_the_message_that_is_being_answered_goes_through_a_compaction_word_for_word(house: House) -> None:
    tool = FakeTool("look", "line of output " * 220)
    model = PurposeModel(
        chat=[*(calls(ToolCallBlock(str(call), "look", {"at": call})) for call in range(13)), says("Arr.")]
    )
    agent = house.open(model, tool)
    events = await talk(agent, REQUEST_TEXT)
    assert [event.text for event in events if isinstance(event, MessageFinished)][-1] == "Arr."
    assert compactions(agent)[0]["details"][REQUEST] == REQUEST_TEXT
    last = model.of("chat")[-1]
    assert sum(REQUEST_TEXT in message.text for message in last.messages) == 1


async def test_a_turn_that_is_over_is_not_taken_up_again(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    assert REQUEST not in compactions(agent)[0]["details"]
    await talk(agent, "hello")
    assert not any("<request>" in message.text for message in model.of("chat")[-1].messages)


async def test_esc_skips_the_saving_before_a_turn_and_the_answer_comes(house: House) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall]])
    agent = house.open(model)
    await fill(agent, 2, 600)
    submission = asyncio.create_task(talk(agent, "and now? " + "harbour " * 1_200))
    await stall.reached.wait()
    assert agent.interrupt()
    events = await submission
    assert ended(events).status == "done"
    assert [event.text for event in events if isinstance(event, MessageFinished)] == ["fine"]
    assert [offer.result for offer in offers(agent)] == ["interrupted"]


async def test_a_saving_that_is_stopped_again_and_again_is_not_tried_for_ever(house: House) -> None:
    stall = Stalling()
    model = PurposeModel(flush=[[stall]])
    agent = house.open(model, window=20_000)
    await fill(agent, 8, 1_000)
    stops = 0
    for _ in range(6):
        submission = asyncio.create_task(talk(agent, "and now? " + "harbour " * 500))
        reached = asyncio.create_task(stall.reached.wait())
        await asyncio.wait({submission, reached}, return_when=asyncio.FIRST_COMPLETED)
        if stall.reached.is_set():
            stall.reached.clear()
            stops += 1
            agent.interrupt()
        reached.cancel()
        assert ended(await submission).status == "done"
    assert stops == 3


async def test_the_saving_behind_new_holds_up_no_message_and_is_not_stopped_by_esc(house: House) -> None:
    stall = Stalling()
    agent = house.open(PurposeModel(flush=[[stall]]))
    await fill(agent, 2, 400)
    events = await talk(agent, "/new hello three")
    await stall.reached.wait()
    assert not agent.interrupt()
    assert any(isinstance(event, SessionChanged) for event in events)
    assert ended(events).status == "done"
    assert [event.text for event in events if isinstance(event, MessageFinished)] == ["fine"]


async def test_a_front_end_is_told_while_memory_takes_what_was_said(house: House) -> None:
    told: list[bool] = []
    agent = house.open(PurposeModel(), window=128_000)
    agent.on_saving = lambda: told.append(agent.saving)
    await fill(agent, 4, 300)
    assert told == []
    events = await talk(agent, "/compact")
    assert told == [True, False]
    assert "saving" not in "".join(map(str, events))


async def test_the_figures_are_told_before_and_after_a_compaction(house: House) -> None:
    agent = house.open(PurposeModel(), window=128_000)
    await fill(agent, 4, 900)
    events = await talk(agent, "/compact")
    before, after = [event.tokens for event in events if isinstance(event, ContextUsed)]
    assert before > after > 500


async def test_measuring_makes_the_status_right_before_anything_was_said(house: House) -> None:
    agent = house.open(PurposeModel())
    assert agent.status.tokens == 0
    await agent.measure()
    assert agent.status.tokens > 1_000


async def test_what_was_said_is_weighed_once_until_more_is_said(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    weighed: list[int] = []

    def counted(messages: Sequence[Message], fresh_from: int) -> QuickSize:
        weighed.append(len(messages))
        return quick_size(messages, fresh_from)

    monkeypatch.setattr(request_builder, "quick_size", counted)
    agent = house.open(PurposeModel())
    before = agent.status.tokens
    await agent.measure()
    assert agent.status.tokens > before
    assert weighed == [0]


async def test_a_compaction_by_hand_that_fails_fails_and_one_without_work_does_not(house: House) -> None:
    model = PurposeModel(summary=[[UnreachableError("gone")]])
    agent = house.open(model, window=128_000)
    assert ended(await talk(agent, "/compact")).status == "done"
    await fill(agent, 4, 300)
    failed = ended(await talk(agent, "/compact"))
    assert (failed.status, failed.hint) == ("failed", "The history is whole.")


async def test_half_a_short_turn_is_not_summarised(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    await talk(agent, "what is 6 times 7?")
    said = [event for event in await talk(agent, "/compact") if isinstance(event, CommandOutput)]
    assert "nothing to compact" in said[0].text
    assert "summary" not in model.purposes


async def test_what_another_model_reported_is_no_figure_of_this_one(house: House) -> None:
    usage = Usage(input=120_000, output=5)
    message = AssistantMessage([TextBlock("fine")], usage=usage, provider="anthropic", model="claude-x")
    agent = house.open(PurposeModel())
    await talk(agent, "hello")
    await agent.conversation.add(message)
    await agent.close(hasty=True)
    model = PurposeModel()
    agent = house.open(model)
    await talk(agent, "hello")
    assert agent.status.tokens < 5_000
    assert set(model.purposes) == {"chat"}
