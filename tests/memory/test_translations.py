"""The thesaurus across languages: which words of the notes a question leads to."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import pytest

from clawbot.languages.inflection import INFLECTED, beginnings_of_forms, stems_of_forms, without_accents
from clawbot.languages.stems import stem
from clawbot.languages.tables import Language
from clawbot.memory.lexicon import Expansion, Lexicon
from clawbot.memory.translations import IN_ALL, PER_WORD, TRANSLATED, Thesaurus, Translations, compounds_in
from tests.memory.index_host import House, find, paths
from tests.tables import load_table

LEXICON = Lexicon(
    "dentist | 牙医\nappointment, booking | 预约\npay | 付款\nrent | 房租\ndinner, supper | 晚饭\ntub | 浴缸\n"
    "shoe size | 鞋码\nshoe | 鞋\nsize | 尺寸\nnow | 现在\n"
    "red | 红色\nnetwork | 网络\n"
)
WORDS: dict[Language, str] = load_table(__file__, "WORDS")


class Notes:
    """Notes that have some words."""

    def __init__(self, languages: set[Language], words: str) -> None:
        self.languages = frozenset(languages)
        self._stems = {stem(without_accents(word)) for word in words.split()}

    def forms(self, word: str, language: Language) -> Sequence[str]:
        return sorted(stems_of_forms(word, language) & self._stems)

    def variants(self, word: str, language: Language) -> Sequence[str]:
        begun = beginnings_of_forms(word, language)
        found = {
            each for base, ends in begun for each in self._stems if each.startswith(base) and each[len(base) :] in ends
        }
        return sorted(found - {stem(without_accents(word))})

    def has(self, word: str) -> bool:
        return stem(without_accents(word)) in self._stems


def leads_to(text: str, languages: set[Language], words: str = "") -> dict[str, str]:
    """The translations of a question, with the word that each stands for."""
    return {each.word: each.source for each in expanded(text, languages, words) if each.translated}


def expanded(text: str, languages: set[Language], words: str) -> Sequence[Expansion]:
    loaded: Mapping[Language, Translations] = {
        name: Translations(lines, name, LEXICON.numbers) for name, lines in WORDS.items()
    }
    return Thesaurus(LEXICON, Notes(languages, words), loaded.__getitem__).expand(text)


@pytest.mark.parametrize(
    ("question", "languages", "words", "found"),
    [
        (
            "When is my dentist appointment?",
            {"de"},
            "Zahnarzt Termine",
            {"Zahnarzt": "dentist", "Termin": "appointment"},
        ),
        # Only what the notes have.
        ("When is my dentist appointment?", {"de"}, "Wetter", {}),
        # Only languages that the notes have.
        ("When is my dentist appointment?", {"en"}, "Zahnarzt", {}),
        ("How much is the rent?", {"ja", "ko"}, "", {"家賃": "rent", "월세": "rent"}),
        ("Wie hoch ist die Miete?", {"es"}, "alquileres", {"rent": "miete", "alquiler": "miete"}),
        ("¿Cuánto pagamos?", {"de"}, "gezahlt", {"pay": "pagamos", "zahlen": "pagamos"}),
        ("Wie hoch ist die Miete?", {"zh"}, "", {"房租": "miete"}),
        ("家賃はいくら?", {"de"}, "Miete", {"rent": "家賃", "Miete": "家賃"}),
        ("월세가 얼마야?", {"fr"}, "loyer", {"rent": "월세", "loyer": "월세"}),
        # A compound of the question leads on from its parts.
        ("Wann ist der Zahnarzttermin?", {"es"}, "dentista", {"dentista": "zahnarzttermin"}),
        ("Wann ist der Zahnarzttermin?", {"es"}, "cita", {"cita": "zahnarzttermin"}),
        # Spanish "red" (network) is not looked for in English notes.
        ("Which network is it?", {"en", "es"}, "red", {}),
        # A little word is none of the notes' words: "wann" (when) is no form of "Wanne" (bathtub).
        ("Wann war das?", {"en"}, "tub", {}),
        ("", {"de"}, "Zahnarzt", {}),
    ],
)
def test_a_question_leads_to_words_of_the_notes(
    question: str, languages: set[Language], words: str, found: dict[str, str]
) -> None:
    got = leads_to(question, languages, words)
    assert found.items() <= got.items()
    if not found:
        assert got == {}


def test_a_word_alone_is_taken_as_english_if_it_is_one() -> None:
    assert leads_to("red", {"en", "es"}, "red network") == {}


def test_a_phrase_is_found_whole() -> None:
    assert leads_to("C'est quand, la prise de rendez-vous ?", {"en"})["appointment"] == "prise de rendez vous"


def test_translations_are_limited() -> None:
    many = ", ".join(f"wort{number}" for number in range(50))
    lexicon = Lexicon("".join(f"thing{number} | 东西{number}\n" for number in range(10)))
    lines = "\n".join(f"thing{number}: {many.replace('wort', f'wort{number}x')}" for number in range(10))
    notes = Notes({"de"}, " ".join(f"wort{a}x{b}" for a in range(10) for b in range(50)))
    thesaurus = Thesaurus(lexicon, notes, lambda language: Translations(lines, language, lexicon.numbers))
    one = [each for each in thesaurus.expand("is it thing1 ?") if each.translated]
    everything = [each for each in thesaurus.expand(" ".join(f"the thing{n}" for n in range(10))) if each.translated]
    assert (len(one), len(everything)) == (PER_WORD, IN_ALL)
    # Each word keeps its best ones.
    assert len({each.source for each in everything}) == 10


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_line_of_a_shipped_file_translates_a_concept(language: Language) -> None:
    numbers = Lexicon.load().numbers
    translations = Translations.load(language)
    words = [translations.words(number) for number in numbers.values()]
    assert sum(map(bool, words)) > 0.95 * len(numbers)
    for word in (word for line in words for word in line):
        assert word == word.strip() == unicodedata.normalize("NFC", word) != ""
        assert (language in INFLECTED) or not word.isascii() or word.upper() == word or len(word) > 1


def test_concepts_begin_with_different_words() -> None:
    lexicon = Lexicon.load()
    assert len(lexicon.numbers) == len(list(lexicon.concepts()))


def test_parts_of_german_compounds_are_indexed() -> None:
    assert compounds_in("Neuer Zahnarzttermin") == ["zahnarzt", "termin"]
    assert compounds_in("nothing remarkable happened yesterday") == []


NOTES = load_table(__file__, "NOTES")


@pytest.mark.parametrize(
    ("question", "line"),
    load_table(__file__, "notes_of_another_language_are_found_by_words_alone"),
)
async def test_notes_of_another_language_are_found_by_words_alone(house: House, question: str, line: str) -> None:
    for path, text in NOTES.items():
        house.write(path, text)
    async with house.opened(None) as index:
        await index.sync()
        assert line in paths(await find(index, question))


async def test_what_a_search_knows_of_the_words_follows_the_notes(house: House) -> None:
    house.write("memory/a.md", "# Note\n\n- the and of to is with\n")
    async with house.opened(None) as index:
        await index.sync()
        assert paths(await find(index, "Did the rent go up?")) == []
        house.write("memory/de.md", NOTES["memory/de.md"])
        await index.sync()
        assert paths(await find(index, "Did we pay the rent?")) == ["memory/de.md"]


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("What was wrong with the refrigerator?", "냉장고가 고장 나서 수리 기사를 불렀다"),
        ("Who cleaned the refrigerator?", "祖母が冷蔵庫を片づけた"),
        ("航班延误了多久?", "the flight came in four hours late"),
    ],
)
async def test_long_words_and_the_parts_of_phrases_are_found(house: House, question: str, note: str) -> None:
    """Of a word of three characters or more the index has only pairs and single characters."""
    house.write("memory/a.md", f"# Note\n\n- {note}\n- nothing else\n")
    async with house.opened(None) as index:
        await index.sync()
        assert paths(await find(index, question)) == ["memory/a.md"]


def test_the_words_of_a_phrase_are_looked_up_too() -> None:
    found = leads_to("靴のサイズは?", {"en"}) | leads_to("C'est quand, la prise de rendez-vous payer ?", {"en"})
    assert {"shoe size", "shoe", "size"} <= set(found)


def test_little_words_of_a_question_are_not_translated() -> None:
    assert "now" not in leads_to("Wie hoch ist die Miete jetzt?", {"en"})


def other_forms(text: str, languages: set[Language], words: str = "") -> dict[str, set[str]]:
    """The other forms of the words of a question that are looked for."""
    return {each.source: set(each.forms) for each in expanded(text, languages, words) if each.inflected}


@pytest.mark.parametrize(
    ("question", "languages", "words", "found"),
    [
        ("Where did Ada fly?", {"en"}, "", {"fly": {"flew", "flown", "flies"}}),
        ("Who was bitten, which child?", {"en"}, "", {"bitten": {"bite", "bit"}, "child": {"children"}}),
        # Of other languages only what the notes have.
        ("Wer hat die Fenster bezahlt?", {"de"}, "Fenstern bezahlen bezirk", {"fenster", "bezahlt"}),
        ("Wohin zieht sie?", {"de"}, "gezogen zog zogern", {"zieht": {"gezogen", "zog"}}),
        ("Wann wurde der Schrank übernommen?", {"de"}, "Schränke übernahm", {"übernommen": {"ubernahm"}}),
        ("¿Cuánto costó la mesa?", {"es"}, "cuesta mesas cosa", {"costó": {"cuesta"}}),
        ("Qui a pris les clés ?", {"fr"}, "prend clef", {"pris": {"prend"}}),
        # Little words and other languages are left alone.
        ("Was ist das?", {"de"}, "isst dass", {}),
    ],
)
def test_other_forms_of_a_word_are_looked_for(
    question: str, languages: set[Language], words: str, found: dict[str, set[str]] | set[str]
) -> None:
    got = other_forms(question, languages, words)
    assert got == found if isinstance(found, dict) else set(got) == found


@pytest.mark.parametrize(
    ("question", "note"),
    load_table(__file__, "a_word_is_found_in_its_other_forms"),
)
async def test_a_word_is_found_in_its_other_forms(house: House, question: str, note: str) -> None:
    house.write("memory/a.md", f"# Note\n\n- {note}\n")
    async with house.opened(None) as index:
        await index.sync()
        assert paths(await find(index, question)) == ["memory/a.md"]


async def test_a_form_that_no_note_has_is_no_slip(house: House) -> None:
    house.write("memory/a.md", "# Note\n\n- the kitten hid in the barn\n- mittens are in the drawer\n")
    async with house.opened(None) as index:
        await index.sync()
        assert (await find(index, "Who was bitten?")).warnings == ()


@pytest.mark.parametrize(
    ("question", "words", "found"),
    [
        ("How did the peripherally inserted central catheter go?", "picc", {"picc"}),
        ("what is our recovery point objective", "rpo point", {"rpo"}),
        # Two of the words are in the notes; nobody writes the initials; they are an English word.
        ("what is our recovery point objective", "rpo point objective", set()),
        ("what is our recovery point objective", "picc", set()),
        ("tiny umber bowls", "tub", set()),
    ],
)
def test_notes_have_the_initials_of_a_name(question: str, words: str, found: set[str]) -> None:
    words_found = {each.word for each in expanded(question, {"en"}, words)}
    assert words_found & {"picc", "rpo", "tub"} == found
