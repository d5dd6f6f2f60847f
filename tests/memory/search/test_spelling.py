from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from clawbot.languages.stems import stem
from clawbot.memory.lexicon import Lexicon
from clawbot.memory.search.spelling import LIMIT, Spelling, also_searched
from clawbot.memory.store.writer import IndexWriter
from tests.memory.search.notes import Searcher, build, write

QUESTIONS = Path(__file__).with_name("spellings.tsv")
NOTES = {
    "memory/2026-10-02.md": "# Flat\n\n- the kitchen tiles are white\n- Kaution: 1.900 Euro\n- three monitors\n",
    "memory/2026-10-03.md": "# Depot\n\n- the parcel depot closes at nine\n- retries: five attempts\n- 水果摊在车站\n",
    "memory/2026-10-04.md": "- eine Gabe\n",
}
LEXICON = Lexicon("city, town | 城市\n")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("kitchn", "kitchen"),
        ("kitchenn", "kitchen"),
        ("kitchan", "kitchen"),
        ("deopt", "depot"),
        ("reties", "retri"),
        ("tlies", "tile"),
        ("Kuation", "kaution"),
        ("monitres", "monitor"),
        ("edpot", "depot"),
        # Of short words: two letters in the wrong order, or one missing of five.
        ("fvie", "five"),
        ("nien", "nine"),
        ("whte", "white"),
        ("tils", "tile"),
    ],
)
def test_one_slip_is_forgiven(tmp_path: Path, typed: str, meant: str) -> None:
    assert Spelling(LEXICON).near(typed, build(tmp_path / "i", NOTES))[0] == meant


@pytest.mark.parametrize(
    "typed", ["fve", "niny", "inne", "itchen", "ktchn", "k1tchen", "towns", "after", "nachdem", "水果店", ""]
)
def test_short_words_other_words_and_words_that_are_right_are_left_alone(tmp_path: Path, typed: str) -> None:
    assert Spelling(LEXICON).near(typed, build(tmp_path / "i", NOTES)) == ()


@pytest.mark.parametrize(
    ("question", "corrected"),
    [
        ("What did Melhnie cook?", "What did melanie cook?"),
        ("Where was I in Noevmber?", "Where was I in november?"),
        ("waile at the deopt", "while at the depot"),
        ("Wehn did Gnia cook?", "when did gina cook?"),
        ("hwo was it, Gna or oJhn?", "who was it, gina or john?"),
        ("Whbn, in Jne or Jully?", "when, in june or july?"),
        # Another name, and words that are right.
        ("Did Gino or Joan see the wasp?", None),
        ("all the cites of the trip", "all the cites of the trip"),
        ("the deopt, five reties", "the depot, five retri"),
        # Not words of a sentence.
        ('"deopt" deopt.py /deopt deopt_id @deopt https://deopt.org', None),
        ("multiple mistakes according to me", None),
        ("Wann ist die Kuation fällig?", "Wann ist die kaution fällig?"),
        # Right in its language, though no note has it.
        ("Wie weit ist es zum Zahnarzt?", None),
        ("Wem gaben wir das?", None),
    ],
)
def test_a_question_is_corrected_before_it_is_understood(tmp_path: Path, question: str, corrected: str | None) -> None:
    found = Spelling(LEXICON).correct(question, build(tmp_path / "i", NOTES), ["Melanie Reed", "Gina", "John"])
    assert found.text == (question if corrected is None else corrected)
    assert bool(found.words) == (found.text != question)


NEAR = NOTES | {
    "memory/2026-10-05.md": "# House\n\n- Kenji likes the restaurant\n- three monitors, carro de paradas\n"
    "- the insurance pays, an appointment with the dentist\n- the espresso machine, the bicycle\n- received a letter, "
    "calendar of the house\n- Möbelwagen bestellt, temperature of the server room\n",
    "memory/2026-10-06.md": "# Other\n\n- a flight to Los Angeles\n- brew the tea\n- the core of the program, rendering"
    " the page\n- he grabbed the bag, lose weight\n- the cargo ship in the port, a robin\n- the merger of the brands\n"
    "- a silk scarf, a plank of wood\n- a hike on Sunday\n- basil and cream\n- the dealer and the market\n- thieves\n",
}


def test_slips_are_repaired_and_names_are_not(tmp_path: Path) -> None:
    reader, spelling = build(tmp_path / "i", NEAR), Spelling(Lexicon.load())
    rows = [row.split("\t") for row in QUESTIONS.read_text(encoding="utf-8").splitlines() if not row.startswith("#")]
    found = {text: [*chain(*spelling.correct(text, reader).words.values())] for _, text in rows}
    wrong = {text: found[text] for word, text in rows if word == "-" and found[text]}
    missed = {
        text: found[text] for word, text in rows if word != "-" and word not in {*found[text], *map(stem, found[text])}
    }
    assert (len(rows), wrong, missed) == (40, {}, {})


def test_the_word_being_typed_is_left_alone(tmp_path: Path) -> None:
    reader = build(tmp_path / "i", NOTES)
    assert Spelling(LEXICON).correct("reties deopt", reader, finished=False).text == "retri deopt"


def test_synonyms_of_a_misspelt_word_are_found(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i", {"memory/2026-10-02.md": "# Home\n\n- the kids go swimming on Friday\n"}))
    assert searcher.ask("when do the chldren have sports", vectors=False).hits[0].start_line == 3


def test_only_the_likeliest_are_proposed(tmp_path: Path) -> None:
    lines = "".join(f"- the {word} is here\n" for word in ("marbal", "marbel", "marbol", "marbul"))
    assert len(Spelling(LEXICON).near("marbil", build(tmp_path / "i", {"memory/2026-10-02.md": lines}))) == LIMIT


def test_a_new_note_brings_new_words(tmp_path: Path) -> None:
    path = tmp_path / "i"
    reader = build(path, NOTES)
    spelling = Spelling(LEXICON)
    assert spelling.near("zepelin", reader) == ()
    writer = IndexWriter.open(path)
    write(writer, {"memory/2026-10-04.md": "- a zeppelin over the town\n"})
    writer.close()
    assert spelling.near("zepelin", reader) == ("zeppelin",)


def test_a_misspelt_question_is_answered_and_the_word_shown(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i", NOTES))
    found = searcher.ask("how high is the Kuation", vectors=False)
    assert found.hits[0].snippet == "- Kaution: 1.900 Euro"
    assert found.warnings == ("Also searched: kaution (for kuation).",)
    assert searcher.ask("how high is the Kaution", vectors=False).warnings == ()


def test_only_words_of_the_results_are_told() -> None:
    corrected = {"deopt": ("depot", "debut"), "reties": ("retri",)}
    assert also_searched(corrected, ["the depot", "five retries, a depot"]) == (
        "Also searched: depot (for deopt).",
        "Also searched: retries (for reties).",
    )
    assert also_searched(corrected, ["nothing of it"]) == also_searched({}, ["depot"]) == ()
