"""What the words around the dates of a question make of them: a part ("early February"), a range ("between
February 9 and 11"), or a time without an end ("since Thursday"); the words are in `bounds.toml`.

A date may be of the year or month that is named next to it ("Christmas last year").
"""

from __future__ import annotations

import calendar
import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from clawbot.memory.dates import ranges
from clawbot.memory.dates.grammar import FoundDate
from clawbot.memory.dates.ranges import Context, Period, Unit
from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table

_TABLE = packaged_table("clawbot.memory.dates", "bounds.toml", dict[str, Any])
_RANGE, _WORDS = _TABLE["range"], _TABLE["words"]
_BETWEEN = rf"(?:\s|{_WORDS['articles']})*"
_REACH = 48
_MONTH, _QUARTER, _YEAR = (28, 31), (89, 92), (365, 366)
"""Least and most days of each."""
_MONTHS_OF_PART = {"start": (1, 3), "middle": (5, 8), "end": (10, 12), "first": (1, 6), "second": (7, 12)}
_A_WEEK, _HALF_OF_MONTH = 7, 15


def _any(patterns: str) -> str:
    return "|".join(patterns.strip().split("\n"))


def _named(table: str) -> str:
    return "|".join([f"(?P<{name}>{_any(patterns)})" for name, patterns in _TABLE[table].items()])


_JOINED = rf"\s*(?:{{}}{_any(_RANGE['joins'])})|{_any(_RANGE['joins_inside'])}){_BETWEEN}"
_LEAD, _BOUND_LEAD = (lazy_re(rf"(?:{_named(table)}){_BETWEEN}-?\Z") for table in ("lead", "bound_lead"))
_TAIL, _BOUND_TAIL = (lazy_re(_named(table)) for table in ("tail", "bound_tail"))
_OPENING, _CLOSING = lazy_re(rf"(?:{_any(_RANGE['opening'])}){_BETWEEN}\Z"), lazy_re(_any(_RANGE["closing"]))
_JOIN = lazy_re(_JOINED.format("(?P<sure>"))
_FIRST_NUMBER = lazy_re(rf"(?<!\d){_WORDS['number']}{_JOINED.format('(?:')}\Z")
_LAST_NUMBER, _OF, _WEEKDAY, _CURRENT = (lazy_re(_WORDS[name]) for name in ("number", "of", "weekday", "current"))
_HOLIDAY_NAMES = "|".join(
    rf"(?P<h{name.replace('-', '_').replace(' ', '__')}>{words})" for name, words in sorted(_TABLE["holidays"].items())
)
_HOLIDAY = lazy_re(rf"(?<![a-zà-ÿ])(?:{_HOLIDAY_NAMES})(?![a-zà-ÿ])")
_INSIDE, _YEAR_NUMBER = lazy_re(_WORDS["inside"]), re.compile(r"\d{4}")
_DAY_NUMBER = re.compile(r"(?<!\d)\d\d?(?:st|nd|rd|th|\.|er)?\Z")
_LONE_DAY = lazy_re(_BETWEEN + _WORDS["number"])
_YEAR_BEHIND = re.compile(r",? (?:of |del? )?(?P<y>(?:19|20)\d\d)\b")


def holidays(lower: str, context: Context) -> Iterator[FoundDate]:
    """Yield the holidays of fixed date in a question, in lower case."""
    for match in _HOLIDAY.finditer(lower):
        (month, first), (_, last) = (map(int, each.split("_")) for each in (match.lastgroup or "")[1:].split("__"))
        year = _YEAR_BEHIND.match(lower, match.end())
        with contextlib.suppress(ValueError):
            day = date(int(year["y"]), month, first) if year else ranges.day_near(month, first, context).start
            yield FoundDate(match.start(), (year or match).end(), Period(day, day.replace(day=last), "day"))


def related(found: Sequence[FoundDate], lower: str, today: date) -> list[FoundDate]:
    """Return the dates `found` in a question, in its order, as the words around them mean them, or as they are if that
    makes an impossible one; `lower` is the question in lower case."""
    try:
        with_parts = _with_parts(_with_years(found, lower), lower, today)
        ranged = _with_ranges(with_parts, lower, today)
        return [each if is_range else _bounded(each, lower) for each, is_range in ranged]
    except (ValueError, OverflowError):
        return list(found)


