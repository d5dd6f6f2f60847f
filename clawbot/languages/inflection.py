"""Inflected forms of German, Spanish and French words, the parts of German compounds, and the language of a question.

The keyword index stems in English only: a word of another language is found in its other forms by generating them.
Irregular forms (gave and give, zog and ziehen) are in a table, of English too.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from clawbot.languages.stems import stem
from clawbot.languages.tables import Language, table, words_in

Kind = Literal["plural", "noun", "verb"]

INFLECTED: tuple[Language, ...] = ("de", "es", "fr")
"""The languages whose words have forms that the index does not stem."""

FUNCTION_WORDS: dict[Language, frozenset[str]] = {
    language: words_in("function_words", language) for language in INFLECTED
}
"""The most usual function words of a language: what a sentence can't do without."""

_WORD = re.compile(r"[^\W\d_]+")

_ENGLISH = words_in("stop_words", "en")
_SHORT = 4
"""Letters below which a base takes plural endings only: longer ones would make other words of it."""

_SHORTEST_VERB = 3
_MAX_ENDING = 4
_SHORTEST_PART, _SHORTEST_COMPOUND, _MAX_COMPOUND = 3, 8, 48
_SHORTEST_EDGE = 5


def without_accents(word: str) -> str:
    """Return `word` in lower case without accents, as the index compares it."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in plain if not unicodedata.combining(character))


@functools.lru_cache(maxsize=64)
def languages_of(text: str) -> frozenset[Language]:
    """Return the languages that a question may be in: by its script, else by its function words and accents.

    Without any of these, all languages that are written in Latin letters.
    """
    if not text.isascii() and (scripts := _by_script(text)):
        return scripts
    found, accents = [word.lower() for word in _WORD.findall(text)], set(text.lower())
    votes: dict[Language, int] = {"en": len([word for word in found if word in _ENGLISH])}
    for language, usual in FUNCTION_WORDS.items():
        votes[language] = len([word for word in found if word in usual])
        votes[language] += not accents.isdisjoint(table(language, "forms")["accents"])
    most = max(votes.values())
    return frozenset(language for language, count in votes.items() if count == most)


def _by_script(text: str) -> frozenset[Language]:
    """Return the languages of the characters of `text`; empty for Latin letters."""
    characters = set(text)
    if any("\uac00" <= each <= "\ud7a3" for each in characters):
        return frozenset({"ko"})
    if any("\u3041" <= each <= "\u30ff" for each in characters):
        return frozenset({"ja"})
    return frozenset({"zh", "ja"}) if any("\u3400" <= each <= "\u9fff" for each in characters) else frozenset()


@functools.lru_cache(maxsize=4096)
def stems_of_forms(word: str, language: Language) -> frozenset[str]:
    """Return the stems in the index of all inflected forms that the dictionary form `word` may have."""
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
            if base == plain or len(base) >= max(_SHORT, len(plain) - _MAX_ENDING):
                found[base] = endings
                if language == "de" and len(plain) > _SHORT:
                    found[f"ge{base}"] = endings
    return tuple(sorted(found.items()))


def _irregular(word: str, language: Language) -> tuple[str, ...]:
    """The forms of an irregular word that `word` may be, or be a regular form of (zieht, zogen: ziehen, gezogen)."""
    bases = [word, *(base for base in bases_of(word, language) if len(base) >= _SHORTEST_VERB)]
    infinitives = (base + ending for base in bases for ending in _listed(language, "infinitive"))
    return next(filter(None, (irregular_forms(each, language) for each in (*bases, *infinitives))), ())


def irregular_forms(word: str, language: Language) -> tuple[str, ...]:
    """The other forms of `word` (in lower case) in a `language` that has a table of them; empty if it is regular.

    Left out is what is formed as of regular words.
    """
    forms = _forms(language).get(word) or (_with_prefix(word) if language == "de" else ())
    return tuple(form for form in forms if form != word)


@functools.cache
def _forms(language: Language) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in table(language, "forms").get("irregular", "").split(","):
        forms = tuple(line.split())
        for form in forms:
            # One form of two words (lay) stands for both.
            found[form] = (*found.get(form, ()), *forms)
    return found


def _with_prefix(word: str) -> tuple[str, ...]:
    """Return the forms of a German verb with a prefix (bezog, ausgezogen)."""
    for prefix in (*_listed("de", "separable"), *_listed("de", "inseparable")):
        rest = word.removeprefix(prefix)
        if rest == word or len(rest) < _SHORTEST_VERB:
            continue
        if forms := _forms("de").get(rest) or _forms("de").get(f"ge{rest}"):
            *others, participle = forms
            # ausgeben: ausgegeben, but bekommen: bekommen.
            last = participle if prefix in _listed("de", "separable") else participle.removeprefix("ge")
            return tuple(prefix + form for form in (*others, last))
    return ()


def is_irregular(word: str, language: Language) -> bool:
    """Return whether `word`, in lower case, is a form of an irregular word of an inflected `language`."""
    return bool(_irregular(word, language))


@functools.cache
def _stemmed_endings(language: Language, *, is_short: bool) -> frozenset[str]:
    """The endings of nouns and verbs (of short words those of a plural), also as English stemming leaves them."""
    endings = _endings(language, "plural") if is_short else _endings(language, "noun") | _endings(language, "verb")
    left = {ending.removesuffix(last) for ending in endings for last in ("e", "s", "es", "er", "ed")}
    return frozenset({"", *endings, *left})


def bases_of(word: str, language: Language) -> Iterator[str]:
    """Yield the bases (see `base_of`) that the form `word` may have, the longest first."""
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
    """Return the words of a German compound in lower case, without linking letters; empty if not all of them are known.

    `is_known` judges a word without accents. Of several ways, the one with the longest first word.
    """
    plain = without_accents(word)
    return _split(plain, is_known) if _SHORTEST_COMPOUND <= len(plain) <= _MAX_COMPOUND else ()


def compound_edges(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the longest known words that a German compound begins and ends with, where it is unknown itself."""
    plain = without_accents(word)
    if not _SHORTEST_COMPOUND <= len(plain) <= _MAX_COMPOUND:
        return ()
    ends = range(len(plain) - _SHORTEST_PART, _SHORTEST_EDGE - 1, -1)
    first = next((plain[:end] for end in ends if is_known(plain[:end])), "")
    last = next((plain[-end:] for end in ends if is_known(plain[-end:])), "")
    return tuple(filter(None, (first, last)))


