"""Parses a question (words with synonyms, speakers, days, whether it asks for a time), finds the lines with its words,
and computes their rarity."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from clawbot.languages.tables import pattern_in
from clawbot.memory.arrays import distinct, numpy
from clawbot.memory.dates import DateRange, dates_in
from clawbot.memory.lexicon import Expansion
from clawbot.memory.search.protocols import StopCheck
from clawbot.text.language import CJK
from clawbot.text.patterns import lazy_re
from clawbot.text.query import Term, any_of, parse_query
from clawbot.text.tokens import fts_quote, plain_forms, spread_text

if TYPE_CHECKING:
    from clawbot.config.schema_memory import LineWeights
    from clawbot.memory.arrays import Floats, Ids


_WHEN = lazy_re(pattern_in("asks_when"), re.IGNORECASE)
_HOW_MANY = lazy_re(pattern_in("asks_number"), re.IGNORECASE)
_DOING = lazy_re(pattern_in("asks_what_was_done"))
_IN_ORDER = lazy_re(pattern_in("asks_order"), re.IGNORECASE)
_CJK_RUN = lazy_re(rf"[{CJK}]+")
# After a space, punctuation or Chinese. A single letter is a prefix of too many words.
_LAST_WORD = lazy_re(rf"(?<![^\W_{CJK}])[^\W_{CJK}]{{2,}}\Z")
_MIN_STEM = 3
_STEM_SHARE = 2 / 3  # the usual share of a word that stemming keeps


class Alternative(Struct, frozen=True):
    """Another spelling or word: its FTS5 expression, and its weight relative to the question's word."""

    match: str
    weight: float


class WantedWord(Struct, frozen=True):
    """One word of the question, with its alternatives."""

    match: str
    weight: float
    others: tuple[Alternative, ...] = ()


class Expands(Protocol):
    """A thesaurus."""

    def expand(self, text: str) -> Sequence[Expansion]:
        """Return additional words for the words of `text`."""


class Question(Struct, frozen=True):
    """A parsed question. `speakers` are ids of the index; `days` are the periods that the question names.

    `words` are the spellings in `wanted`, the question's own first, `names` the expressions of capitalised ones.
    `unfinished`: its last word is still being typed. `only_days`: it asks for all that is of its days, and names at
    most one thing; `names_nothing`: not even one. `asks_order`: it asks what came before what.
    """

    wanted: tuple[WantedWord, ...]
    speakers: frozenset[int]
    days: tuple[DateRange, ...]
    asks_when: bool
    asks_number: bool
    words: tuple[str, ...] = ()
    unfinished: bool = False
    names: frozenset[str] = frozenset()
    only_days: bool = False
    names_nothing: bool = False
    asks_order: bool = False


def understand(
    text: str,
    speakers: Mapping[int, str],
    today: date,
    lexicon: Expands,
    weights: LineWeights,
    *,
    prefix: bool = False,
    guessed: Collection[str] = (),
) -> Question:
    """Parse the question `text`. `speakers` are those of the index; relative dates count from `today`. `guessed` are
    the words, in lower case, that replaced misspelt ones.

    With `prefix`, a word at the very end also matches longer words.
    """
    days = dates_in(text, today, prefer="past")
    rest = _without(text, (each.text for each in days))
    query = parse_query(rest)
    left = parse_query(_DOING.sub(" ", rest.lower())) if days else query
    only_days = bool(days) and (left.is_little or len(left.content_words) + 2 * len(query.names) <= 1)
    if only_days and query.is_little:
        query = parse_query(" ".join(each.text for each in days))
    terms = query.terms or parse_query(text).terms
    named, others = _named(text, speakers, terms)
    expansions = lexicon.expand(text)
    wanted = tuple(_wanted(term, expansions, weights, is_sure=term.text not in guessed) for term in (others or terms))
    begun = _begun(text) if prefix else ""
    if begun:
        wanted = tuple(_with_longer(each, begun, weights) for each in wanted)
    spelled = (form for each in expansions for form in (each.forms if each.inflected else (each.word,)))
    words = (*(term.text for term in others or terms), *spelled)
    asks_when, asks_number, asks_order = (ask.search(text) is not None for ask in (_WHEN, _HOW_MANY, _IN_ORDER))
    names = frozenset(fts_quote(name.lower()) for name in query.names)
    nothing = only_days and left.is_little
    asked = wanted, frozenset(named), days, asks_when, asks_number, words, bool(begun), names
    return Question(*asked, only_days, nothing, asks_order)


