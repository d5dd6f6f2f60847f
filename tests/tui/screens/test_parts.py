"""Figures, ages and safe text."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.fuzzy import FuzzySearch

from clawbot.tui.screens.matching import MAX_WAYS, match
from clawbot.tui.screens.parts import age, one_line, plural, safe, short_count

NOW = datetime(2026, 11, 20, 10, 41, tzinfo=timezone(timedelta(hours=8)))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (9_949, "9.9k"),
        (9_950, "10k"),
        (41_400, "41k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_300_000, "1.3M"),
    ],
)
def test_counts_are_short(number: int, expected: str) -> None:
    assert short_count(number) == expected


def test_one_is_singular() -> None:
    assert [plural(number, "turn") for number in (0, 1, 2, 1_234)] == ["0 turns", "1 turn", "2 turns", "1,234 turns"]


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(hours=3), "3 h"),
        (timedelta(hours=20), "yesterday"),
        (timedelta(days=2), "2 days"),
        (timedelta(days=7), "13 Nov"),
        (timedelta(days=365), "20 Nov 2025"),
    ],
)
def test_ages_are_told_in_the_zone_of_the_user(back: timedelta, expected: str) -> None:
    assert age((NOW - back).astimezone(UTC), NOW) == expected


def test_shortly_after_midnight_the_evening_is_hours_ago() -> None:
    midnight = NOW.replace(hour=0, minute=30)
    assert age(midnight - timedelta(hours=2), midnight) == "2 h"


@given(st.text())
def test_safe_text_never_steers_a_terminal(text: str) -> None:
    assert not [sign for sign in safe(text) if unicodedata.category(sign) == "Cc" and sign != "\n"]
    assert not [sign for sign in one_line(text) if unicodedata.category(sign) == "Cc"]


def test_safe_text_keeps_what_is_text() -> None:
    assert safe("表 é 🎉\r\n\tx") == "表 é 🎉\n    x"
    assert safe("\x1b[31m\x9b") == "␛[31m�"


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("", "anything", True),
        ("proxy", "the staging proxy", True),
        ("proxy staging", "the staging proxy", True),
        ("PROXY", "the staging proxy", True),
        ("stpr", "the staging proxy", True),
        ("代理", "测试代理端口", True),
        ("proxy port", "the staging proxy", False),
        ("zzz", "the staging proxy", False),
    ],
)
def test_words_are_found_in_any_order_and_letters_in_theirs(query: str, text: str, found: bool) -> None:
    assert (match(FuzzySearch(), query, text) is not None) is found


def test_found_letters_are_named() -> None:
    hit = match(FuzzySearch(), "stag pr", "the staging proxy")
    assert hit is not None
    assert [*hit[1]] == [4, 5, 6, 7, 12, 13]


def test_a_text_with_too_many_ways_to_match_is_left_out_at_once() -> None:
    text = "ab" * 60
    assert MAX_WAYS < 60**8
    assert match(FuzzySearch(), "aabbaabb", text) is None
    assert match(FuzzySearch(), "abababab", text) is not None
