"""The days that a document's lines belong to, from its name, folders, front matter, headings and timestamps.

In this order: the front matter's own day (`date:`), the name, when it was `created:`, its title. A heading that begins
with a date applies to the text below it, up to the next heading of its level; if the file has a day of its own, to both
days. A session note (`# Session: …`) has the day of its first message in its heading, and another one wherever the day
changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo

from msgspec import Struct

from clawbot.languages.tables import pattern_in
from clawbot.memory.dates.named import MAX_CHARS, Named, Order, named, named_path
from clawbot.memory.dates.ranges import Period
from clawbot.memory.values import TRANSCRIPTS
from clawbot.text.patterns import lazy_re

_MATTER = lazy_re(r"\A(?P<fence>---|\+\+\+)[ \t]*\n(?P<keys>(?:.*\n){1,200}?)(?:(?P=fence)|\.\.\.)[ \t]*(?:\n|\Z)")
# Properties of Logseq and Dataview, at the top of a note.
_PROPERTIES = lazy_re(r"\A(?:\s*[-*]?[ \t]*[\w -]{1,40}::[^\n]*\n?){1,50}")
_KEY = (
    r"^[ \t]*(?:[-*] )?[\"']?(?:%s)[\"']?[ \t]*(?:::?|=)(?:[ \t]+(?:-[ \t]+)?|[ \t]*\n[ \t]+(?:-[ \t]+)?)"
    r"[\[\"'<(]*(?P<date>[^\n]{6,60})"
)
_DATED = lazy_re(_KEY % pattern_in("date_key"), re.IGNORECASE | re.MULTILINE)
_CREATED = lazy_re(
    _KEY % pattern_in("created_key"),
    re.IGNORECASE | re.MULTILINE,
)
# Midnight in UTC is how other programs write a day alone.
_MOMENT = lazy_re(
    r"\d{4}-\d\d-\d\d[T ](?!00:00(?::00(?:\.0+)?)?(?:Z|[-+]))\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[-+]00:?00)",
    re.IGNORECASE,
)
_TITLE = lazy_re(r"\s*#[ \t]+(?P<title>[^\n]+)")
# Lines that set a day or change the context: code fences, headings, messages with day and time.
_MARKER = lazy_re(
    r"(?:[ ]{0,3}(?P<fence>`{3,}|~{3,})|(?P<marks>#{1,6})[ \t]+(?P<heading>[^\n]*\d[^\n]*)|(?P<other>#{1,6})[ \t]"
    r"|\[?(?P<message>\d{4}-\d{2}-\d{2})[ T]\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+[^\n:：]{1,40}[:：])"
)
_MARKER_BEGINS = frozenset(" `~#[0123456789")
_SESSION = lazy_re(r"Session: (?P<date>\d{4}-\d{2}-\d{2}) \d{2}:\d{2}")


class DayMark(Struct, frozen=True):
    """From the line `line` (from 1), the text belongs to `days`; empty if no day is known."""

    line: int
    days: tuple[date, ...]


def date_of(path: str) -> date | None:
    """Return the day of a note by its path in the workspace: `memory/2026-03-02.md`, `memory/2026/03/02.md`."""
    found = None if path.startswith(TRANSCRIPTS) else named_path(path)
    is_day = found is not None and found.period is not None and found.period.precision == "day"
    return found.period.start if is_day and found and found.period else None


def named_by(path: str, text: str, order: Order | None = None, zone: tzinfo | None = None) -> Named | None:
    """Return the days of the note at `path`, relative to the folder of all notes. `order` is that of ambiguous days; a
    moment in UTC is of its day in `zone` (None: the machine's)."""
    return next(filter(None, _namings(path, text, order, zone)), None)


def _namings(path: str, text: str, order: Order | None, zone: tzinfo | None) -> Iterator[Named | None]:
    """Yield what names the note, most reliable first; folders that are no part of a day come last."""
    matter = _MATTER.match(text) if text[:3] in ("---", 3 * "+") else None
    keys = matter["keys"] if matter else found[0] if (found := _PROPERTIES.match(text)) else ""
    yield _value(_DATED.search(keys), order, zone)
    by_path = named_path(path, order)
    if by_path and (by_path.period is None or by_path.period.precision == "day"):
        yield by_path
    yield _value(_CREATED.search(keys), order, zone)
    yield by_path
    # A title that is a day is read with the other headings, which may be of other days.
    title = _TITLE.match(text, matter.end() if matter else 0)
    found_title = named(title["title"], order) if title and not _day_of_heading(title["title"]) else None
    yield found_title if found_title and not found_title.rest.strip() else None


def _value(found: re.Match[str] | None, order: Order | None, zone: tzinfo | None) -> Named | None:
    """Return the day of a value of front matter: that in `zone` for a moment in UTC, else the day as written."""
    if found is None:
        return None
    if moment := _MOMENT.match(found["date"]):
        try:
            day = datetime.fromisoformat(moment[0]).astimezone(zone).date()
            return Named(Period(day, day, "day"))
        except (ValueError, OverflowError, OSError):
            return None
    return named(found["date"], order)


def day_of(path: str, text: str) -> date | None:
    """Return the day of the note: the last one, if it is of several."""
    found = named_by(path, text)
    return found.period.end if found and found.period else None


def days_in(period: Period) -> tuple[date, ...]:
    """Return all days of `period`."""
    return tuple(period.start + timedelta(days=number) for number in range((period.end - period.start).days + 1))


def marks_of(text: str, days: date | tuple[date, ...] | None) -> tuple[DayMark, ...]:
    """Where lines of other days begin in a note of `days`; () if it is of one day at most, and nowhere else of
    another."""
    reader = _DayReader((days,) if isinstance(days, date) else days or ())
    marks = [DayMark(1, reader.days)]
    for line, content in enumerate(text.split("\n"), start=1):
        # A search in the complete text tries each of its characters.
        if content[:1] in _MARKER_BEGINS and (found := _MARKER.match(content)):
            reader.take(found)
            if reader.days != marks[-1].days:
                marks.append(DayMark(line, reader.days))
    return tuple(marks) if len(marks) > 1 or len(marks[0].days) > 1 else ()


class _DayReader:
    """Reads the days of a note. `days` are those of the following lines."""

    def __init__(self, days: tuple[date, ...]) -> None:
        # A heading is more precise than a note of a week or a month.
        self._all, self._own = days, days[:1] if len(days) == 1 else ()
        self._sections: list[tuple[int, tuple[date, ...]]] = []
        self._fence = ""
        self._message: date | None = None

    @property
    def days(self) -> tuple[date, ...]:
        if self._message is not None:
            return tuple(dict.fromkeys((*self._own, self._message)))
        return self._sections[-1][1] if self._sections else self._all

    def take(self, found: re.Match[str]) -> None:
        if fence := found["fence"]:
            if not self._fence:
                self._fence = fence
            elif fence.startswith(self._fence):
                self._fence = ""
        elif self._fence:
            return
        elif found["message"]:
            self._message = _iso(found["message"]) or self._message
        else:
            self._enter(len(found["marks"] or found["other"]), (found["heading"] or "")[:MAX_CHARS])

    def _enter(self, level: int, heading: str) -> None:
        self._message = None
        self._sections = [section for section in self._sections if section[0] < level]
        if session := _SESSION.match(heading):
            # Its messages carry their own days; the day in the file name is that of the last one.
            began = _iso(session["date"])
            self._sections = [(level, (began,) if began else self._all)]
            self._own = ()
        elif (day := _day_of_heading(heading)) is not None:
            self._sections.append((level, tuple(dict.fromkeys((*self._own, day)))))


def _day_of_heading(heading: str) -> date | None:
    """Return the day at the start of a heading, optionally after a weekday."""
    found = named(heading, "month" if "/" in heading else None)
    is_day = found is not None and found.period is not None and found.period.precision == "day"
    return found.period.start if is_day and found and found.period else None


def _iso(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