def _without(text: str, wordings: Iterable[str]) -> str:
    """Return `text` without its dates: dated notes seldom repeat their date."""
    plain = plain_forms(text)
    for wording in wordings:
        plain = plain.replace(wording, " ", 1)
    return plain


def _named(text: str, speakers: Mapping[int, str], terms: Sequence[Term]) -> tuple[list[int], list[Term]]:
    """Return the speakers that the question names, and the terms that are not their names."""
    words = {term.text for term in terms if term.kind != "cjk"}
    lower = text.lower()
    named: list[int] = []
    names: set[str] = set()
    for number, name in speakers.items():
        first = name.lower().split()[:1]
        if first and (first[0] in words or (_is_cjk(name) and name.lower() in lower)):
            named.append(number)
            names.add(first[0])
    return named, [term for term in terms if not any(_is_of(term, name) for name in names)]


def _is_cjk(word: str) -> bool:
    # The pattern takes 2 ms to compile.
    return not word.isascii() and _CJK_RUN.fullmatch(word) is not None


def _is_of(term: Term, name: str) -> bool:
    return term.text in name if term.kind == "cjk" else term.text == name


def _wanted(term: Term, expansions: Sequence[Expansion], weights: LineWeights, *, is_sure: bool) -> WantedWord:
    others = [
        Alternative(_match_of(*(each.forms or (each.word,))), _weight_of(each, weights))
        for each in expansions
        if _is_part_of(term, each.source)
    ]
    weight = term.weight if is_sure else term.weight * weights.misspelt
    return WantedWord(term.match, weight, tuple(each for each in others if each.match != term.match))


def _weight_of(expansion: Expansion, weights: LineWeights) -> float:
    if expansion.inflected:
        return weights.inflected
    if expansion.translated:
        return weights.translated
    return weights.broader if expansion.broader else weights.same_meaning


def _begun(text: str) -> str:
    """Return the word being typed at the end of `text`; empty if there is none."""
    found = _LAST_WORD.search(plain_forms(text))
    return found[0].lower() if found else ""


def _with_longer(wanted: WantedWord, begun: str, weights: LineWeights) -> WantedWord:
    """`wanted` with prefix matches of `begun`, if it contains that word."""
    if fts_quote(begun) not in wanted.match:
        return wanted
    longer = [Alternative(f"{fts_quote(begun)} *", weights.begun)]
    stem = begun[: max(_MIN_STEM, int(len(begun) * _STEM_SHARE))]
    if begun.isalpha() and stem != begun:
        # The index contains stems: "movin" is not a prefix of "move".
        longer.append(Alternative(f"{fts_quote(stem)} *", weights.begun_stem))
    return msgspec.structs.replace(wanted, others=(*wanted.others, *longer))


def _is_part_of(term: Term, source: str) -> bool:
    """Return whether `term` is part of `source`, a phrase known to the thesaurus."""
    if term.kind == "cjk":
        return term.text in source
    text = term.text.casefold()
    return text in source.split() or text == source


def _match_of(word: str, *others: str) -> str:
    """Return the FTS5 expression of a thesaurus word in any of its forms; CJK words have one. For Chinese, the pairs at
    its ends include the neighbouring characters."""
    if others:
        return any_of((word, *others))
    spread = spread_text(word).split()
    if len(spread) > 1 and _is_cjk(word):
        spread = spread[1:-1]
    return fts_quote(" ".join(spread))


_TASTES = 4  # one of so many postings is read to learn which expressions are rare
RAREST = 8.0
"""The weight of the rarest word."""


