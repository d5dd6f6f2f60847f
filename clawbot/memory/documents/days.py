"""The days that a document's lines belong to, from its name, front matter, headings and timestamps.

The front matter (`date:`) takes precedence over the name. A heading that begins with a date applies to the text below
it, up to the next heading of its level; if the file has a day of its own, to both days. A session note (`# Session: …`)
has the day of its first message in its heading, and another one wherever the day changes.
"""

from __future__ import annotations

import re
from datetime import date

from msgspec import Struct

from clawbot.memory.dates import dates_in
from clawbot.text.patterns import lazy_re

_NAME = lazy_re(
    r"memory/(?:[^/]*/)*(?:(\d{4})-(\d{2})-(\d{2})|((?:19|20)\d{2})(\d{2})(\d{2})(?:\d{4}(?:\d{2})?)?)(?=[-_. ])"
    r"[^/]*\.(?:md|markdown)",
    re.ASCII | re.IGNORECASE,
)
_MATTER = lazy_re(r"\A---[ \t]*\n(?P<keys>(?:.*\n){1,200}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_MATTER_DATE = lazy_re(r"^[\"']?date[\"']?:[ \t]+[\"']?(?P<date>[^\n\"']{6,60})", re.IGNORECASE | re.MULTILINE)
# Lines that set a day or change the context: code fences, headings, messages with day and time.
_TELLING = lazy_re(
    r"^(?:[ ]{0,3}(?P<fence>`{3,}|~{3,})|(?P<marks>#{1,6})[ \t]+(?P<heading>[^\n]*\d[^\n]*)|(?P<other>#{1,6})[ \t]"
    r"|\[?(?P<talk>\d{4}-\d{2}-\d{2})[ T]\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+[^\n:：]{1,40}[:：])",
    re.MULTILINE,
)
_SESSION = lazy_re(r"Session: (?P<date>\d{4}-\d{2}-\d{2}) \d{2}:\d{2}")
_YEAR = lazy_re(r"(?:19|20)\d{2}")
# An optional weekday before the date of a heading.
_WEEKDAY = lazy_re(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*|(?:diens|donners|frei|sams|sonn)tag|mittwoch|(?:mo|di|mi|do|fr|sa|so)[.,]"
    r"|lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche"
    r"|(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]|[月火水木金土日]曜日?|[월화수목금토일]요일)?[\W_]*(?:(?:den"
    r"|el|le) )?",
    re.IGNORECASE,
)
_HEADING_CHARS = 200
_ANY_DAY = date(2000, 1, 1)  # dummy reference: relative dates set no day


class DayMark(Struct, frozen=True):
    """From the line `line` (from 1), the text belongs to `days`; empty if no day is known."""

    line: int
    days: tuple[date, ...]


def date_of(path: str) -> date | None:
    """The day of a note from its path: `memory/2026-03-02.md`, `memory/sub/20260302-talk.md`."""
    found = _NAME.fullmatch(path)
    if found is None:
        return None
    year, month, day = filter(None, found.groups())
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def day_of(path: str, text: str) -> date | None:
    """The day of the whole note: from its front matter, else from its path."""
    matter = _MATTER.match(text) if text.startswith("---") else None
    told = _MATTER_DATE.search(matter["keys"]) if matter else None
    return (_day_in(told["date"]) if told else None) or date_of(path)


def marks_of(text: str, day: date | None) -> tuple[DayMark, ...]:
    """Where lines of other days begin in a note with the day `day`; () if nowhere."""
    reader = _DayReader(day)
    line, position = 1, 0
    marks = [DayMark(1, reader.days)]
    for found in _TELLING.finditer(text):
        line += text.count("\n", position, found.start())
        position = found.start()
        reader.take(found)
        if reader.days != marks[-1].days:
            marks.append(DayMark(line, reader.days))
    return tuple(marks) if len(marks) > 1 else ()


class _DayReader:
    """Reads the days of a note. `days` are those of the following lines."""

    def __init__(self, day: date | None) -> None:
        self._whole = self._own = (day,) if day else ()
        self._sections: list[tuple[int, tuple[date, ...]]] = []
        self._fence = ""
        self._talk: date | None = None

    @property
    def days(self) -> tuple[date, ...]:
        if self._talk is not None:
            return tuple(dict.fromkeys((*self._own, self._talk)))
        return self._sections[-1][1] if self._sections else self._whole

    def take(self, found: re.Match[str]) -> None:
        if fence := found["fence"]:
            if not self._fence:
                self._fence = fence
            elif fence.startswith(self._fence):
                self._fence = ""
        elif self._fence:
            return
        elif found["talk"]:
            self._talk = _iso(found["talk"]) or self._talk
        else:
            self._enter(len(found["marks"] or found["other"]), (found["heading"] or "")[:_HEADING_CHARS])

    def _enter(self, level: int, heading: str) -> None:
        self._talk = None
        self._sections = [section for section in self._sections if section[0] < level]
        if session := _SESSION.match(heading):
            # Its messages carry their own days; the day in the file name is that of the last one.
            began = _iso(session["date"])
            self._sections = [(level, (began,) if began else self._whole)]
            self._own = ()
        elif (told := _day_of_heading(heading)) is not None:
            self._sections.append((level, tuple(dict.fromkeys((*self._own, told)))))


def _day_of_heading(heading: str) -> date | None:
    """The day at the start of a heading, optionally after a weekday."""
    if not _YEAR.search(heading):
        return None
    before = _WEEKDAY.match(heading)
    rest = heading[before.end() :] if before else heading
    for found in dates_in(rest, _ANY_DAY):
        is_exact = found.precision == "day" and found.start == found.end and _YEAR.search(found.text)
        if is_exact and rest.startswith(found.text):
            return found.start
    return None


def _day_in(text: str) -> date | None:
    """The day at the start of a front matter value."""
    return _iso(text[:10]) or _day_of_heading(text)


def _iso(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
