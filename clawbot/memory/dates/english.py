"""Date expressions in English: 7 May 2023, last Tuesday, two weeks ago. `ENGLISH` is its grammar, used by `find.py`;
the words are in `languages/`, the arithmetic in `ranges.py`."""

from __future__ import annotations

import re
from datetime import date

from clawbot.languages.tables import table
from clawbot.memory.dates import ranges
from clawbot.memory.dates.ranges import Context, LanguageTable, Period, Unit
from clawbot.text.numbers import whole_number

_TABLE = LanguageTable(table("en", "dates"))
MONTH, WEEKDAY = _TABLE.parts["MONTH"], _TABLE.parts["WEEKDAY"]

ALSO_WORDS = frozenset({"march", "may", "mar", "april", "june", "august", "jan", "dec", "sep"})
"""Months that are also verbs, first names or abbreviations: they need more context than the others."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNITS: dict[str, Unit] = {
    "hour": "day", "day": "day", "night": "day", "fortnight": "week",
    "week": "week", "weekend": "weekend", "month": "month", "quarter": "quarter",
    "year": "year",
}  # fmt: skip
_OFFSETS = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "upcoming": 1}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_SOME = frozenset({"few", "several"})
_HOURS, _MONTHS_OF_YEAR = 24, 12


def month_number(name: str) -> int:
    """January, or an abbreviation of it, is 1."""
    return _MONTHS.index(name[:3].lower()) + 1


def weekday_number(name: str) -> int:
    """Monday, or an abbreviation of it, is 0."""
    return _WEEKDAYS.index(name[:3].lower())


def unit_named(word: str) -> Unit | None:
    """The unit of time that a word names, in the plural too; None for another word."""
    return _UNITS.get(word.lower().removesuffix("s"))


def offset_named(word: str) -> int:
    """Last is -1, this 0, next 1."""
    return _OFFSETS[word.lower()]


def count_named(words: str) -> int | None:
    """The number in a match of COUNT; None for "a few"."""
    parts = words.lower().split()
    if _SOME.intersection(parts):
        return None
    number = whole_number(parts[0])
    return max(_NUMBERS.get(part, 1) for part in parts) if number is None else number


_BEFORE_A_DAY = frozenset({"on", "by", "since", "until", "till", "from"})
_BEFORE_A_MONTH = frozenset(
    {"in", "since", "until", "till", "during", "throughout", "between", "late", "early", "mid", "last", "next"}
)
_LOOKBEHIND = 8
_NAME_BEHIND = re.compile(" [A-Z]")
_LAST_WORD = re.compile(r"([^\W\d_]+) *$")


def _day_of_month(match: re.Match[str], context: Context) -> Period | None:
    """7 May 2023, May 7th, 7-9 May."""
    name = match["m"]
    is_sure = match["th"] or match["y"] or name[0].isupper() or _word_before(match) in _BEFORE_A_DAY
    if name.lower() in ALSO_WORDS and not is_sure:
        return None
    month, first, year = month_number(name), int(match["d"]), match["y"]
    start = ranges.day(date(int(year), month, first)) if year else ranges.day_near(month, first, context)
    end = start.start.replace(day=int(match["d2"])) if match["d2"] else start.end
    return Period(start.start, max(start.end, end), "day")


def _word_before(match: re.Match[str]) -> str:
    word = _LAST_WORD.search(match.string, max(0, match.start() - _LOOKBEHIND), match.start())
    return word[1].lower() if word else ""


def _month_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.month(int(match["y"]), month_number(match["m"]))


def _month_alone(match: re.Match[str], context: Context) -> Period | None:
    """In March, last May, by June, October."""
    name, before = match["m"], (match["before"] or "").lower()
    if name.lower() in ALSO_WORDS and not _is_month(match, name, before):
        return None
    month = month_number(name)
    if match["y"]:
        return ranges.month(int(match["y"]), month)
    if before in ("last", "this", "next"):
        return ranges.adjacent_month(month, context, offset_named(before))
    return ranges.month_near(month, context)


def _is_month(match: re.Match[str], name: str, before: str) -> bool:
    """Whether an ambiguous name is a month: "from May", but not "from May Jones" or "this may"."""
    if before in _BEFORE_A_MONTH:
        return name[0].isupper() or _word_before(match) != "the"
    behind = match.string[match.end() : match.end() + 3]
    return bool(before) and name[0].isupper() and re.match(r" [A-Z][a-z]|['’]s", behind) is None


def _word(match: re.Match[str], context: Context) -> Period:
    """Today, yesterday, last night, the day after tomorrow."""
    word = match[0].lower()
    if "day before" in word or "day after" in word:
        return ranges.days_from(context.reference, -2 if "before" in word else 2)
    offset = -1 if word.startswith(("yesterday", "last")) else int(word.startswith("tomorrow"))
    return ranges.days_from(context.reference, offset)


def _ago(match: re.Match[str], context: Context) -> Period:
    """Two weeks ago, a few days back, a month from now."""
    return ranges.away(context.reference, *_amount(match), 1 if match["way"].lower() == "from now" else -1)


def _amount(match: re.Match[str]) -> tuple[Unit, int | None]:
    """The unit and number of a count; a fortnight is two weeks, 36 hours are a day."""
    count, word = count_named(match["n"]), match["u"].lower()
    if count and word.startswith("fortnight"):
        count *= 2
    if count and word.startswith("hour"):
        count //= _HOURS
    return unit_named(word) or "day", count


def _weekdays_ago(match: re.Match[str], context: Context) -> Period:
    """Two Tuesdays ago."""
    last = ranges.adjacent_weekday(context.reference, weekday_number(match["w"]), -1)
    return ranges.days_from(last.start, -7 * ((count_named(match["n"]) or ranges.SOME) - 1))


def _slashed(match: re.Match[str], context: Context) -> Period:
    """2/14, 2/14/26; 14/2, as there is no such month."""
    month, day = int(match["a"]), int(match["b"])
    month, day = (day, month) if month > _MONTHS_OF_YEAR else (month, day)
    return ranges.day(date(2000 + int(match["y"]), month, day)) if match["y"] else ranges.day_near(month, day, context)


def _last_some(match: re.Match[str], context: Context) -> Period:
    """The last three days, the next couple of weeks: up to the reference, or from it."""
    unit, count = _amount(match)
    return ranges.last_of(
        context.reference, unit, -offset_named(match["q"]) * (ranges.SOME if count is None else count)
    )


def _relative(match: re.Match[str], context: Context) -> Period | None:
    """Last week, this weekend, next Tuesday, last summer."""
    offset, word = offset_named(match["q"]), match["u"]
    if word.lower() == "fortnight":
        return ranges.last_of(context.reference, "week", -2 * offset)
    if match["q"].lower() == "past" and word.lower() in ("week", "month", "year"):
        return ranges.last_of(context.reference, unit_named(word) or "week", 1)
    if unit := unit_named(word):
        return ranges.unit_of(context.reference, unit, offset)
    if re.fullmatch(_TABLE.parts["SEASON"], word, re.IGNORECASE):
        return ranges.season_of(context.reference, word.lower(), offset)
    # "He last sat there": a short form of a weekday has a capital.
    if not word.lower().endswith("day") and not word[0].isupper():
        return None
    return ranges.adjacent_weekday(context.reference, weekday_number(word), offset)


def _weekday_of_week(match: re.Match[str], context: Context) -> Period:
    return ranges.weekday_of(context.reference, weekday_number(match["w"]), offset_named(match["q"]))


def _weekday_alone(match: re.Match[str], context: Context) -> Period | None:
    name = match["w"]
    is_short = not name.lower().endswith("day")
    if is_short and not (
        match["before"] and name[0].isupper() and _NAME_BEHIND.match(match.string, match.end()) is None
    ):
        return None
    return ranges.weekday_near(weekday_number(name), context)


def _weekend_alone(_: re.Match[str], context: Context) -> Period:
    return ranges.weekend_near(context)


def _beside(match: re.Match[str], context: Context) -> Period | None:
    """The Sunday before 25 May 2023, the week before last; without a date, next to the reference."""
    when, step = context.reference, -1 if match["way"].lower() == "before" else 1
    anchor = match["anchor"] or ""
    if anchor.lower() == "last":
        step = -2
    elif anchor:
        period = _day_named(anchor, context)
        if period is None:
            return None
        when = period.start
    if unit := unit_named(match["u"]):
        return ranges.unit_of(when, unit, step)
    number = weekday_number(match["u"])
    if step > 0:
        return ranges.adjacent_weekday(when, number, 1)
    nearest = ranges.adjacent_weekday(when, number, -1)
    return nearest if step == -1 else ranges.adjacent_weekday(nearest.start, number, -1)


def _counted(match: re.Match[str], context: Context) -> Period | None:
    """Two weeks after 3 May, a day before May 5th."""
    period = _day_named(match["anchor"], context)
    if period is None:
        return None
    return ranges.away(period.start, *_amount(match), -1 if match["way"].lower() == "before" else 1)


def _day_named(text: str, context: Context) -> Period | None:
    """The day that a match of _DAY names; None if it is none."""
    if re.fullmatch(_TABLE.parts["ISO"], text):
        return ranges.day(date.fromisoformat(text))
    text = text.removeprefix("the ")
    patterns = (_TABLE.parts[name] for name in ("DAY_MONTH", "MONTH_DAY"))
    matches = (re.fullmatch(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((_day_of_month(each, context) for each in matches if each), None)


def _year_alone(match: re.Match[str], _: Context) -> Period:
    return ranges.year(int(match["y"]))


def _season_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.season(int(match["y"]), match["s"].lower())


def _quarter_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.quarter(int(match["y"] or match["y2"]), int(match["n"] or match["n2"]))


ENGLISH = _TABLE.grammar(
    _word, _weekdays_ago, _slashed, _day_of_month, _month_of_year,
    _beside, _counted, _ago, _last_some, _weekday_of_week,
    _relative, _season_of_year, _month_alone, _weekday_alone, _weekend_alone, _year_alone, _quarter_of_year
)  # fmt: skip
