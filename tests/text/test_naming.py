"""What of a model's answer may be the title of a conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.naming import TITLE_QUESTION, title_in
from tests.tables import load_table

SAID = "how do I renew my passport? 我的护照要过期了"


@pytest.mark.parametrize(
    ("answer", "title"),
    load_table(__file__, "a_title_is_taken_without_what_stands_around_it"),
)
def test_a_title_is_taken_without_what_stands_around_it(answer: str, title: str) -> None:
    assert title_in(answer, SAID) == title


@pytest.mark.parametrize(
    "answer",
    load_table(__file__, "anything_else_is_none"),
)
def test_anything_else_is_none(answer: str) -> None:
    assert title_in(answer, SAID) == ""


def test_what_the_talk_calls_secret_is_none_either() -> None:
    assert title_in("Router with hunter2horse", "router", frozenset({"hunter2horse"})) == ""
    assert title_in("Three to seven words", "what can be said in three to seven words?") == "Three to seven words"


@given(st.text())
def test_a_title_is_one_short_clean_line(answer: str) -> None:
    title = title_in(answer, "")
    assert title == title.strip()
    assert len(title) <= 60
    assert "\n" not in title
    assert title_in(TITLE_QUESTION, "") == ""