def _with_years(found: Sequence[FoundDate], lower: str) -> list[FoundDate]:
    """Put dates into the year next to them, and days into the month behind them."""
    kept: list[FoundDate] = []
    for each in found:
        last = kept[-1] if kept else None
        if last and _OF.fullmatch(lower, last.end, each.start):
            one, other = last.period, each.period
            if _lasts(other, _YEAR) and not _has_year(last, lower) and _days(one) < _YEAR[0]:
                one = _in_year(one, other.start.year)
            elif _lasts(one, _YEAR) and not _has_year(each, lower) and _days(other) < _YEAR[0]:
                one = _in_year(other, one.start.year)
            elif _lasts(other, _MONTH) and one.start == one.end and _DAY_NUMBER.search(lower, last.start, last.end):
                one = ranges.day(other.start.replace(day=one.start.day))
            else:
                kept.append(each)
                continue
            kept[-1] = FoundDate(last.start, each.end, one)
        else:
            kept.append(each)
    return kept


def _has_year(each: FoundDate, lower: str) -> bool:
    return _YEAR_NUMBER.search(lower, each.start, each.end) is not None


def _in_year(period: Period, year: int) -> Period:
    """`period` of another year: the same days, months or calendar week."""
    if period.precision == "week" and _days(period) == _A_WEEK:
        return ranges.week(year, period.start.isocalendar().week)
    start, end = period.start, period.end
    return Period(_day_in(start, year), _day_in(end, year + end.year - start.year), period.precision)


def _day_in(day: date, year: int) -> date:
    """The same day of `year`; the last of a month remains the last."""
    last, before = (calendar.monthrange(each, day.month)[1] for each in (year, day.year))
    return day.replace(year=year, day=last if day.day == before else min(day.day, last))


def _with_parts(found: Sequence[FoundDate], lower: str, today: date) -> list[FoundDate]:
    kept: list[FoundDate] = []
    for each in found:
        if kept and each.start < kept[-1].end:
            continue
        start, part = _before(_LEAD, each, lower)
        tail = _TAIL.match(lower, each.end)
        parts = [name for name in (part, tail and tail.lastgroup) if name]
        period = functools.reduce(_part_of, parts, each.period)
        if today < period.start and _CURRENT.fullmatch(lower, each.start, each.end):
            unit: Unit = "year" if _lasts(each.period, _YEAR) else "month" if _lasts(each.period, _MONTH) else "week"
            period = functools.reduce(_part_of, parts, ranges.unit_of(today, unit, -1))
        kept.append(FoundDate(start, tail.end() if tail else each.end, period))
    return kept


def _before(pattern: re.Pattern[str], each: FoundDate, lower: str) -> tuple[int, str]:
    """Return where the words of `pattern` before a date begin, and the name of the group; else the start of the date.
    The date may begin with them itself."""
    inside = _INSIDE.match(lower, each.start, each.end)
    for start in (each.start, inside.end() if inside else each.start):
        if lead := pattern.search(lower, max(0, start - _REACH), start):
            return min(lead.start(), each.start), lead.lastgroup or ""
    return each.start, ""


def _part_of(period: Period, part: str) -> Period:
    """Return the week or weekend of a day, or a part of a week, month, quarter, season or year."""
    start, end = period.start, period.end
    match part.split("_"):
        case ["week", "of"]:
            return ranges.week_of(start)
        case ["weekend", "of"]:
            return ranges.weekend_of(start)
        case ["day", which]:
            return ranges.day(start if which == "first" else end)
        case ["week", number] if _days(period) >= _MONTH[0]:
            first = end - timedelta(6) if number == "5" else start + timedelta(_A_WEEK * (int(number) - 1))
            return Period(first, first + timedelta(6), "week")
        case [name] if _lasts(period, _YEAR):
            first_month, last_month = _MONTHS_OF_PART[name]
            return ranges.months(ranges.month(start.year, first_month), ranges.month(start.year, last_month))
        case ["start" | "middle" | "end" as name] if _lasts(period, _QUARTER):
            return ranges.month_of(start, ("start", "middle", "end").index(name))
    return _days_of(period, part)


def _days_of(period: Period, part: str) -> Period:
    """Return a part of a week or month, or a half; all of any other period."""
    days = _days(period)
    half = _HALF_OF_MONTH if _lasts(period, _MONTH) else days // 2
    found = {"first": (0, half - 1), "second": (half, days - 1)}
    if _lasts(period, _MONTH):
        found |= {"start": (0, 9), "middle": (10, 19), "end": (20, days - 1)}
    elif days == _A_WEEK:
        found |= {"start": (0, 2), "middle": (1, 3), "end": (3, 6)}
    if days < _A_WEEK or part not in found:
        return period
    first, last = (period.start + timedelta(number) for number in found[part])
    return Period(first, last, "week")


