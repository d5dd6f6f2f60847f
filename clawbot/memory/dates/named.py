"""Reads the day, week, month or quarter that a name, a path, a heading or a value of front matter is named by.

The forms are a table, `names.toml`; what has other words is read by the grammars of `dates_in`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from clawbot.languages.tables import pattern_in
from clawbot.memory.dates import ranges
from clawbot.memory.dates.european import (
    ENGLISH_MONTHS,
    ENGLISH_WEEKDAYS,
    MONTH_NUMBERS,
    WEEKDAY_NUMBERS,
    without_marks,
)
from clawbot.memory.dates.find import dates_in
from clawbot.memory.dates.grammar import any_of
from clawbot.memory.dates.ranges import Period
from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table
from clawbot.text.tokens import plain_forms

Order = Literal["day", "month"]
"""What comes first in 03-04-2026."""

MAX_CHARS = 200
"""Characters of a name or heading that are read."""

_YEAR = lazy_re(r"(?:19|20)\d\d|" + pattern_in("written_year"))
_TO = lazy_re(r"\s*(?:" + pattern_in("up_to") + r"|--|–|—|~|_|\.\.)\s*")
YEAR_LAST = lazy_re(r"(?<!\d)(\d\d?)([-_ /])(\d\d?)\2(?:19|20)\d\d(?!\d)")
_WEEKDAY = lazy_re(
    rf"(?:(?:{any_of({*ENGLISH_WEEKDAYS, *WEEKDAY_NUMBERS})}|(?:mo|di|mi|do|fr|sa|so)(?=[.,]))(?![a-z])"
    rf"|{pattern_in('weekday')})?[\W_]*"
    r"(?:(?:den|el|le) )?",
    re.IGNORECASE,
)
_SUFFIX = lazy_re(r"\.(?:md|markdown|mdx|org|txt)\Z", re.IGNORECASE)
_MAX_DAYS = 100
_MONTHS = 12
_ANY_DAY = date(2000, 1, 1)  # dummy reference: relative dates name nothing
# Territories that write the month before the day.
_MONTH_FIRST = lazy_re(r"[a-z]+_(?:US|PH|CN|TW|JP|KR)\b|(?:zh|ja|ko)\b", re.IGNORECASE)


class Named(Struct, frozen=True):
    """The days that a text is named by, and the `rest` of it, behind them or else before them. `period` is None if its
    day and month can't be distinguished; `is_ambiguous` also where an order resolved them."""

    period: Period | None
    rest: str = ""
    is_ambiguous: bool = False


def named(text: str, order: Order | None = None, *, at_end: bool = False) -> Named | None:
    """What `text` (a name without suffix, a heading, a value) begins with, after an optional weekday; with `at_end`,
    what it ends with otherwise. `order` reads the ambiguous ones. None if it is no day, week, month or quarter."""
    plain = without_marks(plain_forms(text[:MAX_CHARS])).strip()
    if not _YEAR.search(plain):
        return None
    start = weekday.end() if (weekday := _WEEKDAY.match(plain)) else 0
    for pattern in _patterns("begins"):
        if (match := pattern.match(plain, start)) and (found := _read(match, order)):
            return _extended(found, order)
    for each in dates_in(plain[start:], _ANY_DAY):
        is_exact = each.precision == "day" and each.start == each.end and _YEAR.search(each.text)
        if is_exact and plain.startswith(each.text, start):
            return Named(ranges.day(each.start), plain[start + len(each.text) :])
    for pattern in _patterns("ends") if at_end else ():
        if (match := pattern.search(plain)) and (found := _read(match, order)):
            return Named(found.period, plain[: match.start()], found.is_ambiguous)
    return None


def _extended(first: Named, order: Order | None) -> Named:
    """`first`, up to the day that follows it in a range: 2026-01-05 to 2026-01-11."""
    if first.period is None or not (to := _TO.match(first.rest)):
        return first
    last = named(first.rest[to.end() :], order)
    if last is None or last.period is None or not 0 < (last.period.end - first.period.start).days <= _MAX_DAYS:
        return first
    return Named(Period(first.period.start, last.period.end, "week"), last.rest, first.is_ambiguous)


def named_path(path: str, order: Order | None = None) -> Named | None:
    """What the note at `path`, relative to the folder of all notes, is named by: its name, the last folders with its
    name (`2026/01/10`), or one of its folders, the inner ones first."""
    *folders, name = _SUFFIX.sub("", without_marks(plain_forms(path))).split("/")
    if not _YEAR.search("/".join((*folders, name))):
        return None
    if found := named(name, order, at_end=True):
        return found
    tails = (pattern.search("/".join((*folders, name))) for pattern in _patterns("path"))
    found = next((read for match in tails if match and (read := _read(match, order))), None)
    by_folder = next(filter(None, (named(folder, order) for folder in reversed(folders))), None)
    return found or (Named(by_folder.period, name, by_folder.is_ambiguous) if by_folder else None)


