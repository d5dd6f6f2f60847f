"""Time as a parameter: the clock that everything asks which needs to know "now"."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol

_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """Where "now" comes from. Tests pass their own."""

    def now(self) -> datetime:
        """The current time, always with a zone."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for durations."""
        ...


class MachineZone(tzinfo):
    """The zone that the machine is set to, with the offset of each moment: what `astimezone()` gives has the one of
    now for ever, and so the wrong time of day beyond the next change of the clocks.

    PEP 495 says which offset a time has that the clocks skip or show twice.
    """

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """The offset at `moment`, whose `fold` counts where the clocks show a time twice or skip it."""
        if moment is None:
            return None
        shown = moment.replace(tzinfo=None, microsecond=0)
        return shown.replace(tzinfo=UTC, fold=0) - datetime.fromtimestamp(shown.timestamp(), UTC)

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Not known apart from the offset."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """What the machine calls the zone at `moment`."""
        if moment is None:
            return None
        local = _instant(moment).astimezone()
        if local.replace(tzinfo=None) == _shown(moment):
            return local.tzname()
        # A skipped time has the offset from before the jump and an instant after it, or the reverse.
        return _instant(moment.replace(fold=1 - moment.fold)).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """`moment`, in UTC but with this zone on it, as clocks here show it."""
        exact = moment.replace(tzinfo=UTC).astimezone()
        shown = exact.replace(tzinfo=self, fold=0)
        return shown if self.utcoffset(shown) == exact.utcoffset() else shown.replace(fold=1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MachineZone)

    def __hash__(self) -> int:
        return hash(MachineZone)


def _shown(moment: datetime) -> datetime:
    """What a clock shows at `moment`, to the second."""
    return moment.replace(tzinfo=None, microsecond=0, fold=0)


def _instant(moment: datetime) -> datetime:
    """When clocks of this machine show `moment`, to the second, in UTC.

    Not by `astimezone`: the offset that it gives a skipped time is the one before the jump in Python 3.11.7 and the
    one after it in 3.12.1.
    """
    return datetime.fromtimestamp(moment.replace(tzinfo=None, microsecond=0).timestamp(), UTC)


class SystemClock:
    """The machine's clock; `now` is in `zone`, the machine's own when None."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self.zone = zone or MachineZone()

    def now(self) -> datetime:
        """The current time in the user's zone."""
        return datetime.now(UTC).astimezone(self.zone)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()


def epoch_ms(moment: datetime) -> int:
    """Whole milliseconds since the epoch; exact, where a float would lose one now and then."""
    return (moment - _EPOCH) // _MILLISECOND


def iso_utc(moment: datetime) -> str:
    """`moment` as the transcripts spell it: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(milliseconds: int, zone: tzinfo | None = UTC) -> datetime:
    """The moment in `zone` (None: the machine's). What no calendar holds becomes the epoch."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone(zone)
