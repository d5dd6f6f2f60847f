"""Date expressions in English, and in German, Spanish and French: last Tuesday, am 12. März 2025, hace dos semanas.

The last three are read without accents (`without_marks`). They share their rules where no word means two things; a word
that is usual in another language (Mars, hier, morgen) counts only in a text that may be in its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from clawbot.languages.inflection import languages_of
from clawbot.languages.tables import Language, table
from clawbot.memory.dates import ranges
from clawbot.memory.dates.grammar import Grammar, LanguageTable, Resolve, groups_of
from clawbot.memory.dates.ranges import Context, Period, Unit
from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table

_MARKS = str.maketrans(
    "äàâáãåçéèêëíìîïñóòôöõúùûüÄÀÂÁÃÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕÚÙÛÜ’", "aaaaaaceeeeiiiinooooouuuuAAAAAACEEEEIIIINOOOOOUUUU'"
)


def without_marks(text: str) -> str:
    """`text` without the accents of these languages, of the same length."""
    return text if text.isascii() else text.translate(_MARKS)


_EUROPEAN = packaged_table("clawbot.memory.dates", "european.toml", dict[str, Any])
_TABLE = LanguageTable(_EUROPEAN)
FULL_MONTHS: dict[str, int] = _TABLE.words("FULL_MONTHS")
MONTH_NUMBERS: dict[str, int] = FULL_MONTHS | _TABLE.words("SHORT_MONTHS")
WEEKDAY_NUMBERS: dict[str, int] = _TABLE.words("WEEKDAYS")
_DAY_WORDS, _SEASONS = map(_TABLE.words, ("DAYS", "SEASONS"))
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


def may_name_a_date(lower: str, context: Context) -> bool:
    """Whether `lower`, in lower case without accents, has a word of these dates, or asks in one of these languages: a
    test that costs little."""
    words = _CUE.findall(lower)
    has_cue = not _CUES.isdisjoint(words) or any(word[0].isdecimal() for word in words)
    return has_cue or (context.prefer == "past" and _is_ours(context))


def means_yesterday(text: str) -> bool:
    """Whether "hier" in `text` is French."""
    languages = languages_of(text)
    return "fr" in languages and "de" not in languages


_ALSO_WORDS = frozenset({"march", "may", "mar", "april", "june", "august", "jan", "dec", "sep"})
"""Months of English that are also verbs, first names or abbreviations: they need more context than the others."""

_BEFORE_A_DAY = frozenset({"on", "by", "since", "until", "till", "from"})
_BEFORE_A_MONTH = frozenset(
    {"in", "since", "until", "till", "during", "throughout", "between", "late", "early", "mid", "last", "next"}
)
_TWO_WEEKS, _HOURS, _HOURS_OF_DAY = ("fortnight", "quin"), ("hour", "stunde", "hora", "heure"), 24
_NAMES_A_DATE = lazy_re(_TABLE.part("NAMES_A_DATE"), re.IGNORECASE)
_NAME_BEHIND, _LAST_WORD = re.compile(" [A-Z]"), re.compile(r"([^\W\d_]+) *$")
_SENTENCE = lazy_re(r"(?:^|[.:!?\n])\W*$")
_LOOKBEHIND, _LOOKBEHIND_OF_WORD, _SHORT = 14, 8, 3


def _may_be(context: Context, *languages: Language) -> bool:
    """Whether the text may be in one of `languages`."""
    return not languages_of(context.text).isdisjoint(languages)


def _is_ours(context: Context) -> bool:
    return _may_be(context, "de", "es", "fr")


class _English:
    """The rules of English. The groups of a match: `d` and `d2` are days, `m` a month, `y` a year, `w` a weekday or day
    word, `n` and `u` an amount, `q` an offset, `before` the word before."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = LanguageTable(table)
        words = self._table.words
        self.months: dict[str, int] = words("FULL_MONTHS") | words("SHORT_MONTHS")
        self.weekdays, self._days, self._counts = map(words, ("WEEKDAYS", "DAYS", "COUNTS"))
        self._seasons, self._offsets, self._ways = map(words, ("SEASONS", "OFFSETS", "WAYS"))
        self._units: list[tuple[str, Unit]] = sorted(words("UNITS").items(), reverse=True)

    def grammar(self, *more: Resolve, hint: str = "") -> Grammar:
        """Return the grammar of the language, with `more` resolvers."""
        return self._table.grammar(
            *more, self.day_of_month, self.beside, self.ago, self.last_some, self.relative, self.weekday_of_week,
            self.weekdays_ago, self.month_alone, self.weekday_alone, self.weekend_alone, self.day_word, hint=hint,
        )  # fmt: skip

    def is_day(self, match: re.Match[str], _: Context) -> bool:
        """Return whether a day and a month are meant: "May 3", but not "may 3 times"."""
        name = match["m"]
        is_sure = match["th"] or match["y"] or name[0].isupper() or _word_before(match) in _BEFORE_A_DAY
        return bool(is_sure) or name.lower() not in _ALSO_WORDS

    def is_month(self, match: re.Match[str], _: Context) -> bool:
        """Return whether a name alone is a month: "from May", but not "from May Jones" or "this may"."""
        name, before = match["m"], (match["before"] or "").lower()
        if name.lower() not in _ALSO_WORDS:
            return True
        if before in _BEFORE_A_MONTH:
            return name[0].isupper() or _word_before(match) != "the"
        behind = match.string[match.end() : match.end() + 3]
        return bool(before) and name[0].isupper() and re.match(r" [A-Z][a-z]|['’]s", behind) is None

    def is_weekday(self, match: re.Match[str], _: Context) -> bool:
        """Return whether a weekday is meant: "on Sun", but not "by Sun Microsystems"."""
        name = match["w"]
        is_short = bool(match["before"]) and name[0].isupper() and not _NAME_BEHIND.match(match.string, match.end())
        return name.lower().endswith("day") or is_short

    def is_day_word(self, _: re.Match[str], __: Context) -> bool:
        """Return whether a word such as yesterday is meant."""
        return True

    def day_of_month(self, match: re.Match[str], context: Context) -> Period | None:
        """7 May 2023, May 7th, 7-9 May, 3 de mayo, 3.-5. Mai."""
        if not self.is_day(match, context):
            return None
        month, first, year = self.months[match["m"].lower()], int(match["d"]), match["y"]
        start = ranges.day(date(int(year), month, first)) if year else ranges.day_near(month, first, context)
        end = start.start.replace(day=int(match["d2"])) if match["d2"] else start.end
        return Period(start.start, max(start.end, end), "day")

    def month_alone(self, match: re.Match[str], context: Context) -> Period | None:
        """In March, last May, October, im Mai, in March 2024."""
        name, before = match["m"].lower(), (match["before"] or "").lower()
        if not self.is_month(match, context):
            return None
        if match.groupdict().get("y"):
            return ranges.month(int(match["y"]), self.months[name])
        if before in self._offsets:
            return ranges.adjacent_month(self.months[name], context, self._offsets[before])
        return ranges.month_near(self.months[name], context)

    def day_word(self, match: re.Match[str], context: Context) -> Period | None:
        """Today, yesterday, last night, hier soir, pasado mañana."""
        if not self.is_day_word(match, context):
            return None
        return ranges.days_from(context.reference, self._days[match["w"].lower()])

    def _unit(self, word: str) -> Unit | None:
        return next((unit for beginning, unit in self._units if word.lower().startswith(beginning)), None)

    def _offset(self, words: str) -> int:
        """Last is -1, the one before it -2, this 0, next 1."""
        word = words.lower().removeprefix("que ")
        offset: int = next(offset for stem, offset in self._offsets.items() if word.startswith(stem))
        return offset

    def _away(self, groups: Mapping[str, str], when: date, step: int) -> Period | None:
        """Two weeks before or after `when`."""
        unit, count = self._amount(groups)
        if re.fullmatch(self._table.part("HALF"), groups["n"], re.IGNORECASE):
            return ranges.away(when, "month", 6, step) if unit == "year" else None
        return ranges.away(when, unit, count, step)

    def _amount(self, groups: Mapping[str, str]) -> tuple[Unit, int | None]:
        """The unit and number of a count, None for a few; a fortnight is two weeks, 36 hours are a day."""
        text, word = groups.get("n", "").strip().lower(), groups["u"].lower()
        number = whole_number(text)
        count = self._counts.get(text) if number is None else number
        if count and word.startswith(_TWO_WEEKS):
            count *= 2
        if count and word.startswith(_HOURS):
            count //= _HOURS_OF_DAY
        return self._unit(word) or "day", count

    def ago(self, match: re.Match[str], context: Context) -> Period | None:
        """Two weeks ago, a month from now, vor drei Tagen, dans un mois."""
        return self._away(groups_of(match), context.reference, self._ways[match["way"].lower()])

    def last_some(self, match: re.Match[str], context: Context) -> Period:
        """The last three days, the next couple of weeks, las últimas dos semanas: up to the reference, or from it."""
        unit, count = self._amount(groups_of(match))
        count = ranges.SOME if count is None else count
        return ranges.last_of(context.reference, unit, count if self._offset(match["q"]) < 0 else -count)

    def relative(self, match: re.Match[str], context: Context) -> Period | None:
        """Last week, next Tuesday, last summer, el martes pasado, mars dernier."""
        offset, word = self._offset(match["q"]), match["u"].lower()
        if word.startswith(_TWO_WEEKS):
            return ranges.last_of(context.reference, "week", -2 * offset)
        if match["q"].lower() == "past" and word in ("week", "month", "year"):
            return ranges.last_of(context.reference, self._unit(word) or "day", 1)
        if season := self._seasons.get(word):
            return ranges.season_of(context.reference, season, offset)
        if month := self.months.get(word):
            return ranges.adjacent_month(month, context, offset)
        if (weekday := self.weekdays.get(word)) is None:
            return ranges.unit_of(context.reference, self._unit(word) or "day", offset)
        # "He last sat there": a short form of a weekday has a capital.
        if len(word) == _SHORT and not match["u"][0].isupper():
            return None
        nearest = ranges.adjacent_weekday(context.reference, weekday, offset)
        return ranges.days_from(nearest.start, 7 * (offset - (offset > 0) + (offset < 0)))

    def weekday_of_week(self, match: re.Match[str], context: Context) -> Period:
        """Tuesday last week, letzte Woche Dienstag, el martes de la semana pasada."""
        groups = groups_of(match)
        return ranges.weekday_of(context.reference, self.weekdays[groups["w"].lower()], self._offset(groups["q"]))

    def weekdays_ago(self, match: re.Match[str], context: Context) -> Period:
        """Two Tuesdays ago."""
        last = ranges.adjacent_weekday(context.reference, self.weekdays[match["w"].lower()], -1)
        return ranges.days_from(last.start, -7 * ((self._counts.get(match["n"].lower()) or ranges.SOME) - 1))

    def weekday_alone(self, match: re.Match[str], context: Context) -> Period | None:
        if not self.is_weekday(match, context):
            return None
        return ranges.weekday_near(self.weekdays[match["w"].lower()], context)

    def weekend_alone(self, _: re.Match[str], context: Context) -> Period:
        return ranges.weekend_near(context)

    def beside(self, match: re.Match[str], context: Context) -> Period | None:
        """The Sunday before 25 May 2023, two weeks after it, the week before last; else next to the reference."""
        groups = groups_of(match)
        when, step, anchor = context.reference, self._ways[groups["way"].lower()], groups.get("anchor", "")
        if anchor.lower() == "last":
            step = -2
        elif anchor:
            period = self._day_named(anchor, context)
            if period is None:
                return None
            when = period.start
        if "n" in groups:
            return self._away(groups, when, step)
        weekday = self.weekdays.get(groups["u"].lower())
        if weekday is None:
            return ranges.unit_of(when, self._unit(groups["u"]) or "day", step)
        nearest = ranges.adjacent_weekday(when, weekday, step)
        return nearest if step > -2 else ranges.adjacent_weekday(nearest.start, weekday, -1)

    def _day_named(self, text: str, context: Context) -> Period | None:
        """The day that a match of DAY names; None if it is none."""
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return ranges.day(date.fromisoformat(text))
        patterns = [self._table.part(name) for name in ("DAY_MONTH", "MONTH_DAY") if name in self._table.table["parts"]]
        found = (re.fullmatch(pattern, text.removeprefix("the "), re.IGNORECASE) for pattern in patterns)
        return next((self.day_of_month(each, context) for each in found if each), None)


