"""Date expressions in German, Spanish and French: am 12. März 2025, hace dos semanas, mardi dernier.

The rules read text without accents (`without_marks`). The three languages share them where no word means two things; a
word that is usual in another language (Mars, hier, morgen) counts only in a text that may be in its own.
"""

from __future__ import annotations

import re
from datetime import date

from clawbot.memory.dates import ranges
from clawbot.memory.dates.european_words import (
    COUNTS,
    DAY_WORDS,
    ENGLISH_MONTHS,
    FULL_MONTHS,
    MONTH_NUMBERS,
    NO_LONE_MONTHS,
    OFFSETS,
    SEASON_NAMES,
    WEEKDAY_NUMBERS,
    numbered,
)
from clawbot.memory.dates.ranges import Context, DateRule, Grammar, Period, Unit, any_of
from clawbot.text.inflection import Language, languages_of
from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re


def says_yesterday(text: str) -> bool:
    """Whether "hier" in `text` is French."""
    languages = languages_of(text)
    return "fr" in languages and "de" not in languages


_UNITS: dict[str, Unit] = {
    "wochenende": "weekend", "fin": "weekend", "week": "weekend", "woche": "week", "sem": "week", "tag": "day",
    "nacht": "day", "dia": "day", "noche": "day", "jour": "day", "nuit": "day", "monat": "month",
    "mes": "month", "mois": "month", "quartal": "quarter", "trimestre": "quarter", "jahr": "year", "an": "year",
}  # fmt: skip
"""By the beginnings of the words; the longer ones first."""

_YEAR = r"(?:19|20|21)\d\d"
_NOT_MORE = r"(?![\w-]|[.,:]\d)"
_FULL, _ANY_MONTH, _WEEKDAY = any_of(FULL_MONTHS), any_of(MONTH_NUMBERS), any_of(WEEKDAY_NUMBERS)
_SEASON = any_of(SEASON_NAMES)
_HALF = "(?:einem )?halben|medio"
_SOME = (
    r"(?:ein|einem) paar|(?:einige|wenige|mehrere)[nr]?|un[oa]s(?: poc[oa]s)?|algun[oa]s|poc[oa]s|vari[oa]s"
    r"|quelques|plusieurs"
)
_COUNT = rf"(?:\d{{1,3}}|{_HALF}|{_SOME}|un par de|{any_of(COUNTS)})"
_LONG_UNIT = (
    "(?:wochenendes?|woche|monats?|quartals?|jahre?s?|fin de semana|semana|mes|trimestre|ano|week-?end|semaine"
    "|mois|annee|an)"
)
_UNITS_OF = (
    r"(?:tagen?|nachten?|wochen|monaten?|quartalen?|jahren?|dias|noches|semanas|fines de semana|meses|trimestres"
    r"|anos|jours|nuits|semaines|week-?ends|mois|trimestres|annees|ans)"
)
_UNIT = rf"(?:{_UNITS_OF}|{_LONG_UNIT}|tag|nacht|dia|noche|jour|nuit)"
_PART_OF_DAY = (
    r"(?: (?:fruh|morgen|vormittag|mittag|nachmittag|abend|nacht|matin|midi|soir|(?:por|en|a) la (?:manana"
    r"|tarde|noche)))?\b"
)
_BEFORE = (
    r"(?:(?:vor|uber)?letzt|vorig|vergangen|dies|nachst|naechst|kommend|ubernachst|uebernaechst)e[nrsm]?"
    "|pasad[oa]|ultim[oa]|proxim[oa]|est[ea]|cette|cet|ce"
)
_BEHIND = (
    "(?:ante)?pasad[oa]|anterior|proxim[oa]|que viene|que entra|siguiente|derniere?|passee?|precedente?|prochaine?"
    "|suivante?"
)
_MANY = "(?:letzte|vergangene|nachste|naechste|kommende)[nr]?|(?:ultim|pasad|proxim)[oa]s|derni(?:er|ere)s|prochaine?s"
_LEAD = (
    "im|seit|bis|ab|vom|zum|anfang|mitte|ende|monat|en|desde|hasta|mes de|principios de|mediados de|finales de|mois de"
    "|courant|depuis|jusqu'en|debut|fin|mi|de"
)
_OF = "(?:del? |d')"
_DAY_MONTH = (
    r"(?<![\d.,:/-])(?P<d>\d\d?)(?P<th>\.|er|[ºo°])?"
    r"(?:(?:\s?[-–]\s?| bis (?:zum )?| al? | au )(?P<d2>\d\d?)\.?)? ?"
    rf"(?P<of>{_OF})?(?P<m>{_ANY_MONTH})\b\.?(?:,? {_OF}?(?P<y>{_YEAR})\b)?"
)
_WAYS_BACK = frozenset({"vor", "antes", "avant"})
_NO_DATE_BEHIND = rf"(?!,? (?:(?:den|dem|der|el|le|dia) )?\d\d?(?:\. ?\d|(?:\.|er)? ?{_OF}?{_ANY_MONTH}\b))"
_NAMES_A_DATE = lazy_re(
    rf"(?:\b(?:am|vom|zum|bis|ab|seit|den|dem|der|und)|\b{_WEEKDAY},?|\b(?:mo|di|mi|do|fr|sa|so)[.,]+) $", re.IGNORECASE
)
_SENTENCE = lazy_re(r"(?:^|[.:!?\n])\W*$")
_LOOK_BACK = 14


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
    return next(offset for offset, stems in OFFSETS.items() if word.startswith(tuple(stems.split())))


