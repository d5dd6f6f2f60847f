"""Calendar arithmetic (days, weeks, weekends, months, seasons and years relative to a date), and the rule engine that
finds dates in a text: one search for all rules, then the matching rule resolves the days.

Weeks begin on Monday. Functions raise ValueError or OverflowError for impossible dates (31 February, the year 10,000);
`find.py` catches both.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache, cached_property
from typing import Any, Literal

from msgspec import Struct

from clawbot.languages.tables import longest_first
from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re

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
_CENTURY, _LONE_YEAR = 2000, 100


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


def any_of(words: Iterable[str]) -> str:
    """Return a pattern of any of `words`, the longest first."""
    return f"(?:{'|'.join(longest_first(words))})"


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


def _of_year(make: Callable[[int], Period], number: int, context: Context) -> Period:
    """Return what `make` returns for a year; for the right one without a `number`."""
    return make(number) if number else pick([make(each) for each in _years_around(context, 1)], context)


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


def groups_of(match: re.Match[str]) -> dict[str, str]:
    """Return the groups that matched, without the numbers at the end of their names."""
    return {name.rstrip("23"): text for name, text in match.groupdict().items() if text}


_INNER_NAME = lazy_re(r"\(\?P<\w+>")

Resolve = Callable[["re.Match[str]", Context], Period | None]
"""The days of a match; None if it is not a date. Raises ValueError or OverflowError for impossible dates."""


class DateRule(Struct, frozen=True):
    """A date pattern; one without `resolve` is not a date and is skipped, nor is one with `asked` in a note. `name` is
    unique in a grammar."""

    name: str
    pattern: str
    resolve: Resolve | None
    asked: bool = False


class FoundDate(Struct, frozen=True):
    """A date in a text: its position and days."""

    start: int
    end: int
    period: Period


class Grammar:
    """The rules of one language, tried in order at each position near a hint."""

    def __init__(self, rules: Sequence[DateRule], *, hint: str, start: str, reach: int, asked: str = "(?!)") -> None:
        """`hint` matches in the lower-case form of every date, at most `reach` characters after its start; `asked` in
        what is a date only in questions. `start` matches where dates may start. Rules ignore case."""
        self._hint, self._asked, self._start, self._reach = hint, asked, start, reach
        self._rules = {rule.name: rule for rule in rules}

    def find(self, text: str, lower: str, context: Context) -> Iterator[FoundDate]:
        """Yield the dates of `text` without overlaps; `lower` is `text` in lower case, of the same length."""
        at = 0
        asks = context.prefer == "past"
        for hint in (self._asked_hints if asks else self._hints)(lower):
            end = hint.end() if asks else hint.start() + 1
            for start in self._starts(text, max(at, hint.start() - self._reach), end):
                if start.start() < at:
                    continue
                match = self._match(text, start.start())
                period, at = self._resolve(match, context) if match else (None, start.end())
                if match and period:
                    yield FoundDate(match.start(), match.end(), period)

    # Compiled on demand: that takes about ten milliseconds, and most texts contain no date.

    @cached_property
    def _hints(self) -> Callable[[str], Iterator[re.Match[str]]]:
        return re.compile(self._hint).finditer

    @cached_property
    def _asked_hints(self) -> Callable[[str], Iterator[re.Match[str]]]:
        return re.compile(f"{self._hint}|{self._asked}").finditer

    @cached_property
    def _starts(self) -> Callable[[str, int, int], Iterator[re.Match[str]]]:
        return re.compile(self._start).finditer

    @cached_property
    def _match(self) -> Callable[[str, int], re.Match[str] | None]:
        rules = self._rules.values()
        alternatives = (f"(?P<{rule.name}>{_INNER_NAME.sub('(?:', rule.pattern)})" for rule in rules)
        return re.compile("|".join(alternatives), re.IGNORECASE).match

    def _resolve(self, match: re.Match[str], context: Context) -> tuple[Period | None, int]:
        """Return the days of a match, and the position to continue from."""
        rule = self._rules[str(match.lastgroup)]
        inner = _compiled(rule.pattern).match(match.string, match.start())
        if rule.resolve is None or inner is None or (rule.asked and context.prefer == "nearest"):
            return None, match.end()
        try:
            period = rule.resolve(inner, context)
        except (ValueError, OverflowError):
            # An impossible date (31 February, before the year 1): neither it nor a part of it is a date.
            return None, match.end()
        return period, match.end() if period else match.start() + 1


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_PART = re.compile(r"\{(~?)([A-Z]\w*)\}")


class LanguageTable:
    """The words, patterns and rules of dates in a language, as in a TOML table.

    A pattern includes by {NAME} an earlier part, or any of the words NAME, and by {~NAME} a part without its
    named groups; a long pattern is a list. A rule finds its `days` by the function of that name, or is not a date.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table
        self.parts: dict[str, str] = {}
        for part, pattern in table["parts"].items():
            self.parts[part] = self._filled(pattern)

    def words(self, name: str) -> dict[str, Any]:
        """Return the meaning of each word of the table `name`: a number, or a name; empty if there is no such table."""
        found: dict[str, Any] = {}
        for meaning, words in self.table["words"].get(name, {}).items():
            is_number = meaning.removeprefix("-").isdecimal()
            found |= dict.fromkeys(words.split(", "), int(meaning) if is_number else meaning)
        return found

    def number(self, text: str) -> int:
        """Return a number up to 99, in digits or words."""
        number: int | None = whole_number(text)
        if number is None and (number := self._numbers.get(text.lower())) is None:
            tens, ten, ones = text.rpartition(self.parts["TEN"])
            return sum((self._numbers.get(tens, 1) * 10 if ten else 0, self._numbers.get(ones, 0)))
        return number

    @cached_property
    def _numbers(self) -> dict[str, Any]:
        tables = map(self.words, ("NUMBERS", "NATIVE", "MONTH_WORDS", "COUNTS", "QUARTERS"))
        return {word: number for table in tables for word, number in table.items()}

    def undated(self, match: re.Match[str], context: Context) -> Period:
        """Return a day, week, month, quarter, season or year that is named by itself, with or without a year."""
        groups = groups_of(match)
        number = {name: self.number(groups[name]) for name in ("y", "quarter", "kw") if name in groups}
        year_ = number.get("y", 0)
        year_ += _CENTURY if 0 < year_ < _LONE_YEAR else 0
        match groups:
            case {"quarter": _}:
                found = _of_year(lambda each: quarter(each, number["quarter"]), year_, context)
            case {"season": name}:
                found = _of_year(lambda each: season(each, self.words("SEASONS")[name.lower()]), year_, context)
            case {"kw": _}:
                found = week(year_, number["kw"]) if year_ else week_near(number["kw"], context)
            case {"unit": name}:
                found = unit_of(context.reference, self.words("CURRENT")[name.lower()], 0)
            case {"mn": month_, "d": day_}:
                found = day(date(year_, int(month_), int(day_))) if year_ else day_near(int(month_), int(day_), context)
            case {"from": first, "to": last}:
                numbers = self.words("WEEKDAYS")
                found = weekdays(numbers[first.lower()], numbers[last.lower()], context)
            case {"d": day_}:
                found = day_of_month_near(self.number(day_), context)
            case {"m": name}:
                found = month(year_, (self.words("FULL_MONTHS") | self.words("SHORT_MONTHS"))[name.lower()])
            case _:
                found = year(year_)
        return found

    def grammar(self, *resolvers: Resolve, hint: str = "") -> Grammar:
        """Return the grammar of the table, with its own `hint` or this one."""
        known = {each.__name__.removeprefix("_"): each for each in (*resolvers, self.undated)}
        table = self.table["grammar"]
        rules = [
            DateRule(name, self._filled(pattern), known[rule["days"]] if "days" in rule else None, "asked" in rule)
            for rule in table["rules"]
            for name, pattern in [(rule["name"], rule["pattern"])]
        ]
        hint = hint or self._filled(table["hint"])
        asked = self._filled(table.get("asked", "(?!)"))
        return Grammar(rules, hint=hint, start=table["start"], reach=table["reach"], asked=asked)

    def _filled(self, pattern: str | list[str]) -> str:
        return _PART.sub(self._part, pattern if isinstance(pattern, str) else "".join(pattern))

    def _part(self, found: re.Match[str]) -> str:
        pattern = self.parts.get(found[2]) or any_of(self.words(found[2]))
        return _INNER_NAME.sub("(?:", pattern) if found[1] else pattern
