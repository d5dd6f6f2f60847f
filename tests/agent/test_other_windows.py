"""Windows that are not what they seem: results that do not fit, other models, providers that count more."""

from __future__ import annotations

import asyncio

from clawbot.agent.events import CompactionFinished, MessageFinished, Notice, TextDelta
from clawbot.context.pruning import REMOVED
from clawbot.llm.errors import ContextOverflowError, UnreachableError
from clawbot.llm.protocol import ChatModel, ChatRequest, ModelInfo, TextPart
from clawbot.messages import ToolCallBlock
from tests.agent.fakes import Answer, FakeTool, Stalling, calls, says
from tests.agent.gate_host import (
    SUMMARY,
    WORD,
    House,
    PurposeModel,
    compactions,
    ended,
    fill,
    notes,
    offers,
    reported,
    talk,
)


def size(request: ChatRequest) -> int:
    """The characters of all messages."""
    return sum(len(message.text) for message in request.messages)


def small(window: int, *replies: Answer) -> PurposeModel:
    """A model that refuses what is longer than four characters for each token of its window."""
    model = PurposeModel()

    def answer(request: ChatRequest) -> Answer:
        too_long = size(request) + len(request.system) > window * 4
        return [ContextOverflowError("too large")] if too_long else (replies[0] if replies else says("NO_REPLY"))

    model.replies = {"chat": [answer], "flush": [answer], "summary": [answer]}
    model.info = ModelInfo(ref="small/model", window=window)
    return model


async def test_no_result_is_left_out_before_memory_was_offered_it(house: House) -> None:
    """Code weighs more than it counts: the last resort must not come before the flush."""
    tool = FakeTool("look", "def f(x): return {x: [y for y in range(x)]}\n" * 40)
    rounds = [reply for call in range(40) for reply in (calls(ToolCallBlock(str(call), "look")), says("seen"))]
    model = PurposeModel(chat=rounds)
    agent = house.open(model, tool, window=20_000)
    for turn in range(38):
        await talk(agent, f"look again ({turn})")
    assert compactions(agent)
    assert not any(REMOVED in message.text for request in model.requests for message in request.messages)


async def test_a_request_that_could_not_fit_otherwise_leaves_old_results_out_and_is_sent(house: House) -> None:
    tool = FakeTool("look", "line of output " * 400)
    rounds = [calls(ToolCallBlock(str(call), "look", {"at": call})) for call in range(14)]
    agent_model = PurposeModel(chat=[*rounds, says("done")], summary=[[UnreachableError("no route")]])
    agent = house.open(agent_model, tool, window=8_000)
    events = await talk(agent, "look fourteen times")
    assert ended(events).status == "done"
    assert any(REMOVED in message.text for message in agent_model.of("chat")[-1].messages)


async def test_a_flush_model_with_a_small_window_is_asked_in_parts_that_fit(house: House) -> None:
    other = small(4_000)
    house.others["small/model"] = other
    agent = house.open(PurposeModel(), window=30_000, memory_flush={"model": "small/model"})
    await fill(agent, 19, 1_000)
    assert other.purposes.count("flush") > 1
    assert {offer.result for offer in offers(agent)} == {"nothing"}


async def test_a_summariser_with_a_small_window_reads_all_of_it_in_parts(house: House) -> None:
    other = small(8_000, says(SUMMARY))
    house.others["small/model"] = other
    agent = house.open(PurposeModel(), window=128_000, model="small/model", keep_recent_tokens=1_000)
    for turn in range(12):
        await talk(agent, f"<{turn}> " + WORD * 1_500)
    await talk(agent, "/compact")
    assert len(compactions(agent)) == 1
    read = "".join(request.messages[-1].text for request in other.of("summary"))
    assert all(f"<{turn}>" in read for turn in range(11))
    assert read.count(WORD.strip()) > 12_000


