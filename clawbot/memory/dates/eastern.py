"""Date expressions in Chinese (simplified and traditional), Japanese and Korean; what each writes is in `dates.toml`.

What Japanese writes as Chinese does is found by the Chinese rules.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from clawbot.languages.tables import Language, table
from clawbot.memory.dates import ranges
from clawbot.memory.dates.grammar import Grammar, LanguageTable
from clawbot.memory.dates.ranges import Context, Period, Unit
from clawbot.text.numbers import whole_number

_MONTHS_OF_PART = {"start": (1, 2), "end": (11, 12), "first": (1, 6), "second": (7, 12)}
_CENTURY = 2000
_LONE_YEAR = 100


class _Eastern:
    """The rules of one language. The groups of a match: `era` and `ey`, `y` or `ry` are a year, `m` or `rm` a month,
    `d` a day, `w` a weekday, `q` an offset or a quarter, `s` a season, `p` and `h` a part, `n` and `u` an amount."""

    def __init__(self, language: Language) -> None:
        self._table = LanguageTable(table(language, "dates"))
        words = self._table.words
        self._numbers: dict[str, Any] = words("NUMBERS") | words("NATIVE") | words("MONTH_WORDS")
        self._offsets, self._weekdays, self._units = words("OFFSETS"), words("WEEKDAYS"), words("UNITS")
        self._days = words("DAYS")
        self._years: dict[str, int] = words("YEARS")
        self._eras: dict[str, int] = words("ERAS")
        self._seasons = words("SEASONS")
        self._parts_of_month, self._parts_of_year = words("PARTS_OF_MONTH"), words("PARTS_OF_YEAR")

    def grammar(self) -> Grammar:
        """Return the grammar of the language."""
        return self._table.grammar(
            self.era, self.day_or_month, self.year, self.day_word, self.week, self.month, self.beside, self.season,
            self.quarter, self.weekday, self.weekend, self.ago, self.recent,
        )  # fmt: skip

    def _year_of(self, match: re.Match[str], context: Context) -> int | None:
        groups = match.groupdict()
        if era := groups.get("era"):
            return self._eras[era] + self._table.number(match["ey"])
        if relative := groups.get("ry"):
            return context.reference.year + self._years[relative]
        if (text := groups.get("y")) is None:
            return None
        number = whole_number("".join(digit if digit.isdecimal() else str(self._numbers[digit]) for digit in text)) or 0
        return number + _CENTURY if number < _LONE_YEAR else number

    def era(self, match: re.Match[str], context: Context) -> Period:
        year = self._year_of(match, context) or 0
        return self.day_or_month(match, context) if match["m"] else ranges.year(year)

    def day_or_month(self, match: re.Match[str], context: Context) -> Period:
        """A day or a month, of a year or of none; also of last month, and the beginning or end of a month."""
        groups = match.groupdict()
        if relative := groups.get("rm"):
            return self._in_month(match, ranges.month_of(context.reference, self._offsets[relative]))
        year, number = self._year_of(match, context), self._table.number(match["m"])
        if match["d"] is None:
            return self._part(
                ranges.month_near(number, context) if year is None else ranges.month(year, number), groups.get("p")
            )
        day = self._table.number(match["d"])
        return ranges.day_near(number, day, context) if year is None else ranges.day(date(year, number, day))

    def month(self, match: re.Match[str], context: Context) -> Period:
        return self._in_month(match, ranges.month_of(context.reference, self._offsets[match["q"]]))

    def _in_month(self, match: re.Match[str], month: Period) -> Period:
        if match["d"]:
            return ranges.day(month.start.replace(day=self._table.number(match["d"])))
        return self._part(month, match.groupdict().get("p"))

    def _part(self, month: Period, part: str | None) -> Period:
        """The beginning, middle or end of a month; all of it without `part`."""
        match self._parts_of_month.get(part or ""):
            case "start":
                return Period(month.start, month.start.replace(day=10), "week")
            case "middle":
                return Period(month.start.replace(day=11), month.start.replace(day=20), "week")
            case "end":
                return Period(month.start.replace(day=21), month.end, "week")
            case _:
                return month

    def year(self, match: re.Match[str], context: Context) -> Period:
        """A year, or a quarter, season or part of it."""
        number, groups = self._year_of(match, context) or context.reference.year, match.groupdict()
        if quarter := groups["q"] or groups.get("q2"):
            return ranges.quarter(number, self._table.number(quarter))
        if season := groups.get("s"):
            return ranges.season(number, self._seasons[season])
        if (part := groups.get("p") or groups.get("h")) is None:
            return ranges.year(number)
        first, last = _MONTHS_OF_PART[self._parts_of_year[part]]
        return ranges.months(ranges.month(number, first), ranges.month(number, last))

    def day_word(self, match: re.Match[str], context: Context) -> Period:
        return ranges.days_from(context.reference, self._days[match["w"]])

    def week(self, match: re.Match[str], context: Context) -> Period:
        """A week, from Monday to Sunday, or a day or the end of it."""
        offset, weekday = self._offsets[match["q"]], self._weekdays.get(match["w"] or "")
        if weekday == "weekend" or match.groupdict().get("end"):
            return ranges.weekend_of(context.reference, offset)
        if weekday is None:
            return ranges.week_of(context.reference, offset)
        return ranges.weekday_of(context.reference, weekday, offset)

    def beside(self, match: re.Match[str], context: Context) -> Period:
        """A weekday counted from the reference."""
        return ranges.adjacent_weekday(context.reference, self._weekdays[match["w"]], self._offsets[match["q"]])

    def weekday(self, match: re.Match[str], context: Context) -> Period:
        weekday = self._weekdays[match["w"]]
        return ranges.weekend_near(context) if weekday == "weekend" else ranges.weekday_near(weekday, context)

    def weekend(self, _: re.Match[str], context: Context) -> Period:
        return ranges.weekend_near(context)

    def season(self, match: re.Match[str], context: Context) -> Period:
        return ranges.season_of(context.reference, self._seasons[match["s"]], self._offsets[match["q"]])

    def quarter(self, match: re.Match[str], context: Context) -> Period:
        return ranges.quarter_of(context.reference, self._offsets[match["q"]])

    def _amount(self, match: re.Match[str], halves: str) -> tuple[int | None, Unit] | None:
        """Return count and unit, None for a few; None where half a unit is no time. `halves` is a table."""
        count, text = match.groupdict().get("whole") or match["n"], match["u"]
        known: tuple[Unit, ...] = tuple(self._units[each] for each in (text, *(text or "")) if each in self._units)
        unit = known[0] if known else "month" if text else "day"
        match self._numbers.get(count):
            case "half":
                half = self._table.table["halves"][halves].get(unit)
                return (half[0], half[1]) if half else None
            case "some":
                return None, unit
            case _:
                return self._table.number(count), unit

    def ago(self, match: re.Match[str], context: Context) -> Period | None:
        amount = self._amount(match, "ago")
        return ranges.away(context.reference, amount[1], amount[0], -1) if amount else None

    def recent(self, match: re.Match[str], context: Context) -> Period | None:
        amount = self._amount(match, "recent")
        return ranges.last_of(context.reference, amount[1], amount[0] or ranges.SOME) if amount else None


CHINESE, JAPANESE, KOREAN = (_Eastern(language).grammar() for language in ("zh", "ja", "ko"))
