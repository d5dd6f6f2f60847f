"""The days that bound a search: `2026-11-20`, `2026-11` or `2026` as its first and its last day."""

from __future__ import annotations

import calendar
import re
from datetime import date

MONTHS = 12

_DAY = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?(?:T.*)?")


def first_day(text: str) -> date | None:
    """The first day of what `text` names; None for blank text. Raises ValueError with what was expected."""
    parts = _parts(text)
    return _day(text, parts[0], parts[1] or 1, parts[2] or 1) if parts else None


def last_day(text: str) -> date | None:
    """As `first_day`, the last one."""
    parts = _parts(text)
    if not parts:
        return None
    year, month, day = parts[0], parts[1] or MONTHS, parts[2]
    if not day and year and month <= MONTHS:
        day = calendar.monthrange(year, month)[1]
    return _day(text, year, month, day)


def _parts(text: str) -> tuple[int, int, int] | None:
    """Year, month and day, 0 for what is not said."""
    if not text.strip():
        return None
    found = _DAY.fullmatch(text.strip())
    if found is None:
        raise _no_date(text)
    year, month, day = (int(part or 0) for part in found.groups())
    return year, month, day


def _day(text: str, year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise _no_date(text) from None


def _no_date(text: str) -> ValueError:
    return ValueError(f"{text.strip()[:40]!r} is no date; expected YYYY-MM-DD, YYYY-MM or YYYY")
