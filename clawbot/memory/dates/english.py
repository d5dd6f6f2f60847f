"""Date expressions in English: 7 May 2023, last Tuesday, two weeks ago, the weekend before; and the words they use."""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates import ranges
from clawbot.memory.dates.ranges import Context, DateRule, Grammar, Period, Unit
from clawbot.text.numbers import whole_number

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
"""Matches in the lower-case form of every text with a date. For speed, each alternative starts with a letter."""

ALSO_WORDS = frozenset({"march", "may", "mar", "april", "june", "august", "jan", "dec", "sep"})
"""Months that are also verbs, first names or abbreviations: they need more context than the others."""

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
    """The number in a match of COUNT; None for "a few"."""
    parts = words.lower().split()
    if _SOME.intersection(parts):
        return None
    number = whole_number(parts[0])
    return max(_NUMBERS.get(part, 1) for part in parts) if number is None else number


_TO = r"(?:\s?[-–]\s?(?P<d2>\d\d?)(?:st|nd|rd|th)?)?"
_DAY_MONTH = rf"(?P<d>\d\d?)(?P<th>st|nd|rd|th)?{_TO} (?:of )?(?P<m>{MONTH})\b\.?(?:,? (?P<y>{YEAR})\b)?"
_MONTH_DAY = (
    rf"(?P<m>{MONTH})\b\.? (?:the )?(?P<d>\d\d?)(?P<th>st|nd|rd|th)?{_TO}(?![\w%]|[.:,/-]\d)(?:,? (?P<y>{YEAR})\b)?"
)
_CLAUSE_END = r"(?=\s*(?:$|[.,;:!?)\n]))"
_BEFORE_A_DAY = frozenset({"on", "by", "since", "until", "till", "from"})
_BEFORE_A_MONTH = frozenset(
    {"in", "since", "until", "till", "during", "throughout", "between", "late", "early", "mid", "last", "next"}
)
_LOOK_BACK = 8
_NAME_BEHIND = re.compile(" [A-Z]")
_LAST_WORD = re.compile(r"([^\W\d_]+) *$")


def _day_of_month(match: re.Match[str], context: Context) -> Period | None:
    """7 May 2023, May 7th, 7-9 May."""
    name = match["m"]
    says_more = match["th"] or match["y"] or name[0].isupper() or _word_before(match) in _BEFORE_A_DAY
    if name.lower() in ALSO_WORDS and not says_more:
        return None
    month, first, year = month_number(name), int(match["d"]), match["y"]
    start = ranges.day(date(int(year), month, first)) if year else ranges.day_near(month, first, context)
    end = start.start.replace(day=int(match["d2"])) if match["d2"] else start.end
    return Period(start.start, max(start.end, end), "day")


def _word_before(match: re.Match[str]) -> str:
    word = _LAST_WORD.search(match.string, max(0, match.start() - _LOOK_BACK), match.start())
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
        return ranges.month_beside(month, context, offset_named(before))
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
    step = 1 if match["way"].lower() == "from now" else -1
    return ranges.away(context.reference, unit_named(match["u"]) or "day", count_named(match["n"]), step)


def _last_some(match: re.Match[str], context: Context) -> Period:
    """The last three days, the next couple of weeks: up to the reference, or from it."""
    count = count_named(match["n"]) or ranges.SOME
    unit = unit_named(match["u"]) or "day"
    return ranges.last_of(context.reference, unit, -offset_named(match["q"]) * count)


def _relative(match: re.Match[str], context: Context) -> Period | None:
    """Last week, this weekend, next Tuesday, last summer."""
    offset, word = offset_named(match["q"]), match["u"]
    if unit := unit_named(word):
        return ranges.unit_of(context.reference, unit, offset)
    if re.fullmatch(SEASON, word, re.IGNORECASE):
        return ranges.season_of(context.reference, word.lower(), offset)
    # "He last sat there": a short form of a weekday has a capital.
    if not word.lower().endswith("day") and not word[0].isupper():
        return None
    return ranges.weekday_beside(context.reference, weekday_number(word), offset)


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
    """The Sunday before 25 May 2023, the week before last; without a date, beside the reference."""
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
        return ranges.weekday_beside(when, number, 1)
    nearest = ranges.weekday_beside(when, number, -1)
    return nearest if step == -1 else ranges.weekday_beside(nearest.start, number, -1)


def _counted(match: re.Match[str], context: Context) -> Period | None:
    """Two weeks after 3 May, a day before May 5th."""
    period = _day_named(match["anchor"], context)
    if period is None:
        return None
    step = -1 if match["way"].lower() == "before" else 1
    return ranges.away(period.start, unit_named(match["u"]) or "day", count_named(match["n"]), step)


