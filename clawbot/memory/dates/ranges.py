"""Calendar arithmetic: days, weeks, weekends, months, seasons and years relative to a date.

Weeks begin on Monday. Functions raise ValueError or OverflowError for impossible dates (31 February, the year 10,000);
`find.py` catches both.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, timedelta
from typing import Literal

from msgspec import Struct

Precision = Literal["day", "week", "month", "year"]

Prefer = Literal["past", "nearest"]
"""Which year "3 March" means: `past` the most recent one, `nearest` the one closest to the reference."""

Unit = Literal["day", "week", "weekend", "month", "quarter", "year"]

SOME = 3
"""The value of "a few" in "the last few days"."""

A_DAY = timedelta(1)
_FEW = (2, 6)
_WEEKEND = 5
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_LEAP_CYCLE = 8


class Period(Struct, frozen=True):
    """The days from `start` to `end`, inclusive; `precision` is how exactly the text named them."""

    start: date
    end: date
    precision: Precision


class Context(Struct, frozen=True):
    """The reference of relative dates, and the complete text as it is written."""

    reference: date
    prefer: Prefer
    text: str = ""


def day(when: date) -> Period:
    """Return one day."""
    return Period(when, when, "day")


def days_from(when: date, count: int) -> Period:
    """Return the day `count` days after `when`, before it when negative."""
    return day(when + timedelta(days=count))


def week_of(when: date, offset: int = 0) -> Period:
    """Return the week of `when`, `offset` weeks later."""
    monday = when + timedelta(days=7 * offset - when.weekday())
    return Period(monday, monday + timedelta(days=6), "week")


def week(year: int, number: int) -> Period:
    """Return a calendar week of a year."""
    return week_of(date.fromisocalendar(year, number, 1))


def weekend_of(when: date, offset: int = 0) -> Period:
    """Return the weekend of the week of `when`, `offset` weeks later, with the precision of a day."""
    saturday = week_of(when, offset).start + timedelta(days=_WEEKEND)
    return Period(saturday, saturday + timedelta(days=1), "day")


def weekday_of(when: date, weekday: int, offset: int = 0) -> Period:
    """`weekday` (Monday is 0) in the week of `when`, `offset` weeks later."""
    return days_from(week_of(when, offset).start, weekday)


def month(year: int, number: int) -> Period:
    """Return a month of a year."""
    return Period(date(year, number, 1), date(year, number, calendar.monthrange(year, number)[1]), "month")


def month_of(when: date, offset: int = 0) -> Period:
    """Return the month of `when`, `offset` months later."""
    index = when.year * 12 + when.month - 1 + offset
    return month(index // 12, index % 12 + 1)


def months(first: Period, last: Period) -> Period:
    """From the first day of one month to the last of another."""
    return Period(first.start, last.end, "month")


def quarter(year: int, number: int) -> Period:
    """Return a quarter of a year, 1 to 4."""
    return months(month(year, 3 * number - 2), month(year, 3 * number))


def quarter_of(when: date, offset: int = 0) -> Period:
    """Return the quarter of `when`, `offset` quarters later."""
    index = when.year * 4 + (when.month - 1) // 3 + offset
    return quarter(index // 4, index % 4 + 1)


def year(number: int) -> Period:
    """A full year."""
    return Period(date(number, 1, 1), date(number, 12, 31), "year")


def unit_of(when: date, unit: Unit, offset: int) -> Period:
    """Return the day, week, month … of `when`, `offset` of them later."""
    match unit:
        case "day":
            return days_from(when, offset)
        case "week":
            return week_of(when, offset)
        case "weekend":
            return weekend_of(when, offset)
        case "month":
            return month_of(when, offset)
        case "quarter":
            return quarter_of(when, offset)
        case "year":
            return year(when.year + offset)


def away(when: date, unit: Unit, count: int | None, step: int) -> Period:
    """`count` days, weeks … before `when` (`step` -1) or after it (1); None means a few, two to six."""
    if count is None:
        edges = away(when, unit, _FEW[0], step), away(when, unit, _FEW[1], step)
        return Period(min(edge.start for edge in edges), max(edge.end for edge in edges), _precision(unit))
    if unit in ("week", "weekend"):
        # "Two weeks ago" is approximate: three days more or less.
        middle = when + timedelta(weeks=step * count)
        return Period(middle - timedelta(days=3), middle + timedelta(days=3), "week")
    return unit_of(when, unit, step * count)


def last_of(when: date, unit: Unit, count: int) -> Period:
    """Return the last `count` days, weeks … up to `when`; the next ones when negative."""
    edges = when, _back(when, unit, count)
    return Period(min(edges), max(edges), _precision(unit))


def pick(candidates: list[Period], context: Context) -> Period:
    """Return the candidate that a text without a year means."""
    reference = context.reference
    if context.prefer == "past" and (past := [period for period in candidates if period.start <= reference]):
        return max(past, key=lambda period: period.start)
    return min(candidates, key=lambda period: (_distance(period, reference), period.start > reference))


def month_near(number: int, context: Context) -> Period:
    """Return a month without a year."""
    return pick([month(each, number) for each in _years_around(context, 1)], context)


def adjacent_month(number: int, context: Context, offset: int) -> Period:
    """Return the last (-1), this (0) or next (1) month of that number: last May may be of this year."""
    when = context.reference
    is_this_year = not offset or number * offset > when.month * offset
    return month(when.year if is_this_year else when.year + offset, number)


def day_of_month_near(number: int, context: Context) -> Period:
    """Return a day without a month. Raises ValueError for an impossible one."""
    months_ = [month_of(context.reference, offset) for offset in (-2, -1, 0, 1)]
    return pick([day(each.start.replace(day=number)) for each in months_ if 0 < number <= each.end.day], context)


def weekdays(first: int, last: int, context: Context) -> Period:
    """Return the days from one weekday to another in a question; elsewhere they recur, which raises ValueError."""
    if context.prefer == "nearest":
        raise ValueError("days of every week")
    end = weekday_near(last, context).start
    return Period(end - timedelta((last - first) % 7), end, "week")


def week_near(number: int, context: Context) -> Period:
    """Return a calendar week without a year. Raises ValueError for an impossible one."""
    years = _years_around(context, 1)
    return pick([week(each, number) for each in years if number <= date(each, 12, 28).isocalendar().week], context)


def day_near(number: int, day_of_month: int, context: Context) -> Period:
    """Return a day without a year; 29 February only in leap years. Raises ValueError for an impossible day."""
    years = _years_around(context, _LEAP_CYCLE if (number, day_of_month) == (2, 29) else 1)
    lengths = {each: calendar.monthrange(each, number)[1] for each in years}
    candidates = [day(date(each, number, day_of_month)) for each in years if 0 < day_of_month <= lengths[each]]
    if not candidates:
        raise ValueError(f"there is no day {day_of_month} in month {number}")
    return pick(candidates, context)


def weekday_near(weekday: int, context: Context) -> Period:
    """Return a weekday without "last" or "next": today counts."""
    return pick([weekday_of(context.reference, weekday, offset) for offset in (-1, 0, 1)], context)


def weekend_near(context: Context) -> Period:
    """Return a weekend without "last" or "next"."""
    return pick([weekend_of(context.reference, offset) for offset in (-1, 0, 1)], context)


def adjacent_weekday(when: date, weekday: int, offset: int) -> Period:
    """Return the last (below 0) `weekday` before `when`, that of its week (0), or the first one after it."""
    if not offset:
        return weekday_of(when, weekday)
    if offset < 0:
        return days_from(when, -((when.weekday() - weekday - 1) % 7 + 1))
    return days_from(when, (weekday - when.weekday() - 1) % 7 + 1)


def season(number: int, name: str) -> Period:
    """Return a season (of the north) of a year; winter begins in December of it."""
    first = _SEASONS[name]
    return months(month(number, first), month_of(date(number, first, 1), 2))


def season_of(when: date, name: str, offset: int) -> Period:
    """Return the last (-1), this (0) or next (1) season of a name: last summer is over, next summer has not begun."""
    seasons = [season(when.year + each, name) for each in (-2, -1, 0, 1, 2)]
    if offset < 0:
        return max((each for each in seasons if each.end < when), key=lambda each: each.start)
    if offset > 0:
        return min((each for each in seasons if each.start > when), key=lambda each: each.start)
    return min(seasons, key=lambda each: _distance(each, when))


def _back(when: date, unit: Unit, count: int) -> date:
    """`when` minus `count` days, weeks …, on the same day of the month if it exists."""
    if unit in ("day", "week", "weekend"):
        return when - timedelta(days=count * (1 if unit == "day" else 7))
    target = month_of(when, -count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return target.start.replace(day=min(when.day, target.end.day))


def _precision(unit: Unit) -> Precision:
    """Return the precision of a count of days, weeks …"""
    exact: dict[Unit, Precision] = {"day": "day", "week": "week", "weekend": "week", "year": "year"}
    return exact.get(unit, "month")


def _years_around(context: Context, reach: int) -> range:
    return range(context.reference.year - reach, context.reference.year + reach + 1)


def _distance(period: Period, when: date) -> int:
    """Return days between `when` and the nearest day of `period`."""
    return max((period.start - when).days, (when - period.end).days, 0)


def of_year(make: Callable[[int], Period], number: int, context: Context) -> Period:
    """Return what `make` returns for a year; for the right one without a `number`."""
    return make(number) if number else pick([make(each) for each in _years_around(context, 1)], context)
