"""The days between which a line of a note holds: tables of marks."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.memory.dates.validity import Validity, marked, validity_of

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
DAYS = st.none() | st.dates(date(1900, 1, 1), date(2199, 12, 31))


@pytest.mark.parametrize("row", TABLE["read"], ids=lambda row: row["line"])
def test_a_mark_at_the_end_is_read(row: dict[str, Any]) -> None:
    expected = Validity(row.get("since"), row.get("until"), row.get("text", row["line"]))
    assert validity_of(row["line"]) == expected


@pytest.mark.parametrize("row", TABLE["write"], ids=lambda row: row["text"])
def test_a_mark_is_written_over_the_one_that_is_there(row: dict[str, Any]) -> None:
    assert marked(row["text"], row.get("since"), row.get("until")) == row["line"]


@given(st.text(max_size=200), DAYS, DAYS)
def test_what_is_written_is_read(text: str, since: date | None, until: date | None) -> None:
    before = validity_of(text)
    line = marked(text, since, until)
    after = validity_of(line)
    assert (after.since, after.until) == (since or before.since, until or before.until)
    assert marked(line, since, until) == line


@pytest.mark.parametrize(
    ("line", "day", "has_ended", "days_of_march"),
    [
        ("x (until 2026-03-05)", date(2026, 3, 4), False, 5),
        ("x (until 2026-03-05)", date(2026, 3, 5), True, 5),
        ("x (until 2026)", date(2026, 12, 30), False, 31),
        ("x (since 2026-03-05)", date(2026, 3, 1), False, 27),
        ("x (since 2026-03-05, until 2026-03-10)", date(2026, 4, 1), True, 6),
        ("x (until 2025)", date(2026, 1, 1), True, 0),
        ("x", date(2026, 1, 1), False, 31),
    ],
)
def test_what_holds_until_a_day_has_ended_on_it(line: str, day: date, has_ended: bool, days_of_march: int) -> None:
    found = validity_of(line)
    assert found.has_ended(day) is has_ended
    assert found.days_within(date(2026, 3, 1), date(2026, 3, 31)) == days_of_march
