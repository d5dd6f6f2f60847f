"""When the context is flushed and compacted, in which order, and what a failure of either leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clawbot.agent.events import (
    CommandOutput,
    CompactionFinished,
    CompactionRunning,
    ContextUsed,
    MemoryWritten,
    MessageFinished,
    Notice,
    TextDelta,
)
from clawbot.llm.errors import ContextOverflowError, PoorAnswerError, UnreachableError
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import ToolCallBlock, UserMessage
from clawbot.sessions.transcript import Transcript
from tests.agent.fakes import Answer, FakeTool, Stalling, calls, says
from tests.agent.gate_host import (
    SUMMARY,
    WORD,
    House,
    PurposeModel,
    compactions,
    ended,
    fill,
    lines,
    notes,
    offers,
    reported,
    talk,
)


async def test_memory_is_saved_before_the_limit_and_the_context_summarised_at_it(house: House) -> None:
    """Reference sheet 8.2 and 7.1: the flush comes first, both before the message that would not fit."""
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model)
    events = await fill(agent, 8, 600)
    assert model.purposes.index("flush") < model.purposes.index("summary")
    [written] = [event for event in events if isinstance(event, MemoryWritten)]
    assert house.workspace.joinpath(written.path).read_text() == "- the harbour is deep\n"
    assert [type(event) for event in events if isinstance(event, CompactionRunning | CompactionFinished)] == [
        CompactionRunning,
        CompactionFinished,
    ]


async def test_a_flush_comes_once_in_a_cycle_also_across_a_restart(house: House) -> None:
    """Reference sheet 8.2."""
    model = PurposeModel()
    agent = house.open(model)
    await fill(agent, 5, 600)
    assert model.purposes.count("flush") == 1
    await agent.close()
    again = PurposeModel()
    agent = house.open(again)
    await talk(agent, "one more")
    assert again.purposes == ["chat"]


@pytest.mark.parametrize(
    ("settings", "window"),
    [
        ({"reserve_tokens": 60_000}, 24_000),
        ({"reserve_tokens": 100, "reserve_tokens_floor": 0}, 8_000),
        ({"memory_flush": {"soft_threshold_tokens": 0}}, 8_000),
        ({}, 4_500),
    ],
)
async def test_whatever_the_reserve_is_nothing_is_compacted_that_was_not_offered(
    house: House, settings: dict[str, Any], window: int
) -> None:
    """Reference sheet 6.5, BUG: flush and compaction took different reserves, and small windows had no flush."""
    model = PurposeModel()
    agent = house.open(model, window=window, **settings)
    await fill(agent, 30, window // 24)
    assert "flush" in model.purposes[: model.purposes.index("summary")]
    assert 0 < len(compactions(agent)) < 10


async def test_a_lowered_cap_makes_both_come_earlier(house: House) -> None:
    """Reference sheet 6.5, BUG: compaction and flush took the model's own window."""
    model = PurposeModel()
    agent = house.open(model, window=1_000_000, cap=8_000)
    await fill(agent, 8, 600)
    assert {"flush", "summary"} <= set(model.purposes)


async def test_a_summary_that_fails_leaves_the_history_whole_and_the_turn_goes_on(house: House) -> None:
    """Reference sheet 7.4."""
    model = PurposeModel(summary=[[UnreachableError("no route")]])
    agent = house.open(model)
    events = await fill(agent, 9, 600)
    assert compactions(agent) == []
    failed = [event for event in events if isinstance(event, CompactionFinished)]
    assert failed
    assert all(event.status == "failed" and "no route" in event.error for event in failed)
    assert ended(events).status == "done"
    assert len([line for line in lines(agent) if line["type"] == "message"]) == 18


async def test_what_failed_is_not_tried_again_in_the_same_turn(house: House) -> None:
    tool = FakeTool("look", WORD * 300)
    model = PurposeModel(
        chat=[says("fine")] * 5
        + [calls(ToolCallBlock(str(call), "look", {"at": call})) for call in range(4)]
        + [says("done")],
        summary=[[UnreachableError("no route")]],
    )
    agent = house.open(model, tool)
    await fill(agent, 5, 900)
    before = model.purposes.count("summary")
    await talk(agent, "look four times " + WORD * 900)
    assert model.purposes.count("summary") - before <= 1


async def test_room_is_made_in_the_middle_of_a_tool_loop(house: House) -> None:
    """Reference sheet 7.1: checks before each call of a tool loop."""
    tool = FakeTool("look", "line " * 900)
    model = PurposeModel(
        chat=[calls(ToolCallBlock(str(call), "look", {"at": call})) for call in range(8)] + [says("seen it all")],
    )
    agent = house.open(model, tool)
    events = await talk(agent, "look at all of it")
    assert ended(events).status == "done"
    assert any(isinstance(event, CompactionFinished) and event.status == "done" for event in events)
    first = model.purposes.index("summary")
    assert "chat" in model.purposes[first:]
    last = model.of("chat")[-1]
    called = [call.id for message in last.messages for call in getattr(message, "tool_calls", [])]
    answered = [message.tool_call_id for message in last.messages if hasattr(message, "tool_call_id")]
    assert called == answered