class Matches(Struct, frozen=True):
    """Where one word is found: ascending chunk `ids` `(n,)`, how well each matches (`values` `(n,)`, 0 to 1), and its
    weight (`rarity`, 0 to RAREST)."""

    ids: Ids
    values: Floats
    rarity: float

    def within(self, ids: Ids) -> tuple[Ids, Floats]:
        """Return the positions in the ascending `ids` where it is found, `(m,)`, and how well, `(m,)`."""
        np = numpy()
        if not len(ids):
            return np.zeros(0, np.int64), self.values[:0]
        positions = np.minimum(np.searchsorted(ids, self.ids), len(ids) - 1)
        known = ids[positions] == self.ids
        return positions[known], self.values[known]


class WordFinder:
    """Looks up words among `total` chunks; `postings` is called with an FTS5 expression and a limit. `frequency`
    returns the number of chunks in which one with so many postings occurs, where these are not all."""

    def __init__(
        self,
        postings: Callable[[str, int], Sequence[int] | Ids],
        total: int,
        frequency: Callable[[str, int], int] = lambda _match, found: found,
        limits: tuple[int, int] = (sys.maxsize, sys.maxsize),
    ) -> None:
        """`limits` are those of the postings read for one expression, and kept of all."""
        self._postings = postings
        self._frequency = frequency
        self._total = total
        self._limit, self._most = limits
        self._known: dict[str, Ids] = {}
        self._skipped: set[str] = set()

    def choose(self, wanted: Iterable[WantedWord]) -> None:
        """If all postings of `wanted` may be too many, read those of the rarest expressions: the others are left
        out, since the first postings of one would favour old notes. Blocks."""
        matches = {match: True for word in wanted for match in (word.match, *(each.match for each in word.others))}
        if len(matches) * min(self._limit, self._total) <= self._most:
            return
        few = self._most // (_TASTES * len(matches)) + 1
        found = {match: self._ask(match, few) for match in matches}
        left = self._most - sum(len(ids) for ids in found.values() if len(ids) < few)
        # The same number of postings reaches the further, the rarer they are.
        frequent = [(-int(ids[-1]), match) for match, ids in found.items() if len(ids) == few]
        for _, match in sorted(frequent):
            ids = self._ask(match, min(self._limit, left)) if left > 0 else found[match]
            if left < self._most and len(ids) >= left:
                left, ids = 0, ids[:0]
                self._skipped.add(match)
            found[match], left = ids, left - len(ids)
        self._known = found

    def find(self, wanted: Sequence[WantedWord], should_stop: StopCheck) -> tuple[list[Matches], bool]:
        """Return the matches of each word, and whether `should_stop` ended the lookup early. Blocks."""
        found: list[Matches] = []
        for each in wanted:
            if should_stop():
                return found, True
            found.append(self._matches(each))
        return found, False

    def _matches(self, wanted: WantedWord) -> Matches:
        np = numpy()
        own = self._ids(wanted.match)
        rarity = self._rarity(wanted.match, len(own))
        groups = [(own, 1.0)]
        for other in wanted.others:
            ids = self._ids(other.match)
            if len(ids):
                # A frequent synonym must not count as much as the rare word in the question.
                groups.append((ids, other.weight * min(1.0, self._rarity(other.match, len(ids)) / rarity)))
        if len(groups) == 1:
            # A word that was left out is no part of the question.
            weight = 0.0 if wanted.match in self._skipped else wanted.weight
            return Matches(own, np.ones(len(own), np.float32), rarity * weight)
        ids = distinct(np.concatenate([ids for ids, _ in groups]))
        values = np.zeros(len(ids), np.float32)
        for some, weight in groups:
            positions = np.searchsorted(ids, some)
            values[positions] = np.maximum(values[positions], weight)
        return Matches(ids, values, rarity * wanted.weight)

    def _ids(self, match: str) -> Ids:
        ids = self._known.get(match)
        if ids is None:
            ids = self._known[match] = self._ask(match, self._limit)
        return ids

    def _ask(self, match: str, limit: int) -> Ids:
        found: Ids = numpy().asarray(self._postings(match, limit), numpy().int64)
        return found

    def _rarity(self, match: str, found: int) -> float:
        """RAREST for a word in no line, near 0 for one in every line."""
        total = max(self._total, 1)
        count = self._limit if match in self._skipped else self._frequency(match, found)
        rarity = RAREST * math.log(1 + (total - count + 0.5) / (count + 0.5)) / math.log(1 + total)
        return min(rarity, RAREST)
