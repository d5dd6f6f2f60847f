"""The newest of several lines about the same thing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.memory.search.updates import LONGEST, Statement, newest_first
from tests.memory.search.notes import Searcher, build

OLD, NEW, NEWER = date(2026, 3, 1), date(2026, 5, 2), date(2026, 9, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- rent of the flat: 950 euros", "- rent of the flat is 1,020 euros now"),
        ("- 房租每月四千元", "- 房租每月四千五百元"),
        ("- Miete der Wohnung: 950 Euro", "- Miete der Wohnung jetzt 1.020 Euro"),
        ("- the parcel depot closes at 9 pm", "- the parcel depot closes at 8 pm"),
    ],
)
def test_the_newest_takes_the_first_place_and_the_older_is_marked(old: str, new: str) -> None:
    other = Statement("- bought new tyres for the bicycle", NEW)
    found = newest_first([Statement(old, OLD), other, Statement(new, NEW)])
    assert (list(found.order), found.earlier) == ([2, 0, 1], frozenset({0}))
    found = newest_first([Statement(new, NEW), other, Statement(old, OLD)])
    assert (list(found.order), found.earlier) == ([0, 1, 2], frozenset({2}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Other things.
        (Statement("- rent of the flat: 950 euros", OLD), Statement("- rent of the garage: 60 euros", NEW)),
        # The same again.
        (Statement("- rent of the flat: 950 euros", OLD), Statement("- rent of the flat: 950 euros", NEW)),
        # On one day, or of no day, nothing is earlier.
        (Statement("- rent of the flat: 950 euros", OLD), Statement("- rent of the flat: 980 euros", OLD)),
        (Statement("- rent of the flat: 950 euros", None), Statement("- rent of the flat: 980 euros", NEW)),
        # Who speaks is not what is said.
        (Statement("user: yes, tomorrow", OLD), Statement("user: yes, on Monday", NEW)),
        # A long line tells many things.
        (Statement("- rent of the flat" + " and more" * LONGEST, OLD), Statement("- rent of the flat: 980", NEW)),
    ],
)
def test_other_lines_stay_as_they_are(one: Statement, other: Statement) -> None:
    found = newest_first([one, other])
    assert (list(found.order), found.earlier) == ([0, 1], frozenset())


def test_of_several_only_the_newest_is_not_earlier() -> None:
    statements = [Statement(f"- rent of the flat: {rent} euros", day) for rent, day in ((1, NEW), (2, OLD), (3, NEWER))]
    found = newest_first(statements)
    assert (found.order[0], found.earlier) == (2, frozenset({0, 1}))


@given(
    st.lists(
        st.builds(
            Statement, st.sampled_from(["rent flat 1", "rent flat 2", "tea", ""]), st.sampled_from([None, OLD, NEW])
        ),
        max_size=8,
    )
)
def test_nothing_is_lost(statements: list[Statement]) -> None:
    assert sorted(newest_first(statements).order) == list(range(len(statements)))


def test_a_search_shows_the_newest_first(tmp_path: Path) -> None:
    notes = {
        "memory/2026-03-01.md": "# Flat\n\n- the rent of the flat is 950 euros\n",
        "memory/2026-09-01.md": "# Flat\n\n- the rent of the flat is 1,020 euros\n",
        "memory/2026-06-01.md": "# Car\n\n- the insurance of the car is 410 euros\n",
    }
    hits = Searcher(build(tmp_path / "i", notes)).ask("how much is the rent of the flat", vectors=False).hits
    assert [(hit.path, hit.earlier) for hit in hits[:2]] == [
        ("memory/2026-09-01.md", False),
        ("memory/2026-03-01.md", True),
    ]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