def _count(words: str) -> int | None:
    """None for a few."""
    word = words.lower()
    if (number := whole_number(word)) is not None:
        return number
    return 2 if word.startswith("un par") else COUNTS.get(word)


def _day_of_month(match: re.Match[str], context: Context) -> Period | None:
    """3. Mai, 3 de mayo de 2025, 1er mai, 3.-5. Mai."""
    if not match["y"] and not _is_ours(context):
        return None
    name = match["m"]
    # "3 Mars bars", "5 Mar"; English has its own rules.
    is_bare = not (match["y"] or match["th"] or match["of"])
    if is_bare and (name.lower() in NO_LONE_MONTHS or len(name) <= 3) and name[0].isupper() and _may_be(context, "en"):
        return None
    month, first, year = MONTH_NUMBERS[name.lower()], int(match["d"]), match["y"]
    start = ranges.day(date(int(year), month, first)) if year else ranges.day_near(month, first, context)
    end = start.start.replace(day=int(match["d2"])) if match["d2"] else start.end
    return Period(start.start, max(start.end, end), "day")


def _dotted(match: re.Match[str], context: Context) -> Period | None:
    """12.3., 12.03., 12.3.25: German, and no version or section."""
    before = match.string[max(0, match.start() - _LOOK_BACK) : match.start()]
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
    day = re.compile(_DAY_MONTH, re.IGNORECASE).match(match.string, match.start("anchor"))
    period = day and _day_of_month(day, context)
    if period is None:
        return None
    when, step = period.start, -1 if match["way"].lower() in _WAYS_BACK else 1
    if match["n"]:
        return _counted(match["n"].lower(), _unit(match["u"]), when, step)
    weekday = WEEKDAY_NUMBERS.get(match["one"].lower())
    if weekday is None:
        return ranges.unit_of(when, _unit(match["one"]), step)
    return ranges.weekday_beside(when, weekday, step)


def _month_of_year(match: re.Match[str], _: Context) -> Period:
    return ranges.month(int(match["y"]), MONTH_NUMBERS[match["m"].lower()])


def _month_alone(match: re.Match[str], context: Context) -> Period | None:
    """Im Mai, en abril, febrero."""
    name, before = match["m"], (match["before"] or "").lower()
    is_sure = name.lower() not in NO_LONE_MONTHS or context.text[match.start("m") + 1] == "ä"
    if not is_sure and (not before or (before == "de" and name[0].isupper()) or not _is_ours(context)):
        return None
    return ranges.month_near(MONTH_NUMBERS[name.lower()], context)


