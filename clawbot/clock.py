"""Time as a parameter: the clock passed to everything that needs "now"; and days as users write them."""

from __future__ import annotations

import contextlib
import re
import time
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Protocol

from clawbot.languages.tables import text_in
from clawbot.text.interface import _, current_language, ngettext

if TYPE_CHECKING:
    from clawbot.text.copies import More

_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MONTHS = 12
_DAY = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?(?:T.*)?")


class Clock(Protocol):
    """The source of "now". Tests pass their own."""

    def now(self) -> datetime:
        """Return the current time, always timezone-aware."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back, for durations."""
        ...


class MachineZone(tzinfo):
    """The machine's time zone, with the offset that applies at each moment. `astimezone()` would fix today's offset,
    which is wrong after the next change between summer and winter time.

    Times that occur twice or are skipped follow PEP 495.
    """

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the offset at `moment`; `fold` decides for times that occur twice or are skipped."""
        if moment is None:
            return None
        shown = moment.replace(tzinfo=None, microsecond=0)
        return shown.replace(tzinfo=UTC, fold=0) - datetime.fromtimestamp(shown.timestamp(), UTC)

    def dst(self, moment: datetime | None) -> timedelta | None:
        """None: not known apart from the offset."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the machine's name of the zone at `moment`."""
        if moment is None:
            return None
        local = _instant(moment).astimezone()
        if local.replace(tzinfo=None) == moment.replace(tzinfo=None, microsecond=0, fold=0):
            return local.tzname()
        # For a skipped time, the offset of one side of the gap goes with the instant on the other side.
        return _instant(moment.replace(fold=1 - moment.fold)).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """Convert `moment`, a UTC time that carries this zone, to local time."""
        exact = moment.replace(tzinfo=UTC, microsecond=0).astimezone()
        is_second = exact.replace(tzinfo=None).timestamp() != exact.timestamp()
        return exact.replace(tzinfo=self, microsecond=moment.microsecond, fold=is_second)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineZone)

    def __hash__(self) -> int:
        return hash(MachineZone)


def _instant(moment: datetime) -> datetime:
    """Return the UTC time of the local wall-clock time `moment`, to the second.

    Not with `astimezone`: for a skipped time Python 3.11.7 uses the offset before the gap, Python 3.12.1 the one after
    it.
    """
    return datetime.fromtimestamp(moment.replace(tzinfo=None, microsecond=0).timestamp(), UTC)


class SystemClock:
    """The machine's clock; `now` is in `zone` (None: the machine's)."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self.zone = zone or MachineZone()

    def now(self) -> datetime:
        """Return the current time in the user's zone."""
        return datetime.now(UTC).astimezone(self.zone)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()


def epoch_ms(moment: datetime) -> int:
    """Full milliseconds since the epoch; exact, where a float would sometimes be off by one."""
    return (moment - _EPOCH) // _MILLISECOND


def iso_utc(moment: datetime) -> str:
    """Return `moment` in the format of the transcripts: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(milliseconds: int, zone: tzinfo | None = UTC) -> datetime:
    """Return the time in `zone` (None: the machine's). Values outside the calendar's range become the epoch."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone(zone)


def first_day(text: str) -> date | None:
    """Return the first day of `text`, a year, a month or a day; None for blank text. Raises ValueError with what was
    expected."""
    return _day(text, last=False)


def last_day(text: str) -> date | None:
    """Return the last day of the same. Raises ValueError."""
    return _day(text, last=True)


def _day(text: str, *, last: bool) -> date | None:
    if not text.strip():
        return None
    if found := _DAY.fullmatch(text.strip()):
        from calendar import monthrange  # which is not needed for times

        with contextlib.suppress(ValueError):
            year, month = int(found[1]), int(found[2] or (_MONTHS if last else 1))
            return date(year, month, int(found[3] or (monthrange(year, month)[1] if last else 1)))
    raise ValueError(f"{text.strip()[:40]!r} is no date; expected YYYY-MM-DD, YYYY-MM or YYYY")


def age(then: datetime, now: datetime) -> str:
    """How long ago `then` was, in few words; from a week on its date, in the zone of `now`."""
    seconds = (now - then).total_seconds()
    if seconds < 60:
        return _("now")
    if seconds < 3_600:
        return _("{n} min").format(n=int(seconds // 60))
    local = then.astimezone(now.tzinfo)
    days = (now.date() - local.date()).days
    if days == 0 or seconds < 6 * 3_600:
        return _("{n} h").format(n=int(seconds // 3_600))
    if days < 7:
        return _("yesterday") if days == 1 else ngettext("{n} day", "{n} days", days).format(n=days)
    return day_of(local, with_year=local.year != now.year)


def day_of(local: date, *, with_year: bool) -> str:
    """Return the date of `local`, in few words."""
    return text_in("date_with_year" if with_year else "date", current_language()).format(local)


def weekday_of(local: date, *, with_year: bool = False) -> str:
    """Return the weekday of `local`, the day and the month, in few words."""
    language, date = current_language(), day_of(local, with_year=with_year)
    weekday = weekdays[local.weekday()] if (weekdays := text_in("weekdays", language).split()) else ""
    return text_in("date_with_weekday", language).format(local, date=date, weekday=weekday)


def month_of(local: date) -> str:
    """Return the month of `local` with its year, in words."""
    return text_in("month_with_year", current_language()).format(local)


def and_more(more: More) -> str:
    """Return the note for repeated texts: and 23 more, 10 Jan to 28 Feb (values of the others)."""
    first, last = more.first, more.last
    if first is None or last is None:
        text = ngettext("and {n} more", "and {n} more", more.count).format(n=more.count)
    else:
        days = [day_of(day, with_year=first.year != last.year) for day in dict.fromkeys((first, last))]
        span = _("{first} to {last}").format(first=days[0], last=days[-1]) if len(days) > 1 else days[0]
        text = ngettext("and {n} more, {days}", "and {n} more, {days}", more.count).format(n=more.count, days=span)
    return f"{text} ({', '.join(more.values)})" if more.values else text
