"""Date expressions in Japanese and Korean: 先週の火曜日, 令和7年4月1日, 3日前, 지난주 화요일, 3월 14일, 이틀 전.

What Japanese writes as Chinese does (3月14日, 明日, 去年, 三日前) is found by the Chinese rules.
"""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates import ranges
from clawbot.memory.dates.chinese import number_of
from clawbot.memory.dates.ranges import Context, DateRule, Grammar, Period, Unit, any_of

_NATIVE = {
    "하루": 1, "이틀": 2, "사흘": 3, "나흘": 4, "닷새": 5, "엿새": 6, "열흘": 10, "보름": 15, "한": 1, "두": 2, "세": 3,
    "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9, "열": 10, "일": 1, "이": 2, "삼": 3, "사": 4,
    "오": 5,
    "육": 6,
}  # fmt: skip
_WEEKDAYS = {day: number for days in ("月火水木金土日", "월화수목금토일") for number, day in enumerate(days)}
_ERAS = {"令和": 2018, "平成": 1988, "昭和": 1925}
_MONTH_WORDS = {
    "일": 1, "이": 2, "삼": 3, "사": 4, "오": 5, "유": 6, "칠": 7, "팔": 8, "구": 9, "시": 10, "십일": 11, "십이": 12,
}  # fmt: skip
_DIGIT_WORDS = "일이삼사오육칠팔구"
_OFFSETS = {
    "先々": -2, "先先": -2, "先": -1, "前": -1, "この前": -1, "先日": -1, "今": 0, "来": 1, "今度": 1, "次": 1,
    "再来": 2,
    "지지난": -2, "저저번": -2, "지난": -1, "저번": -1, "이번": 0, "금": 0, "이": 0, "다음": 1, "내": 1, "다다음": 2,
}  # fmt: skip
_YEARS = {
    "一昨年": -2, "おととし": -2, "昨年": -1, "去年": -1, "今年": 0, "本年": 0, "来年": 1, "再来年": 2,
    "재작년": -2, "작년": -1, "지난해": -1, "올해": 0, "금년": 0, "내년": 1, "후년": 2, "내후년": 2,
}  # fmt: skip
_DAYS = {
    "一昨々日": -3, "一昨昨日": -3, "一昨日": -2, "おととい": -2, "昨晩": -1, "ゆうべ": -1,
    "きのう": -1,
    "本日": 0, "今朝": 0, "今晩": 0, "あした": 1, "明後日": 2,
    "あさって": 2,
    "明々後日": 3, "しあさって": 3, "그끄저께": -3, "그저께": -2, "그제": -2, "엊그제": -2, "엊그저께": -2, "어제": -1,
    "어저께": -1, "어젯밤": -1, "오늘": 0, "내일": 1, "모레": 2, "글피": 3,
}  # fmt: skip
_SEASONS = {
    "春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter",
    "봄": "spring", "여름": "summer", "가을": "autumn", "겨울": "winter",
}  # fmt: skip
_UNITS: dict[str, Unit] = {
    "日": "day",
    "晩": "day",
    "週": "week",
    "年": "year",
    "일": "day",
    "주": "week",
    "년": "year",
    "해": "year",
}
"""By the first character; the others are months."""

TIME = (
    "昨[日夜晩年]|今日|(?<![透声聲文說说證证發发光])明日|今[朝夜晩]|[先来]々?[週月年]|今[週月]|おととい|きのう|あした|あさって"
    "|[月火水木金土日]曜|\\d+ ?時間?|時間前"
    "|[\\d一二三四五六七八九十数][週か]|か月|午[前後]|어제|그저께|그제|오늘|내일|모레|지난|이번|다음 ?[주달해]"
    "|작년|올해|내년|[월화수목금토일]요일"
    "|주말|\\d ?[년월일시주]|개월|일주일|이틀|사흘|며칠|아침|저녁|오전|오후|새벽|최근|부터"
)
"""A pattern of what tells a time, beside what is Chinese as well."""


