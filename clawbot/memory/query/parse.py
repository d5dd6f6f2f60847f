"""Owns the reading of a question: its quoted phrases, its words and its names, in the order in which they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from clawbot.memory.query.cjk import cjk_all, cjk_found
from clawbot.memory.query.latin import PART, base_of, is_stop, latin_found, token_pattern
from clawbot.memory.query.values import Found, Query, Term
from clawbot.memory.stop_words import CALENDAR_WORDS
from clawbot.memory.text import CJK, cjk_run, fts_quote, plain_forms, spread_text, words_of

MAX_QUERY_CHARS = 2_000
"""The rest of a longer query is not read."""

MAX_TERMS = 64

_MAX_PHRASE = 200
_QUOTES = (('"', '"'), ("“", "”"), ("「", "」"), ("『", "』"), ("《", "》"))
_QUOTED = re.compile("|".join(rf"{left}([^{right}\n]{{1,{_MAX_PHRASE}}}){right}" for left, right in _QUOTES))
_SCRUB = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_SENTENCE_START = re.compile(r"(?:^|[.!?。！？:\n])[\s\"“'(]*$")
_LOOK_BACK = 8
_SHORT = 2


class _Token(Struct, frozen=True):
    """A word of the question, or a run of Chinese. `starts`: begins a sentence; `next`: what stands behind it."""

    text: str
    starts: bool
    next: str

    @property
    def is_cjk(self) -> bool:
        return not self.text.isascii() and cjk_run().match(self.text) is not None


def parse_query(text: str) -> Query:
    """Take the question `text` apart. Never fails; text without any word gives no terms."""
    raw = _SCRUB.sub(" ", text[:MAX_QUERY_CHARS]).strip()
    tokens = _tokens(plain_forms(raw))
    found = [_found(token) for token in tokens]
    if not any(stretch.terms for stretch in found):
        found = [cjk_all(token.text) if token.is_cjk else latin_found(token.text) for token in tokens]
    quoted = [group for match in _QUOTED.finditer(raw) for group in match.groups() if group]
    phrases = [_phrase(inner) for inner in quoted if words_of(inner)]
    words = _lighter((term for stretch in found for term in stretch.terms), set(words_of(" ".join(quoted))))
    content = dict.fromkeys(word for stretch in found for word in stretch.content)
    return Query(raw, _bounded([*phrases, *words]), tuple(content), _names(tokens))


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(
            match[0],
            _SENTENCE_START.search(text, max(0, match.start() - _LOOK_BACK), match.start()) is not None,
            text[match.end() : match.end() + _LOOK_BACK],
        )
        for match in token_pattern("" if text.isascii() else CJK).finditer(text)
    ]


def _found(token: _Token) -> Found:
    if token.is_cjk:
        return cjk_found(token.text)
    if is_stop(token.text, starts=token.starts):
        return Found()
    if not token.text.isdigit():
        return _with_neighbour(latin_found(token.text), token)
    unit = re.match(r" ([A-Za-z]{1,4})\b", token.next)
    is_unit = unit is not None and not is_stop(unit[1], starts=False)
    return _with_neighbour(latin_found(token.text, unit[1] if unit and is_unit else ""), token)


def _with_neighbour(found: Found, token: _Token) -> Found:
    """`found`, and what a number or a letter means together with a Chinese character right behind it: 11楼, B座."""
    if token.next.isascii() or not cjk_run().match(token.next):
        return found
    if len(token.text) > _SHORT and not token.text.isdigit():
        return found
    together = token.text.lower() + token.next[0]
    return Found((*found.terms, Term(fts_quote(spread_text(together).strip()), "cjk", together)), found.content)


def _phrase(inner: str) -> Term:
    """The term of a quoted phrase. In a Chinese one the pairs at its ends hold the characters beside them."""
    spread = spread_text(inner).split()
    if len(spread) > 1 and not inner.isascii() and cjk_run().fullmatch(plain_forms(inner)):
        spread = spread[1:-1]
    return Term(fts_quote(" ".join(spread)), "phrase", inner.lower())


def _lighter(terms: Iterable[Term], quoted: set[str]) -> list[Term]:
    """`terms`, those that a quoted phrase holds already with less weight."""
    return [msgspec.structs.replace(term, weight=term.weight * PART) if term.text in quoted else term for term in terms]


def _bounded(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Each expression once, with the most that it counts; the heaviest MAX_TERMS in their order."""
    best: dict[str, Term] = {}
    for term in terms:
        known = best.get(term.match)
        if known is None or known.weight < term.weight:
            best[term.match] = term
    heaviest = sorted(best.values(), key=lambda term: -term.weight)[:MAX_TERMS]
    kept = {term.match for term in heaviest}
    return tuple(term for term in best.values() if term.match in kept)


def _names(tokens: Iterable[_Token]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for token in tokens:
        base = base_of(token.text)
        has_capital = base[:1].isupper() and len(base) > 1 and not base.isupper() and base.lower() not in CALENDAR_WORDS
        # Only a name has a genitive, so the first word of "Anna's birthday" is one.
        if has_capital and (not token.starts or base != token.text) and not is_stop(token.text, starts=token.starts):
            names.setdefault(base)
    return tuple(names)
