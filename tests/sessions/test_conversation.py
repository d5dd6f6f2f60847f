"""Entries for a reader (silence, summaries, writes to memory), and calls with their results for a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clawbot.messages import AssistantMessage, Message, TextBlock, ThinkingBlock, ToolResultMessage
from clawbot.sessions.conversation import MISSING, NOTES, HistoryItem, history_item, repair_pairs
from clawbot.sessions.entries import (
    OFFER,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    MemoryWrite,
    MessageEntry,
    Offer,
    Phase,
    offer_of,
)
from clawbot.sessions.summary import read_summary, read_title
from clawbot.sessions.text import last_texts
from clawbot.sessions.transcript import Transcript

from .helpers import CLOCK, opened, result, said, spoken_lines, text_list, texts, user

ONE = MemoryWrite(path="memory/2026-11-20.md", offset=10, size=40, line=3, end_line=5, digest="d")


def offer(*writes: MemoryWrite, phase: Phase = "end") -> CustomEntry:
    record = Offer(offer="o", phase=phase, exit="threshold", by="flush", writes=writes)
    return CustomEntry(id="e", custom_type=OFFER, data=msgspec.to_builtins(record))


def shown(message: AssistantMessage) -> HistoryItem | None:
    return history_item(MessageEntry(id="e", message=message))


def quote(details: Any) -> HistoryItem:
    item = history_item(CustomMessageEntry(id="e", custom_type=NOTES, content="引用 " * 1_000, details=details))
    assert item is not None
    return item


def test_the_notes_that_a_session_begins_with_are_one_line_and_can_be_unfolded() -> None:
    item = quote({"files": ["memory/2026-11-20.md", "memory/2026-11-19-a.md"]})
    assert (item.message, item.note) == (None, "notes: 2 files, 3,000 characters")
    assert item.quote is not None
    assert item.quote.content == "引用 " * 1_000


@pytest.mark.parametrize(
    ("details", "files"), [(None, 0), ([], 0), ({"files": 3}, 0), ({"files": "abc"}, 0), ({"files": [1, "a.md"]}, 1)]
)
def test_details_of_a_damaged_quote_break_nothing(details: Any, files: int) -> None:
    assert quote(details).note.startswith(f"notes: {files} file")


def test_nothing_of_the_notes_is_taken_for_the_users_words(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        transcript.append(CustomMessageEntry(custom_type=NOTES, content="quoted", details={"files": ["a.md"]}))
        transcript.append_message(user("你好"))
        assert [item.message for item in transcript.history() if item.message] == [user("你好")]
        assert [text.text for text in last_texts(transcript, 9)[0]] == ["你好"]
    assert spoken_lines(transcript.path) == (["User: 你好"], [3])
    assert read_title(transcript.path) == "你好"
    facts = read_summary(transcript.path)
    assert (facts.turns, facts.title) == (1, "你好")


def test_a_silent_reply_is_no_item_and_a_mixed_one_shows_its_answer() -> None:
    """Sheet 9.2, the history view, and 9.3, what is left of reasoning."""
    assert shown(said("no_reply.")) is None
    assert shown(said("NO_RE", stop="aborted")) is None
    assert shown(AssistantMessage([ThinkingBlock("nothing to do"), TextBlock("NO_REPLY")])) is None
    assert shown(AssistantMessage([ThinkingBlock("left over")])) is None
    mixed = shown(said("已经保存。\n\nNO_REPLY", stop="aborted"))
    assert mixed is not None
    assert mixed.message == said("已经保存。", stop="aborted")
    assert mixed.interrupted
    asked = history_item(MessageEntry(id="e", message=user("NO_REPLY")))
    assert asked is not None
    assert asked.message == user("NO_REPLY")


def test_pages_of_history_pass_over_silence_and_the_model_still_sees_it(tmp_path: Path) -> None:
    """Sheet 3.7: nothing is stripped from what the model gets back, so no empty message can be left over."""
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        for number in range(6):
            transcript.append_message(user(str(number)))
            transcript.append_message(said("NO_REPLY" if number % 2 else f"answer {number}"))
        page = transcript.history(limit=4)
        assert [item.message.text for item in page if item.message] == ["3", "4", "answer 4", "5"]
        before = transcript.history(before=page[0].entry_id, limit=3)
        assert [item.message.text for item in before if item.message] == ["1", "2", "answer 2"]
    assert texts(opened(transcript.path)).count("NO_REPLY") == 3


def test_a_compaction_has_its_summary() -> None:
    entry = CompactionEntry(id="e", summary="s", tokens_before=1200, details={"tokensAfter": 300})
    assert history_item(entry) == HistoryItem("e", 0, note="compacted (1,200 tokens before)", compaction=entry)


@pytest.mark.parametrize(
    ("writes", "note"),
    [
        ([ONE], "memory: 3 lines to memory/2026-11-20.md"),
        ([msgspec.structs.replace(ONE, end_line=3)], "memory: 1 line to memory/2026-11-20.md"),
        ([ONE, msgspec.structs.replace(ONE, line=6, end_line=6)], "memory: 4 lines to memory/2026-11-20.md"),
        (
            [ONE, msgspec.structs.replace(ONE, path="memory/会议.md")],
            "memory: 3 lines to memory/2026-11-20.md, 3 lines to memory/会议.md",
        ),
    ],
)
def test_what_was_written_to_memory_is_an_item(writes: list[MemoryWrite], note: str) -> None:
    item = history_item(offer(*writes))
    assert item is not None
    assert item.note == note
    assert item.offer is not None
    assert item.offer.writes == tuple(writes)


def test_offers_that_wrote_nothing_or_are_under_way_are_no_items() -> None:
    assert history_item(offer()) is None
    assert history_item(offer(ONE, phase="write")) is None
    assert history_item(offer(ONE, phase="begin")) is None
    assert history_item(CustomEntry(id="e", custom_type="hook", data={"phase": "end", "writes": [1]})) is None


@pytest.mark.parametrize("data", [None, "x", {}, {"offer": 1}, {"offer": "o", "phase": "end", "exit": "x", "by": "y"}])
def test_a_damaged_record_is_none(data: Any) -> None:
    assert offer_of(CustomEntry(custom_type=OFFER, data=data)) is None


def test_a_record_comes_back_from_disk(tmp_path: Path) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=CLOCK) as transcript:
        stored = transcript.append(offer(ONE))
    [item] = opened(transcript.path, writable=False).history()
    assert item.offer == offer_of(stored)
    assert item.offer is not None
    assert item.offer.writes == (ONE,)


def test_a_sound_history_stays_as_it_is() -> None:
    messages: list[Message] = [user("a"), said("", "1", "2"), result("1"), result("2"), said("done")]
    assert repair_pairs(messages) == messages


def test_results_are_moved_behind_their_call_in_the_order_of_the_calls() -> None:
    call, one, two, between = said("", "1", "2"), result("1", "one"), result("2", "two"), user("meanwhile")
    assert repair_pairs([call, two, between, one]) == [call, one, two, between]
    assert repair_pairs([call, two, said("next"), one]) == [call, one, two, said("next")]


def test_second_results_and_results_of_nothing_are_dropped() -> None:
    call = said("", "1")
    assert repair_pairs([result("0"), result("1"), call, result("1", "first"), result("1", "again"), result("9")]) == [
        call,
        result("1", "first"),
    ]


def test_a_missing_result_is_made_up_as_an_error() -> None:
    repaired = repair_pairs([said("", "1", "2"), result("2", "two"), user("go on")])
    assert text_list(repaired) == ["", MISSING, "two", "go on"]
    made_up = repaired[1]
    assert isinstance(made_up, ToolResultMessage)
    assert (made_up.tool_call_id, made_up.tool_name, made_up.is_error) == ("1", "read", True)


def test_calls_of_broken_answers_are_dropped_with_their_results() -> None:
    for stop in ("error", "aborted"):
        broken = said("so far", "1", stop=stop)
        repaired = repair_pairs([user("a"), broken, result("1"), user("b")])
        assert text_list(repaired) == ["a", "so far", "b"]
        assert isinstance(repaired[1], AssistantMessage)
        assert repaired[1].tool_calls == []
        assert text_list(repair_pairs([user("a"), said("", "1", stop=stop), user("b")])) == ["a", "b"]


def test_an_answer_of_nothing_but_reasoning_is_left_out() -> None:
    assert repair_pairs([user("a"), AssistantMessage([ThinkingBlock("hm")]), said("  ")]) == [user("a")]


def test_ids_may_repeat() -> None:
    first, second = said("one", "c"), said("two", "c")
    history: list[Message] = [first, result("c", "1"), second, result("c", "2")]
    assert repair_pairs(history) == history
    assert text_list(repair_pairs([first, second, result("c", "2")])) == ["one", MISSING, "two", "2"]
    twice = said("", "c", "c")
    assert text_list(repair_pairs([twice, result("c", "1"), result("c", "2")])) == ["", "1", "2"]


IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.text(min_size=1, max_size=3)),
        st.builds(result, IDS, st.text(max_size=3)),
        st.builds(
            lambda text, ids, stop: structs.replace(said(text, *ids), stop_reason=stop),
            st.text(max_size=3),
            st.lists(IDS, max_size=3),
            st.sampled_from(["stop", "toolUse", "error", "aborted"]),
        ),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_every_call_has_one_result_and_every_result_a_call(messages: list[Message]) -> None:
    repaired = repair_pairs(messages)
    waiting: list[str] = []
    for message in repaired:
        if isinstance(message, ToolResultMessage):
            assert waiting
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    assert waiting == []
    assert [message for message in repaired if message.text and isinstance(message, type(user("")))] == [
        message for message in messages if isinstance(message, type(user("")))
    ]
    assert repair_pairs(repaired) == repaired
