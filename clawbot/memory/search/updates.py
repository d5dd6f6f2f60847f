"""Finds lines that state a new value of the same thing on a later day, and puts the newest first."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import date
from itertools import combinations

from msgspec import Struct

from clawbot.languages.stems import stem
from clawbot.languages.tables import pattern_in, words_in
from clawbot.memory.dates.european import FULL_MONTHS, WEEKDAY_NUMBERS, without_marks
from clawbot.text.language import CALENDAR_WORDS, CJK, FOREIGN_STOP_WORDS, SHARED_STOP_WORDS, STOP_WORDS
from clawbot.text.patterns import lazy_re
from clawbot.text.query import cjk_found, token_pattern
from clawbot.text.tokens import CJK_RUN, plain_forms, words_of

FEWEST, SHARE, LONGEST = 2, 1 / 3, 300
"""Least number of names that two lines about the same thing share, their least share, and a line's most characters."""

_LITTLE = STOP_WORDS | FOREIGN_STOP_WORDS | SHARED_STOP_WORDS | {"user", "assistant"}
_VALUES = frozenset({*CALENDAR_WORDS, *FULL_MONTHS, *WEEKDAY_NUMBERS, *words_in("values", "en")})
_HAN_VALUE = lazy_re(pattern_in("value", "zh"))
_NUMBER = lazy_re(r"[vV]?\d")
_TIME = lazy_re(rf"(?i:\.?\s*(?:{pattern_in('unit_of_time')}|(?:{'|'.join(sorted(_VALUES))})\b))")
_VERB = lazy_re(
    rf"\s*(?:[:：]|{'|'.join(words_in('is', 'zh'))}|(?:{'|'.join(words_in('is', 'en', 'de', 'es', 'fr'))})\b)"
)
_NEXT_TO = lazy_re(r"[\s*_`\"']*")
_MARKER = lazy_re(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[.\]\s+)?")


class Statement(Struct, frozen=True):
    """A line, the day that it was written for, None if unknown, and which distinctive words of the question it has."""

    text: str
    day: date | None
    asked: frozenset[int] = frozenset()


class InTime(Struct, frozen=True):
    """The positions of statements in their new `order`, and those that a later one of the others replaces."""

    order: Sequence[int]
    earlier: frozenset[int]


def newest_first(statements: Sequence[Statement]) -> InTime:
    """Put the newest statement about a thing at the position of the best one, if it has its words of the question."""
    topics = [_topic(each) for each in statements]
    order, earlier = list(range(len(statements))), set[int]()
    # Lines without a word of the question are no answers, unless all are found by their meaning alone.
    answers = [at for at in order if statements[at].asked] or order
    by_day = combinations(sorted(answers, key=lambda at: statements[at].day or date.min), 2)
    alike = [(old, new) for old, new in by_day if _is_alike(topics[old], topics[new])]
    same_day = [(topics[old], topics[new]) for old, new in alike if statements[old].day == statements[new].day]
    # Several values on one day are those of several things, which other lines name, such as headings.
    listed = [old.names for old, new in same_day if old.values.isdisjoint(new.values)]
    for old, new in alike:
        has_words = statements[old].asked <= statements[new].asked
        if has_words and statements[old].day != statements[new].day and topics[old].names not in listed:
            earlier.add(old)
            if order.index(old) < order.index(new):
                order.remove(new)
                order.insert(order.index(old), new)
    return InTime(order, frozenset(earlier))


class _Topic(Struct):
    """What a line is about, its `names` (content words, and numbers of things), and what it states, its `values` (other
    numbers, weekdays, months). `proper` are the names before the first value that can't be verbs."""

    names: set[str]
    proper: set[str]
    values: set[str]


def _is_alike(old: _Topic, new: _Topic) -> bool:
    """Return whether `new` states another value of the same thing, or of one whose name neither has. If each has a name
    that the other lacks, they are about different things; one alone may have more names, but no proper ones."""
    if not (new.names <= old.names or old.names <= new.names) or new.values <= old.values or not old.values:
        return False
    fewer, more = sorted((new.names, old.names), key=len)
    return len(fewer) >= max(FEWEST, SHARE * len(more)) and (more - fewer).isdisjoint(new.proper | old.proper)


def _topic(statement: Statement) -> _Topic:
    topic, line = _Topic(set(), set(), set()), statement.text
    if statement.day is None or len(line) > LONGEST or line.startswith("#") or line.endswith(("?", "？")):
        return topic
    text = plain_forms(line)
    start = end = found.end() if (found := _MARKER.match(text)) else 0
    words = list(token_pattern("" if text.isascii() else CJK).finditer(text, start))
    last, is_after_name = max((each.start() for each in words if each[0][0].isdigit()), default=0), True
    for each in words:
        word, at = each[0], each.start()
        names, values, ends_with_name = _parts(word)
        if _NUMBER.match(word):
            # Of a thing: "order 4711 has 3 boxes", "02:14 backup took 41 minutes"; a value: "port 8080", "dinner 9:30".
            is_time = at > start and (":" in word or _TIME.match(text, each.end()))
            is_next = is_after_name and not (topic.values or is_time) and _NEXT_TO.fullmatch(text, end, at)
            if text[at - 1 : at] == "#" or (is_next and (at < last or _VERB.match(text, each.end()))):
                names, values = values, names
        topic.names |= names
        if not topic.values and ((at > start and word[0].isupper()) or any(map(str.isdigit, word))):
            topic.proper |= names
        topic.values |= values
        is_after_name, end = ends_with_name, each.end()
    return topic


@functools.lru_cache(8_192)
def _parts(word: str) -> tuple[frozenset[str], frozenset[str], bool]:
    """Return the names and the values in a word or a run of Chinese, and whether it ends with a name."""
    lower = without_marks(word.lower())
    if _NUMBER.match(lower) or lower in _VALUES:
        return frozenset(), frozenset({lower}), False
    if not word.isascii() and CJK_RUN.match(word):
        terms = cjk_found(_HAN_VALUE.sub(" ", word)).terms
        names = frozenset(term.text for term in terms if term.weight == 1 or len(term.text) == 1)
        return names, frozenset(_HAN_VALUE.findall(word)), word.endswith(tuple(names))
    names = frozenset(stem(part) for part in words_of(word) if part not in _LITTLE)
    return names, frozenset(), bool(names)