def _day_named(text: str, context: Context) -> Period | None:
    """The day that a match of _DAY names; None if it is none."""
    if re.fullmatch(_ISO, text):
        return ranges.day(date.fromisoformat(text))
    text = text.removeprefix("the ")
    matches = (re.fullmatch(pattern, text, re.IGNORECASE) for pattern in (_DAY_MONTH, _MONTH_DAY))
    return next((_day_of_month(each, context) for each in matches if each), None)


def _year_alone(match: re.Match[str], _: Context) -> Period:
    return ranges.year(int(match["y"]))


def _season_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.season(int(match["y"]), match["s"].lower())


def _quarter_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.quarter(int(match["y"] or match["y2"]), int(match["n"] or match["n2"]))


def _unnamed(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


_UNIT = "(?:day|week|weekend|month|year)s?"
_ISO = rf"{YEAR}-\d\d-\d\d"
_DAY = rf"(?:the )?{_unnamed(_DAY_MONTH)}|{_unnamed(_MONTH_DAY)}|{_ISO}"
_ANCHOR = f"last|{_DAY}"

ENGLISH = Grammar(
    [
        DateRule("recurring", rf"(?:every|each|most) {WEEKDAY}s?\b|{FULL_WEEKDAY}s\b", None),
        DateRule(
            "word",
            r"(?:the )?day (?:before yesterday|after tomorrow)\b|(?:today|tonight|yesterday|tomorrow)\b"
            r"|this (?:morning|afternoon|evening)\b|last (?:night|evening)\b",
            _word,
        ),
        DateRule("day_month", _DAY_MONTH, _day_of_month),
        DateRule("month_day", _MONTH_DAY, _day_of_month),
        DateRule("month_year", rf"(?P<m>{MONTH})\b\.?,? (?:of )?(?P<y>{YEAR})(?![\w-]|[.,:]\d)", _month_of_year),
        DateRule(
            "beside",
            rf"(?:the )?(?P<u>day|night|week|weekend|month|year|{FULL_WEEKDAY}) (?P<way>before|after)"
            rf"(?: (?P<anchor>{_ANCHOR})\b|{_CLAUSE_END})",
            _beside,
        ),
        DateRule(
            "counted", rf"(?P<n>{COUNT}) (?P<u>{_UNIT}) (?P<way>before|after) (?P<anchor>{_DAY})(?![\w-])", _counted
        ),
        DateRule("ago", rf"(?P<n>{COUNT}) (?P<u>{_UNIT}) (?P<way>ago|back|from now)\b", _ago),
        DateRule(
            "last_some", rf"(?P<q>last|past|previous|next|coming) (?P<n>{COUNT}) (?P<u>{_UNIT})\b(?! of)", _last_some
        ),
        DateRule("weekday_of_week", rf"(?P<w>{FULL_WEEKDAY}),? (?:of )?(?P<q>last|this|next) week\b", _weekday_of_week),
        DateRule(
            "relative",
            rf"(?P<q>last|past|previous|this|current|next|coming|upcoming) (?:past |coming )?"
            rf"(?P<u>week|weekend|month|quarter|year|{SEASON}|{WEEKDAY})\b(?! (?:of|in)\b)",
            _relative,
        ),
        DateRule("season_of_year", rf"(?P<s>{SEASON}) (?:of )?(?P<y>{YEAR})(?![\w-]|[.,:]\d)", _season_of_year),
        DateRule(
            "month_alone",
            r"(?:(?P<before>in|since|until|till|during|throughout|between|late|early|mid|last|next|this|from|by|before"
            rf"|after|for|of|to)[ -])?(?P<m>{FULL_MONTH})\b"
            rf"(?:,? (?:of )?(?P<y>{YEAR})(?![\w-]|[.,:]\d)|(?! (?:the )?\d))",
            _month_alone,
        ),
        DateRule(
            "weekday_alone",
            # "Sunday, 13 October" is found as the day that it is.
            rf"(?:(?P<before>on|by|since|until|till|from) )?(?P<w>{WEEKDAY})\b"
            rf"(?!,? (?:the )?(?:\d\d?(?:st|nd|rd|th)? (?:of )?)?{MONTH}\b)",
            _weekday_alone,
        ),
        DateRule("weekend_alone", r"(?:over|at|on|during) the weekend\b(?! of\b)", _weekend_alone),
        DateRule(
            "year_alone",
            rf"(?:in|since|during|until|till|year|mid|late|early)[ -](?P<y>{YEAR})"
            rf"(?!['’]?[\w%]|[-./,:][\dWQ]| [A-Za-z]{{4,}}s\b)",
            _year_alone,
        ),
        DateRule(
            "quarter_of_year",
            rf"Q(?P<n>[1-4])[ /-]?(?P<y>{YEAR})\b|(?P<y2>{YEAR})[ /-]?Q(?P<n2>[1-4])\b",
            _quarter_of_year,
        ),
    ],
    hint=rf"\b(?:{HINT})",
    start=r"\b\w",
    reach=32,
)
