"""Date expressions in Chinese, simplified and traditional: 3月2日, 上周三, 三天前, 去年三月, 周末."""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates import ranges
from clawbot.memory.dates.ranges import Context, DateRule, Grammar, Period, Unit
from clawbot.text.numbers import whole_number

_DIGITS = "〇零○一二三四五六七八九"
_VALUES = {"〇": 0, "零": 0, "○": 0, "一": 1, "二": 2, "两": 2, "兩": 2, "三": 3, "四": 4, "五": 5, "六": 6,
           "七": 7, "八": 8, "九": 9}  # fmt: skip
_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_YEARS = {"大前年": -3, "前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2, "後年": 2}
_DAYS = {"大前": -3, "前": -2, "昨": -1, "今": 0, "明": 1, "后": 2, "後": 2, "大后": 3, "大後": 3}
_OFFSETS = {"上上": -2, "上": -1, "这": 0, "這": 0, "本": 0, "下": 1, "下下": 2}
_PARTS_OF_YEAR = {"初": (1, 2), "底": (11, 12), "末": (11, 12), "上": (1, 6), "下": (7, 12)}
_CENTURY = 2000
_LONE_YEAR = 100

_WRITTEN_YEAR = rf"(?:19|20|21)\d\d|[一二][{_DIGITS}]{{3}}"
_OTHER_YEAR = "(?P<ry>大前年|前年|去年|今年|明年|后年|後年)"
_MONTH = (
    r"(?:(?P<m>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九]) ?月"
    r"|(?P<rm>上上|(?<![以马馬路晚早])上|这|這|本|下下|(?<![以乡鄉地])下)(?:一?[个個])?月)"
)
_DAY = (
    r" ?(?P<d>3[01]|[12]\d|0?[1-9]|三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九]) ?[日号號]"
    "(?![线線楼樓院店机機门門])"
)
_PART = "份?(?P<p>初|上旬|中旬|下旬|底|末)|份"
_NOT_A_COUNT = r"(?<![\d十百千万个個第点點.几幾一二三四五六七八九])"
# Names that look like a month: 他叫三月, 「三月」, 三月兔.
_NOT_A_NAME = r"(?<![每叫名姓小阿「『“《\"])"
_NO_NAME_BEHIND = r"(?![」』”》\"兔花龄齡]|天(?![气氣]))"
_WEEK = r"(?:周|週|星期|礼拜|禮拜)"
# 下周一起去, 一周三次 and 周日志 contain no weekday.
_NO_WEEKDAYS = "一[起定直些样樣般共次场場个個]|[二三四五六][次个個回遍场場]|日[志誌报報常程期本]|天[气氣]"
_WEEKDAY = f"(?P<w>(?!{_NO_WEEKDAYS})[一二三四五六日天末])"
_COUNT = r"(?P<n>\d{1,3}|[一二两兩三四五六七八九]?十[一二三四五六七八九]?|[一二两兩三四五六七八九半]|[几幾数數])"
_UNIT = r"(?P<u>[天日年周週]|[个個]?(?:星期|礼拜|禮拜)|[个個]月)"


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


CHINESE = Grammar(
    [
        DateRule(
            "recurring",
            rf"每[个個逢]?(?:{_WEEK}[一二三四五六日天末]?|[天日年月])"
            rf"|{_WEEK}[一二三四五六日天][到至~-]{_WEEK}?[一二三四五六日天]",
            None,
        ),
        DateRule(
            "date",
            rf"{_NOT_A_COUNT}{_NOT_A_NAME}(?:(?:(?P<y>{_WRITTEN_YEAR}|\d\d) ?年|{_OTHER_YEAR})的? ?)?{_MONTH}"
            rf"(?:{_DAY}|{_PART}|{_NO_NAME_BEHIND})",
            _day_or_month,
        ),
        DateRule(
            "year",
            rf"{_NOT_A_COUNT}(?:(?P<y>{_WRITTEN_YEAR}) ?年|{_OTHER_YEAR})(?:的? ?"
            r"(?:年?(?P<p>[初底末])|(?P<h>[上下])半年|第?(?P<q>[一二三四1-4])季度?))?",
            _year,
        ),
        DateRule(
            "day_word",
            r"(?P<w>大前|(?<![以之目当當提眼])前|昨|今|(?<![透声聲文说說证證发發光])明|大[后後]"
            "|(?<![以之然今最先])[后後])"
            r"(?:天(?![气氣花性])|(?<=[昨今明])[日晚早夜晨])",
            _day_word,
        ),
        DateRule(
            "week",
            r"(?P<q>上上|(?<![晚早以加马馬路线線网網])上|这|這|本|下下|(?<![以乡鄉地])下)一?[个個]?"
            rf"{_WEEK}{_WEEKDAY}?(?![边邊期])",
            _week,
        ),
        DateRule(
            "weekday",
            rf"(?<![每逢个個一二两兩三四五六七八九十\d几幾半日号號])(?<![日号號][(（]){_WEEK}{_WEEKDAY}",
            _weekday,
        ),
        DateRule("ago", rf"{_NOT_A_COUNT}{_COUNT} ?{_UNIT}(?:之|以)?前(?![端台往面沿后後景])", _ago),
        DateRule("recent", rf"(?:最近|过去|過去|近|(?:前|这|這)(?=[几幾]))的? ?{_COUNT} ?{_UNIT}", _recent),
        DateRule("quarter", "(?P<q>上|这|這|本|下)(?:一?[个個])?季度?", _quarter),
    ],
    hint=(
        "[年月周週季]|星期|[礼禮]拜|[前昨今明后後]天|[昨今明][日晚早夜晨]|[天日]之?以?前"
        r"|[几幾近去\d]的? ?[几幾两兩\d一二三四五六七八九十半]{0,3}[天日]"
    ),
    start=r"\S",
    reach=12,
)