# -- overflow ---------------------------------------------------------------------------------------------------------


async def test_after_an_overflow_memory_is_offered_then_the_history_summarised_then_the_model_asked_again(
    house: House,
) -> None:
    """Reference sheet 8.5, GAP: nothing forced a flush before a compaction by overflow."""
    model = PurposeModel(chat=[says("one"), says("two"), [ContextOverflowError("too large")], says("three")])
    agent = house.open(model, window=128_000)
    await fill(agent, 2, 600)
    events = await talk(agent, "and now?")
    assert model.purposes == ["chat", "chat", "chat", "flush", "summary", "chat"]
    assert [event.text for event in events if isinstance(event, MessageFinished)] == ["three"]
    assert ended(events).status == "done"
    assert not any(line.get("message", {}).get("stopReason") == "error" for line in lines(agent))
    [offer] = offers(agent)
    assert (offer.exit, offer.result) == ("overflow", "nothing")


@pytest.mark.parametrize(
    ("turns", "purposes", "status"), [(5, ["chat"], "failed"), (7, ["chat", "flush", "summary", "chat"], "done")]
)
async def test_an_empty_answer_near_the_limit_counts_as_an_overflow(
    house: House, turns: int, purposes: list[str], status: str
) -> None:
    """Gateways before a model whose context is full answer so."""
    model = PurposeModel(chat=[*([says("fine")] * turns), [PoorAnswerError("empty")], says("fine")])
    agent = house.open(model)
    await fill(agent, turns, 600)
    before = len(model.purposes)
    events = await talk(agent, "and now?")
    assert model.purposes[before:] == purposes
    assert ended(events).status == status


async def test_three_rounds_then_one_clear_message_and_the_session_stays_usable(house: House) -> None:
    """Reference sheet 4.8 and 7.1: no death spiral, no reset behind the user's back."""
    model = PurposeModel(chat=[says("fine")] * 4 + [[ContextOverflowError("too large")]])
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 600)
    session = agent.conversation.session_id
    events = await talk(agent, "and now?")
    assert ended(events).error_kind == "overflow"
    assert "too large" in ended(events).error
    assert "/model" in ended(events).hint
    assert model.purposes.count("chat") - 4 <= 4
    sizes = [sum(len(message.text) for message in request.messages) for request in model.of("chat")[4:]]
    assert sizes == sorted(set(sizes), reverse=True)
    assert agent.conversation.session_id == session
    model.replies["chat"] = [says("there again")]
    events = await talk(agent, "hello")
    assert [event.text for event in events if isinstance(event, MessageFinished)] == ["there again"]


async def test_a_limit_that_the_provider_names_is_kept_to_from_then_on(house: House) -> None:
    error = ContextOverflowError("maximum context length is 6000 tokens", limit=6_000)
    model = PurposeModel(chat=[says("one"), says("two"), [error], says("three")])
    agent = house.open(model, window=128_000)
    await fill(agent, 2, 600)
    await talk(agent, "and now?")
    assert agent.status.window == 6_000
    await fill(agent, 6, 600)
    assert len(compactions(agent)) > 1


async def test_a_message_that_never_fits_is_told_and_the_next_one_is_answered(house: House) -> None:
    """Reference sheet 4.8: what can't be sent does not stand in the way for ever."""

    def fits(request: ChatRequest) -> Answer:
        size = sum(len(message.text) for message in request.messages)
        return [ContextOverflowError("too large")] if size > 40_000 else says("fine")

    model = PurposeModel(chat=[fits])
    agent = house.open(model)
    events = await talk(agent, WORD * 20_000)
    assert ended(events).error_kind == "overflow"
    events = await talk(agent, "hello")
    assert ended(events).status == "done"


async def test_no_compaction_by_itself_where_it_is_switched_off_and_by_hand_it_works(house: House) -> None:
    """Reference sheet 7.1."""
    model = PurposeModel(chat=[says("fine")] * 8 + [[ContextOverflowError("too large")], says("fine")])
    agent = house.open(model, enabled=False, window=128_000)
    await fill(agent, 8, 600)
    events = await talk(agent, "and now?")
    assert ended(events).error_kind == "overflow"
    assert "summary" not in model.purposes
    await talk(agent, "/compact")
    assert len(compactions(agent)) == 1


# -- by hand ----------------------------------------------------------------------------------------------------------


async def test_compact_offers_memory_first_and_hands_the_focus_on(house: House) -> None:
    """Reference sheet 8.5, GAP: nothing forced a flush before `/compact`."""
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    events = await talk(agent, "/compact the port numbers")
    assert model.purposes[4:] == ["flush", "summary"]
    assert "the port numbers" in model.of("summary")[0].messages[-1].text
    said = next(event for event in events if isinstance(event, CommandOutput))
    assert said.text.startswith("Compacted: ")
    assert [offer.exit for offer in offers(agent)] == ["manual"]


