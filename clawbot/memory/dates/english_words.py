"""Owns the English words of dates: patterns for months, weekdays, years and counts, and what they stand for."""

from __future__ import annotations

from clawbot.memory.dates.ranges import Unit

MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
FULL_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
WEEKDAY = (
    "(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
)
FULL_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
SEASON = "(?:spring|summer|autumn|fall|winter)"
YEAR = r"(?:19|20|21)\d\d"
COUNT = (
    r"(?:\d{1,3}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:a )?couple(?: of)?|(?:a )?few"
    r"|several|an?)"
)

HINT = "|".join(
    (
        *(r"ago\b", "today", "tonight", "yesterday", "tomorrow", "last ", "past ", "previous ", "current ", "next "),
        *("coming ", "upcoming ", "this (?:morn|after|even|week|month|quarter|year|past|coming|spring|summer|autumn)"),
        *(r"this (?:fall|winter|may|mar|mon|tue|wed|thu|fri|sat|sun)", "week(?:end)?s? (?:before|after|back|from now)"),
        *("days? (?:before|after|back|from now)", "night (?:before|after)", "months? (?:before|after|back|from now)"),
        *(
            "years? (?:before|after|back|from now)",
            "the weekend",
            "monday",
            "tuesday",
            "wednesday",
            "thursday",
            "friday",
        ),
        *("saturday", "sunday", r"on (?:mon|tue|wed|thu|fri|sat|sun)", r"by (?:mon|tue|wed|thu|fri|sat|sun)"),
        *("since ", "until ", "till ", r"from (?:mon|tue|wed|thu|fri|sat|sun)", r"jan(?:uary)?\b", r"feb(?:ruary)?\b"),
        *(r"mar(?:ch)?\b", r"apr(?:il)?\b", r"may\b", r"june?\b", r"july?\b", r"aug(?:ust)?\b"),
        *(r"sept?(?:ember)?\b", r"oct(?:ober)?\b", r"nov(?:ember)?\b", r"dec(?:ember)?\b", r"19\d\d", r"2[01]\d\d"),
    )
)
"""What a text, in lower case, holds when it names a date. Each alternative begins with a letter: so it is quick."""

ALSO_WORDS = frozenset({"march", "may", "mar", "april", "june", "august", "jan", "dec", "sep"})
"""Months that are verbs, first names or abbreviations as well: they need more around them than the others."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNITS: dict[str, Unit] = {
    "day": "day", "night": "day", "week": "week", "weekend": "weekend", "month": "month", "quarter": "quarter",
    "year": "year",
}  # fmt: skip
_OFFSETS = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1, "upcoming": 1}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_SOME = frozenset({"few", "several"})


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
    """The number that a match of COUNT says; None for "a few"."""
    parts = words.lower().split()
    if _SOME.intersection(parts):
        return None
    return int(parts[0]) if parts[0].isdigit() else max(_NUMBERS.get(part, 1) for part in parts)
