"""Time as a parameter: the clock that everything asks which needs to know "now"."""

from __future__ import annotations

import time
from datetime import UTC, datetime, tzinfo
from typing import Protocol


class Clock(Protocol):
    """Where "now" comes from. Tests pass their own."""

    def now(self) -> datetime:
        """The current time, always with a zone."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for durations."""
        ...


class SystemClock:
    """The machine's clock; `now` is in `zone`, the machine's own when None."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self.zone = zone

    def now(self) -> datetime:
        """The current time in the user's zone."""
        return datetime.now(UTC).astimezone(self.zone)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()


def epoch_ms(moment: datetime) -> int:
    """Milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


def iso_utc(moment: datetime) -> str:
    """`moment` as the transcripts spell it: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
