"""A clock that tests move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class StillClock:
    """Stands still at `moment` until a test moves it."""

    def __init__(self, moment: datetime = datetime(2026, 11, 21, 2, 16, tzinfo=UTC)) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    def forward(self, **amount: float) -> None:
        self.moment += timedelta(**amount)
