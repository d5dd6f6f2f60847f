"""Parses a question into its quoted phrases, words and names, in order, with alternative spellings. Any text is valid
and results in valid FTS5 syntax.

Chinese, Japanese and Korean are split without a dictionary: phrases such as "when" are removed, particles separate the
rest, and pairs with a character that often separates words count less, unless they are a common word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.languages.tables import longest_first
from clawbot.text.language import (
    CALENDAR_WORDS,
    CHINESE_KEPT,
    CHINESE_STOP_PHRASES,
    CJK,
    CJK_PARTICLES,
    CJK_WEAK,
    FOREIGN_STOP_WORDS,
    HIRAGANA,
    IDEOGRAPHS,
    NAMES_LIKE_STOP_WORDS,
    SHARED_STOP_WORDS,
    STOP_WORDS,
)
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import CJK_RUN, camel_parts, fts_quote, plain_forms, spread_text, tokens_of, words_of

Kind = Literal["word", "phrase", "identifier", "number", "cjk"]


class Term(Struct, frozen=True):
    """One search term.

    `match` is a complete FTS5 MATCH expression, used alone or joined with OR or AND. `text` is the query's own text in
    lower case. `weight` (above 0, at most 1) is relative to the other terms.
    """

    match: str
    kind: Kind
    text: str
    weight: float = 1.0


class Query(Struct, frozen=True):
    """A parsed question.

    `content_words` are its unique words in lower case without stop words (for Chinese the text between them); `names`
    its words capitalised other than at the start of a sentence, as written; `raw` the question itself, truncated to
    MAX_QUERY_CHARS and without characters that can't be stored. `is_little`: all its words are stop words.
    """

    raw: str
    terms: tuple[Term, ...]
    content_words: tuple[str, ...]
    names: tuple[str, ...]
    is_little: bool = False


class QueryTerms(Struct, frozen=True):
    """The terms and meaningful words of a part of a question."""

    terms: tuple[Term, ...] = ()
    content: tuple[str, ...] = ()


def any_of(spellings: Iterable[str]) -> str:
    """Return the MATCH expression for alternative spellings; a spelling with spaces is a phrase."""
    quoted = [fts_quote(spelling) for spelling in dict.fromkeys(spellings)]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"


PART = 0.5
"""The weight of parts of an identifier or a quoted phrase relative to all of it."""

_STOP_WORDS = STOP_WORDS | FOREIGN_STOP_WORDS
_PART = lazy_re(r"[^\W_]+")
_CONTRACTION = lazy_re(r"(.+?)(?:n['’]t|['’](?:s|m|re|ve|ll|d))", re.IGNORECASE)
_VERSION = lazy_re(r"v?(\d+(?:\.\d+)+)", re.IGNORECASE)
_GROUPED = lazy_re(r"\d{1,3}(?:,\d{3})+")
_DATE = lazy_re(r"\d{4}([-/.])\d{1,2}\1\d{1,2}")
_NUMBER = lazy_re(r"v?\d[\d.,:/-]*", re.IGNORECASE)
_LETTERS_AND_DIGITS = lazy_re(r"(\d+)([^\W\d_]+)|([^\W\d_]+)(\d+)")
_DIGITS = lazy_re(r"[1-9]\d{4,11}")
_PLUMBING = frozenset({"http", "https", "www", "com"})
_MAX_PARTS = 32
_MAX_JOINED = 40
_LONG_NUMBER = 3


@cache
def token_pattern(foreign: str = "") -> re.Pattern[str]:
    """Matches a word, number or identifier; `foreign` are excluded characters, for use in a character class.

    Parts joined by one sign (two for :: and ->, three for ://) are one identifier: user_id, v1.2.3, foo/bar.py, wi-fi.
    """
    letters = rf"[^\W_{foreign}]+"
    run = f"[{foreign}]+|" if foreign else ""
    return re.compile(rf"{run}{letters}(?:(?:://|::|->|__|[-_./\\:@'’+#&=~]|(?<=\d),(?=\d)){letters})*")


def base_of(token: str) -> str:
    """Return `token` without a contraction or genitive ending: Anna's becomes Anna, don't becomes do."""
    match = _CONTRACTION.fullmatch(token)
    return match[1] if match else token


def is_stop(token: str, *, starts: bool) -> bool:
    """Return whether `token` is a stop word. `starts`: it begins a sentence, so its capital is ignored."""
    base = base_of(token)
    if base in NAMES_LIKE_STOP_WORDS and not starts:
        return False
    plain = re.sub("['’]", "", token).lower()
    return plain in _STOP_WORDS or all(part.lower() in _STOP_WORDS for part in _PART.findall(base))


def latin_found(token: str, unit: str = "") -> QueryTerms:
    """Return the terms of a match of `token_pattern`; `unit` is the word after a number, which may be joined to it."""
    base = base_of(token)
    parts = _PART.findall(base)[:_MAX_PARTS]
    kind: Kind = "number" if _NUMBER.fullmatch(base) else "identifier"
    if len(parts) == 1:
        return _simple(parts[0], unit)
    full = Term(any_of(_compound_spellings(base, parts)), kind, base.lower())
    inner = [part for part in parts if kind != "number" and _worth_asking(part)]
    terms = [full, *(Term(fts_quote(part.lower()), "word", part.lower(), PART) for part in inner)]
    for part in parts:
        terms += _camel_terms(camel_parts(part))
    return QueryTerms(tuple(terms), (base.lower(), *(part.lower() for part in inner)))


def _simple(word: str, unit: str) -> QueryTerms:
    """Return the terms of a word of letters and digits."""
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
        return QueryTerms((Term(any_of(spellings), "number", lower),), (lower,))
    term = Term(any_of(spellings), "identifier" if len(spellings) > 1 else "word", lower)
    return QueryTerms((term, *_camel_terms(camel)), (lower,))


def _compound_spellings(base: str, parts: list[str]) -> Iterator[str]:
    """Yield the phrase of the parts, and alternative spellings: wifi for wi-fi, 1.2 for v1.2, 12000 for 12,000."""
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
    """Return whether a part of an identifier is specific enough by itself."""
    if part.isdigit():
        return len(part) >= _LONG_NUMBER
    return len(part) > 1 and part.lower() not in _STOP_WORDS | _PLUMBING


WEAK_PAIR = 0.4
"""The weight of a pair with hiragana or with a character that often separates words."""

ONE_OF_MANY = 0.4
"""The weight of a Chinese character relative to its pairs: synonyms often share one."""


_STOP_PHRASE = lazy_re("|".join(CHINESE_STOP_PHRASES))
_KEPT_WORD = lazy_re("|".join(longest_first(CHINESE_KEPT)))
_HIRAGANA, _HAN = lazy_re(f"[{HIRAGANA}]"), lazy_re(f"[{IDEOGRAPHS}]")


def cjk_found(run: str) -> QueryTerms:
    """Return the terms and meaningful parts of a run; empty for a run of stop words."""
    terms: list[Term] = []
    content: list[str] = []
    for stretch in _STOP_PHRASE.sub(" ", run).split():
        kept = {at for match in _KEPT_WORD.finditer(stretch) for at in range(match.start(), match.end())}
        for start, end in _between_particles(stretch, kept):
            weak = [at not in kept and stretch[at] in CJK_WEAK for at in range(start, end)]
            terms += _terms(stretch[start:end], weak)
            content += _content(stretch[start:end], weak)
    return QueryTerms(tuple(terms), tuple(content))


def cjk_all(run: str) -> QueryTerms:
    """Return every pair of a run, for a question of only stop words; for a single character itself."""
    pairs = [left + right for left, right in pairwise(run)] or [run]
    return QueryTerms(tuple(_term(pair) for pair in pairs), (run,))


def _between_particles(stretch: str, kept: set[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for at, character in enumerate(stretch):
        if character in CJK_PARTICLES and at not in kept:
            if at > start:
                yield start, at
            start = at + 1
    if start < len(stretch):
        yield start, len(stretch)


def _terms(run: str, weak: list[bool]) -> Iterator[Term]:
    if len(run) == 1:
        if not weak[0] and not _HIRAGANA.match(run):
            yield _term(run)
        return
    for at, (left, right) in enumerate(pairwise(run)):
        if not (weak[at] and weak[at + 1]):
            is_strong = not weak[at] and not weak[at + 1] and not _HIRAGANA.search(left + right)
            yield _term(left + right, 1.0 if is_strong else WEAK_PAIR)
    for at, character in enumerate(run):
        if not weak[at] and _HAN.match(character):
            yield _term(character, ONE_OF_MANY)


def _content(run: str, weak: list[bool]) -> Iterator[str]:
    """Yield `run` stripped of weak characters."""
    strong = [at for at, is_weak in enumerate(weak) if not is_weak]
    if strong:
        yield run[strong[0] : strong[-1] + 1]


def _term(text: str, weight: float = 1.0) -> Term:
    return Term(fts_quote(text), "cjk", text, weight)


MAX_QUERY_CHARS = 2_000
"""The rest of a longer query is ignored."""

MAX_TERMS = 64

_MAX_PHRASE = 200
_QUOTES = (('"', '"'), ("“", "”"), ("「", "」"), ("『", "』"), ("《", "》"))
_QUOTED = lazy_re("|".join(rf"{left}([^{right}\n]{{1,{_MAX_PHRASE}}}){right}" for left, right in _QUOTES))
_SCRUB = lazy_re(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_SENTENCE_START = lazy_re(r"(?:^|[.!?。！？:\n])[\s\"“'(]*$")
_BEFORE_CHARS = 8
_SHORT = 2


class _Token(Struct, frozen=True):
    """A word of the question, or a run of Chinese. `starts`: begins a sentence; `next`: the following text."""

    text: str
    starts: bool
    next: str

    @property
    def is_cjk(self) -> bool:
        return not self.text.isascii() and CJK_RUN.match(self.text) is not None


def parse_query(text: str) -> Query:
    """Parse the question `text`. Never fails; text without words has no terms."""
    raw = _SCRUB.sub(" ", text[:MAX_QUERY_CHARS]).strip()
    tokens = _tokens(plain_forms(raw))
    shared = SHARED_STOP_WORDS if _is_foreign(tokens) else frozenset()
    found = [QueryTerms() if token.text.lower() in shared else _found(token) for token in tokens]
    quoted = [group for match in _QUOTED.finditer(raw) for group in match.groups() if group]
    phrases = [_phrase(inner) for inner in quoted if words_of(inner)]
    if is_little := not any(stretch.terms for stretch in found):
        found = [cjk_all(token.text) if token.is_cjk else latin_found(token.text) for token in tokens]
        # "off by one": together they may mean much.
        latin = [base_of(token.text).lower() for token in tokens if not token.is_cjk]
        phrases += [_phrase(" ".join(latin))] if not phrases and 1 < len(latin) == len(tokens) else []
    inside = set(words_of(" ".join(quoted)))
    words = [
        msgspec.structs.replace(term, weight=term.weight * PART) if term.text in inside else term
        for stretch in found
        for term in stretch.terms
    ]
    content = dict.fromkeys(word for stretch in found for word in stretch.content)
    return Query(raw, _bounded([*phrases, *words]), tuple(content), _names(tokens), is_little)


def _is_foreign(tokens: Iterable[_Token]) -> bool:
    """Return whether more of the words that mean little are German, Spanish or French than English."""
    words = [token.text.lower() for token in tokens]
    return sum(word in FOREIGN_STOP_WORDS for word in words) > sum(word in STOP_WORDS for word in words)


def _tokens(text: str) -> list[_Token]:
    return [
        _Token(
            match[0],
            _SENTENCE_START.search(text, max(0, match.start() - _BEFORE_CHARS), match.start()) is not None,
            text[match.end() : match.end() + _BEFORE_CHARS],
        )
        for match in token_pattern("" if text.isascii() else CJK).finditer(text)
    ]


def _found(token: _Token) -> QueryTerms:
    if token.is_cjk:
        return cjk_found(token.text)
    if is_stop(token.text, starts=token.starts):
        return _little_compound(base_of(token.text))
    if not token.text.isdigit():
        return _with_neighbour(latin_found(token.text), token)
    unit = re.match(r" ([A-Za-z]{1,4})\b", token.next)
    is_unit = unit is not None and not is_stop(unit[1], starts=False)
    return _with_neighbour(latin_found(token.text, unit[1] if unit and is_unit else ""), token)


def _little_compound(base: str) -> QueryTerms:
    """Return the term of little words that are joined, such as get-to-know-you: together they mean something, also
    without the last one."""
    parts = _PART.findall(base)
    if "-" not in base or len(parts) < _SHORT:
        return QueryTerms()
    spellings = [*_compound_spellings(base, parts), *([" ".join(parts[:-1]).lower()] if len(parts) > _SHORT else ())]
    return QueryTerms((Term(any_of(spellings), "identifier", base.lower()),))


def _with_neighbour(found: QueryTerms, token: _Token) -> QueryTerms:
    """`found`, and the combination of a number or letter with a following Chinese character (a floor, a seat)."""
    if token.next.isascii() or not CJK_RUN.match(token.next):
        return found
    if len(token.text) > _SHORT and not token.text.isdigit():
        return found
    together = token.text.lower() + token.next[0]
    return QueryTerms((*found.terms, Term(fts_quote(spread_text(together).strip()), "cjk", together)), found.content)


def _phrase(inner: str) -> Term:
    """Return the term of a quoted phrase. In a Chinese one the pairs at its ends include the adjacent characters."""
    spread = spread_text(inner).split()
    if len(spread) > 1 and not inner.isascii() and CJK_RUN.fullmatch(plain_forms(inner)):
        spread = spread[1:-1]
    return Term(fts_quote(" ".join(spread)), "phrase", inner.lower())


def _bounded(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return each expression once, with its highest weight; the heaviest MAX_TERMS in order."""
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
        # Only names have a genitive, so the first word of "Anna's birthday" is one.
        if has_capital and (not token.starts or base != token.text) and not is_stop(token.text, starts=token.starts):
            names.setdefault(base)
    return tuple(names)


def query_tokens(question: str) -> frozenset[str]:
    """The tokens (`tokens.tokens_of`) that identify a match of `question` for a reader: those of its words as search
    sees them; for CJK the pairs, and single characters only if isolated."""
    found: set[str] = set()
    for term in parse_query(question).terms:
        if term.kind == "cjk":
            found |= {term.text} if len(term.text) > 1 or term.weight > ONE_OF_MANY else set()
        else:
            found |= {token.text for token in tokens_of(term.text) if token.text.isascii() or len(token.text) > 1}
    return frozenset(found)
