"""Where nothing fits, nothing is found; what fits by its meaning alone still is."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from clawbot.memory.search import engine
from clawbot.memory.search.vector_scores import VectorScores
from tests.memory.search.notes import Searcher, build
from tests.tables import load_table

SUBJECTS = ["garden", "invoice", "river", "bicycle", "kettle", "lantern", "ferry", "museum", "orchard", "violin"]
VERBS = ["painted", "repaired", "visited", "sold", "moved", "counted"]


def thousand_notes() -> dict[str, str]:
    choose = random.Random(3)
    return {
        f"memory/{number:04}.md": f"# {choose.choice(SUBJECTS)}\n\n"
        + "".join(f"- {choose.choice(VERBS)} the {choose.choice(SUBJECTS)} {number}\n" for _ in range(4))
        for number in range(1_000)
    }


@pytest.fixture(params=["in memory", "from disk", "words alone"])
def notes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searcher:
    monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    reader = build(tmp_path / "index.sqlite", thousand_notes(), embed=request.param != "words alone")
    searcher = Searcher(reader)
    return searcher.load() if request.param == "in memory" else searcher


@pytest.mark.parametrize(
    "query",
    ["xylophone quantum zebra", "木琴 量子 斑马", "what is a zebra", "xylophone quantum moved"],
    ids=["words of no note", "of another language", "a question", "with a word of hundreds of lines"],
)
def test_where_nothing_fits_nothing_is_found(notes: Searcher, query: str) -> None:
    assert notes.ask(query).hits == ()


def test_a_frequent_word_is_found_when_it_is_all_that_is_asked_for(notes: Searcher) -> None:
    assert "violin" in notes.best("violin")


def test_another_word_for_it_is_found_by_its_meaning_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = thousand_notes() | {"memory/car.md": "# Notes\n\n- my 大夫\n"}
    reader = build(tmp_path / "index.sqlite", files)
    assert "大夫" in Searcher(reader).load().best("physician")
    monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    assert "大夫" in Searcher(reader).best("physician")


def test_in_a_home_of_a_few_lines_an_alien_question_finds_nothing(tmp_path: Path) -> None:
    files = {"MEMORY.md": "# Memory\n\n- I prefer tabs over spaces\n- the doctor is on the second floor\n"}
    searcher = Searcher(build(tmp_path / "index.sqlite", files))
    assert searcher.ask("xylophone quantum zebra").hits == ()
    assert "tabs" in searcher.best("tabs or spaces?")
    assert "doctor" in searcher.best("大夫")


def test_a_missing_vector_is_guessed_from_the_words_and_a_known_one_is_not() -> None:
    cosines = np.array([0.8, 0.1, 0.0, 0.3], "<f4")
    near = VectorScores(cosines, cosines, np.array([True, True, False, False]))
    assert near.guessed(np.array([0.0, 1.0, 1.0, 0.25], "<f4")).tolist() == pytest.approx([0.8, 0.1, 0.8, 0.3])


def test_without_any_vector_nothing_is_guessed() -> None:
    near = VectorScores(np.zeros(2, "<f4"), np.zeros(2, "<f4"), np.zeros(2, np.bool_))
    assert near.guessed(np.array([1.0, 0.5], "<f4")).tolist() == [0, 0]


@pytest.mark.parametrize("begun", ["stag", "stagi", "port of stagi"])
def test_a_word_that_is_being_typed_is_found_by_its_beginning(tmp_path: Path, begun: str) -> None:
    files = {"memory/2026-10-02.md": "# Proxy\n\n- the staging port is 8443\n- tea at four\n"}
    searcher = Searcher(build(tmp_path / "index.sqlite", files))
    assert "staging" in searcher.ask(begun, prefix=True).hits[0].snippet
    assert searcher.ask("sta").hits == ()
    assert searcher.ask("xylo", prefix=True).hits == ()


GRADES = Path(__file__).with_name("grades.tsv")
NOTES = {
    "memory/2026-03-02.md": (
        "# Work\n\n- the staging proxy listens on port 8443\n- Nesrin leads the team from now on\n"
        "- deploy only on Tuesday and Thursday\n- the log files stay for 21 days\n- 青鸟项目的发布日期是 4 月 17 日\n"
    ),
    "memory/2026-03-05.md": (
        "# Home\n\n- Kaution der Wohnung: 1.740 Euro\n- the parcel depot closes at nine\n- Mr. Ortega repairs the "
        "espresso machine\n- clase de yoga los lunes a las 19:00\n- bought white tiles for the kitchen\n"
    ),
    "memory/2026-03-09.md": (
        "# Health\n\n- the dentist wants to renew the crown, 412 euros\n- vitamin D is too low\n"
        "- 林澈早上只喝乌龙茶\n- 猫叫麻薯,对鸡肉过敏\n- swimming with the children on Friday\n"
    ),
    "memory/2026-03-12.md": (
        "# Mixed\n\n- the bicycle was stolen, the insurance pays\n- Jule starts her job in September\n"
        "- the rent rises to 986 euros\n- 周五下午写周报\n- the SFTP key rotates every 90 days\n"
    ),
}


@pytest.mark.parametrize("vectors", [True, False])
def test_a_search_knows_whether_the_notes_probably_have_an_answer(tmp_path: Path, vectors: bool) -> None:
    searcher = Searcher(build(tmp_path / "index.sqlite", NOTES))
    rows = [row.split("\t") for row in GRADES.read_text(encoding="utf-8").splitlines() if not row.startswith("#")]
    allowed = {"found": ("strong", "fair"), "strong": ("strong",), "weak": ("weak",)}
    found = {text: searcher.ask(text, vectors=vectors).evidence for _, text in rows}
    assert {text: grade for grade, text in rows if found[text] not in allowed[grade]} == {}


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize(("text", "grades"), load_table(__file__, "of_days"))
def test_notes_of_the_days_that_are_asked_for_are_evidence(
    tmp_path: Path, text: str, grades: list[str], vectors: bool
) -> None:
    searcher = Searcher(build(tmp_path / "index.sqlite", NOTES))
    assert searcher.ask(text, vectors=vectors, today=date(2026, 3, 20)).evidence in grades
