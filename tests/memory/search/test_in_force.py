"""Facts with a date: which line is first for a question about now or about another time, and what is shown as ended."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from clawbot.cli.memory_output import hit_lines, search_data
from clawbot.memory.dates.validity import folded
from clawbot.memory.values import SearchResult
from clawbot.tools.memory_output import fit, results_text
from tests.memory.search.notes import Searcher, build

CASES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["case"]
TODAY = date(2026, 11, 27)
OTHERS = "- Bought tyres\n- 买了茶叶\n- Read a book about bridges\n- Kuchen gebacken\n- 牛乳を買った\n"


def listed(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def notes_of(case: dict[str, Any]) -> dict[str, str]:
    days = {f"memory/{day}.md": listed(lines) for day, lines in case.get("days", {}).items()}
    return {"MEMORY.md": listed(case["notes"]), "memory/2026-04-01.md": OTHERS, **days}


@pytest.mark.parametrize("vectors", [False, True], ids=["words", "hybrid"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["question"])
def test_the_line_that_holds_at_the_time_is_first(tmp_path: Path, case: dict[str, Any], vectors: bool) -> None:
    hits = Searcher(build(tmp_path / "i", notes_of(case))).ask(case["question"], vectors=vectors, today=TODAY).hits
    lines = [(hit.snippet.removeprefix("- "), hit.ended) for hit in hits]
    assert lines[0][0].startswith(case["first"])
    ended = [text for text, day in lines if day is not None]
    expected = sorted(case.get("ended", ()))
    assert len(ended) == len(expected)
    assert all(text.startswith(start) for text, start in zip(sorted(ended), expected, strict=True))


NOTES = {
    "MEMORY.md": "# Mia\n\n- Lives in Berlin, on the third floor (since 2020, until 2026-03-05)\n"
    "- Lives in Paris (since 2026-03-05)\n- Member of the chess club (until 2026-06)\n  - and its treasurer\n",
    "memory/2026-04-01.md": OTHERS,
}
BERLIN = "ended 2026-03-05: Lives in Berlin, on the third floor (since 2020-01-01)"


def test_an_ended_line_is_one_line_of_each_answer(tmp_path: Path) -> None:
    found = Searcher(build(tmp_path / "i", NOTES)).ask("where does Mia live?", vectors=False, today=TODAY)
    result = SearchResult(found.hits, "fts-only", "none", "")
    shown = [line for line in hit_lines(result) if not line.startswith("0.")]
    assert shown[:3] == ["- Lives in Paris (since 2026-03-05)", "", BERLIN]
    text = results_text(result, fit(result, 4_000))
    assert [line for line in text.split("\n") if "Lives" in line] == [
        f"3: {BERLIN}",
        "4: - Lives in Paris (since 2026-03-05)",
    ]
    ended = [hit.get("ended") for hit in search_data(result)["results"]]
    assert ended[:2] == [None, "2026-03-05"]


def test_what_has_ended_without_a_successor_is_the_answer(tmp_path: Path) -> None:
    hits = Searcher(build(tmp_path / "i", NOTES)).ask("is Mia in the chess club", vectors=False, today=TODAY).hits
    assert (hits[0].ended, hits[0].earlier) == (date(2026, 6, 30), False)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("- [ ] Lives in Berlin (until 2026-03-05)", "ended 2026-03-05: Lives in Berlin"),
        (
            "3. Lives in Berlin\n   and Bonn (since 2020-02, until 2026-03-05)",
            "ended 2026-03-05: Lives in Berlin and Bonn (since 2020-02-01)",
        ),
        ("lives in Berlin", "ended 2026-03-05: lives in Berlin"),
        ("x" * 500 + " (until 2026-03-05)", "ended 2026-03-05: " + "x" * 102 + "… (500 characters)"),
    ],
)
def test_the_short_form_of_an_ended_line(line: str, expected: str) -> None:
    assert folded(line, date(2026, 3, 5)) == expected
