"""Finds dates in a text (`dates_in`): by the grammars of the languages next to it, and numeric ones of any language
(2026-03-02, 2026/3/2, 2026.03.02, 2026-03, 2026-W10, 3/2/2026)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from msgspec import Struct

from clawbot.memory.dates import ranges
from clawbot.memory.dates.bounds import holidays, related
from clawbot.memory.dates.eastern import CHINESE, JAPANESE, KOREAN
from clawbot.memory.dates.european import ENGLISH, EUROPEAN, may_name_a_date, without_marks
from clawbot.memory.dates.grammar import DateRule, FoundDate, Grammar
from clawbot.memory.dates.ranges import Context, Period, Precision, Prefer, day, month
from clawbot.text.language import small_letters
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import plain_forms


class DateRange(Struct, frozen=True):
    """A date named in a text: the days from `start` to `end`, inclusive.

    `text` is the wording; `precision` is how exactly it names the days: "last week" is seven days with the precision
    week.
    """

    start: date
    end: date
    text: str
    precision: Precision


_YEAR = r"(?P<y>(?:19|20|21)\d\d)"
_MONTHS_OF_YEAR = 12


def _full(match: re.Match[str], _: Context) -> Period:
    month_, day_ = next(
        groups for groups in (match.group("m1", "d1"), match.group("m2", "d2"), match.group("m3", "d3")) if groups[0]
    )
    return day(date(int(match["y"]), int(month_), int(day_)))


def _year_and_month(match: re.Match[str], _: Context) -> Period:
    return month(int(match["y"]), int(match["m"]))


def _week(match: re.Match[str], _: Context) -> Period:
    return ranges.week(int(match["y"]), int(match["w"]))


def _year_last(match: re.Match[str], _: Context) -> Period:
    """3/2/2026 is in March, unless there is no such month; with dots the day comes first."""
    first, second = int(match["a"]), int(match["b"])
    day_first = match["sep"] == "." or first > _MONTHS_OF_YEAR
    return day(date(int(match["y"]), *((second, first) if day_first else (first, second))))


NUMERIC = Grammar(
    lambda: [
        DateRule(
            "full",
            # A version such as 2024.1.2 has no zeros.
            rf"(?<![\w.]){_YEAR}(?:-(?P<m1>\d\d?)-(?P<d1>\d\d?)|/(?P<m2>\d\d?)/(?P<d2>\d\d?)|\.(?P<m3>\d\d)\.(?P<d3>\d\d))"
            r"(?![-/.]?\d)",
            _full,
        ),
        DateRule("week", rf"(?<![\w./-]){_YEAR}-?W(?P<w>\d\d)(?![\w-])", _week),
        DateRule("month", rf"(?<![\w./-]){_YEAR}-(?P<m>0[1-9]|1[0-2])(?![\w-]|\.\d)", _year_and_month),
        DateRule(
            "year_last", rf"(?<![\w./-])(?P<a>\d\d?)(?P<sep>[/.])(?P<b>\d\d?)[/.]{_YEAR}(?![\w/-]|\.\d)", _year_last
        ),
    ],
    hint=r"19\d\d|2[01]\d\d",
    start=r"\d",
    reach=8,
)


_HANGUL = lazy_re("[\uac00-\ud7a3]")
_MAX_CHARS = 20_000
_CACHED_CHARS = 1_000


def dates_in(text: str, reference: date, *, prefer: Prefer = "nearest") -> tuple[DateRange, ...]:
    """Return the dates named in `text`, in order, each period once.

    Relative ones count from `reference`: today for a question, the note's date for a line of a note. `prefer` resolves
    a month or weekday without a year or week: `past` for questions, `nearest` for notes. Never fails; impossible dates
    are left out. Reads the first 20,000 characters.
    """
    if len(text) <= _CACHED_CHARS:
        return _cached(text, reference, prefer)
    return _dates_in(text[:_MAX_CHARS], reference, prefer)


def _dates_in(text: str, reference: date, prefer: Prefer) -> tuple[DateRange, ...]:
    plain = plain_forms(text)
    context = Context(reference, prefer, plain)
    lower = small_letters(plain)
    found = [each for grammar in _grammars(plain) for each in grammar.find(plain, lower, context)]
    unmarked = without_marks(plain)
    lower = lower if unmarked is plain else small_letters(unmarked)
    if may_name_a_date(lower, context):
        found += EUROPEAN.find(unmarked, lower, context)
    if prefer == "past":
        found += holidays(small_letters(plain), context)
    if not found:
        return ()
    ranges: dict[tuple[date, date], DateRange] = {}
    kept = _without_overlaps(found)
    for each in kept if prefer == "nearest" else related(kept, small_letters(plain), reference):
        period = each.period
        named = DateRange(period.start, period.end, plain[each.start : each.end].strip(), period.precision)
        ranges.setdefault((period.start, period.end), named)
    return tuple(ranges.values())


_cached = lru_cache(maxsize=4_096)(_dates_in)


def _grammars(text: str) -> tuple[Grammar, ...]:
    """Return the grammars that read `text` as it is."""
    if text.isascii():
        return NUMERIC, ENGLISH
    if _HANGUL.search(text):
        return NUMERIC, ENGLISH, CHINESE, KOREAN
    return NUMERIC, ENGLISH, CHINESE, JAPANESE


def _without_overlaps(found: Iterable[FoundDate]) -> list[FoundDate]:
    """Return the longest of overlapping dates, in text order."""
    kept: list[FoundDate] = []
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept
