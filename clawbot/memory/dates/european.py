"""Date expressions in German, Spanish and French: am 12. März 2025, hace dos semanas, mardi dernier.

The rules read text without accents (`without_marks`). The three languages share them where no word means two things; a
word that is usual in another language (Mars, hier, morgen) counts only in a text that may be in its own.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from clawbot.languages.inflection import languages_of
from clawbot.languages.tables import Language
from clawbot.memory.dates import ranges
from clawbot.memory.dates.ranges import Context, LanguageTable, Period, Unit
from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table

_MARKS = str.maketrans(
    "äàâáãåçéèêëíìîïñóòôöõúùûüÄÀÂÁÃÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕÚÙÛÜ’", "aaaaaaceeeeiiiinooooouuuuAAAAAACEEEEIIIINOOOOOUUUU'"
)


def without_marks(text: str) -> str:
    """`text` without the accents of these languages, of the same length."""
    return text if text.isascii() else text.translate(_MARKS)


_TABLE = LanguageTable(packaged_table("clawbot.memory.dates", "european.toml", dict[str, Any]))
FULL_MONTHS: dict[str, int] = _TABLE.words("FULL_MONTHS")
MONTH_NUMBERS: dict[str, int] = FULL_MONTHS | _TABLE.words("SHORT_MONTHS")
WEEKDAY_NUMBERS: dict[str, int] = _TABLE.words("WEEKDAYS")
_DAY_WORDS, _COUNTS = map(_TABLE.words, ("DAYS", "COUNTS"))
_SEASONS, _QUARTERS = map(_TABLE.words, ("SEASONS", "QUARTERS"))
_OFFSETS: dict[str, int] = _TABLE.words("OFFSETS")
_LISTS = _TABLE.table["lists"]
_NO_LONE_MONTHS = frozenset({"april", "august", "avril", "juli", "julio", "mai", "mars", "marz", "mayo"})
"""Names, planets and sauces: without a day or a year they need a word before or behind them that dates have."""

TIME_WORDS = frozenset(
    {*FULL_MONTHS, *_DAY_WORDS, *(word + end for word in WEEKDAY_NUMBERS for end in ("", "s"))}
).union(_LISTS["of_time"].split()) - {"hier"}
"""Words of a time, in lower case without accents; "hier" (yesterday) is none in German."""

_ENGLISH_MONTHS = frozenset(
    {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "ago"}
    | {"april", "august", "september", "november"}
)
"""Names of months that are English as well."""

_CUES = TIME_WORDS.union(MONTH_NUMBERS, _SEASONS, _LISTS["cues"].split()) - _ENGLISH_MONTHS
_CUE = lazy_re(r"[a-z]+|\d/(?=\d)|\d\.(?= ?[\da-z])|\d[ºo°]")


def may_name_a_date(lower: str) -> bool:
    """Whether `lower`, in lower case without accents, has a word of these dates: a test that costs little."""
    words = _CUE.findall(lower)
    return not _CUES.isdisjoint(words) or any(word[0].isdecimal() for word in words)


def means_yesterday(text: str) -> bool:
    """Whether "hier" in `text` is French."""
    languages = languages_of(text)
    return "fr" in languages and "de" not in languages


_UNITS: dict[str, Unit] = {
    "wochenende": "weekend", "fin": "weekend", "week": "weekend", "woche": "week", "sem": "week", "tag": "day",
    "nacht": "day", "dia": "day", "noche": "day", "jour": "day", "nuit": "day", "monat": "month",
    "mes": "month", "mois": "month", "quartal": "quarter", "trimestre": "quarter", "jahr": "year", "an": "year",
    "quin": "week",
}  # fmt: skip
"""By the beginnings of the words; the longer ones first."""

_WAYS_BACK = frozenset({"vor", "antes", "avant"})
_NAMES_A_DATE = lazy_re(_TABLE.parts["NAMES_A_DATE"], re.IGNORECASE)
_SENTENCE = lazy_re(r"(?:^|[.:!?\n])\W*$")
_LOOKBEHIND = 14


def _may_be(context: Context, *languages: Language) -> bool:
    """Whether the text may be in one of `languages`."""
    return not languages_of(context.text).isdisjoint(languages)


def _is_ours(context: Context) -> bool:
    return _may_be(context, "de", "es", "fr")


def _unit(word: str) -> Unit:
    return next(unit for beginning, unit in _UNITS.items() if word.lower().startswith(beginning))


def _offset(words: str) -> int:
    """Last is -1, the one before it -2, this 0, next 1."""
    word = words.lower().removeprefix("que ")
    return next(offset for stem, offset in _OFFSETS.items() if word.startswith(stem))


def _count(words: str) -> int | None:
    """None for a few."""
    word = words.lower()
    if (number := whole_number(word)) is not None:
        return number
    return 2 if word.startswith("un par") else _COUNTS.get(word)


def _day_of_month(match: re.Match[str], context: Context) -> Period | None:
    """3. Mai, 3 de mayo de 2025, 1er mai, 3.-5. Mai."""
    if not match["y"] and not _is_ours(context):
        return None
    name = match["m"]
    # "3 Mars bars", "5 Mar"; English has its own rules.
    is_bare = not (match["y"] or match["th"] or match["of"])
    if is_bare and (name.lower() in _NO_LONE_MONTHS or len(name) <= 3) and name[0].isupper() and _may_be(context, "en"):
        return None
    month, first, year = MONTH_NUMBERS[name.lower()], int(match["d"]), match["y"]
    start = ranges.day(date(int(year), month, first)) if year else ranges.day_near(month, first, context)
    end = start.start.replace(day=int(match["d2"])) if match["d2"] else start.end
    return Period(start.start, max(start.end, end), "day")


def _dotted(match: re.Match[str], context: Context) -> Period | None:
    """12.3., 12.03., 12.3.25: German, and no version or section."""
    before = match.string[max(0, match.start() - _LOOKBEHIND) : match.start()]
    if not (
        _NAMES_A_DATE.search(before)
        or (match["mn"][0] == "0" and _may_be(context, "de"))
        or (languages_of(context.text) == {"de"} and before.strip() and not match["y"])
    ):
        return None
    return _day_in(match["y"], int(match["mn"]), int(match["d"]), context)


def _slashed(match: re.Match[str], context: Context) -> Period | None:
    """El 3/5, le 3/5/2025: the day comes first."""
    if not _may_be(context, "es", "fr"):
        return None
    return _day_in(match["y"], int(match["mn"]), int(match["d"]), context)


def _day_in(year: str | None, month: int, day: int, context: Context) -> Period:
    """A day of a year of two or four digits, or of none."""
    if year is None:
        return ranges.day_near(month, day, context)
    return ranges.day(date(int(year) + (2000 if len(year) == 2 else 0), month, day))


def _beside(match: re.Match[str], context: Context) -> Period | None:
    """Zwei Wochen nach dem 3. Mai, el domingo antes del 25 de mayo, le lundi avant le 3 mai."""
    day = re.compile(_TABLE.parts["DAY_MONTH"], re.IGNORECASE).match(match.string, match.start("anchor"))
    period = day and _day_of_month(day, context)
    if period is None:
        return None
    when, step = period.start, -1 if match["way"].lower() in _WAYS_BACK else 1
    if match["n"]:
        return _counted(match["n"].lower(), _unit(match["u"]), when, step)
    weekday = WEEKDAY_NUMBERS.get(match["one"].lower())
    if weekday is None:
        return ranges.unit_of(when, _unit(match["one"]), step)
    return ranges.adjacent_weekday(when, weekday, step)


def _month_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.month(int(match["y"]), MONTH_NUMBERS[match["m"].lower()])


def _month_alone(match: re.Match[str], context: Context) -> Period | None:
    """Im Mai, en abril, febrero."""
    name, before = match["m"], (match["before"] or "").lower()
    is_sure = name.lower() not in _NO_LONE_MONTHS or context.text[match.start("m") + 1] == "ä"
    if not is_sure and (not before or (before == "de" and name[0].isupper()) or not _is_ours(context)):
        return None
    return ranges.month_near(MONTH_NUMBERS[name.lower()], context)


def _day_word(match: re.Match[str], context: Context) -> Period | None:
    """Gestern, heute Morgen, pasado mañana, hier soir."""
    word = match["w"].lower()
    # "Hier" is German for here; "der Morgen" is the morning.
    if not _is_ours(context) or (word == "hier" and not means_yesterday(context.text)):
        return None
    if word == "morgen" and match["w"][0].isupper() and not _SENTENCE.search(match.string[: match.start()]):
        return None
    return ranges.days_from(context.reference, _DAY_WORDS[word])


def _part_of_day(match: re.Match[str], context: Context) -> Period:
    return ranges.days_from(context.reference, -1 if match["past"] else 0)


def _away(match: re.Match[str], context: Context) -> Period | None:
    """Vor drei Tagen, hace dos semanas, il y a un an, dans un mois."""
    step = 1 if match["on"] else -1
    # Fifteen days are two weeks.
    step *= 2 if match["u"].lower().startswith("quin") else 1
    return _counted(match["n"].lower(), _unit(match["u"]), context.reference, step)


def _counted(words: str, unit: Unit, when: date, step: int) -> Period | None:
    if re.fullmatch(_TABLE.parts["HALF"], words):
        return ranges.away(when, "month", 6, step) if unit == "year" else None
    return ranges.away(when, unit, _count(words), step)


def _last_some(match: re.Match[str], context: Context) -> Period:
    """Die letzten drei Tage, los últimos días, les deux dernières semaines."""
    words = match["n"] or match["n2"]
    count = (_count(words.strip()) if words else None) or ranges.SOME
    return ranges.last_of(context.reference, _unit(match["u"]), count if _offset(match["q"]) < 0 else -count)


def _relative(match: re.Match[str], context: Context) -> Period | None:
    """Letzte Woche, el martes pasado, cet été, mars dernier."""
    offset, word = _offset(match["q"]), match["u"].lower()
    if season := _SEASONS.get(word):
        return ranges.season_of(context.reference, season, offset)
    if month := MONTH_NUMBERS.get(word):
        return ranges.adjacent_month(month, context, offset)
    if (weekday := WEEKDAY_NUMBERS.get(word)) is None:
        return ranges.unit_of(context.reference, _unit(word), offset)
    nearest = ranges.adjacent_weekday(context.reference, weekday, offset)
    return ranges.days_from(nearest.start, 7 * (offset - (offset > 0) + (offset < 0)))


def _weekday_of_week(match: re.Match[str], context: Context) -> Period:
    """Dienstag letzter Woche, letzte Woche Dienstag, el martes de la semana pasada."""
    offset = _offset(next(filter(None, match.group("q", "q2", "q3"))))
    return ranges.weekday_of(context.reference, WEEKDAY_NUMBERS[(match["w"] or match["w2"]).lower()], offset)


def _weekday_alone(match: re.Match[str], context: Context) -> Period | None:
    name = match["w"]
    # "Santo Domingo", "Mr Freitag".
    if not _is_ours(context) or (name == "Domingo" and not match["before"]):
        return None
    return ranges.weekday_near(WEEKDAY_NUMBERS[name.lower()], context)


def _weekend_alone(_: re.Match[str], context: Context) -> Period:
    return ranges.weekend_near(context)


def _season_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.season(int(match["y"]), _SEASONS[match["s"].lower()])


def _year_alone(match: re.Match[str], context: Context) -> Period | None:
    return ranges.year(int(match["y"])) if _is_ours(context) else None


def _quarter_of_year(match: re.Match[str], context: Context) -> Period:
    number = _QUARTERS[match["n"].lower()]
    return ranges.quarter(int(match["y"]), number) if match["y"] else ranges.quarter_near(number, context)


def _day_alone(match: re.Match[str], context: Context) -> Period | None:
    """Am 13., el 13, lundi 9."""
    return _TABLE.undated(match, context) if _is_ours(context) else None


def _calendar_week(match: re.Match[str], context: Context) -> Period:
    number, year = int(match["n"] or match["n2"]), match["y"]
    return ranges.week_of(date.fromisocalendar(int(year), number, 1)) if year else ranges.week_near(number, context)


_SHARED = frozenset({"april", "august", "september", "november"})


def _hint() -> str:
    """Matches where a word of a date begins; the beginnings are in groups by their first letter, for speed."""
    months, seasons = MONTH_NUMBERS.keys() - _ENGLISH_MONTHS, _SEASONS.keys() - {"winter", "ete"}
    year, of, lead = (_TABLE.parts[name] for name in ("YEAR", "OF", "LEAD"))
    behind_lead = rf"[ -](?:{'|'.join(_SHARED)}|{year})\b"
    groups: dict[str, list[str]] = {}
    for beginning in (
        *[rf"{word}\b" for word in sorted({*months, *_DAY_WORDS})],
        *[rf"{word}s?\b" for word in WEEKDAY_NUMBERS],
        *[f"{word} " for word in sorted(seasons)],
        *_LISTS["beginnings"],
        *[word + behind_lead for word in lead.split("|")],
    ):
        groups.setdefault(beginning[0], []).append(beginning[1:])
    words = "|".join(f"{letter}(?:{'|'.join(endings)})" for letter, endings in groups.items())
    english = "|".join(sorted(_ENGLISH_MONTHS - {"may"}))
    # "5 November" is English as well.
    numbers = rf"\d\d?(?:(?:\.|er|[ºo°]) ?{of}?| {of})(?:{english})\b|\d\d?\. ?(?:\d\d?\.|kw|kalenderw)"
    return rf"\b(?:{words}|{numbers})"


EUROPEAN = _TABLE.grammar(
    _beside, _part_of_day, _day_word, _day_of_month, _dotted, _slashed, _month_of_year, _calendar_week,
    _away, _last_some, _weekday_of_week, _relative, _season_of_year, _month_alone, _weekday_alone, _weekend_alone,
    _quarter_of_year, _year_alone, _day_alone, hint=_hint(),
)  # fmt: skip
