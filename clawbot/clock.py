"""Time as a parameter: the clock passed to everything that needs "now"."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """The source of "now". Tests pass their own."""

    def now(self) -> datetime:
        """The current time, always timezone-aware."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for durations."""
        ...


class MachineZone(tzinfo):
    """The machine's time zone, with the offset that applies at each moment. `astimezone()` would fix today's offset,
    which is wrong after the next change between summer and winter time.

    Times that occur twice or are skipped follow PEP 495.
    """

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """The offset at `moment`; `fold` decides for times that occur twice or are skipped."""
        if moment is None:
            return None
        shown = moment.replace(tzinfo=None, microsecond=0)
        return shown.replace(tzinfo=UTC, fold=0) - datetime.fromtimestamp(shown.timestamp(), UTC)

    def dst(self, moment: datetime | None) -> timedelta | None:
        """None: not known apart from the offset."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """The machine's name of the zone at `moment`."""
        if moment is None:
            return None
        local = _instant(moment).astimezone()
        if local.replace(tzinfo=None) == _shown(moment):
            return local.tzname()
        # For a skipped time, the offset of one side of the gap goes with the instant on the other side.
        return _instant(moment.replace(fold=1 - moment.fold)).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """Convert `moment`, a UTC time that carries this zone, to local time."""
        exact = moment.replace(tzinfo=UTC).astimezone()
        shown = exact.replace(tzinfo=self, fold=0)
        return shown if self.utcoffset(shown) == exact.utcoffset() else shown.replace(fold=1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineZone)

    def __hash__(self) -> int:
        return hash(MachineZone)


def _shown(moment: datetime) -> datetime:
    """Local wall-clock time of `moment`, to the second."""
    return moment.replace(tzinfo=None, microsecond=0, fold=0)


def _instant(moment: datetime) -> datetime:
    """The UTC time of the local wall-clock time `moment`, to the second.

    Not with `astimezone`: for a skipped time Python 3.11.7 uses the offset before the gap, Python 3.12.1 the one after
    it.
    """
    return datetime.fromtimestamp(moment.replace(tzinfo=None, microsecond=0).timestamp(), UTC)


class SystemClock:
    """The machine's clock; `now` is in `zone` (None: the machine's)."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self.zone = zone or MachineZone()

    def now(self) -> datetime:
        """The current time in the user's zone."""
        return datetime.now(UTC).astimezone(self.zone)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()


def epoch_ms(moment: datetime) -> int:
    """Whole milliseconds since the epoch; exact, where a float would sometimes be off by one."""
    return (moment - _EPOCH) // _MILLISECOND


def iso_utc(moment: datetime) -> str:
    """`moment` in the format of the transcripts: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(milliseconds: int, zone: tzinfo | None = UTC) -> datetime:
    """The time in `zone` (None: the machine's). Values outside the calendar's range become the epoch."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone(zone)
