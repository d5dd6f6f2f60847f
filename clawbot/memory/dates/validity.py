"""Reads and writes the days between which a line of a note holds: `(since 2026-03-05)`, `(until 2026-03)`, or
`(since 2025, until 2026-03-05)` at its end."""

from __future__ import annotations

import re
from datetime import date

from msgspec import Struct

from clawbot.memory.dates import ranges
from clawbot.memory.dates.ranges import Period
from clawbot.text.patterns import lazy_re
from clawbot.text.visible import one_line

_DAY = r"(?:19|20|21)[0-9]{2}(?:-[0-9]{2}){0,2}"
_SINCE, _UNTIL = rf"since:?\s*(?P<since>{_DAY})", rf"until:?\s*(?P<until>{_DAY})"
_MARK = lazy_re(
    rf"\s*[(（]\s*(?=[su])(?:{_SINCE})?(?:(?<=[0-9])\s*[,，、;]?\s*(?=u))?(?:{_UNTIL})?\s*[)）]"
    r"(?P<behind>[.,;:!?。．，；：！？*_`~\s]*)\Z",
    re.IGNORECASE,
)
_MAX_CHARS = 80
"""Characters at the end of a line in which its mark is."""


_MARKER = lazy_re(r"\s*(?:(?:[-*+]|[0-9]+[.)])\s+(?:\[.\]\s+)?)?")
_FOLDED = 120


class Validity(Struct, frozen=True):
    """The line `text`, here without its mark, holds from the day `since` to `until`; None where that has no end.

    A month or a year begins on its first day and ends on its last.
    """

    since: date | None
    until: date | None
    text: str

    def has_ended(self, day: date) -> bool:
        """Return whether the line holds no more on `day`, which may be that of its end."""
        return self.until is not None and self.until <= day

    def days_within(self, start: date, end: date) -> int:
        """Return on how many of the days from `start` to `end`, inclusive, the line holds."""
        first, last = max(start, self.since or start), min(end, self.until or end)
        return max((last - first).days + 1, 0)


def validity_of(line: str) -> Validity:
    """Return the days between which `line` holds, by the mark at its end. A mark with an impossible date is text, and
    so is one behind other marked lines."""
    found = _mark(line)
    if found is None:
        return Validity(None, None, line)
    since, until = found["since"], found["until"]
    text = _without(line, found)
    return Validity(_period(since).start if since else None, _period(until).end if until else None, text)


def marked(text: str, since: date | None = None, until: date | None = None) -> str:
    """Return `text` with a mark at its end. A date that is not given remains as the mark of `text` has it."""
    found = _mark(text)
    named = found.groupdict() if found else {}
    days = {"since": str(since or named.get("since") or ""), "until": str(until or named.get("until") or "")}
    mark = ", ".join(f"{word} {day}" for word, day in days.items() if day)
    text = _without(text, found) if found else text.rstrip()
    return f"{text} ({mark})" if mark else text


def folded(text: str, ended: date) -> str:
    """Return the short form of a line that has ended: `ended 2026-03-05: Lives in Berlin (since 2020-01-01)`, without
    its marker of a list, at most 120 characters of it."""
    validity = validity_of(text)
    shown = one_line(" ".join(_MARKER.sub("", validity.text, count=1).split()), _FOLDED)
    return f"ended {ended}: {marked(shown, validity.since)}"


def _mark(line: str) -> re.Match[str] | None:
    if ")" not in (end := line[-_MAX_CHARS:]) and "）" not in end:
        return None
    found = _MARK.search(line, max(0, len(line) - _MAX_CHARS))
    try:
        for day in filter(None, (found["since"], found["until"]) if found else ()):
            _period(day)
    except ValueError:
        return None
    above = line[: found.start()].split("\n")[:-1] if found else ()
    return None if any(map(_MARK.search, above)) else found


def _without(line: str, mark: re.Match[str]) -> str:
    return line[: mark.start()] + mark["behind"].rstrip()


def _period(text: str) -> Period:
    """Return the year, month or day `text`. Raises ValueError for an impossible one."""
    year, *rest = map(int, text.split("-"))
    match rest:
        case [month, day]:
            return ranges.day(date(year, month, day))
        case [month]:
            return ranges.month(year, month)
    return ranges.year(year)
