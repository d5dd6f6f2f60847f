"""Inflected forms of German, Spanish and French words, the parts of German compounds, and the language of a question.

The keyword index stems in English only: a word of another language is found in its other forms by generating them.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal

from clawbot.text.irregular import irregular_forms
from clawbot.text.language import STOP_WORDS
from clawbot.text.patterns import lazy_re
from clawbot.text.stems import stem

Language = Literal["en", "zh", "de", "es", "fr", "ja", "ko"]
Kind = Literal["plural", "noun", "verb"]

INFLECTED: tuple[Language, ...] = ("de", "es", "fr")
"""The languages whose words have forms that the index does not stem."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS: dict[Language, frozenset[str]] = {
    "de": _words("""
        aber als am an auf aus bei beim bin bis das dass dem den der des die dir du ein eine einem einen einer er es
        für gegen haben hat hatte ich ihr im in ist kein keine man mehr mein meine mich mir mit nach nicht noch nur
        ob oder seit sich sie sind über um und uns unter viel viele vom von vor wann war waren warum was welche
        welchem welchen welcher welches wem wen wer wie wieder wieso wir wird wo wofür woher wohin worden wurde wurden
        zu zum zur zwischen
    """),
    "es": _words("""
        a al algo como con cuando cuál cuáles cuándo cuánta cuántas cuánto cuántos cómo de del desde donde dónde el
        ella ellos en entre era es esta este está fue ha han hay la las le les lo los me mi mis muy más nos o para
        pero por porque que quien quién quiénes qué se sin sobre son su sus también tiene tu un una uno y ya
    """),
    "fr": _words("""
        a au aux avec avons c ce ces cette chez combien comment d dans de des du elle elles en est et il ils j je l
        la le les leur lui m ma mais me mes mon n ne nos notre nous on ont ou où par pas pour pourquoi qu quand que
        quel quelle quelles quels qui quoi s sa se ses son sont sur t ta te tes ton tu un une vos votre vous à été
    """),
}
"""The most usual function words of a language: what a sentence can't do without."""

_WORD = lazy_re(r"[^\W\d_]+")
_ACCENTS: dict[Language, str] = {"de": "äöüß", "es": "áíóúñ¿¡", "fr": "çèêàùœâîôûë"}
_HAN = lazy_re(r"[\u3400-\u9fff]")
_KANA = lazy_re(r"[\u3041-\u30ff]")
_HANGUL = lazy_re(r"[\uac00-\ud7a3]")

_SHORT = 4
"""Letters below which a base takes plural endings only: longer ones would make other words of it."""

_PLURALS: dict[Language, str] = {"de": "e en er es n s", "es": "s es", "fr": "s x"}
_NOUNS: dict[Language, str] = {
    "de": "e en er ern es em n nen s se",
    "es": "o a e os as es",
    "fr": "e s x es",
}
_VERBS: dict[Language, str] = {
    "de": "e en n st t te ten test et ete eten end er ung ungen",
    "es": "o as a amos an e es emos en i iste imos ieron io aron aste ado ada ados adas ido ida idos idas ando iendo"
    " aba aban abamos ia ian ara aran are era eran ere ira iran ire ar er ir",
    "fr": "e es ent er ez ons ai ait aient ant a as ee ees is it u ue us i ie issent issait era ir re",
}
_INFINITIVES: dict[Language, tuple[str, ...]] = {
    "de": ("en",),
    "es": ("ar", "er", "ir", "arse", "erse", "irse"),
    "fr": ("er", "ir", "re"),
}
_FINAL_VOWELS: dict[Language, str] = {"de": "e", "es": "oae", "fr": "e"}
_SHORTEST_VERB = 3
_LONGEST_ENDING = 4
_LINKS = ("", "s", "n", "es", "en", "e")
_SHORTEST_PART, _SHORTEST_COMPOUND, _LONGEST_COMPOUND = 3, 8, 48
_SHORTEST_EDGE = 5


