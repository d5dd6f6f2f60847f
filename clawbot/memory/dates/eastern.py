"""Date expressions in Japanese and Korean: 先週の火曜日, 令和7年4月1日, 3日前, 지난주 화요일, 3월 14일, 이틀 전.

What Japanese writes as Chinese does (3月14日, 明日, 去年, 三日前) is found by the Chinese rules.
"""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates import ranges
from clawbot.memory.dates.chinese import number_of
from clawbot.memory.dates.ranges import Context, LanguageTable, Period, Unit

_TABLE = LanguageTable("eastern")
_NATIVE, _ERAS, _MONTH_WORDS = map(_TABLE.words, ("NATIVE", "ERAS", "MONTH_WORDS"))
_OFFSETS, _SEASONS, _UNITS = map(_TABLE.words, ("OFFSETS", "SEASONS", "UNITS"))
_YEARS: dict[str, int] = _TABLE.words("YEARS")
_DAYS = _TABLE.words("JAPANESE_DAYS") | _TABLE.words("KOREAN_DAYS")
_WEEKDAYS = {day: number for days in ("月火水木金土日", "월화수목금토일") for number, day in enumerate(days)}


def _year_of(match: re.Match[str], context: Context) -> int | None:
    if match["ry"]:
        return context.reference.year + _YEARS[match["ry"]]
    return int(match["y"]) if match["y"] else None


def _day_or_month(match: re.Match[str], context: Context) -> Period:
    """昨年3月, 작년 3월 14일, 2025년 3월, 3월."""
    return _in_year(_year_of(match, context), match["m"], match["d"], context)


def _in_words(match: re.Match[str], context: Context) -> Period:
    """유월, 오월 삼일, 작년 시월 이십오일."""
    day = _day_in_words(match["d"]) if match["d"] else None
    return _of_year(_year_of(match, context), _MONTH_WORDS[match["m"]], day, context)


def _day_in_words(words: str) -> int:
    """The number up to 39 that Korean syllables spell: 삼, 십오, 이십."""
    tens, ten, ones = words.rpartition("십")
    count = 1 + _TABLE.parts["DIGIT_WORDS"].index(tens) if tens else 1
    return (count * 10 if ten else 0) + (1 + _TABLE.parts["DIGIT_WORDS"].index(ones) if ones else 0)


def _in_year(year: int | None, month: str, day: str | None, context: Context) -> Period:
    return _of_year(year, number_of(month), number_of(day) if day else None, context)


def _of_year(year: int | None, number: int, first: int | None, context: Context) -> Period:
    if first is None:
        return ranges.month_near(number, context) if year is None else ranges.month(year, number)
    return ranges.day_near(number, first, context) if year is None else ranges.day(date(year, number, first))


def _era(match: re.Match[str], context: Context) -> Period:
    """令和7年, 平成元年4月, 令和7年4月1日."""
    year = _ERAS[match["era"]] + (1 if match["ey"] == "元" else int(match["ey"]))
    return _in_year(year, match["m"], match["d"], context) if match["m"] else ranges.year(year)


def _year(match: re.Match[str], context: Context) -> Period:
    """昨年, 去年の夏, 작년, 2025년 3분기."""
    number = _year_of(match, context) or context.reference.year
    if match["q"]:
        return ranges.quarter(number, int(match["q"]))
    return ranges.season(number, _SEASONS[match["s"]]) if match["s"] else ranges.year(number)


def _day_word(match: re.Match[str], context: Context) -> Period:
    return ranges.days_from(context.reference, _DAYS[match["w"]])


def _week(match: re.Match[str], context: Context) -> Period:
    """先週, 来週の月曜日, 지난 주말, 지난주 화요일."""
    offset = _OFFSETS[match["q"]]
    if match["w"]:
        return ranges.weekday_of(context.reference, _WEEKDAYS[match["w"]], offset)
    unit = ranges.weekend_of if match["end"] else ranges.week_of
    return unit(context.reference, offset)


def _month(match: re.Match[str], context: Context) -> Period:
    """先月, 来月5日, 지난달 5일."""
    month = ranges.month_of(context.reference, _OFFSETS[match["q"]])
    return ranges.day(month.start.replace(day=number_of(match["d"]))) if match["d"] else month


def _beside(match: re.Match[str], context: Context) -> Period:
    """この前の火曜日, 今度の土曜日, 지난 화요일: counted from the reference."""
    return ranges.weekday_beside(context.reference, _WEEKDAYS[match["w"]], _OFFSETS[match["q"]])


def _weekday(match: re.Match[str], context: Context) -> Period:
    return ranges.weekday_near(_WEEKDAYS[match["w"]], context)


def _weekend(_: re.Match[str], context: Context) -> Period:
    return ranges.weekend_near(context)


def _season(match: re.Match[str], context: Context) -> Period:
    return ranges.season_of(context.reference, _SEASONS[match["s"]], _OFFSETS[match["q"]])


def _quarter(match: re.Match[str], context: Context) -> Period:
    return ranges.quarter_of(context.reference, _OFFSETS[match["q"]])


def _amount(match: re.Match[str]) -> tuple[int | None, Unit] | None:
    """How many of what: 3日, 半年, 数日, 이틀, 두 달, 며칠. None for half of a day."""
    words = match.groupdict()
    if whole := words.get("whole"):
        return (6, "month") if whole == "반년" else (_NATIVE.get(whole), "day")
    count = match["n"]
    # By the first character; the others are months.
    unit: Unit = "week" if match["u"] == "일주일" else _UNITS.get(match["u"][0], "month")
    if count == "半":
        return (6, "month") if unit == "year" else None
    if count in ("数", "몇", "수"):
        return None, unit
    return (_NATIVE[count] if count in _NATIVE else number_of(count)), unit


def _ago(match: re.Match[str], context: Context) -> Period | None:
    amount = _amount(match)
    return ranges.away(context.reference, amount[1], amount[0], -1) if amount else None


def _recent(match: re.Match[str], context: Context) -> Period | None:
    amount = _amount(match)
    return ranges.last_of(context.reference, amount[1], amount[0] or ranges.SOME) if amount else None


JAPANESE = _TABLE.grammar(
    "japanese", _era, _day_or_month, _year, _day_word, _week, _month, _beside, _quarter, _weekday, _ago, _recent
)  # fmt: skip
KOREAN = _TABLE.grammar(
    "korean", _day_or_month, _in_words, _year, _day_word, _week, _month, _beside, _season, _quarter, _weekday,
    _weekend, _ago, _recent
)  # fmt: skip
