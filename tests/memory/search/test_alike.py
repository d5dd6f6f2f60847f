"""Lists of like things: the line that the question names comes first, and no other is taken for its newer version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.memory.search import engine
from clawbot.memory.store.reader import IndexReader
from tests.memory.search.alike import KINDS, LISTS, notes_of, questions_of
from tests.memory.search.notes import Searcher, build

NOTES = 100


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexReader]:
    found = build(tmp_path_factory.mktemp("alike") / "index.sqlite", notes_of(NOTES))
    yield found
    found.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["in memory", "from disk", "words alone"])
def test_the_line_that_is_named_comes_first(
    way: str, kind: str, reader: IndexReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = Searcher(reader)
    if way == "in memory":
        searcher.load()
    elif way == "from disk":
        monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    for asked in questions_of(NOTES, len(LISTS)):
        if asked.kind == kind:
            hits = searcher.ask(asked.text, vectors=way != "words alone").hits
            assert (hits[0].path, hits[0].line) == (asked.path, asked.line), asked.text
            assert not any(hit.earlier for hit in hits), asked.text


OLD, NEW = "memory/2026-03-01.md", "memory/2026-03-10.md"


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        # The older one has all words of the question.
        (
            "- passcode hint for the copper canyon ledger cabinet in Ghent is page 46237 of the blue atlas",
            "- passcode hint for the copper lantern ledger cabinet in Kyoto is page 8357 of the blue atlas",
            "copper canyon ledger cabinet Ghent blue atlas",
        ),
        (
            "- code of the copper canyon cabinet is 4711",
            "- code of the copper cabinet is 5822",
            "code of the copper canyon cabinet",
        ),
        ("- 订单4711的金额是55元", "- 订单4712的金额是40元", "订单4711的金额"),
        # It has a name of the question in a heading.
        (
            "## Copper Canyon\n\nThe contract number is 4711.",
            "## Amber Falcon\n\nThe contract number is 5822.",
            "contract number of Copper Canyon",
        ),
        ("## 晨光峡谷\n\n- 合同编号:4711", "## 金叶猎鹰\n\n- 合同编号:5822", "晨光峡谷的合同编号"),
        (
            "# Copper Canyon\n\n## Contract\n\nThe contract number is 4711.",
            "# Amber Falcon\n\n## Contract\n\nThe contract number is 5822.",
            "contract number of Copper Canyon",
        ),
    ],
)
@pytest.mark.parametrize("vectors", [True, False])
def test_a_newer_line_without_a_word_of_the_question_does_not_take_the_place(
    tmp_path: Path, old: str, new: str, question: str, vectors: bool
) -> None:
    others = {f"memory/2026-04-0{day}.md": f"# Day {day}\n\n- bought {day} tyres\n" for day in range(1, 6)}
    searcher = Searcher(build(tmp_path / "i", {OLD: old, NEW: new, **others}))
    hits = searcher.ask(question, vectors=vectors).hits
    best = next(hit for hit in hits if old.endswith(hit.snippet.rpartition("\n")[2]))
    other = next(hit for hit in hits if new.endswith(hit.snippet.rpartition("\n")[2]))
    assert hits.index(best) < hits.index(other)
    assert best.score > other.score
    assert not best.earlier
