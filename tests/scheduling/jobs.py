"""Jobs and moments for the tests of the schedule."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from clawbot.scheduling.jobs import CronTime, Every, Job

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> datetime:
    """The moment that `text` (ISO 8601) is in `zone`."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def job(when: str | int = 1800, name: str = "notes", **more: Any) -> Job:
    """A job of the main agent: at the moments of a cron expression, or each so many seconds."""
    timing = CronTime(when) if isinstance(when, str) else Every(when)
    values = {"kind": "prompt", "agent_id": "main", "session_key": f"agent:main:cron:{name}", "prompt": "look"} | more
    return Job(name=name, when=timing, **values)


class SetClock:
    """A clock that is set by hand."""

    def __init__(self, now: datetime) -> None:
        self.moment = now
        self.seconds = 0.0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.seconds
