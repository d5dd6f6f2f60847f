"""Owns the search for the dates that a text speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from clawbot.memory.dates.chinese import CHINESE
from clawbot.memory.dates.english import ENGLISH
from clawbot.memory.dates.grammar import Found
from clawbot.memory.dates.numeric import NUMERIC
from clawbot.memory.dates.ranges import Context, DateRange, Prefer
from clawbot.memory.text import plain_forms

_ASCII_CAPITALS = re.compile("[A-Z]+")
_MAX_CHARS = 20_000
_CACHED_CHARS = 1_000


def dates_in(text: str, reference: date, *, prefer: Prefer = "nearest") -> tuple[DateRange, ...]:
    """The dates that `text` speaks of, in their order, each period once.

    Relative ones are counted from `reference`: for a question today, for a line of a note the note's date. `prefer`
    says what a month or weekday without a year or week means: `past` for questions, `nearest` for notes. Never
    fails; what looks like a date and can't be one is left out. The first 20,000 characters are read.
    """
    if len(text) <= _CACHED_CHARS:
        return _cached(text, reference, prefer)
    return _dates_in(text[:_MAX_CHARS], reference, prefer)


def _dates_in(text: str, reference: date, prefer: Prefer) -> tuple[DateRange, ...]:
    plain = plain_forms(text)
    context = Context(reference, prefer)
    grammars = (NUMERIC, ENGLISH) if plain.isascii() else (NUMERIC, ENGLISH, CHINESE)
    lower = _lower(plain)
    found = [each for grammar in grammars for each in grammar.find(plain, lower, context)]
    if not found:
        return ()
    ranges: dict[tuple[date, date], DateRange] = {}
    for each in _without_overlaps(found):
        period = each.period
        named = DateRange(period.start, period.end, plain[each.start : each.end].strip(), period.precision)
        ranges.setdefault((period.start, period.end), named)
    return tuple(ranges.values())


_cached = lru_cache(maxsize=4_096)(_dates_in)


def _lower(text: str) -> str:
    """`text` in lower case, of the same length: some capitals, as İ, would become two characters and stay."""
    lower = text.lower()
    return lower if len(lower) == len(text) else _ASCII_CAPITALS.sub(lambda match: match[0].lower(), text)


def _without_overlaps(found: Iterable[Found]) -> list[Found]:
    """The longest of those that overlap, in the order of the text."""
    kept: list[Found] = []
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept
