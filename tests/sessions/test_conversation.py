"""How entries look to a reader: silence, summaries, and what was written to memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawbot.messages import AssistantMessage, TextBlock, ThinkingBlock
from clawbot.sessions.conversation import NOTES, HistoryItem, history_item
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
from clawbot.sessions.text import last_said
from clawbot.sessions.transcript import Transcript

from .helpers import CLOCK, opened, said, spoken_lines, texts, user

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
        assert [text.text for text in last_said(transcript, 9)[0]] == ["你好"]
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
