"""Figures, ages and what a filter finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from textual.content import Content
from textual.fuzzy import FuzzySearch

from clawbot.clock import age
from clawbot.tui.screens.common import fitting, turns
from clawbot.tui.screens.picker import MAX_WAYS, match

NOW = datetime(2026, 11, 20, 10, 41, tzinfo=timezone(timedelta(hours=8)))


def test_one_is_singular() -> None:
    assert [turns(number) for number in (0, 1, 2, 1_234)] == ["0 turns", "1 turn", "2 turns", "1,234 turns"]


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


def test_the_way_back_stays_in_a_line_of_keys_that_is_too_long() -> None:
    parts = [Content(text) for text in ("enter resume", "ctrl+t title", "esc back", "shift+↑ read")]

    def shown(width: int) -> str:
        return Content(" · ").join(fitting(parts, 2, width)).plain

    assert shown(60) == "enter resume · ctrl+t title · esc back · shift+↑ read"
    assert shown(52) == "enter resume · ctrl+t title · esc back · …"
    assert shown(38) == "enter resume · … · esc back"
    assert shown(20) == "… · esc back"
    assert shown(8) == "esc back"