def _day_word(match: re.Match[str], context: Context) -> Period | None:
    """Gestern, heute Morgen, pasado mañana, hier soir."""
    word = match["w"].lower()
    # "Hier" is German for here; "der Morgen" is the morning.
    if not _is_ours(context) or (word == "hier" and not says_yesterday(context.text)):
        return None
    if word == "morgen" and match["w"][0].isupper() and not _SENTENCE.search(match.string[: match.start()]):
        return None
    return ranges.days_from(context.reference, DAY_WORDS[word])


def _part_of_day(match: re.Match[str], context: Context) -> Period:
    return ranges.days_from(context.reference, -1 if match["past"] else 0)


def _away(match: re.Match[str], context: Context) -> Period | None:
    """Vor drei Tagen, hace dos semanas, il y a un an, dans un mois."""
    return _counted(match["n"].lower(), _unit(match["u"]), context.reference, 1 if match["on"] else -1)


def _counted(words: str, unit: Unit, when: date, step: int) -> Period | None:
    if re.fullmatch(_HALF, words):
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
    if season := SEASON_NAMES.get(word):
        return ranges.season_of(context.reference, season, offset)
    if month := MONTH_NUMBERS.get(word):
        return ranges.month_beside(month, context, offset)
    if (weekday := WEEKDAY_NUMBERS.get(word)) is None:
        return ranges.unit_of(context.reference, _unit(word), offset)
    nearest = ranges.weekday_beside(context.reference, weekday, offset)
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
    return ranges.season(int(match["y"]), SEASON_NAMES[match["s"].lower()])


def _year_alone(match: re.Match[str], context: Context) -> Period | None:
    return ranges.year(int(match["y"])) if _is_ours(context) else None


_QUARTERS = (
    "1 erst primer premier",
    "2 zweit segundo deuxieme",
    "3 dritt tercer troisieme",
    "4 viert cuarto quatrieme",
)
_QUARTER_NUMBERS = numbered(_QUARTERS, 1)


def _quarter_of_year(match: re.Match[str], context: Context) -> Period:
    return ranges.quarter(int(match["y"] or context.reference.year), _QUARTER_NUMBERS[match["n"].lower()])


def _calendar_week(match: re.Match[str], context: Context) -> Period:
    number, year = int(match["n"] or match["n2"]), match["y"]
    return ranges.week_of(date.fromisocalendar(int(year), number, 1)) if year else ranges.week_near(number, context)


_SHARED = frozenset({"april", "august", "september", "november"})
_BEGINNINGS = (
    "wochenende", r"kw ?\d", "kalenderw", "letzte", "vorletzte", "vorige", "vergangene", "nachste", "naechste",
    "kommende", "ubernachste", "uebernaechste", "diese[nrsm]? ", "pasad[oa]", "antepasad", "ultim[oa]", "proxim[oa]",
    "que viene", "que entra", r"anterior\b", "siguiente", "derni", r"passee?\b", "prochain", "precedent", "suivant",
    "fin de semana", "week-?end", "vor ", "hace ", "il y a ", "dentro de ", "dans ", "d'ici ",
    r"in (?:\d+|ei|zw|dr|vi|fu|se|si|ac|ne|ze)\w* [tnwmj]", "est[ae] ", "cette ", "cet ", "ce [masejdlvohp]",
    *(rf"{article} \d\d?/\d" for article in ("el", "del", "al", "le", "du", "au")),
    "ano [12]", "annee [12]", "jahre? [12]", "ete (?:de )?[12]", "quartal", "trimestre",
)  # fmt: skip


