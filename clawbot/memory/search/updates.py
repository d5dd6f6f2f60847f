"""Finds lines that tell the same thing of different days, and puts the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import combinations

from msgspec import Struct

from clawbot.text.language import FOREIGN_STOP_WORDS, STOP_WORDS
from clawbot.text.tokens import tokens_of

FEWEST = 2
"""Words that two lines about the same thing share at least."""

SHARE = 0.8
"""Share of the shorter line's words that the other one has at least."""

LONGEST = 300
"""Characters of a line that states one thing; longer ones tell many."""

_PAIR = 2
_SPEAKERS = frozenset({"user", "assist"})


class Statement(Struct, frozen=True):
    """A line and the day that it was written for, None if unknown."""

    text: str
    day: date | None


class InTime(Struct, frozen=True):
    """The positions of statements in their new `order`, and those that a later one of the others replaces."""

    order: Sequence[int]
    earlier: frozenset[int]


def newest_first(statements: Sequence[Statement]) -> InTime:
    """Put the newest of several statements about the same thing in the place of the best one.

    Statements about the same thing share most of the shorter one's words and are not the same. Nothing is dropped:
    a question may ask how it was before.
    """
    topics = [_topic(each) for each in statements]
    order = list(range(len(statements)))
    earlier: set[int] = set()
    for one, other in combinations(range(len(statements)), 2):
        if not _is_same_thing(topics[one], topics[other]):
            continue
        first, second = statements[one].day, statements[other].day
        if first is None or second is None or first == second:
            continue
        earlier.add(one if first < second else other)
        if first < second and order.index(one) < order.index(other):
            order.remove(other)
            order.insert(order.index(one), other)
    return InTime(order, frozenset(earlier))


class _Topic(Struct, frozen=True):
    """The content words of a statement, and everything that it says."""

    words: frozenset[str]
    all: frozenset[str]


def _topic(statement: Statement) -> _Topic:
    if statement.day is None or len(statement.text) > LONGEST:
        return _Topic(frozenset(), frozenset())
    said = frozenset(token.text for token in tokens_of(statement.text)) - _SPEAKERS
    return _Topic(frozenset(filter(_says_something, said)), said)


def _says_something(word: str) -> bool:
    if any(map(str.isdigit, word)) or word in STOP_WORDS or word in FOREIGN_STOP_WORDS:
        return False
    # Of Chinese, Japanese and Korean text the pairs, not the single characters.
    return len(word) > _PAIR or (len(word) == _PAIR and not word.isascii())


def _is_same_thing(one: _Topic, other: _Topic) -> bool:
    shared = len(one.words & other.words)
    least = min(len(one.words), len(other.words))
    return shared >= FEWEST and shared >= SHARE * least and one.all != other.all
