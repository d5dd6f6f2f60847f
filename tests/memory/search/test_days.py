"""Lines are found by the days that they are of, also where a file is of several."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from clawbot.memory.search import engine
from tests.memory.search.notes import CLASSIC, LINES, Searcher, build

NINETEENTH, TWENTIETH, TWENTY_FIRST = (date(2026, 11, day) for day in (19, 20, 21))
NOTE = """# Session: 2026-11-20 23:50 – 2026-11-21 00:20 (Europe/Berlin)

- **Session ID**: id

## Conversation Summary

23:50 user: the lantern party is in the harbour

23:51 assistant: A lantern party in the harbour.

2026-11-21 00:20 user: the lantern party needs 灯笼 and cake

00:20 assistant: Cake for the lantern party.
"""
LOG = "# Log\n\n## 2026-11-19\n\n- lantern bought\n\n## 2026-11-21\n\n- lantern lit\n"
MATTER = "---\ndate: 2026-11-19\n---\n\nA lantern was mended.\n"
FILES = {
    "memory/2026-11-21-party.md": NOTE,
    "memory/log.md": LOG,
    "memory/mended.md": MATTER,
    "memory/20261120.md": "- a lantern broke\n",
    "MEMORY.md": "- lanterns are nice\n",
}
Ways = Callable[[Searcher], Searcher]


@pytest.fixture(params=["small", "large", "loaded"])
def searcher(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searcher:
    """The ways to search: all lines of a small index, the neighbourhoods of a large one, all vectors in memory."""
    if request.param != "small":
        monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    found = Searcher(build(tmp_path / "i", FILES))
    return found.load() if request.param == "loaded" else found


def said(searcher: Searcher, day: date) -> str:
    return "\n".join(hit.snippet for hit in searcher.ask("lantern party", after=day, before=day, max_results=30).hits)


@pytest.mark.parametrize(
    ("day", "found", "not_found"),
    [
        (NINETEENTH, {"bought", "mended"}, {"lit", "broke", "nice", "cake"}),
        (TWENTIETH, {"the lantern party is in the harbour", "broke"}, {"cake", "Cake", "lit", "bought", "mended"}),
        (TWENTY_FIRST, {"灯笼", "Cake for", "lit"}, {"is in the harbour", "bought", "broke", "mended"}),
    ],
)
def test_lines_are_found_by_the_day_that_they_are_of(
    searcher: Searcher, day: date, found: set[str], not_found: set[str]
) -> None:
    text = said(searcher, day)
    assert {words for words in found if words not in text} == set()
    assert {words for words in not_found if words in text} == set()


def test_all_days_of_a_period_answer_and_what_has_none_is_named(searcher: Searcher) -> None:
    found = searcher.ask("lantern party", after=NINETEENTH, before=TWENTY_FIRST, max_results=30)
    assert {hit.path for hit in found.hits} == set(FILES) - {"MEMORY.md"}
    assert found.warnings == ("Left out because they have no date: MEMORY.md.",)
    assert not searcher.ask("lantern party", after=date(2026, 11, 22)).hits


def test_a_question_that_names_a_day_prefers_its_lines(searcher: Searcher) -> None:
    assert "bought" in searcher.best("what about the lantern on 2026-11-19?") + searcher.best("lantern 2026-11-19")
    assert "灯笼" in searcher.best("lantern party on 21 November 2026")


def test_a_day_without_a_note_is_answered_by_the_nearest_ones(tmp_path: Path) -> None:
    days = ("2026-10-02", "2026-11-04", "2026-11-08", "2026-11-30")
    searcher = Searcher(build(tmp_path / "i", {f"memory/{day}.md": "- a lantern\n" for day in days}))
    found = [hit.path for hit in searcher.ask("lantern on 6 November 2026", vectors=False).hits]
    assert set(found[:2]) == {"memory/2026-11-04.md", "memory/2026-11-08.md"}
    assert searcher.places("2026年11月6日的 lantern", vectors=False)[0][:17] in {
        "memory/2026-11-04",
        "memory/2026-11-08",
    }
    assert searcher.places("lantern on 8 November 2026", vectors=False)[0].startswith("memory/2026-11-08")
    weeks = [hit.score for hit in searcher.ask("lantern on 17 July 2026", vectors=False).hits]
    assert max(weeks) - min(weeks) < 0.01


def test_large_chunks_are_of_each_day_that_begins_in_them(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i", FILES, CLASSIC), CLASSIC)
    for day, paths in (
        (NINETEENTH, {"memory/log.md", "memory/mended.md"}),
        (TWENTIETH, {"memory/2026-11-21-party.md", "memory/20261120.md"}),
        (TWENTY_FIRST, {"memory/2026-11-21-party.md", "memory/log.md"}),
    ):
        found = searcher.ask("lantern", after=day, before=day, max_results=30, min_score=0.0)
        assert {hit.path for hit in found.hits} == paths


def test_the_days_follow_the_file(tmp_path: Path) -> None:
    """Also where lines above it moved it, and where the days went away."""
    path = tmp_path / "i"
    build(path, {"memory/log.md": LOG}).close()
    for text, days in ((f"new line\n\n{LOG}", {1, 3}), ("- lantern lit\n", set())):
        reader = build(path, {"memory/log.md": text}, LINES)
        [file] = reader.files().values()
        assert {run.days[0].day - 18 for run in file.runs if run.days} == days
        reader.close()