async def test_compact_says_when_there_is_nothing_to_do(house: House) -> None:
    """Reference sheet 7.3: skipped, not failed."""
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    said = [event for event in await talk(agent, "/compact") if isinstance(event, CommandOutput)]
    assert "There is nothing to compact yet" in said[0].text
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    events = await talk(agent, "/compact")
    assert "since the last compaction" in next(event for event in events if isinstance(event, CommandOutput)).text
    assert ended(events).status == "done"
    assert model.purposes.count("summary") == 1


async def test_esc_stops_a_compaction_and_leaves_the_history_whole(house: House) -> None:
    """Reference sheet 7.7."""
    stall = Stalling()
    model = PurposeModel(summary=[[stall]])
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    submission = asyncio.create_task(talk(agent, "/compact"))
    await stall.reached.wait()
    assert agent.interrupt()
    events = await submission
    assert ended(events).status == "interrupted"
    assert [event.status for event in events if isinstance(event, CompactionFinished)] == ["interrupted"]
    assert compactions(agent) == []
    assert len(agent.conversation.messages) == 8


async def test_another_model_may_summarise_and_is_closed_again(house: House) -> None:
    other = PurposeModel()
    house.others["small/model"] = other
    model = PurposeModel()
    agent = house.open(model, window=128_000, model="small/model")
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    assert "summary" not in model.purposes
    assert set(other.purposes) == {"summary"}
    assert other.closed


# -- figures ----------------------------------------------------------------------------------------------------------


async def test_the_figure_is_counted_again_after_a_compaction(house: House) -> None:
    """Reference sheet 6.3: stale until the next report."""
    model = PurposeModel(chat=[reported("fine", 5_000)])
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 900)
    assert agent.status.exact
    await talk(agent, "/compact")
    assert (agent.status.exact, agent.status.stale) == (False, True)
    assert 0 < agent.status.tokens < 5_000
    model.replies["chat"] = [reported("fine", 2_800)]
    events = await talk(agent, "hello")
    used = [event for event in events if isinstance(event, ContextUsed)][-1]
    assert used.exact
    assert (agent.status.tokens, agent.status.stale) == (2_805, False)


async def test_status_and_context_tell_the_same_and_it_adds_up(house: House) -> None:
    """Reference sheet 4.4, BUG (input plus output stood in for the context), and 4.5."""
    model = PurposeModel(chat=[reported("fine", 3_000)], flush=notes("- deep"))
    agent = house.open(model)
    await fill(agent, 3, 300)
    status = next(event for event in await talk(agent, "/status") if isinstance(event, CommandOutput)).data
    report = next(event for event in await talk(agent, "/context json") if isinstance(event, CommandOutput)).data
    assert status is not None
    assert report is not None
    assert status["tokens"] == report["used"] == 3_005
    assert sum(part["tokens"] for part in report["parts"]) == report["window"] == 8_000
    assert report["unaccounted"] == status["unaccounted"] > 0


async def test_what_a_silent_turn_did_is_in_the_record_and_the_status_and_nowhere_else(house: House) -> None:
    """Reference sheet 8.4 and 9.2."""
    model = PurposeModel(flush=notes("- the harbour is deep"))
    agent = house.open(model)
    events = await fill(agent, 5, 600)
    shown = [event.text for event in events if isinstance(event, TextDelta | MessageFinished | Notice)]
    assert "NO_REPLY" not in "".join(shown)
    [offer] = offers(agent)
    assert offer.reply == "NO_REPLY"
    [write] = offer.writes
    assert (write.line, write.end_line, write.size) == (1, 1, 22)
    flush = agent.status.last_flush
    assert flush is not None
    assert (flush.path, flush.line, flush.bytes) == (write.path, 1, 22)
    assert "1 line" in next(event for event in await talk(agent, "/status") if isinstance(event, CommandOutput)).text
    stored = [line["message"]["role"] for line in lines(agent) if line["type"] == "message"]
    assert stored == ["user", "assistant"] * 5


async def test_a_silent_reply_of_a_usual_turn_is_stored_and_shown_nowhere(house: House) -> None:
    agent = house.open(PurposeModel(chat=[says("NO_REPLY")]))
    events = await talk(agent, "tell me only if it burns")
    assert not any(isinstance(event, TextDelta | MessageFinished) for event in events)
    assert lines(agent)[-1]["message"]["content"][0]["text"] == "NO_REPLY"
    with Transcript.open(agent.conversation.session.transcript.path, clock=house.clock, writable=False) as transcript:
        assert [type(item.message) for item in transcript.history()] == [UserMessage]


async def test_a_token_beside_words_is_neither_shown_nor_stored(house: House) -> None:
    agent = house.open(PurposeModel(chat=[says("All is well.\n\nNO_REPLY")]))
    events = await talk(agent, "hello")
    assert [event.text for event in events if isinstance(event, MessageFinished)] == ["All is well."]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).strip() == "All is well."
    assert lines(agent)[-1]["message"]["content"][0]["text"] == "All is well."


async def test_the_summary_stands_for_what_left(house: House) -> None:
    model = PurposeModel()
    agent = house.open(model, window=128_000)
    await fill(agent, 4, 300)
    await talk(agent, "/compact")
    await talk(agent, "hello")
    first = model.of("chat")[-1].messages[0]
    assert SUMMARY.split("\n", 1)[0] in first.text
