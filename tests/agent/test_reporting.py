"""What the status is brought together from."""

from __future__ import annotations

import pytest

from clawbot.agent.offers import OfferState
from clawbot.agent.status import last_flush
from clawbot.config.schema_agent import CompactionSettings
from clawbot.context.report import LastFlush
from clawbot.context.window import plan_budget
from clawbot.llm.protocol import CAPPED
from clawbot.sessions.entries import MemoryWrite, Offer, Result
from tests.agent.gate_host import House, PurposeModel, notes, reported, talk

AT = "2026-11-20T09:12:00Z"
NOTE = "memory/2026-11-20.md"


def state(result: Result, *writes: MemoryWrite) -> OfferState:
    return OfferState(
        last=Offer(offer="1", phase="end", exit="manual", by="flush", result=result, writes=writes), last_at=AT
    )


def write(size: int, line: int, end_line: int) -> MemoryWrite:
    return MemoryWrite(NOTE, 0, size, line, end_line, "0")


@pytest.mark.parametrize(
    ("offers", "flush"),
    [
        (OfferState(), None),
        (OfferState(last_at=AT, failures=2), None),
        (state("nothing"), LastFlush(AT, "nothing")),
        (state("failed"), LastFlush(AT, "failed")),
        (state("written", write(40, 12, 13)), LastFlush(AT, "written", NOTE, 12, 13, 40)),
        (
            state("written", write(40, 12, 13), write(7, 14, 14), write(60, 15, 19)),
            LastFlush(AT, "written", NOTE, 12, 19, 107),
        ),
        (state("interrupted", write(5, 1, 1)), LastFlush(AT, "interrupted", NOTE, 1, 1, 5)),
    ],
)
def test_the_last_offer(offers: OfferState, flush: LastFlush | None) -> None:
    assert last_flush(offers) == flush


async def test_before_the_first_message_the_marks_come_from_the_window_alone(house: House) -> None:
    agent = house.open(PurposeModel(), window=64_000, cap=20_000, reserve_tokens=3_000)
    status = agent.status
    settings = CompactionSettings(reserve_tokens=3_000)
    assert (status.tokens, status.window, status.window_source) == (0, 20_000, CAPPED)
    assert status.budget == plan_budget(20_000, settings)
    assert (status.stale, status.busy, status.compactions, status.last_flush) == (False, False, 0, None)
    assert (status.agent_id, status.session_key, status.session_id) == ("main", "main", agent.conversation.session_id)


async def test_afterwards_it_tells_what_was_reported_and_where_memory_was_written_also_after_a_restart(
    house: House,
) -> None:
    model = PurposeModel(chat=[reported("fine", 1_321)], flush=notes("- uses tabs\n"))
    agent = house.open(model, memory_flush={"quit_min_tokens": 0})
    await talk(agent, "I use tabs.")
    status = agent.status
    assert (status.tokens, status.exact, status.stale) == (1_326, True, False)
    assert status.budget is not None
    assert status.budget.keep_recent < plan_budget(8_000, CompactionSettings()).keep_recent  # prompt and tools count
    await agent.close()
    agent = house.open(model)
    flush = agent.status.last_flush
    assert flush is not None
    assert (flush.result, house.workspace / flush.path) == ("written", house.daily)
    assert flush.bytes == house.daily.stat().st_size
