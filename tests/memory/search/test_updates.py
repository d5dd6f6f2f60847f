"""The newest of several lines about the same thing."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.memory.search.engine import Search
from clawbot.memory.search.protocols import Ranking
from clawbot.memory.search.results import LineResults
from clawbot.memory.search.updates import LONGEST, Statement, newest_first
from clawbot.memory.values import SearchRequest
from tests.memory.search.notes import TODAY, Searcher, build

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


EUROS = {
    "memory/2026-03-01.md": "- rent of the flat: 950 euros\n- tyres: 300 euros\n- shoes: 90 euros\n- bread: 5 euros\n",
    "memory/2026-06-01.md": "- insurance: 410 euros\n- a lamp for the flat: 60 euros\n- coffee: 8 euros\n",
    "memory/2026-09-01.md": "- rent of the flat: 1,020\n- a letter of the bank\n",
}
"""The older statement has one more frequent word of the question, and a higher score."""
RENT = "rent of the flat in euros"


def ranked(path: Path) -> tuple[Ranking, dict[str, float]]:
    """The ranking of the question, and the score of each line."""
    searcher = Searcher(build(path, EUROS))
    request = SearchRequest(queries=(RENT,))
    found = searcher.engine.rank(Search(searcher.reader, request, (None,), searcher.settings, TODAY))
    assert isinstance(found, LineResults)
    return found, dict(zip(found.texts(60), (round(score, 6) for score in found.ranked.scores), strict=True))


def test_a_line_that_moves_keeps_its_own_score(tmp_path: Path) -> None:
    ranking, own = ranked(tmp_path / "i")
    hits = ranking.results().hits
    assert [hit.snippet for hit in hits[:2]] == ["- rent of the flat: 1,020", "- rent of the flat: 950 euros"]
    assert [hit.earlier for hit in hits[:2]] == [False, True]
    assert hits[0].score < hits[1].score
    assert {hit.snippet: hit.score for hit in hits} == own
    backwards = ranking.results(range(len(own))[::-1]).hits
    assert {hit.snippet: hit.score for hit in backwards} == own
    assert backwards[0].score < backwards[-1].score


def test_what_does_not_fit_the_usual_results_keeps_its_score(tmp_path: Path) -> None:
    long = "".join(f"- {RENT} in {town} {'and more ' * 80}\n" for town in ("Ghent", "Kyoto", "Oslo", "Riga"))
    notes = {"memory/2026-03-01.md": f"{long}- rent paid\n- shoes\n- bread\n"}
    hits = Searcher(build(tmp_path / "i", notes)).ask(RENT, vectors=False, max_results=48, max_chars=9_000).hits
    assert [hit.line for hit in hits] == [1, 2, 3, 5, 4]
    assert hits[4].score == hits[0].score > hits[3].score
