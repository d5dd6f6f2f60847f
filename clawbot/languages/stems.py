"""Stems and base forms of English words.

The index stems in SQLite (Porter); `stem` is the same algorithm for code outside, checked against it by a test.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

_LONGEST, _SHORTEST = 64, 3
"""Characters of a word that is stemmed."""
_BASE = 3  # shorter ones are not base forms: "being" is not from "bee"


def _pairs(table: str) -> Mapping[str, str]:
    """Parse `ending:replacement …`, longest ending first."""
    pairs = dict([pair.split(":") for pair in table.split()])
    return {ending: pairs[ending] for ending in sorted(pairs, key=len, reverse=True)}


_MENDED = _pairs("at:ate bl:ble iz:ize")
_DOUBLE_SUFFIXES = _pairs(
    "ational:ate tional:tion enci:ence anci:ance izer:ize logi:log bli:ble alli:al entli:ent eli:e ousli:ous "
    "ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble"
)
_SUFFIXES = _pairs("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
_LAST = _pairs(
    "al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: sion:s tion:t ou: ism: ate: iti: ous: ive: ize:"
)


@functools.lru_cache(8_192)
def stem(word: str) -> str:
    """Return the stem of the lower-case `word` (M. F. Porter, 1980): moved, moving and moves become `move`."""
    if not _SHORTEST <= len(word) <= _LONGEST:
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and "v" in _form(word[:-1]):
        word = f"{word[:-1]}i"
    for endings, least in ((_DOUBLE_SUFFIXES, 1), (_SUFFIXES, 1), (_LAST, 2)):
        word = _replaced(word, endings, least)
    if word.endswith("e") and (_measure(word[:-1]) > 1 or (_measure(word[:-1]) == 1 and not _is_short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def bases(word: str) -> list[str]:
    """Return `word` and its possible base forms: plural, third person, -ing and -ed. Some are not words."""
    found = [word]
    for suffix, ending in (("ies", "y"), ("ied", "y"), ("es", ""), ("s", "")):
        if word.endswith(suffix) and not word.endswith("ss"):
            found.append(word[: -len(suffix)] + ending)
    for suffix in ("ing", "ed"):
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) >= _BASE:
            found += [rest, rest + "e"]
            if rest[-1:] == rest[-2:-1]:
                found.append(rest[:-1])
    return [word, *[base for base in found[1:] if len(base) >= _BASE]]


def _without_plural(word: str) -> str:
    for ending, other in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending) and word != ending:
            return word.removesuffix(ending) + other
    return word


def _without_past(word: str) -> str:
    if word.endswith("eed") and word != "eed":
        return word[:-1] if _measure(word[:-3]) else word
    rest = word.removesuffix("ing") if word.endswith("ing") else word.removesuffix("ed")
    if rest == word or "v" not in _form(rest):
        return word
    mended = _replaced(rest, _MENDED, 0)
    if mended != rest:
        return mended
    if rest[-1:] == rest[-2:-1] and rest[-1] not in "aeioulsz":
        return rest[:-1]
    return f"{rest}e" if _measure(rest) == 1 and _is_short(rest) else rest


def _replaced(word: str, endings: Mapping[str, str], least: int) -> str:
    """Return `word` with its ending replaced if the rest has at least the measure `least`."""
    if not word.endswith((*endings,)):
        return word
    # The longest ending comes first.
    for ending, other in endings.items():
        if word.endswith(ending):
            rest = word.removesuffix(ending)
            # The s or t before -ion is kept.
            measured = rest + ending[:1] if ending in ("sion", "tion") else rest
            return rest + other if _measure(measured) >= least else word
    return word


def _form(word: str) -> str:
    """Return `word` as vowels (v) and consonants (c); a y after a consonant is a vowel."""
    form = ""
    for character in word:
        form += "v" if character in "aeiou" or (character == "y" and form.endswith("c")) else "c"
    return form


def _measure(word: str) -> int:
    """Return the number of vowel-consonant sequences: roughly the syllables before the ending."""
    return _form(word).count("vc")


def _is_short(word: str) -> bool:
    return _form(word).endswith("cvc") and word[-1] not in "wxy"
