"""Cutting a text into the words that a search is made of: stems of English ones, pieces of Chinese runs."""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from clawbot.llm.offline.language import HAN
from clawbot.llm.offline.vocabulary import CONCEPTS, HAN_STOP_PHRASES, STOP_WORDS

MAX_TERMS = 12
"""A search with more words than this finds everything and says nothing."""

MAX_PATTERN = 900
"""How long a search pattern gets, in characters; grep takes a thousand."""

_TOKEN = re.compile(f"[{HAN}]+|[^\\W_{HAN}]+")
_HAN_START = re.compile(f"[{HAN}]")
_HAN_STOP = re.compile("|".join(HAN_STOP_PHRASES))
_VOWEL = re.compile(r"[aeiouy]")
_SUFFIXES = ("ations", "ation", "ences", "ence", "ments", "ment", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")
_KEEP_S = ("ss", "us", "is")

_CONCEPT_OF = {word: concept for concept in CONCEPTS for word in concept}
_HAN_CONCEPTS = re.compile(
    "|".join(sorted((word for word in _CONCEPT_OF if _HAN_START.match(word) and len(word) > 1), key=len, reverse=True))
)


class Term(Struct, frozen=True):
    """One thing that is searched for: `forms` are its stems, that of the user's own word first, then those of related
    words; `shown` is the user's word, `weight` is above 0."""

    forms: tuple[str, ...]
    shown: str
    weight: float = 1.0


def normalise(text: str) -> str:
    """`text` in the form that words are compared in: compatibility forms unified, case folded, no apostrophes."""
    return unicodedata.normalize("NFKC", text).casefold().replace("'", "").replace("\u2019", "")


def tokens(text: str) -> list[str]:
    """All words of `text`, normalised; a run of Chinese is one."""
    return _TOKEN.findall(normalise(text))


def is_han(token: str) -> bool:
    """Whether a token is a run of Chinese."""
    return _HAN_START.match(token) is not None


def stem(word: str) -> str:
    """The beginning that the forms of an English word share: `preferred`, `preferences` -> `prefer`."""
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return word
    for suffix in _SUFFIXES:
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest) and not (suffix == "s" and word.endswith(_KEEP_S)):
            return _close(rest)
    return _close(word)


def _close(rest: str) -> str:
    """Drop what the ending did to the word: a doubled consonant, a final e or y."""
    if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "aeiousl":
        return rest[:-1]
    return rest[:-1] if len(rest) > 3 and rest[-1] in "ey" else rest


def stems(text: str) -> list[str]:
    """The stems of all words of `text` that are not Chinese."""
    return [stem(token) for token in tokens(text) if not is_han(token)]


def terms(text: str) -> list[Term]:
    """What a search for `text` looks for, without the words that carry no meaning; at most `MAX_TERMS`."""
    found: dict[str, Term] = {}
    for token in tokens(text):
        for term in _han_terms(token) if is_han(token) else _word_terms(token):
            found.setdefault(term.forms[0], term)
    strongest = sorted(found.values(), key=lambda term: -term.weight)[:MAX_TERMS]
    return [term for term in found.values() if term in strongest]


def _word_terms(token: str) -> list[Term]:
    if token in STOP_WORDS or (len(token) == 1 and not token.isdigit()):
        return []
    return [_with_concept(stem(token), token)]


def _with_concept(word: str, shown: str) -> Term:
    others = [other for other in _CONCEPT_OF.get(word, ()) if other != word]
    return Term((word, *others), shown)


def _han_terms(run: str) -> list[Term]:
    found: list[Term] = []
    rest = run
    for concept in _HAN_CONCEPTS.findall(run):
        found.append(_with_concept(concept, concept))
        rest = rest.replace(concept, " ")
    for piece in han_pieces(rest):
        found.extend(_piece_terms(piece))
    return found


def han_pieces(run: str) -> list[str]:
    """The stretches of a Chinese run that are left when the words without meaning are cut out."""
    return _HAN_STOP.sub(" ", run).split()


def _piece_terms(piece: str) -> list[Term]:
    """A short piece is one term. A longer one is of unknown words: each pair of neighbours counts, for less."""
    if piece in _CONCEPT_OF:
        return [_with_concept(piece, piece)]
    if len(piece) < 3:
        return [Term((piece,), piece, 1.0 if len(piece) == 2 else 0.4)]
    share = 1.5 / (len(piece) - 1)
    return [Term((pair,), pair, share) for pair in (piece[at : at + 2] for at in range(len(piece) - 1))]


def pattern(wanted: list[Term]) -> str:
    """A regular expression that finds every line with a form of a term: stems at the start of a word, Chinese anywhere.

    The user's own words come first; related ones are added while there is room (`MAX_PATTERN`).
    """
    own = [term.forms[0] for term in wanted]
    related = [form for term in wanted for form in term.forms[1:]]
    latin: list[str] = []
    han: list[str] = []
    room = MAX_PATTERN
    for form in dict.fromkeys([*own, *related]):
        room -= len(re.escape(form)) + 1
        if room < 0:
            break
        (han if is_han(form) else latin).append(re.escape(form))
    words = [f"(?:^|[^A-Za-z])(?:{'|'.join(latin)})"] if latin else []
    return "|".join(words + han)