def order_in(name: str) -> Order | None:
    """Return the order that the name of a note shows: 25-04-2026 has the day first."""
    found = YEAR_LAST.search(name)
    first, second = (int(found[1]), int(found[3])) if found else (0, 0)
    is_shown = 0 < min(first, second) <= _MONTHS < max(first, second) <= 31
    return ("day" if first > second else "month") if is_shown else None


def is_ambiguous(name: str) -> bool:
    """Return whether the name of a note has a day and a month that can't be distinguished: 03-04-2026."""
    found = YEAR_LAST.search(name)
    return found is not None and found[1] != found[3] and max(int(found[1]), int(found[3])) <= _MONTHS


def order_of_locale(environment: Mapping[str, str]) -> Order | None:
    """Return the order of the locale, in the order of POSIX; None if that names no territory."""
    wanted = next(filter(None, map(environment.get, ("LC_ALL", "LC_TIME", "LANG"))), "").partition(".")[0]
    if wanted in ("", "C", "POSIX", "en"):
        return None
    return "month" if _MONTH_FIRST.match(wanted) else "day"


def weekday_or_time(rest: str) -> bool:
    """Return whether what follows the day in a name only repeats it: `-Saturday`, ` (Sat)`."""
    plain = without_marks(plain_forms(rest)).strip(" -_.,()[]")
    match = _WEEKDAY.match(plain)
    return match is not None and match.end() == len(plain)


@cache
def _patterns(where: Literal["begins", "ends", "path"]) -> tuple[re.Pattern[str], ...]:
    """Compile the forms for the beginning of a name, its end, or the last folders with it. Blocks: reads the table."""
    table = packaged_table("clawbot.memory.dates", "names.toml", dict[str, Any])
    months = any_of({*MONTH_NUMBERS, *ENGLISH_MONTHS})
    parts = {**table["parts"], "N": rf"(?P<n>{months})(?![a-z])\.?", "N2": rf"(?P<n2>{months})(?![a-z])\.?"}
    before, after = {
        # No letter or digit may follow, but the T of a time or a character of another script.
        "begins": ("", r"(?![0-9]|(?!T\d)[A-Za-z])"),
        "ends": (r"(?<![^\s_(\[-])(?<!\d[-_ ])", r"[)\]]?\Z"),
        "path": (r"(?:^|/)", r"\Z"),
    }[where]
    forms = (form for form in table["forms"] if form.get(where, where == "begins" and "path" not in form))
    patterns = (re.sub(r"\{([A-Z]\w*)\}", lambda found: parts[found[1]], form["pattern"]) for form in forms)
    return tuple(re.compile(f"{before}(?:{pattern}){after}", re.IGNORECASE) for pattern in patterns)


def _read(match: re.Match[str], order: Order | None) -> Named | None:
    """Return the period of a match; None for an impossible one, such as 31 February."""
    groups = {name.rstrip("2"): text for name, text in match.groupdict().items() if text}
    is_ambiguous = False
    if "a" in groups:
        first, second, by_dots = int(groups["a"]), int(groups["b"]), "s" not in groups
        is_ambiguous = first != second and max(first, second) <= _MONTHS and not by_dots
        day_first = first > _MONTHS or (second <= _MONTHS and (by_dots or order == "day"))
        groups |= zip("dm" if day_first else "md", (groups["a"], groups["b"]), strict=True)
    try:
        period = None if is_ambiguous and order is None else _period(groups)
    except ValueError:
        return None
    return Named(period, match.string[match.end() :], is_ambiguous)


def _period(groups: Mapping[str, str]) -> Period:
    """Return the days of a match, by its groups. Raises ValueError for impossible ones."""
    year, name = int(groups["y"]), groups.get("n", "").lower()
    if "w" in groups:
        monday = date.fromisocalendar(year, int(groups["w"]), 1)
        return ranges.days_from(monday, int(groups["wd"]) - 1) if "wd" in groups else ranges.week_of(monday)
    if "q" in groups:
        return ranges.quarter(year, int(groups["q"]))
    month = int(groups.get("m", 0)) or MONTH_NUMBERS.get(name) or ENGLISH_MONTHS[name]
    return ranges.day(date(year, month, int(groups["d"]))) if "d" in groups else ranges.month(year, month)