def _hint() -> str:
    """Matches where a word of a date begins; the beginnings are in groups by their first letter, for speed."""
    months, seasons = MONTH_NUMBERS.keys() - ENGLISH_MONTHS, SEASON_NAMES.keys() - {"winter", "ete"}
    behind_lead = rf"[ -](?:{'|'.join(_SHARED)}|{_YEAR})\b"
    groups: dict[str, list[str]] = {}
    for beginning in (
        *(rf"{word}\b" for word in sorted({*months, *DAY_WORDS})),
        *(rf"{word}s?\b" for word in WEEKDAY_NUMBERS),
        *(f"{word} " for word in sorted(seasons)),
        *_BEGINNINGS,
        *(lead + behind_lead for lead in _LEAD.split("|")),
    ):
        groups.setdefault(beginning[0], []).append(beginning[1:])
    words = "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in groups.items())
    english = "|".join(sorted(ENGLISH_MONTHS - {"may"}))
    # "5 November" is English as well.
    numbers = rf"\d\d?(?:(?:\.|er|[ºo°]) ?{_OF}?| {_OF})(?:{english})\b|\d\d?\. ?(?:\d\d?\.|kw|kalenderw)"
    return rf"\b(?:{words}|{numbers})"


EUROPEAN = Grammar(
    [
        DateRule(
            "beside",
            rf"(?:(?P<n>{_COUNT}) (?P<u>{_UNIT})|(?:(?:am|das|de[mnr]|die|el|la|le) )?"
            rf"(?P<one>{_WEEKDAY}|{_LONG_UNIT}|tag|dia|jour))"
            r" (?P<way>vor|nach|antes|despues|avant|apres)(?: (?:dem|del?|el|le|dia))*"
            rf" (?P<anchor>\d\d?(?:\.|er|[ºo°])? ?{_OF}?{_ANY_MONTH}\b(?:,? {_OF}?{_YEAR}\b)?)",
            _beside,
        ),
        DateRule(
            "recurring",
            rf"(?:jede[nrs]?|immer|cada|chaque) (?:\w+ )?(?:{_WEEKDAY}s?|morgen|manana)\b"
            rf"|(?:todos los|todas las|tous les|toutes les|los|les) (?:{_WEEKDAY}s?|dias|mananas|jours)\b"
            r"|(?:mon|diens|donners|frei|sams|sonn)tags\b|mittwochs\b|(?:sabado|domingo|lundi|mardi|mercredi|jeudi"
            r"|vendredi|samedi|dimanche)s\b"
            rf"|(?:de |du )?{_WEEKDAY} (?:bis|al?|au) {_WEEKDAY}\b"
            r"|le (?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)"
            rf"(?! (?:{_BEHIND}|\d|1er|de (?:la|cette) semaine))(?:\b)|mardi gras\b"
            rf"|(?:(?:el|le) )?{_WEEKDAY} (?:sant[oa]|saint|de (?:ramos|resurreccion|paques|pentecote))\b"
            r"|(?:la|las|una|misma|guten|am|der|den|dem|des|einem|einen|zum|vom|pro|gegen) (?:manana|morgen)s?\b",
            None,
        ),
        DateRule(
            "part_of_day",
            r"(?P<past>letzte nacht|la nuit derniere|la noche pasada)\b|(?:diesen (?:morgen|vormittag|mittag|nachmittag"
            r"|abend)|esta (?:manana|tarde|noche)|ce (?:matin|midi|soir)|cet apres-midi|cette nuit)\b(?!-)",
            _part_of_day,
        ),
        DateRule("word", rf"(?P<w>{any_of(DAY_WORDS)})\b{_PART_OF_DAY}", _day_word),
        DateRule("day_month", _DAY_MONTH, _day_of_month),
        DateRule(
            "dotted",
            rf"(?<![\w.,:/-])(?P<d>\d\d?)\. ?(?P<mn>\d\d?)\.(?: ?(?P<y>{_YEAR}|\d\d))?(?![.\d]|[%€]| ?uhr)",
            _dotted,
        ),
        DateRule(
            "slashed",
            rf"(?:el|del|al|le|du|au) (?P<d>\d\d?)/(?P<mn>\d\d?)(?:/(?P<y>{_YEAR}|\d\d))?(?![\w/%-]|[.,]\d"
            r"| (?:d'|de\b|des\b|del\b|du\b))",
            _slashed,
        ),
        DateRule("month_year", rf"(?P<m>{_ANY_MONTH})\b\.?,? {_OF}?(?P<y>{_YEAR}){_NOT_MORE}", _month_of_year),
        DateRule(
            "calendar_week",
            rf"(?:(?:kw|kalenderwoche) ?(?P<n>\d\d?)|(?P<n2>\d\d?)\. ?(?:kw|kalenderwoche))\b"
            rf"(?:(?: ?/ ?| )(?P<y>{_YEAR})\b)?",
            _calendar_week,
        ),
        DateRule(
            "away",
            r"(?:(?:vor|hace|il y a)|(?P<on>in|dentro de|dans|d'ici)) (?:(?:etwa|ca\.?|rund|genau|gut|knapp"
            r"|uber|como|casi"
            rf"|ya|un[oa]s|environ|deja|plus de) )?(?P<n>{_COUNT}) (?P<u>{_UNIT})\b",
            _away,
        ),
        DateRule(
            "last_some",
            rf"(?:(?:den|die|der|los|las|les|ces) )?(?P<n>{_COUNT} )?(?P<q>{_MANY}) (?P<n2>{_COUNT}"
            rf" )?(?P<u>{_UNITS_OF})\b",
            _last_some,
        ),
        DateRule(
            "weekday_of_week",
            rf"(?:(?:el|le|am) )?(?P<w>{_WEEKDAY}),? (?:in der |in |der |de la |de )?"
            rf"(?:(?P<q>{_BEFORE}) (?:woche|semana|semaine)|(?:semana|semaine) (?P<q2>{_BEHIND}))\b"
            rf"|(?P<q3>{_BEFORE}) woche,? (?:am )?(?P<w2>{_WEEKDAY})\b",
            _weekday_of_week,
        ),
        DateRule(
            "behind",
            rf"(?:(?:el|la|le) |l')?(?P<u>{_LONG_UNIT}|{_SEASON}|{_WEEKDAY}|{_FULL}) (?P<q>{_BEHIND})\b",
            _relative,
        ),
        DateRule(
            "before",
            rf"(?:(?:el|la) )?(?P<q>{_BEFORE}) (?P<u>{_LONG_UNIT}|{_SEASON}|{_WEEKDAY}|{_FULL})\b(?! (?:des|vor"
            rf" de[mnr])\b)",
            _relative,
        ),
        DateRule("season_of_year", rf"(?P<s>{_SEASON}) {_OF}?(?P<y>{_YEAR}){_NOT_MORE}", _season_of_year),
        DateRule(
            "month_alone", rf"(?:(?P<before>{_LEAD})[ -])?(?P<m>{_FULL})\b(?! (?:de )?\d)(?!-[A-Za-z])", _month_alone
        ),
        DateRule(
            "weekday_alone",
            rf"(?P<before>(?:el|am) )?(?P<w>{_WEEKDAY})\b{_PART_OF_DAY}{_NO_DATE_BEHIND}",
            _weekday_alone,
        ),
        DateRule(
            "weekend_alone",
            r"(?:am|ubers|el|le|au|durant le|pendant le) (?:wochenende|fin de semana|week-?end)\b(?! (?:vor|des"
            r"|del?|du)\b)",
            _weekend_alone,
        ),
        DateRule(
            "quarter_of_year",
            rf"(?P<n>{any_of(_QUARTER_NUMBERS)})(?:\.|e[rsnm]?|o)? (?:quartal|trimestre)s?\b"
            rf"(?: (?:del? |des jahres )?(?P<y>{_YEAR})\b)?",
            _quarter_of_year,
        ),
        DateRule(
            "year_alone",
            r"(?:im jahre?|jahr|seit|ende|anfang|mitte|en|desde|hasta|ano|depuis|annee|debut|fin|jusqu'en|(?:finales"
            rf"|principios|mediados) de)[ -](?P<y>{_YEAR})(?!['’]?[\w%€$]|[-./,:]\d| ?[€$]| (?:euro|uhr|pesos)|"
            rf" [a-z]{{4,}}s\b)",
            _year_alone,
        ),
    ],
    hint=_hint(),
    start=r"\b\w",
    reach=32,
)
