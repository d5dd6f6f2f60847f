"""Date expressions in Chinese, simplified and traditional: 3月2日, 上周三, 三天前, 去年三月, 周末."""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates import ranges
from clawbot.memory.dates.ranges import Context, LanguageTable, Period, Unit
from clawbot.text.numbers import whole_number

_VALUES = {"〇": 0, "零": 0, "○": 0, "一": 1, "二": 2, "两": 2, "兩": 2, "三": 3, "四": 4, "五": 5, "六": 6,
           "七": 7, "八": 8, "九": 9}  # fmt: skip
_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_YEARS = {"大前年": -3, "前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2, "後年": 2}
_DAYS = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "後": 2, "大后": 3, "大後": 3}
_OFFSETS = {"上上": -2, "上": -1, "这": 0, "這": 0, "本": 0, "下": 1, "下下": 2}
_PARTS_OF_YEAR = {"初": (1, 2), "底": (11, 12), "末": (11, 12), "上": (1, 6), "下": (7, 12)}
_CENTURY = 2000
_LONE_YEAR = 100


def number_of(text: str) -> int:
    """A number up to 99 in digits or characters: 12, 十二, 二十."""
    if (number := whole_number(text)) is not None:
        return number
    tens, ten, ones = text.rpartition("十")
    return (_VALUES.get(tens, 1) * 10 if ten else 0) + _VALUES.get(ones, 0)


def _year_of(match: re.Match[str], context: Context) -> int | None:
    if match["ry"]:
        return context.reference.year + _YEARS[match["ry"]]
    text = match["y"]
    if text is None:
        return None
    number = whole_number("".join(digit if digit.isdecimal() else str(_VALUES[digit]) for digit in text)) or 0
    return number + _CENTURY if number < _LONE_YEAR else number


def _day_or_month(match: re.Match[str], context: Context) -> Period:
    """2026年3月2日, 三月, 上个月5号, 3月底."""
    if match["rm"]:
        month = ranges.month_of(context.reference, _OFFSETS[match["rm"]])
        return ranges.day(month.start.replace(day=number_of(match["d"]))) if match["d"] else _part(month, match["p"])
    year, number = _year_of(match, context), number_of(match["m"])
    if match["d"] is None:
        return _part(ranges.month_near(number, context) if year is None else ranges.month(year, number), match["p"])
    day = number_of(match["d"])
    return ranges.day_near(number, day, context) if year is None else ranges.day(date(year, number, day))


def _part(month: Period, part: str | None) -> Period:
    """The beginning, middle or end of a month; the whole of it without `part`."""
    match part:
        case "初" | "上旬":
            return Period(month.start, month.start.replace(day=10), "week")
        case "中旬":
            return Period(month.start.replace(day=11), month.start.replace(day=20), "week")
        case "下旬" | "底" | "末":
            return Period(month.start.replace(day=21), month.end, "week")
        case _:
            return month


def _year(match: re.Match[str], context: Context) -> Period:
    """去年, 2026年, 今年年底, 明年上半年, 2025年第三季度."""
    number = _year_of(match, context) or context.reference.year
    if match["q"]:
        return ranges.quarter(number, number_of(match["q"]))
    part = match["p"] or match["h"]
    if part is None:
        return ranges.year(number)
    first, last = _PARTS_OF_YEAR[part]
    return ranges.months(ranges.month(number, first), ranges.month(number, last))


def _day_word(match: re.Match[str], context: Context) -> Period:
    return ranges.days_from(context.reference, _DAYS[match["w"]])


def _week(match: re.Match[str], context: Context) -> Period:
    """上周, 下周三, 上个周末: counted in weeks from Monday to Sunday."""
    offset, weekday = _OFFSETS[match["q"]], match["w"]
    if weekday is None:
        return ranges.week_of(context.reference, offset)
    if weekday == "末":
        return ranges.weekend_of(context.reference, offset)
    return ranges.weekday_of(context.reference, _WEEKDAYS[weekday], offset)


def _weekday(match: re.Match[str], context: Context) -> Period:
    if match["w"] == "末":
        return ranges.weekend_near(context)
    return ranges.weekday_near(_WEEKDAYS[match["w"]], context)


def _unit(text: str) -> Unit:
    if text[0] in "天日":
        return "day"
    if text[0] == "年":
        return "year"
    return "month" if text.endswith("月") else "week"


def _ago(match: re.Match[str], context: Context) -> Period | None:
    """三天前, 两个星期前, 半年前, 几天前."""
    count, unit = match["n"], _unit(match["u"])
    if count == "半":
        if unit in ("year", "month"):
            return ranges.away(context.reference, *(("month", 6) if unit == "year" else ("week", 2)), -1)
        return None
    return ranges.away(context.reference, unit, None if count in "几幾数數" else number_of(count), -1)


def _recent(match: re.Match[str], context: Context) -> Period:
    """最近三天, 过去两周, 前几天."""
    count = match["n"]
    unit = _unit(match["u"])
    if count == "半":
        return ranges.last_of(context.reference, *(("month", 6) if unit == "year" else ("day", 15)))
    return ranges.last_of(context.reference, unit, ranges.SOME if count in "几幾数數" else number_of(count))


def _quarter(match: re.Match[str], context: Context) -> Period:
    return ranges.quarter_of(context.reference, _OFFSETS[match["q"]])


CHINESE = LanguageTable("chinese").grammar(
    "chinese", _day_or_month, _year, _day_word, _week, _weekday, _ago, _recent, _quarter
)  # fmt: skip
