from __future__ import annotations

import random
from pathlib import Path

import pytest

from clawbot.memory.search import engine, shortlist
from clawbot.memory.search import outline as outlines
from clawbot.memory.store.reader import IndexReader
from tests.memory.search.notes import Searcher, build

WORDS = [
    f"{first}{second}" for first in ("bra", "cli", "dro", "fen", "gul", "hop") for second in ("ma", "nt", "rok", "ssy")
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty notes of lists, prose and talk in sections, some of them dated."""
    choose = random.Random(11)
    path = tmp_path_factory.mktemp("many") / "i"
    files = {}
    for number in range(40):
        lines = []
        for section in range(6):
            lines += [f"## {choose.choice(WORDS)} {section}", ""]
            kind = choose.choice(("- {}", "Anna: {}", "{}\n"))
            lines += [kind.format(" ".join(choose.choices(WORDS, k=5))) for _ in range(choose.randint(1, 9))] + [""]
        files[f"memory/2026-03-{number % 28 + 1:02}-{number}.md"] = "\n".join(lines)
    build(path, files).close()
    return path


@pytest.mark.long
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("path", ["", "memory/2026-03-0*"])
def test_the_shortlist_has_what_a_look_at_every_line_finds(
    index: Path, monkeypatch: pytest.MonkeyPatch, *, vectors: bool, path: str
) -> None:
    choose = random.Random(4)
    questions = [" ".join(choose.sample(WORDS, choose.randint(1, 4))) for _ in range(12)]
    questions += ["what did Anna say about fenma", "when was bramt", "clirok on 3 March 2026", "how many hoprok"]
    every = Searcher(IndexReader(index)).load()
    monkeypatch.setattr(shortlist, "_FEWEST", 150)
    found = [every.ask(question, vectors=vectors, path=path) for question in questions * 2]
    monkeypatch.setattr(engine, "WORTH_CHOOSING", 0)
    chosen = [Searcher(every.reader).load().ask(question, vectors=vectors, path=path) for question in questions * 2]
    assert any(each.hits for each in found)
    best, again = ([[(hit.path, hit.line) for hit in each.hits[:1]] for each in some] for some in (found, chosen))
    assert best[len(questions) :] == again[len(questions) :]


def test_one_line_is_chosen_and_none_for_words_that_are_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "WORTH_CHOOSING", 0)
    searcher = Searcher(build(tmp_path / "i", {"memory/a.md": "The proxy.\n", "memory/b.md": ""})).load()
    assert searcher.best("proxy") == "The proxy."
    assert searcher.ask("zeppelin", vectors=False).hits == ()


@pytest.mark.parametrize("vectors", [True, False])
def test_it_is_the_same_in_however_many_parts_the_lines_lie(
    index: Path, monkeypatch: pytest.MonkeyPatch, *, vectors: bool
) -> None:
    choose = random.Random(8)
    questions = [" ".join(choose.sample(WORDS, choose.randint(1, 4))) for _ in range(20)]
    questions += ["what did Anna say about fenma", "clirok on 3 March 2026", "how many hoprok"]
    monkeypatch.setattr(engine, "WORTH_CHOOSING", 0)
    found = []
    for lines in (1, 60, 1_000_000):
        monkeypatch.setattr(outlines, "_PART_LINES", lines)
        searcher = Searcher(IndexReader(index)).load()
        found.append([searcher.ask(question, vectors=vectors).hits for question in questions])
    assert any(found[0])
    assert found[0] == found[1] == found[2]