# 原来年轻 and 将来月底 are Chinese.
_NOT_CHINESE = "(?<![原本将將从從后後以未近往由])"
_SIDES = {"japanese": f"先々|先先|先|今|再来|{_NOT_CHINESE}来", "korean": "지지난|저저번|지난|저번|이번|다다음|다음"}
_YEAR = r"(?P<y>(?:19|20|21)\d\d)"
_JAPANESE_WEEKDAY = "(?P<w>[月火水木金土日])曜日?"
_KOREAN_WEEKDAY = "(?P<w>[월화수목금토일])요일"
_KANJI_COUNT = r"(?P<n>\d{1,3}|[一二三四五六七八九]?十[一二三四五六七八九]?|[一二三四五六七八九数半])"
_JAPANESE_UNIT = "(?P<u>日|晩|週間?|[かヶカヵケ箇個]月|年)"
_KOREAN_COUNT = (
    rf"(?:(?P<whole>하루|이틀|사흘|나흘|닷새|엿새|열흘|보름|며칠|반년)|(?P<n>\d{{1,3}}|{any_of(_NATIVE)}|몇|수)"
    " ?(?P<u>일주일|주일|일|주|달|개월|년|해))"
)
# Case is not ignored: comparing 11,172 characters without it takes long to compile.
_NO_HANGUL = "(?-i:(?<![가-힣]))"
# 이번 주제 (this topic) and 3년 전체 (the whole three years) are longer words.
_WORD_END = r"(?=$|(?-i:[^가-힣])|에|의|은|는|엔|부터|까지|쯤|중|말고|이었|이야|였)"


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
    count = 1 + _DIGIT_WORDS.index(tens) if tens else 1
    return (count * 10 if ten else 0) + (1 + _DIGIT_WORDS.index(ones) if ones else 0)


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


JAPANESE = Grammar(
    [
        DateRule(
            "recurring",
            "毎[週月]の?(?:[月火水木金土日]曜日?|[日月年])?|毎[日年晩朝]"
            "|[月火水木金土日]曜日?(?:から|[〜~-])[月火水木金土日]曜日?",
            None,
        ),
        DateRule(
            "era",
            r"(?P<era>令和|平成|昭和) ?(?P<ey>元|\d{1,2})年(?: ?(?P<m>1[0-2]|0?[1-9])月(?: ?(?P<d>3[01]|[12]\d"
            r"|0?[1-9])日)?)?",
            _era,
        ),
        DateRule(
            "date",
            rf"(?P<ry>一昨年|おととし|昨年|去年|今年|本年|再来年|{_NOT_CHINESE}来年)の?(?P<y>(?!))?"
            r"(?P<m>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月(?:の?(?P<d>3[01]|[12]\d|0?[1-9])日)?",
            _day_or_month,
        ),
        DateRule(
            "year",
            rf"(?P<ry>一昨年|おととし|昨年|去年|今年|本年|再来年|{_NOT_CHINESE}来年)(?P<y>(?!))?(?:の?(?:(?P<s>[春夏秋冬])|第(?P<q>[1-4])四半期))?(?!度)",
            _year,
        ),
        DateRule("day_word", rf"(?P<w>{any_of(word for word in _DAYS if word[0] < '가')})", _day_word),
        DateRule("week", rf"(?P<q>{_SIDES['japanese']})週(?:の?(?:{_JAPANESE_WEEKDAY}|(?P<end>週?末)))?(?!間)", _week),
        DateRule("month", rf"(?P<q>{_SIDES['japanese']})月(?:の? ?(?P<d>3[01]|[12]\d|0?[1-9])日)?(?![曜面])", _month),
        DateRule("beside", rf"(?P<q>この前|前|先日|今度|次)の{_JAPANESE_WEEKDAY}", _beside),
        DateRule("quarter", "(?P<q>先|前|今|来)四半期", _quarter),
        DateRule("weekday", rf"(?<![日(（隔]){_JAPANESE_WEEKDAY}(?!ごと)", _weekday),
        DateRule(
            "ago",
            rf"(?<![\d一二三四五六七八九十第]){_KANJI_COUNT}{_JAPANESE_UNIT}(?:ほど|くらい|ぐらい)?前(?![半後])",
            _ago,
        ),
        DateRule("recent", rf"(?:この|ここ|過去|直近|最近の?)の? ?{_KANJI_COUNT}{_JAPANESE_UNIT}(?:間|ほど)?", _recent),
    ],
    hint=(
        "令和|平成|昭和|[昨来本]年|一昨|おととし|おととい|きのう|ゆうべ|昨[晩々]|明[々後]|あした|しあさ|あさって|今[朝晩年週月]"
        "|本日|去年|[先来]週|[先来]月|先[々先]|[火水木金土月日]曜|毎[週月日年晩朝]|日前|晩前|週間?前|月前|年前|ほど前|らい前"
        "|四半期|(?:この|ここ|過去|直近|最近の?)の? ?[\\d一二三四五六七八九十数半]"
    ),
    start=r"\S",
    reach=12,
)

