"""Forms of German, Spanish and French words, German compounds, and the language of a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.languages.inflection import (
    INFLECTED,
    base_of,
    bases_of,
    beginnings_of_forms,
    compound_edges,
    compound_parts,
    irregular_forms,
    languages_of,
    stems_of_forms,
    without_accents,
)
from clawbot.languages.stems import stem
from clawbot.languages.tables import Language
from tests.tables import load_table


@pytest.mark.parametrize(
    ("language", "word", "forms"),
    load_table(__file__, "forms_are_found_from_the_word_and_lead_back_to_it"),
)
def test_forms_are_found_from_the_word_and_lead_back_to_it(language: Language, word: str, forms: list[str]) -> None:
    stems = stems_of_forms(word, language)
    for form in forms:
        assert stem(without_accents(form)) in stems
        assert {base_of(word, language), without_accents(word)} & set(bases_of(form, language))


@pytest.mark.parametrize(
    ("language", "word", "other"),
    [("es", "casa", "caso"), ("de", "Kind", "kindle"), ("fr", "lit", "litre")],
)
def test_other_words_that_begin_alike_are_no_forms(language: Language, word: str, other: str) -> None:
    assert stem(other) not in stems_of_forms(word, language)


GERMAN = frozenset("zahn arzt termin wohnung suche umzug karton nacht dienst haus tür".replace("ü", "u").split())


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Zahnarzttermin", ("zahn", "arzt", "termin")),
        ("Wohnungssuche", ("wohnung", "suche")),
        ("Haustürdienst", ("haus", "tur", "dienst")),
        # Half of it is unknown.
        ("Zahnbürste", ()),
        ("Nacht", ()),
        ("", ()),
    ],
)
def test_german_compounds_are_split_into_known_words(word: str, parts: tuple[str, ...]) -> None:
    assert compound_parts(word, GERMAN.__contains__) == parts


@pytest.mark.parametrize(
    ("word", "edges"),
    [
        ("Wohnungsbesichtigung", ("wohnung",)),
        ("Sondertermin", ("termin",)),
        # Short beginnings are of any word.
        ("Zahnbürste", ()),
        ("Termin", ()),
        ("x" * 10_000, ()),
    ],
)
def test_a_compound_that_is_half_unknown_has_known_edges(word: str, edges: tuple[str, ...]) -> None:
    assert compound_edges(word, GERMAN.__contains__) == edges


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("When is my dentist appointment?", {"en"}),
        ("Wann ist mein Termin beim Zahnarzt?", {"de"}),
        ("¿Cuándo es la cita con el dentista?", {"es"}),
        ("Quand est mon rendez-vous chez le dentiste ?", {"fr"}),
        ("歯医者の予約はいつ?", {"ja"}),
        ("치과 예약이 언제야?", {"ko"}),
        ("牙医预约是什么时候", {"zh", "ja"}),
        # Nothing tells: all that are written so.
        ("dentist proxy", {"en", "de", "es", "fr"}),
        ("", {"en", "de", "es", "fr"}),
    ],
)
def test_the_language_of_a_question(text: str, languages: set[str]) -> None:
    assert languages_of(text) == languages


@given(st.text(max_size=30), st.sampled_from(INFLECTED))
def test_any_text_is_a_word(word: str, language: Language) -> None:
    assert without_accents(word) in set(bases_of(word, language))
    assert stem(without_accents(word)) in stems_of_forms(word, language)


@pytest.mark.parametrize(
    ("language", "word", "others"),
    [
        ("en", "flew", {"fly", "flown", "flies"}),
        ("en", "laid", {"lay"}),
        ("en", "lay", {"laid", "lie", "lain", "lying"}),
        ("en", "walked", set()),
        ("de", "gab", {"geben", "gibt", "gegeben"}),
        ("de", "eingeladen", {"einladen", "einlädt", "einlud"}),
        ("de", "vergab", {"vergeben", "vergibt"}),
        ("es", "hizo", {"hacer", "hace", "hecho"}),
        ("fr", "vécu", {"vivre", "vit"}),
        ("ko", "gab", set()),
    ],
)
def test_irregular_words_have_the_forms_of_the_tables(language: Language, word: str, others: set[str]) -> None:
    assert set(irregular_forms(word, language)) == others


@pytest.mark.parametrize(
    ("language", "word", "form", "is_one"),
    load_table(__file__, "a_form_leads_to_the_others"),
)
def test_a_form_leads_to_the_others(language: Language, word: str, form: str, is_one: bool) -> None:
    begun = beginnings_of_forms(word.lower(), language)
    found = stem(form)
    assert any(found.startswith(base) and found.removeprefix(base) in ends for base, ends in begun) == is_one
