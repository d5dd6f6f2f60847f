"""The newest of several lines about the same thing."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.memory.search.engine import Search
from clawbot.memory.search.protocols import Ranking
from clawbot.memory.search.results import LineResults
from clawbot.memory.search.scale import on_scale
from clawbot.memory.search.updates import LONGEST, Statement, newest_first
from clawbot.memory.values import SearchRequest
from tests.memory.search.notes import TODAY, Searcher, build

PAIRS = Path(__file__).with_name("updates.tsv")
LOGS = Path(__file__).with_name("log_pairs.tsv")
OLD, NEW, NEWER = date(2026, 3, 1), date(2026, 5, 2), date(2026, 9, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- rent of the flat: 950 euros", "- rent of the flat is 1,020 euros now"),
        ("- 房租每月四千元", "- 房租每月四千五百元"),
        ("- Miete der Wohnung: 950 Euro", "- Miete der Wohnung jetzt 1.020 Euro"),
        ("- the parcel depot closes at 9 pm", "- the parcel depot closes at 8 pm"),
        (
            "- staging proxy port is 8080",
            "- staging proxy port moved from 8080 to 8443, since Grafana took the old one",
        ),
        ("- 代理端口是8080", "- 代理端口改成8443"),
        ("- 预算三万元", "- 预算增加到五万元"),
        ("- 团队例会是周三上午", "- 团队例会改到周五下午3点"),
        ("- dentist appointment on Tuesday at 10", "- dentist appointment moved to Thursday at 11:30"),
        ("- dentist appointment 3 March at 10:00", "- dentist appointment 14 April at 15:30"),
        ("- release date of Falcon is June 3", "- release date of Falcon is July 17"),
        ("1. length of the wifi password is 8", "4. length of the wifi password is 12"),
        ("- order 4711 of Anna Keller: 3 lamps", "- order 4711 of Anna Keller: 5 lamps"),
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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Each has a name that the other lacks.
        (
            "- passcode hint for the copper canyon ledger cabinet in Ghent is page 46237 of the blue atlas",
            "- passcode hint for the copper lantern ledger cabinet in Kyoto is page 8357 of the blue atlas",
        ),
        ("- tomato soup needs 400 grams of onions", "- pumpkin soup needs 300 grams of onions"),
        ("- 大连办公室的周晓峰分机号是6711,保管钥匙", "- 大连办公室的徐晓峰分机号是9816,保管钥匙"),
        ("- 成都的紫藤卷备份完成,用时64分钟,没有错误", "- 西安的紫藤卷备份完成,用时53分钟,没有错误"),
        # A proper name that the other one lacks.
        ("- copper cabinet code is 12", "- copper cabinet of Ghent code is 14"),
        ("- Anna has phone 4711", "- Anna Keller has phone 5822"),
        # The number is a name.
        ("- order 4711: 3 lamps, 55 euros", "- order 4712: 2 lamps, 40 euros"),
        ("- order 4711 shipped to Ghent with 3 boxes", "- order 4712 shipped to Ghent with 5 boxes"),
        ("- order #4711, shipped", "- order #4712, shipped"),
        ("- srv-12 has 64 GB of memory", "- srv-14 has 128 GB of memory"),
        ("- ticket 311 is closed", "- ticket 312 is closed"),
        ("- 02:14 nightly backup took 41 minutes", "- 02:19 nightly backup took 38 minutes"),
        ("- 3号服务器有64GB内存", "- 4号服务器有128GB内存"),
        ("- 订单4711共3件,合计55元", "- 订单4712共2件,合计40元"),
        # No other value: a report, a repetition, a heading, a question.
        ("- Watering the tomatoes: every morning at six", "- Watering tomatoes done"),
        ("- the staging proxy port is 8080", "- the staging proxy port has not changed"),
        ("- Never use web_search", "- Never use web_search in tests"),
        ("# Study planning 1", "# Study planning 3: running"),
        ("- the parcel depot closes at 9 pm", "- should the parcel depot close at 8 pm?"),
    ],
)
def test_lists_of_like_things_and_repetitions_stay_as_they_are(one: str, other: str) -> None:
    found = newest_first([Statement(one, OLD), Statement(other, NEW)])
    assert (list(found.order), found.earlier) == ([0, 1], frozenset())


@pytest.mark.parametrize("half", ["a", "b"])
def test_most_marks_are_right_and_most_updates_marked(half: str) -> None:
    rows = [row.split("\t") for row in PAIRS.read_text(encoding="utf-8").splitlines() if not row.startswith("#")]
    found = Counter(
        (label, bool(newest_first([Statement(old, OLD), Statement(new, NEW)]).earlier))
        for label, which, old, new in rows
        if which == half
    )
    right, wrong, missed = found["update", True], found["other", True], found["update", False]
    precision, recall = right / (right + wrong), right / (right + missed)
    sys.stdout.write(f"half {half}: precision {precision:.3f}, recall {recall:.3f} of {found.total()} pairs\n")
    assert found.total() == 100
    assert (precision >= 0.9, recall >= 0.7) == (True, True)


@pytest.mark.parametrize("label", ["update", "other"])
def test_of_lines_of_logs_only_what_is_replaced_is_marked(label: str) -> None:
    rows = [row.split("\t")[1:] for row in LOGS.read_text(encoding="utf-8").splitlines() if row.startswith(label)]
    marked = [pair for pair in rows if newest_first([Statement(pair[0], OLD), Statement(pair[1], NEW)]).earlier]
    assert marked == (rows if label == "update" else [])


def test_an_undated_statement_follows_the_one_that_it_differs_from() -> None:
    lines = [("- rent of the flat: 950 euros", OLD), ("- tyres: 300", NEW), ("- rent of the flat: 980 euros", None)]
    found = newest_first([Statement(text, day) for text, day in lines])
    assert (list(found.order), found.earlier) == ([0, 2, 1], frozenset())


@pytest.mark.parametrize(
    ("old", "new", "is_replaced"),
    [({1, 2}, {1, 2, 3}, True), ({1}, {1}, True), ({1, 2}, {1}, False), ({1, 2}, {1, 3}, False), (set(), {1}, False)],
)
def test_the_newer_one_has_all_that_the_older_has_of_the_question(
    old: set[int], new: set[int], is_replaced: bool
) -> None:
    before = Statement("- rent of the flat: 950 euros", OLD, frozenset(old))
    after = Statement("- rent of the flat: 980 euros", NEW, frozenset(new))
    found = newest_first([before, after])
    assert (found.order[0], bool(found.earlier)) == (int(is_replaced), is_replaced)


def test_several_values_on_one_day_are_of_several_things() -> None:
    numbers = [("- contract number: 4711", OLD), ("- contract number: 4822", OLD), ("- contract number: 4933", NEW)]
    found = newest_first([Statement(text, day) for text, day in numbers])
    assert (list(found.order), found.earlier) == ([0, 1, 2], frozenset())


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
    scores = [on_scale(share, "fts-only") for share in found.ranked.scores]
    return found, dict(zip(found.texts(60), scores, strict=True))


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
