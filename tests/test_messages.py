"""The message that stands for turns which left the context."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.messages import (
    AssistantMessage,
    Compacted,
    TextBlock,
    UserMessage,
    _shown_time,
    compacted_text,
    read_compacted,
    sent_at,
)
from tests.tables import load_table

SUMMARY = "## Decisions\n- We decided to use Postgres 16."


def compacted(request: str = "") -> str:
    return compacted_text("What was before:", SUMMARY, "The message that you are answering:", request)


def test_a_summary_and_the_request_behind_it() -> None:
    assert read_compacted(compacted()) == Compacted(SUMMARY)
    assert read_compacted(compacted("list files")) == Compacted(SUMMARY, "list files")


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "other_texts_were_said_by_somebody"),
)
def test_other_texts_were_said_by_somebody(text: str) -> None:
    assert read_compacted(text) is None


@given(request=st.text(min_size=1).map(str.strip).filter(bool))
def test_any_request_is_read_to_the_letter(request: str) -> None:
    assert read_compacted(compacted(request)) == Compacted(SUMMARY, request)


def test_of_a_request_that_was_shortened_nothing_is_done() -> None:
    found = read_compacted(compacted("remember that a\n[... 4,000 of 9,000 characters left out ...]\nb"))
    assert found is not None
    assert (found.request[:8], found.question) == ("remember", "")


@given(text=st.text(alphabet="<>/summaryreqt\n x", max_size=200))
def test_any_text_is_read(text: str) -> None:
    found = read_compacted(text)
    assert found is None or found.summary in text


def test_the_text_of_an_old_answer_is_without_the_thought_in_it() -> None:
    assert AssistantMessage([TextBlock("<think>hm</think>\n\nYes.")]).text == "Yes."
    assert AssistantMessage([TextBlock("hm\n</think>\nYes.")]).text == "Yes."


def test_all_that_is_said_in_a_minute_shares_one_kept_time() -> None:
    _shown_time.cache_clear()
    begin = 1_795_341_780_000
    told = {sent_at(UserMessage("x", timestamp=begin + moment), UTC) for moment in range(0, 60_000, 7)}
    assert told == {"[2026-11-22 10:03] "}
    assert sent_at(UserMessage("x", timestamp=begin + 60_000), UTC) == "[2026-11-22 10:04] "
    assert _shown_time.cache_info().currsize == 2
