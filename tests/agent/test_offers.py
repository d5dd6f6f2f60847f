"""What the records of a transcript say of the offers to memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import structs

from clawbot.agent.offers import NOTE_HOOK, OfferState, held_from, kept_notes, offers_of, unoffered_spans
from clawbot.messages import NOTES_HEAD, AssistantMessage, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import (
    FINAL,
    KEPT_NOTES,
    NOTE,
    OFFER,
    CompactionEntry,
    CustomEntry,
    Entry,
    MemoryWrite,
    MessageEntry,
    Offer,
    offer_of,
)

WRITE = MemoryWrite(path="memory/2026-11-20.md", offset=0, size=9, line=1, end_line=1, digest="d")
ITEMS = [ContextItem(name, UserMessage(name)) for name in "abcd"]


def record(phase: Any, result: Any = "", *, last: str = "b", way: Any = "threshold", **values: Any) -> CustomEntry:
    offer = Offer(offer="o", phase=phase, exit=way, by="flush", first="a", last=last, result=result, **values)
    return CustomEntry(custom_type=OFFER, data=msgspec.to_builtins(offer))


def offered(by: str, first: str, last: str, phase: Any = "end", result: Any = "written") -> Any:
    known: Any = result if phase == "end" else ""
    return msgspec.to_builtins(Offer(offer="n", phase=phase, exit="reset", by=by, first=first, last=last, result=known))


def compaction(details: Any = None) -> CompactionEntry:
    return CompactionEntry(summary="s", first_kept_entry_id="c", tokens_before=1, details=details)


def state_after(*entries: Entry) -> OfferState:
    return offers_of(entries)


def test_nothing_was_offered_in_a_transcript_without_records() -> None:
    state = state_after(MessageEntry(message=UserMessage("hello")))
    assert state == OfferState()
    assert unoffered_spans(state, ITEMS, 0) == [(0, 4)]
    assert unoffered_spans(state, ITEMS, 1) == [(1, 4)]


@pytest.mark.parametrize("result", sorted(FINAL))
def test_an_offer_that_is_final_moves_the_mark_to_its_last_entry(result: str) -> None:
    state = state_after(record("begin"), record("end", result, transcript_bytes=70))
    assert (state.offered_to, state.flushed, state.failures, state.transcript_bytes) == ("b", True, 0, 70)
    assert state.open is None
    assert unoffered_spans(state, ITEMS, 0) == [(2, 4)]


@pytest.mark.parametrize(("result", "failures"), [("failed", 1), ("interrupted", 0)])
def test_an_offer_that_is_not_final_leaves_the_mark(result: str, failures: int) -> None:
    state = state_after(record("begin"), record("end", result))
    assert (state.offered_to, state.flushed, state.failures) == ("", False, failures)
    assert unoffered_spans(state, ITEMS, 0) == [(0, 4)]


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
    assert unoffered_spans(state, ITEMS, 0) == [(3, 4)]
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
    assert unoffered_spans(state, ITEMS, 1) == [(1, 4)]


def test_a_note_that_took_the_end_leaves_what_is_before_it() -> None:
    note = CustomEntry(custom_type=OFFER, data=offered("session-memory", "c", "d"))
    assert unoffered_spans(state_after(note), ITEMS, 0) == [(0, 2)]
    assert unoffered_spans(state_after(record("end", "nothing", last="a"), note), ITEMS, 0) == [(1, 2)]
    assert unoffered_spans(state_after(note, record("end", "nothing")), ITEMS, 0) == []
    more = [*ITEMS, ContextItem("e", UserMessage("e"))]
    assert unoffered_spans(state_after(note), more, 0) == [(0, 2), (4, 5)]


def test_what_is_not_written_yet_was_never_offered() -> None:
    unwritten = [*ITEMS[:2], ContextItem("", UserMessage("c")), ContextItem("", UserMessage("d"))]
    assert unoffered_spans(state_after(record("end", "nothing")), unwritten, 0) == [(2, 4)]


def test_the_record_of_a_write_says_what_is_taken_when_no_end_does() -> None:
    begun, written = (CustomEntry(custom_type=OFFER, data=offered("session-memory", first, "d", phase))
                      for first, phase in (("a", "begin"), ("c", "write")))  # fmt: skip
    state = state_after(begun, written)
    assert state.open is not None
    assert state.open.first == "c"


def test_a_hook_that_keeps_nothing_says_nothing_of_silent_turns() -> None:
    failed = CustomEntry(custom_type=OFFER, data=offered("session-memory", "a", "d", result="failed"))
    assert state_after(failed, failed, failed).failures == 0


def test_only_what_failed_behind_a_reset_counts_as_a_try() -> None:
    failed = record("end", "failed", way="reset")
    assert state_after(record("end", "failed"), failed, failed).tries == 2
    assert state_after(failed, record("end", "written", way="reset")).tries == 0


TALK = [
    ContextItem("q", UserMessage(f"{NOTES_HEAD}\n\n```\n- old\n```")),
    ContextItem("u1", UserMessage("the harbour?")),
    ContextItem("c1", AssistantMessage([ToolCallBlock("t", "look", {})])),
    ContextItem("t1", ToolResultMessage("t", "look", [TextBlock("deep")])),
    ContextItem("a1", AssistantMessage([TextBlock("it is deep")])),
    ContextItem("j2", UserMessage("anything due?", scheduled=True)),
    ContextItem("n2", AssistantMessage([TextBlock("NO_REPLY")])),
    ContextItem("u3", UserMessage("and wide?")),
    ContextItem("a3", AssistantMessage([TextBlock("it is")])),
]


@pytest.mark.parametrize(
    ("held", "start"),
    [
        ({"u1", "a1", "u3", "a3"}, 0),
        ({"a1", "u3", "a3"}, 4),
        ({"u3", "a3"}, 7),
        ({"u1", "u3", "a3"}, 0),
        ({"a3"}, 8),
        ({"a1", "a3"}, 8),
        ({"u1", "a1"}, 9),
        (set(), 9),
    ],
)
def test_a_note_answers_for_the_last_texts_that_it_holds_without_a_gap(held: set[str], start: int) -> None:
    assert held_from(TALK, held, (0, len(TALK))) == start


def test_a_note_that_holds_every_text_answers_for_what_is_between_them() -> None:
    assert held_from(TALK, {"u3", "a3"}, (4, 9)) == 7
    assert held_from(TALK, {"u3", "a3"}, (5, 9)) == 5


@pytest.mark.parametrize("data", [None, 3, {}, {"offer": "o"}, {"offer": "o", "phase": "middle"}])
def test_a_record_that_makes_no_sense_is_passed_over(data: Any) -> None:
    entry = CustomEntry(custom_type=OFFER, data=data)
    assert offer_of(entry) is None
    assert state_after(record("end", "nothing"), entry).offered_to == "b"


def test_entries_of_another_type_are_no_records() -> None:
    assert offer_of(CustomEntry(custom_type="other", data=msgspec.to_builtins({}))) is None


def test_notes_that_hooks_wrote_are_known_behind_a_compaction() -> None:
    """What a compaction stands for is not read again: without this, the note would get the same words once more."""
    written = structs.replace(record("end", "written", writes=(WRITE,)), timestamp="2026-11-20T10:00:00.000Z")
    kept = structs.replace(written, data={**offered(NOTE_HOOK, "a", "b"), "writes": [msgspec.to_builtins(WRITE)]})
    late = CustomEntry(custom_type=NOTE, data={"digest": "e", "path": WRITE.path}, timestamp=kept.timestamp)
    assert kept_notes([written]) == {}  # a silent turn writes no note of a session
    known = kept_notes([kept, late])
    assert known == {"d": kept.moment / 1000, "e": kept.moment / 1000}
    carried = [{"digest": digest, "at": at} for digest, at in known.items()]
    assert kept_notes([compaction({KEPT_NOTES: carried})]) == known
    odd: list[Any] = [None, [], {KEPT_NOTES: "x"}, {KEPT_NOTES: [7, {"at": 1}]}]
    assert kept_notes(map(compaction, odd)) == {}