def _split(word: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    for end in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        if not is_known(word[:end]):
            continue
        for link in ("", *_listed("de", "links")):
            rest = word[end:].removeprefix(link)
            if len(rest) < _SHORTEST_PART or not word[end:].startswith(link):
                continue
            if is_known(rest):
                return word[:end], rest
            if further := _split(rest, is_known):
                return word[:end], *further
    return ()


@functools.cache
def _listed(language: Language, name: str) -> tuple[str, ...]:
    return tuple(table(language, "forms")[name].split())


@functools.cache
def _endings(language: Language, kind: Kind) -> frozenset[str]:
    return frozenset(_listed(language, kind))


def _base(word: str, language: Language) -> tuple[str, frozenset[str]]:
    """Return the base of a dictionary form, and the endings that it takes."""
    plain = without_accents(word)
    # German writes nouns with a capital letter.
    if language != "de" or word[:1].islower():
        for infinitive in _listed(language, "infinitive"):
            base = plain.removesuffix(infinitive)
            if base != plain and len(base) >= _SHORTEST_VERB:
                return base, _endings(language, "verb")
    if len(plain) > _SHORT and plain[-1] in table(language, "forms")["final_vowels"]:
        return plain[:-1], _endings(language, "noun")
    return plain, _endings(language, "noun" if len(plain) >= _SHORT else "plural")
