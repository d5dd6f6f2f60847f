"""Owns what a word, number or identifier of a question asks for, in all the spellings that notes may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from clawbot.memory.query.values import Found, Kind, Term, any_of
from clawbot.memory.stop_words import NAMES_LIKE_STOP_WORDS, STOP_WORDS
from clawbot.memory.text import camel_parts, fts_quote

PART = 0.5
"""What the parts of an identifier or of a quoted phrase count beside the whole."""

_PART = re.compile(r"[^\W_]+")
_CONTRACTION = re.compile(r"(.+?)(?:n['’]t|['’](?:s|m|re|ve|ll|d))", re.IGNORECASE)
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)", re.IGNORECASE)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_DATE = re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}")
_NUMBER = re.compile(r"v?\d[\d.,:/-]*", re.IGNORECASE)
_LETTERS_AND_DIGITS = re.compile(r"(\d+)([^\W\d_]+)|([^\W\d_]+)(\d+)")
_DIGITS = re.compile(r"[1-9]\d{4,11}")
_PLUMBING = frozenset({"http", "https", "www", "com"})
_MAX_PARTS = 32
_MAX_JOINED = 40
_LONG_NUMBER = 3


@cache
def token_pattern(foreign: str = "") -> re.Pattern[str]:
    """A word, number or identifier; `foreign` are characters that belong to none, to stand in a character class.

    Parts joined by one sign (two for :: and ->, three for ://) are one identifier: user_id, v1.2.3, foo/bar.py, wi-fi.
    """
    letters = rf"[^\W_{foreign}]+"
    run = f"[{foreign}]+|" if foreign else ""
    return re.compile(rf"{run}{letters}(?:(?:://|::|->|__|[-_./\\:@'’+#&=~]|(?<=\d),(?=\d)){letters})*")


def base_of(token: str) -> str:
    """`token` without the ending of a contraction or of a genitive: Anna's is Anna, don't is do."""
    match = _CONTRACTION.fullmatch(token)
    return match[1] if match else token


def is_stop(token: str, *, starts: bool) -> bool:
    """Whether `token` says nothing. `starts`: it begins a sentence, so that its capital means nothing."""
    base = base_of(token)
    if base in NAMES_LIKE_STOP_WORDS and not starts:
        return False
    plain = re.sub("['’]", "", token).lower()
    return plain in STOP_WORDS or all(part.lower() in STOP_WORDS for part in _PART.findall(base))


def latin_found(token: str, unit: str = "") -> Found:
    """The terms of a match of `token_pattern`; `unit` is the word behind a number that may be written together."""
    base = base_of(token)
    parts = _PART.findall(base)[:_MAX_PARTS]
    kind: Kind = "number" if _NUMBER.fullmatch(base) else "identifier"
    if len(parts) == 1:
        return _simple(parts[0], unit)
    whole = Term(any_of(_compound_spellings(base, parts)), kind, base.lower())
    inner = [part for part in parts if kind != "number" and _worth_asking(part)]
    terms = [whole, *(Term(fts_quote(part.lower()), "word", part.lower(), PART) for part in inner)]
    for part in parts:
        terms += _camel_terms(camel_parts(part))
    return Found(tuple(terms), (base.lower(), *(part.lower() for part in inner)))


def _simple(word: str, unit: str) -> Found:
    """The terms of a word of letters and digits."""
    lower = word.lower()
    camel = camel_parts(word)
    spellings = [lower]
    if camel:
        spellings.append(" ".join(camel).lower())
    if mixed := _LETTERS_AND_DIGITS.fullmatch(lower):
        spellings.append(" ".join(filter(None, mixed.groups())))
    if unit:
        spellings.append(lower + unit.lower())
    if _DIGITS.fullmatch(lower):
        spellings.append(f"{int(lower):,}".replace(",", " "))
    if word.isdigit():
        return Found((Term(any_of(spellings), "number", lower),), (lower,))
    term = Term(any_of(spellings), "identifier" if len(spellings) > 1 else "word", lower)
    return Found((term, *_camel_terms(camel)), (lower,))


def _compound_spellings(base: str, parts: list[str]) -> Iterator[str]:
    """The phrase of the parts, and what else may be written for it: wi-fi is wifi, v1.2 is 1.2, 12,000 is 12000."""
    yield " ".join(parts).lower()
    if version := _VERSION.fullmatch(base):
        digits = version[1].replace(".", " ")
        yield from (digits, f"v{digits}")
    elif (_GROUPED.fullmatch(base) or _DATE.fullmatch(base) or not _NUMBER.fullmatch(base)) and len(
        base
    ) <= _MAX_JOINED:
        yield "".join(parts).lower()


def _camel_terms(parts: list[str]) -> Iterator[Term]:
    for part in filter(_worth_asking, parts):
        yield Term(fts_quote(part.lower()), "word", part.lower(), PART)


def _worth_asking(part: str) -> bool:
    """Whether a part of an identifier finds more than noise by itself."""
    if part.isdigit():
        return len(part) >= _LONG_NUMBER
    return len(part) > 1 and part.lower() not in STOP_WORDS | _PLUMBING
