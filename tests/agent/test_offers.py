"""What the records of a transcript say of the offers to memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clawbot.agent.offers import OfferState, offers_of, unoffered_from
from clawbot.messages import UserMessage
from clawbot.sessions.audit import FINAL, OFFER, MemoryWrite, Offer, offer_of
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import CompactionEntry, CustomEntry, Entry, MessageEntry

WRITE = MemoryWrite(path="memory/2026-11-20.md", offset=0, size=9, line=1, end_line=1, digest="d")
ITEMS = [ContextItem(name, UserMessage(name)) for name in "abcd"]


def record(phase: Any, result: Any = "", *, last: str = "b", way: Any = "threshold", **values: Any) -> CustomEntry:
    offer = Offer(offer="o", phase=phase, exit=way, by="flush", first="a", last=last, result=result, **values)
    return CustomEntry(custom_type=OFFER, data=msgspec.to_builtins(offer))


def compaction(details: Any = None) -> CompactionEntry:
    return CompactionEntry(summary="s", first_kept_entry_id="c", tokens_before=1, details=details)


def state_after(*entries: Entry) -> OfferState:
    return offers_of(entries)


def test_nothing_was_offered_in_a_transcript_without_records() -> None:
    state = state_after(MessageEntry(message=UserMessage("hello")))
    assert state == OfferState()
    assert unoffered_from(state, ITEMS, 0) == 0
    assert unoffered_from(state, ITEMS, 1) == 1


@pytest.mark.parametrize("result", sorted(FINAL))
def test_an_offer_that_is_final_moves_the_mark_to_its_last_entry(result: str) -> None:
    state = state_after(record("begin"), record("end", result, transcript_bytes=70))
    assert (state.offered_to, state.flushed, state.failures, state.transcript_bytes) == ("b", True, 0, 70)
    assert state.open is None
    assert unoffered_from(state, ITEMS, 0) == 2


@pytest.mark.parametrize(("result", "failures"), [("failed", 1), ("interrupted", 0)])
def test_an_offer_that_is_not_final_leaves_the_mark(result: str, failures: int) -> None:
    state = state_after(record("begin"), record("end", result))
    assert (state.offered_to, state.flushed, state.failures) == ("", False, failures)
    assert unoffered_from(state, ITEMS, 0) == 0


def test_three_failures_in_a_row_exhaust_a_cycle_and_a_compaction_begins_the_next() -> None:
    """Reference sheet 8.4."""
    failed = record("end", "failed")
    assert not state_after(failed, failed).exhausted
    assert state_after(failed, failed, failed).exhausted
    assert not state_after(failed, failed, record("end", "nothing"), failed).exhausted
    assert not state_after(failed, failed, failed, compaction()).exhausted


@pytest.mark.parametrize("way", ["overflow", "manual", "reset", "quit"])
def test_only_an_offer_of_the_threshold_counts_as_the_one_of_the_cycle(way: str) -> None:
    """Reference sheet 8.2: once in a cycle, also across a restart, which reads nothing but these records."""
    assert not state_after(record("end", "nothing", way=way)).flushed
    flushed = state_after(record("end", "nothing"), record("end", "nothing", way=way))
    assert flushed.flushed
    assert not state_after(record("end", "nothing"), compaction()).flushed


def test_a_compaction_carries_what_its_predecessors_offered_into_a_file_that_is_read_from_it_on() -> None:
    state = state_after(compaction({"offeredTo": "c", "transcriptBytes": 90}))
    assert (state.offered_to, state.transcript_bytes) == ("c", 90)
    assert unoffered_from(state, ITEMS, 0) == 3
    later = state_after(record("end", "written", last="d", transcript_bytes=95), compaction({"offeredTo": "c"}))
    assert (later.offered_to, later.transcript_bytes) == ("d", 95)


@pytest.mark.parametrize("details", [None, [], "x", {"offeredTo": None, "transcriptBytes": "many"}])
def test_details_that_make_no_sense_say_nothing(details: Any) -> None:
    state = state_after(compaction(details))
    assert (state.offered_to, state.transcript_bytes) == ("", 0)


def test_an_offer_without_an_end_is_open_with_what_it_was_about_to_write() -> None:
    state = state_after(record("begin"), record("write", writes=(WRITE,)), record("write", writes=(WRITE,)))
    assert state.open is not None
    assert state.open.last == "b"
    assert state.open_writes == (WRITE, WRITE)
    assert state.offered_to == ""
    ended = state_after(record("begin"), record("write", writes=(WRITE,)), record("end", "written", writes=(WRITE,)))
    assert (ended.open, ended.open_writes) == (None, ())


def test_the_mark_of_an_entry_that_left_the_context_is_before_all_that_is_there() -> None:
    state = state_after(record("end", "nothing", last="gone"))
    assert unoffered_from(state, ITEMS, 1) == 1


@pytest.mark.parametrize("data", [None, 3, {}, {"offer": "o"}, {"offer": "o", "phase": "middle"}])
def test_a_record_that_makes_no_sense_is_passed_over(data: Any) -> None:
    entry = CustomEntry(custom_type=OFFER, data=data)
    assert offer_of(entry) is None
    assert state_after(record("end", "nothing"), entry).offered_to == "b"


def test_entries_of_another_type_are_no_records() -> None:
    assert offer_of(CustomEntry(custom_type="other", data=msgspec.to_builtins({}))) is None