async def test_a_limit_that_is_learnt_may_be_all_that_was_wrong(house: House) -> None:
    """A result that is cut to the learnt window makes the request fit without any compaction."""
    limit = ContextOverflowError("maximum context length is 8192 tokens", limit=8_192)
    tool = FakeTool("look", "line of output " * 6_000)
    model = PurposeModel(chat=[calls(ToolCallBlock("1", "look")), [limit], says("seen")])
    agent = house.open(model, tool, window=128_000)
    events = await talk(agent, "look")
    assert [event.text for event in events if isinstance(event, MessageFinished)][-1] == "seen"


async def test_a_limit_is_learnt_where_compaction_is_off_too(house: House) -> None:
    limit = ContextOverflowError("maximum context length is 8192 tokens", limit=8_192)
    agent = house.open(PurposeModel(chat=[[limit]]), window=128_000, enabled=False)
    await talk(agent, "hello")
    assert agent.status.window == 8_192


async def test_a_dead_memory_is_asked_once_however_long_the_history_is(house: House) -> None:
    """After a change to a model with a much smaller window."""
    agent = house.open(PurposeModel(), window=128_000)
    await fill(agent, 20, 2_000)
    await agent.close(hasty=True)
    model = PurposeModel(flush=[[UnreachableError("no route")]])
    agent = house.open(model, window=8_000)
    await talk(agent, "hello")
    assert len(compactions(agent)) == 1
    assert model.purposes.count("flush") <= 2


async def test_a_provider_that_always_counts_much_more_is_not_compacted_for_at_every_message(house: House) -> None:
    model = PurposeModel(chat=[reported("fine", 60_000)])
    agent = house.open(model, window=64_000)
    await fill(agent, 14, 400)
    assert len(compactions(agent)) <= 2


async def test_a_window_that_prompt_and_tools_fill_is_told_once_and_compacts_nothing(house: House) -> None:
    (house.workspace / "AGENTS.md").write_text("𠮷" * 20_000)
    model = PurposeModel()
    agent = house.open(model, window=8_000)
    events = await fill(agent, 4, 20)
    assert [event.text[:22] for event in events if isinstance(event, Notice) and "hardly room" in event.text] == [
        "Prompt and tools take "
    ]
    assert "summary" not in model.purposes
    assert not any(isinstance(event, CompactionFinished) for event in events)


async def test_a_token_that_esc_cut_in_two_is_shown_nowhere(house: House) -> None:
    stall = Stalling()
    agent = house.open(PurposeModel(chat=[[TextPart("NO_RE"), stall]]))
    submission = asyncio.create_task(talk(agent, "only if it burns"))
    await stall.reached.wait()
    agent.interrupt()
    events = await submission
    assert "NO_RE" not in "".join(event.text for event in events if isinstance(event, TextDelta | MessageFinished))


async def test_esc_does_not_wait_for_a_flush_model_that_opens_slowly(house: House) -> None:
    opening = asyncio.Event()

    async def open_slowly(_ref: str) -> ChatModel:
        opening.set()
        await asyncio.Event().wait()
        raise AssertionError

    house.open_model = open_slowly
    flush = {"model": "slow/model", "quit_timeout": 0.1}
    agent = house.open(PurposeModel(), window=128_000, memory_flush=flush)
    await fill(agent, 4, 300)
    submission = asyncio.create_task(talk(agent, "/compact"))
    await opening.wait()
    agent.interrupt()
    assert ended(await submission).status == "interrupted"
    assert [offer.result for offer in offers(agent)] == ["interrupted"]


async def test_a_change_of_models_does_not_keep_the_end_from_saving(house: House) -> None:
    other = PurposeModel(flush=notes("- the harbour is deep"))
    house.others["other/model"] = other
    agent = house.open(PurposeModel(), window=128_000)
    await fill(agent, 3, 900)
    await talk(agent, "/model other/model")
    assert agent.will_flush
    await agent.close()
    assert house.daily.read_text() == "- the harbour is deep\n"