def without_accents(word: str) -> str:
    """`word` in lower case without accents, as the index compares it."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in plain if not unicodedata.combining(character))


@functools.lru_cache(maxsize=64)
def languages_of(text: str) -> frozenset[Language]:
    """The languages that a question may be in: by its script, else by its function words and accents.

    Without any of these, all languages that are written in Latin letters.
    """
    if not text.isascii() and (scripts := _by_script(text)):
        return scripts
    words = [word.lower() for word in _WORD.findall(text)]
    votes: dict[Language, int] = {"en": sum(word in STOP_WORDS for word in words)}
    for language, usual in FUNCTION_WORDS.items():
        votes[language] = sum(word in usual for word in words)
        votes[language] += any(letter in text.lower() for letter in _ACCENTS[language])
    most = max(votes.values())
    return frozenset(language for language, count in votes.items() if count == most)


def _by_script(text: str) -> frozenset[Language]:
    """The languages of the characters of `text`; empty for Latin letters."""
    if _HANGUL.search(text):
        return frozenset({"ko"})
    if _KANA.search(text):
        return frozenset({"ja"})
    return frozenset({"zh", "ja"}) if _HAN.search(text) else frozenset()


@functools.lru_cache(maxsize=4096)
def stems_of_forms(word: str, language: Language) -> frozenset[str]:
    """The stems in the index of all inflected forms that the dictionary form `word` may have."""
    base, endings = _base(word, language)
    forms = {without_accents(word), base, *(base + ending for ending in endings)}
    if language == "de" and endings == _endings("de", "verb"):
        forms |= {f"ge{base}t", f"ge{base}en", f"ge{base}et"}
    return frozenset(map(stem, forms))


@functools.lru_cache(maxsize=4096)
def beginnings_of_forms(word: str, language: Language) -> tuple[tuple[str, frozenset[str]], ...]:
    """What the stems of all forms of the word begin with that `word` may be a form of, each with the endings that may
    follow there.

    Only bases of a few letters less are tried: short ones are those of many words.
    """
    found: dict[str, frozenset[str]] = {}
    for form in (word, *_irregular(word, language)):
        plain = without_accents(form)
        endings = _stemmed_endings(language, is_short=len(plain) <= _SHORT)
        for base in [plain] if len(plain) <= _SHORT else bases_of(form, language):
            if base == plain or len(base) >= max(_SHORT, len(plain) - _LONGEST_ENDING):
                found[base] = endings
                if language == "de" and len(plain) > _SHORT:
                    found[f"ge{base}"] = endings
    return tuple(sorted(found.items()))


def _irregular(word: str, language: Language) -> tuple[str, ...]:
    """The forms of an irregular word that `word` may be, or be a regular form of (zieht, zogen: ziehen, gezogen)."""
    bases = [word, *(base for base in bases_of(word, language) if len(base) >= _SHORTEST_VERB)]
    infinitives = (base + ending for base in bases for ending in _INFINITIVES[language])
    return next(filter(None, (irregular_forms(each, language) for each in (*bases, *infinitives))), ())


def is_irregular(word: str, language: Language) -> bool:
    """Whether `word`, in lower case, is a form of an irregular word of an inflected `language`."""
    return bool(_irregular(word, language))


@functools.cache
def _stemmed_endings(language: Language, *, is_short: bool) -> frozenset[str]:
    """The endings of nouns and verbs (of short words those of a plural), also as English stemming leaves them."""
    endings = _endings(language, "plural") if is_short else _endings(language, "noun") | _endings(language, "verb")
    left = {ending.removesuffix(last) for ending in endings for last in ("e", "s", "es", "er", "ed")}
    return frozenset({"", *endings, *left})


def bases_of(word: str, language: Language) -> Iterator[str]:
    """The bases (see `base_of`) that the form `word` may have, the longest first."""
    plain = without_accents(word)
    yield plain
    most = max(map(len, (*_endings(language, "noun"), *_endings(language, "verb"))))
    for cut in range(1, min(most, len(plain) - 2) + 1):
        base, ending = plain[:-cut], plain[-cut:]
        kind: Kind = "plural" if len(base) < _SHORTEST_VERB else "verb"
        if ending in _endings(language, kind) or ending in _endings(language, "noun"):
            yield base
    if language == "de" and plain.startswith("ge") and len(plain) > _SHORT + 2:
        yield from bases_of(plain[2:], language)


def base_of(word: str, language: Language) -> str:
    """What all forms of the dictionary form `word` begin with: pagar becomes pag, Hütte becomes hutt."""
    return _base(word, language)[0]


def compound_parts(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """The words of a German compound in lower case, without linking letters; empty if not all of them are known.

    `is_known` judges a word without accents. Of several ways, the one with the longest first word.
    """
    plain = without_accents(word)
    return _split(plain, is_known) if _SHORTEST_COMPOUND <= len(plain) <= _LONGEST_COMPOUND else ()


def compound_edges(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """The longest known words that a German compound begins and ends with, where it is not known as a whole."""
    plain = without_accents(word)
    if not _SHORTEST_COMPOUND <= len(plain) <= _LONGEST_COMPOUND:
        return ()
    ends = range(len(plain) - _SHORTEST_PART, _SHORTEST_EDGE - 1, -1)
    first = next((plain[:end] for end in ends if is_known(plain[:end])), "")
    last = next((plain[-end:] for end in ends if is_known(plain[-end:])), "")
    return tuple(filter(None, (first, last)))


def _split(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    for end in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        if not is_known(word[:end]):
            continue
        for link in _LINKS:
            rest = word[end:].removeprefix(link)
            if len(rest) < _SHORTEST_PART or not word[end:].startswith(link):
                continue
            if is_known(rest):
                return word[:end], rest
            if further := _split(rest, is_known):
                return word[:end], *further
    return ()


@functools.cache
def _endings(language: Language, kind: Kind) -> frozenset[str]:
    table = {"plural": _PLURALS, "noun": _NOUNS, "verb": _VERBS}[kind]
    return frozenset(table[language].split())


def _base(word: str, language: Language) -> tuple[str, frozenset[str]]:
    """The base of a dictionary form, and the endings that it takes."""
    plain = without_accents(word)
    # German writes nouns with a capital letter.
    if language != "de" or word[:1].islower():
        for infinitive in _INFINITIVES[language]:
            base = plain.removesuffix(infinitive)
            if base != plain and len(base) >= _SHORTEST_VERB:
                return base, _endings(language, "verb")
    if len(plain) > _SHORT and plain[-1] in _FINAL_VOWELS[language]:
        return plain[:-1], _endings(language, "noun")
    return plain, _endings(language, "noun" if len(plain) >= _SHORT else "plural")