def _word_before(match: re.Match[str]) -> str:
    word = _LAST_WORD.search(match.string, max(0, match.start() - _LOOKBEHIND_OF_WORD), match.start())
    return word[1].lower() if word else ""


class _European(_English):
    """The rules of German, Spanish and French, each where the text may be in its language."""

    def is_day(self, match: re.Match[str], context: Context) -> bool:
        if not match["y"] and not _is_ours(context):
            return False
        name = match["m"]
        # "3 Mars bars", "5 Mar"; English has its own rules.
        is_bare = not (match["y"] or match["th"] or match["of"]) and name[0].isupper()
        is_foreign = name.lower() in _NO_LONE_MONTHS or len(name) <= _SHORT
        return not (is_bare and is_foreign and _may_be(context, "en"))

    def is_month(self, match: re.Match[str], context: Context) -> bool:
        name, before = match["m"], (match["before"] or "").lower()
        is_sure = name.lower() not in _NO_LONE_MONTHS or context.text[match.start("m") + 1] == "ä"
        return is_sure or (bool(before) and not (before == "de" and name[0].isupper()) and _is_ours(context))

    def is_weekday(self, match: re.Match[str], context: Context) -> bool:
        # "Santo Domingo", "Mr Freitag".
        return _is_ours(context) and (match["w"] != "Domingo" or bool(match["before"]))

    def is_day_word(self, match: re.Match[str], context: Context) -> bool:
        word, is_capital = match["w"].lower(), match["w"][0].isupper()
        # "Hier" is German for here; "der Morgen" is the morning.
        if word == "morgen" and is_capital and not _SENTENCE.search(match.string[: match.start()]):
            return False
        return _is_ours(context) and (word != "hier" or means_yesterday(context.text))

    def dotted(self, match: re.Match[str], context: Context) -> Period | None:
        """12.3., 12.03., 12.3.25: German, and no version or section."""
        before = match.string[max(0, match.start() - _LOOKBEHIND) : match.start()]
        if not (
            _NAMES_A_DATE.search(before)
            or (match["mn"][0] == "0" and _may_be(context, "de"))
            or (languages_of(context.text) == {"de"} and before.strip() and not match["y"])
        ):
            return None
        return self._table.undated(match, context)

    def slashed(self, match: re.Match[str], context: Context) -> Period | None:
        """El 3/5, le 3/5/2025: the day comes first."""
        return self._table.undated(match, context) if _may_be(context, "es", "fr") else None

    def part_of_day(self, match: re.Match[str], context: Context) -> Period:
        return ranges.days_from(context.reference, -1 if match["past"] else 0)

    def of_ours(self, match: re.Match[str], context: Context) -> Period | None:
        """What other languages write too: am 13., en 2024."""
        return self._table.undated(match, context) if _is_ours(context) else None


_SHARED = frozenset({"april", "august", "september", "november"})


def _hint() -> str:
    """Matches where a word of a date begins; the beginnings are in groups by their first letter, for speed."""
    months, seasons = MONTH_NUMBERS.keys() - _ENGLISH_MONTHS, _SEASONS.keys() - {"winter", "ete"}
    year, of, lead = map(_TABLE.part, ("YEAR", "OF", "LEAD"))
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


_THREE = _European(_EUROPEAN)
EUROPEAN = _THREE.grammar(_THREE.dotted, _THREE.slashed, _THREE.part_of_day, _THREE.of_ours, hint=_hint())
_ONE = _English(table("en", "dates"))
ENGLISH, ENGLISH_MONTHS, ENGLISH_WEEKDAYS = _ONE.grammar(), _ONE.months, _ONE.weekdays