def _with_ranges(found: Sequence[FoundDate], lower: str, today: date) -> Iterator[tuple[FoundDate, bool]]:
    """Yield the dates, two that are the ends of a range as one, and whether it is a range."""
    after: Sequence[FoundDate | None] = [*found[1:], None][: len(found)]
    pairs = iter(zip(found, after, strict=True))
    for each, following in pairs:
        opening, _ = _before(_OPENING, each, lower)
        if following and (end := _joined_to(each, following, lower, has_opening=opening < each.start)):
            first, last = _in_order(each, following, lower, today)
            yield FoundDate(opening, end, Period(first, last, "week")), True
            next(pairs, None)
        else:
            ended = _with_number(each, lower, opening) if each.period.start == each.period.end else None
            yield ended or each, ended is not None


def _joined_to(each: FoundDate, following: FoundDate, lower: str, *, has_opening: bool) -> int:
    """Return where the range of two dates ends; 0 if they are none."""
    inside = _INSIDE.match(lower, following.start, following.end)
    starts = (following.start, inside.end() if inside else following.start)
    join = next(filter(None, (_JOIN.fullmatch(lower, each.end, start) for start in starts)), None)
    closing = _CLOSING.match(lower, following.end)
    if join is None or not (join["sure"] or has_opening or closing):
        return 0
    return closing.end() if closing else following.end


def _in_order(each: FoundDate, following: FoundDate, lower: str, today: date) -> tuple[date, date]:
    """Return the first and the last day of a range; without a week or a year the last one was not before the first,
    and a day without a month is of the other's."""
    first, last = each.period.start, following.period.end
    is_lone, is_last_lone = (_LONE_DAY.fullmatch(lower, part.start, part.end) is not None for part in (each, following))
    if is_lone and not is_last_lone:
        first = ranges.month_of(last, -(first.day > last.day)).start.replace(day=first.day)
    elif is_last_lone and not is_lone:
        last = ranges.month_of(first, first.day > last.day).start.replace(day=last.day)
    if _WEEKDAY.search(lower, following.start, following.end) and not 0 <= (last - first).days < _A_WEEK:
        later = first + timedelta((last - first).days % _A_WEEK)
        return (first, later) if later <= today else (last - (later - first), last)
    return (
        (first, last) if first <= last else (_day_in(first, last.year - (first > last.replace(year=first.year))), last)
    )


def _with_number(each: FoundDate, lower: str, opening: int) -> FoundDate | None:
    """`each`, a day, with the number that is the other end of a range: "February 9 and 11", "9 and 11 February"."""
    day, (start, end) = each.period.start, (each.start, each.end)
    join = _JOIN.match(lower, end)
    number = _LAST_NUMBER.match(lower, join.end()) if join else None
    closing = _CLOSING.match(lower, number.end()) if number else None
    if join and number and (opening < start or closing or join["sure"]) and int(number["n"]) > day.day:
        until = day.replace(day=int(number["n"]))
        return FoundDate(opening, (closing or number).end(), Period(day, until, "week"))
    number = _FIRST_NUMBER.search(lower, max(0, start - _REACH), start)
    lead = _OPENING.search(lower, max(0, number.start() - _REACH), number.start()) if number else None
    if number and lead and 0 < int(number["n"]) < day.day:
        return FoundDate(lead.start(), end, Period(day.replace(day=int(number["n"])), day, "week"))
    return None


def _bounded(each: FoundDate, lower: str) -> FoundDate:
    """`each`, without a first or a last day if it is only one end of the time."""
    start, bound = _before(_BOUND_LEAD, each, lower)
    end, period = each.end, each.period
    if not bound and (tail := _BOUND_TAIL.match(lower, each.end)):
        bound, end = tail.lastgroup or "", tail.end()
    if lower.startswith("'s", each.end) and bound in ("before", "after"):
        return each
    if not bound:
        return each
    if bound in ("before", "until"):
        period = Period(date.min, period.end if bound == "until" else period.start - ranges.A_DAY, "year")
    else:
        period = Period(period.start if bound == "since" else period.end + ranges.A_DAY, date.max, "year")
    return FoundDate(start, end, period)


def _days(period: Period) -> int:
    return (period.end - period.start).days + 1


def _lasts(period: Period, days: tuple[int, int]) -> bool:
    return days[0] <= _days(period) <= days[1]
