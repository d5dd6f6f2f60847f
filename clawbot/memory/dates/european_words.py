"""The words of dates in German, Spanish and French, in lower case without accents (`without_marks`), and whether a text
has one."""

from __future__ import annotations

from clawbot.text.patterns import lazy_re

_MARKS = str.maketrans(
    "äàâáãåçéèêëíìîïñóòôöõúùûüÄÀÂÁÃÅÇÉÈÊËÍÌÎÏÑÓÒÔÖÕÚÙÛÜ’", "aaaaaaceeeeiiiinooooouuuuAAAAAACEEEEIIIINOOOOOUUUU'"
)


def without_marks(text: str) -> str:
    """`text` without the accents of these languages, of the same length."""
    return text if text.isascii() else text.translate(_MARKS)


_MONTHS = (
    "januar jaenner janner enero janvier", "februar feber febrero fevrier", "marz maerz marzo mars",
    "april abril avril", "mai mayo", "juni junio juin", "juli julio juillet", "august agosto aout",
    "september septiembre setiembre septembre", "oktober octubre octobre", "november noviembre novembre",
    "dezember diciembre decembre",
)  # fmt: skip
_SHORT_MONTHS = (
    "jan ene janv", "feb fev fevr", "mrz mar", "apr abr avr", "may", "jun", "jul juil", "aug ago", "sep sept",
    "okt oct",
    "nov", "dez dic dec",
)  # fmt: skip
_WEEKDAYS = (
    "montag lunes lundi", "dienstag martes mardi", "mittwoch miercoles mercredi", "donnerstag jueves jeudi",
    "freitag viernes vendredi", "samstag sonnabend sabado samedi", "sonntag domingo dimanche",
)  # fmt: skip
_SEASONS = {
    "spring": "fruhling fruhjahr fruehling fruehjahr primavera printemps", "summer": "sommer verano ete",
    "autumn": "herbst otono automne", "winter": "winter invierno hiver",
}  # fmt: skip
_NUMBERS = (
    "ein eine einem einer einen un una une", "zwei zwo dos deux", "drei tres trois", "vier cuatro quatre",
    "funf fuenf cinco cinq", "sechs seis six", "sieben siete sept", "acht ocho huit", "neun nueve neuf",
    "zehn diez dix", "elf once onze", "zwolf zwoelf doce douze", "dreizehn trece treize", "vierzehn catorce quatorze",
    "funfzehn fuenfzehn quince quinze",
)  # fmt: skip
OFFSETS = {
    -2: "vorletzt antepasad", -1: "letzt vorig vergangen pasad ultim anterior derni pass precedent",
    0: "dies est actual ce cet", 1: "nachst naechst kommend proxim viene entra siguiente prochain suivant",
    2: "ubernachst uebernaechst",
}  # fmt: skip
DAY_WORDS = {
    "vorvorgestern": -3, "vorgestern": -2, "gestern": -1, "heute": 0, "morgen": 1, "ubermorgen": 2, "uebermorgen": 2,
    "anteayer": -2, "antier": -2, "antes de ayer": -2, "ayer": -1, "anoche": -1, "anteanoche": -2, "hoy": 0,
    "manana": 1, "pasado manana": 2, "avant-hier": -2, "hier": -1, "aujourd'hui": 0, "demain": 1, "apres-demain": 2,
}  # fmt: skip


def numbered(table: tuple[str, ...], first: int) -> dict[str, int]:
    """Each word of `table` with the number of its entry, counted from `first`."""
    return {word: number for number, words in enumerate(table, first) for word in words.split()}


FULL_MONTHS = numbered(_MONTHS, 1)
MONTH_NUMBERS = FULL_MONTHS | numbered(_SHORT_MONTHS, 1)
WEEKDAY_NUMBERS = numbered(_WEEKDAYS, 0)
COUNTS = numbered(_NUMBERS, 1)
SEASON_NAMES = {word: name for name, words in _SEASONS.items() for word in words.split()}
NO_LONE_MONTHS = frozenset({"april", "august", "avril", "juli", "julio", "mai", "mars", "marz", "mayo"})
"""Names, planets and sauces: without a day or a year they need a word before or behind them that dates have."""


_OF_TIME = """
    annee annees ans abend abends ano anos depuis dernier derniere derniers dernieres desde dia dias heure heures hora
    horas jahr jahre jahren jahres jour journee jours kurzlich kw letzte letzten letzter letztes matin meses mittags
    mois monat monate monaten monats morgens nachmittag nachmittags nachste nachsten nachster nachstes nachts neulich
    noche
    nuit pasada pasado prochain prochaine proxima proximo quartal recemment recientemente seit semaine semaines semana
    semanas soir stunde stunden tage tagen tages tarde trimestre uhr ultima ultimo ultimas ultimos vergangene
    vergangenen vormittag vormittags woche wochen wochenende week-end
"""
TIME_WORDS = frozenset(
    {*FULL_MONTHS, *DAY_WORDS, *(word + end for word in WEEKDAY_NUMBERS for end in ("", "s"))}
).union(_OF_TIME.split()) - {"hier"}
"""Words of a time, in lower case without accents; "hier" (yesterday) is none in German."""


_OTHER_CUES = """
    ab anfang anterior antes antepasada antepasado apres aujourd avant ayer bis ce cet cette courant dans debut demain
    dentro depuis desde diese diesem diesen dieser dieses en ende entra este esta ete fin hace hasta hier il im jusqu
    kalenderwoche kommende kommenden kommender kommendes letztem mi mitte monates naechste naechsten naechster naechstes
    nachstem pasadas pasados passe passee precedent precedente prochaines prochains proximas proximos quartals seit
    siguiente suivant suivante trimestres uebernaechste uebernaechsten ubernachste ubernachsten ubernachster
    ubernachstes vergangener vergangenes viene vom vor vorige vorigen voriger voriges vorletzte vorletzten vorletzter
    vorletztes week weekend wochenendes zum
"""
ENGLISH_MONTHS = frozenset(
    {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "ago"}
    | {"april", "august", "september", "november"}
)
"""Names of months that are English as well."""

_CUES = TIME_WORDS.union(MONTH_NUMBERS, SEASON_NAMES, _OTHER_CUES.split()) - ENGLISH_MONTHS
_CUE = lazy_re(r"[a-z]+|\d/(?=\d)|\d\.(?= ?[\da-z])|\d[ºo°]")


def may_name_a_date(lower: str) -> bool:
    """Whether `lower`, in lower case without accents, has a word of these dates: a test that costs little."""
    words = _CUE.findall(lower)
    return not _CUES.isdisjoint(words) or any(word[0].isdecimal() for word in words)
