"""The rule engine that finds dates in a text: one search for all rules of a language, then the matching rule resolves
the days; and the tables of words, patterns and rules that it is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import cache, cached_property
from typing import Any

from msgspec import Struct

from clawbot.languages.tables import longest_first
from clawbot.memory.dates.ranges import (
    Context,
    Period,
    day,
    day_near,
    day_of_month_near,
    month,
    of_year,
    quarter,
    season,
    unit_of,
    week,
    week_near,
    weekdays,
    year,
)
from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re

_CENTURY, _LONE_YEAR = 2000, 100


def any_of(words: Iterable[str]) -> str:
    """Return a pattern of any of `words`, the longest first."""
    return f"(?:{'|'.join(longest_first(words))})"


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
    """The rules of one language, tried in order at each position near a hint; made when a text has one."""

    def __init__(
        self, rules: Callable[[], Iterable[DateRule]], *, hint: str, start: str, reach: int, asked: str = "(?!)"
    ) -> None:
        """`hint` matches in the lower-case form of every date, at most `reach` characters after its start; `asked` in
        what is a date only in questions. `start` matches where dates may start. Rules ignore case."""
        self._hint, self._asked, self._start, self._reach = hint, asked, start, reach
        self._make_rules = rules

    def find(self, text: str, lower: str, context: Context) -> Iterator[FoundDate]:
        """Yield the dates of `text` without overlaps; `lower` is `text` in lower case, of the same length."""
        at = 0
        asks = context.prefer == "past"
        for hint in (self._asked_hints if asks else self._hints).finditer(lower):
            end = hint.end() if asks else hint.start() + 1
            for start in self._starts.finditer(text, max(at, hint.start() - self._reach), end):
                if start.start() < at:
                    continue
                match = self._pattern.match(text, start.start())
                period, at = self._resolve(match, context) if match else (None, start.end())
                if match and period:
                    yield FoundDate(match.start(), match.end(), period)

    # Compiled on demand: that takes about ten milliseconds, and most texts contain no date.

    @cached_property
    def _rules(self) -> dict[str, DateRule]:
        return {rule.name: rule for rule in self._make_rules()}

    @cached_property
    def _hints(self) -> re.Pattern[str]:
        return re.compile(self._hint)

    @cached_property
    def _asked_hints(self) -> re.Pattern[str]:
        return re.compile(f"{self._hint}|{self._asked}")

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        return re.compile(self._start)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        rules = self._rules.values()
        alternatives = (f"(?P<{rule.name}>{_INNER_NAME.sub('(?:', rule.pattern)})" for rule in rules)
        return re.compile("|".join(alternatives), re.IGNORECASE)

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
        self._parts: dict[str, str] = {}

    def part(self, name: str) -> str:
        """Return the pattern of the part `name`."""
        if name not in self._parts:
            self._parts[name] = self._filled(self.table["parts"][name])
        return self._parts[name]

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
            tens, ten, ones = text.rpartition(self.part("TEN"))
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
                found = of_year(lambda each: quarter(each, number["quarter"]), year_, context)
            case {"season": name}:
                found = of_year(lambda each: season(each, self.words("SEASONS")[name.lower()]), year_, context)
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

        def rules() -> Iterator[DateRule]:
            for rule in table["rules"]:
                resolve = known[rule["days"]] if "days" in rule else None
                yield DateRule(rule["name"], self._filled(rule["pattern"]), resolve, "asked" in rule)

        hint = hint or self._filled(table["hint"])
        asked = self._filled(table.get("asked", "(?!)"))
        return Grammar(rules, hint=hint, start=table["start"], reach=table["reach"], asked=asked)

    def _filled(self, pattern: str | list[str]) -> str:
        return _PART.sub(self._part, pattern if isinstance(pattern, str) else "".join(pattern))

    def _part(self, found: re.Match[str]) -> str:
        pattern = self.part(found[2]) if found[2] in self.table["parts"] else any_of(self.words(found[2]))
        return _INNER_NAME.sub("(?:", pattern) if found[1] else pattern
