"""Owns dates of digits alone, which every language writes: 2026-03-02, 2026/3/2, 2026.03.02, 2026-03, 3/2/2026."""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates.grammar import Grammar, Rule
from clawbot.memory.dates.ranges import Context, Period, day, month

_YEAR = r"(?P<y>(?:19|20|21)\d\d)"
_MONTHS_OF_YEAR = 12


def _full(match: re.Match[str], _: Context) -> Period:
    month_, day_ = next(
        groups for groups in (match.group("m1", "d1"), match.group("m2", "d2"), match.group("m3", "d3")) if groups[0]
    )
    return day(date(int(match["y"]), int(month_), int(day_)))


def _year_and_month(match: re.Match[str], _: Context) -> Period:
    return month(int(match["y"]), int(match["m"]))


def _year_last(match: re.Match[str], _: Context) -> Period:
    """3/2/2026 is in March, unless there is no such month; with dots the day comes first."""
    first, second = int(match["a"]), int(match["b"])
    day_first = match["sep"] == "." or first > _MONTHS_OF_YEAR
    return day(date(int(match["y"]), *((second, first) if day_first else (first, second))))


NUMERIC = Grammar(
    [
        Rule(
            "full",
            # A version such as 2024.1.2 has no zeros.
            rf"(?<![\w.]){_YEAR}(?:-(?P<m1>\d\d?)-(?P<d1>\d\d?)|/(?P<m2>\d\d?)/(?P<d2>\d\d?)|\.(?P<m3>\d\d)\.(?P<d3>\d\d))"
            r"(?![-/.]?\d)",
            _full,
        ),
        Rule("month", rf"(?<![\w./-]){_YEAR}-(?P<m>0[1-9]|1[0-2])(?![\w-]|\.\d)", _year_and_month),
        Rule("year_last", rf"(?<![\w./-])(?P<a>\d\d?)(?P<sep>[/.])(?P<b>\d\d?)[/.]{_YEAR}(?![\w/-]|\.\d)", _year_last),
    ],
    hint=r"19\d\d|2[01]\d\d",
    start=r"\d",
    reach=8,
)
