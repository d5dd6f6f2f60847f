"""Texts that are shortened for a model: what fits stays, what is cut says so, no visible character is split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.truncate import cut_after, cut_before, head_and_tail, shorten

FAMILY = "👩\u200d👩\u200d👧"


@pytest.mark.parametrize("cluster", ["e\u0301", FAMILY, "👍🏽", "❤\ufe0f", "🇩🇪", "\r\n", "नि"])
def test_no_visible_character_is_split(cluster: str) -> None:
    text = "ab" + cluster * 3 + "yz"
    whole = {2 + len(cluster) * n for n in range(4)} | {0, 1, 2, len(text) - 1, len(text)}
    for index in range(len(text) + 1):
        assert cut_before(text, index) in whole
        assert cut_after(text, index) in whole
        assert cut_before(text, index) <= index <= cut_after(text, index)


@given(text=st.text(max_size=400), limit=st.integers(min_value=1, max_value=500))
def test_what_is_shortened_fits(text: str, limit: int) -> None:
    short = shorten(text, limit, "X.md")
    assert len(short) <= limit
    assert (short == text) is (len(text) <= limit)


def test_what_was_shortened_keeps_head_and_tail_and_names_its_size() -> None:
    text = head_and_tail("a" * 500 + "b" * 1_000 + "c" * 500, 400)
    assert text.startswith("aaa")
    assert text.endswith("ccc")
    assert "[... 1,600 of 2,000 characters left out ...]" in text
    assert len(text) < 460


@given(st.text(max_size=300), st.integers(0, 200))
def test_head_and_tail_keep_what_fits_and_bound_the_rest(text: str, most: int) -> None:
    shown = head_and_tail(text, most)
    assert shown == text if len(text) <= most else len(shown) <= most + 60 + 64