KOREAN = Grammar(
    [
        DateRule(
            "recurring",
            "매주 ?(?:[월화수목금토일]요일)?|매[일월년]|[월화수목금토일]요일(?:마다| ?(?:부터|[~-])"
            " ?[월화수목금토일]요일)",
            None,
        ),
        DateRule(
            "date",
            rf"(?<!\d)(?:(?:{_YEAR}년|{_NO_HANGUL}(?P<ry>재작년|작년|지난해|올해|금년|내후년|내년|후년))"
            rf" ?)?(?P<m>1[0-2]|0?[1-9])월"
            r"(?: ?(?P<d>3[01]|[12]\d|0?[1-9])일)?",
            _day_or_month,
        ),
        DateRule(
            "date_in_words",
            rf"(?<!\d)(?:(?:{_YEAR}년|{_NO_HANGUL}(?P<ry>재작년|작년|지난해|올해|금년|내후년|내년|후년)) ?"
            rf"|{_NO_HANGUL})(?P<m>{any_of(_MONTH_WORDS)})월"
            rf"(?: ?(?P<d>(?:[이삼]?십)?[{_DIGIT_WORDS}]|[이삼]?십)일)?{_WORD_END}",
            _in_words,
        ),
        DateRule(
            "year",
            rf"(?<!\d)(?:{_YEAR}년|{_NO_HANGUL}(?P<ry>재작년|작년|지난해|올해|금년|내후년|내년|후년))"
            r"(?: ?(?:(?P<s>봄|여름|가을|겨울)|(?P<q>[1-4])분기))?",
            _year,
        ),
        DateRule(
            "day_word",
            rf"{_NO_HANGUL}(?P<w>{any_of(word for word in _DAYS if word[0] >= '가')})(?!날|서야|야|모레)",
            _day_word,
        ),
        DateRule(
            "week",
            rf"{_NO_HANGUL}(?P<q>{_SIDES['korean']}|금|내) ?(?:주(?:(?:에|의)? ?{_KOREAN_WEEKDAY}|{_WORD_END})"
            rf"|(?P<end>주말))",
            _week,
        ),
        DateRule(
            "month",
            rf"{_NO_HANGUL}(?P<q>{_SIDES['korean']}|이) ?달(?:{_WORD_END}| ?(?=\d))(?: ?(?P<d>3[01]|[12]\d"
            rf"|0?[1-9])일)?",
            _month,
        ),
        DateRule("beside", rf"{_NO_HANGUL}(?P<q>지난|저번|이번|다음) ?{_KOREAN_WEEKDAY}", _beside),
        DateRule("season", rf"{_NO_HANGUL}(?P<q>지난|이번|다음) ?(?P<s>봄|여름|가을|겨울)", _season),
        DateRule("quarter", rf"{_NO_HANGUL}(?P<q>지난|이번|다음) ?분기", _quarter),
        DateRule("weekday", rf"(?<!\(){_NO_HANGUL}{_KOREAN_WEEKDAY}", _weekday),
        DateRule("weekend", rf"{_NO_HANGUL}주말{_WORD_END}", _weekend),
        DateRule("ago", rf"(?<!\d){_NO_HANGUL}{_KOREAN_COUNT} ?전{_WORD_END}", _ago),
        DateRule("recent", rf"{_NO_HANGUL}(?:최근|지난|요) ?{_KOREAN_COUNT}(?: ?[간동]안?)?", _recent),
    ],
    hint=(
        "[월화수목금토일]요일|[\\d일이삼사오유칠팔구시]월|\\d년|재작년|작년|지난|올해|금년|[내후]년|그끄저께|그저께|그제|어제|어저께|어젯밤|오늘|내일"
        "|모레|글피|저번|저저번|이번|다음|금주|내주|이 ?달|주말|전|최근|매[주일월년]"
    ),
    start=r"\S",
    reach=12,
)
