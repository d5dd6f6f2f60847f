"""Why the schedule has a timer of its own: a clock that is set back defeats APScheduler's scheduler, guarded or not.

The scheduler keeps the next time of each job as it was computed by the clock of then. A guard can wake it each minute,
but awake it only compares those times with the clock: where the clock had been wrong by days, jobs wait for days.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from apscheduler.schedulers import base
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import Schedule
from tests.scheduling.jobs import SetClock, at, job

TODAY = at("2026-11-21T08:00")
HALF_HOUR = timedelta(minutes=30)
WRONG = timedelta(days=2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """The clock of both schedulers, which goes wrong by two days."""
    clock = SetClock(TODAY + WRONG)

    class Datetime:
        @staticmethod
        def now(zone: tzinfo) -> datetime:
            return clock.moment.astimezone(zone)

    monkeypatch.setattr(base, "datetime", Datetime)
    return clock


async def woken(scheduler: AsyncIOScheduler) -> None:
    """What a guard does each minute; its wake-up call and a job that is due have run when this returns."""
    scheduler.wakeup()
    for _ in range(5):
        await asyncio.sleep(0)


async def test_jobs_of_apscheduler_stand_still_after_a_clock_was_set_back(clock: SetClock) -> None:
    ran: list[datetime] = []

    async def run() -> None:
        ran.append(clock.moment)

    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.add_job(
        run, IntervalTrigger(seconds=1800, start_date=clock.moment, timezone=UTC), misfire_grace_time=None
    )
    scheduler.start()
    try:
        clock.moment += HALF_HOUR
        await woken(scheduler)
        assert ran == [TODAY + WRONG + HALF_HOUR]
        clock.moment = TODAY
        for _ in range(48):
            clock.moment += HALF_HOUR
            await woken(scheduler)
        assert len(ran) == 1, "it has a guard's ways now: have the schedule run on it"
    finally:
        scheduler.shutdown(wait=False)


def test_jobs_of_the_schedule_go_on_after_a_clock_was_set_back(tmp_path: Path, clock: SetClock) -> None:
    schedule = Schedule([job(1800)], Ledger(tmp_path / "schedule.json"), clock)
    assert schedule.due(clock.moment) == []
    clock.moment += HALF_HOUR
    (due,) = schedule.due(clock.moment)
    assert schedule.ledger.claim(due.job, due.moment, clock.moment)
    clock.moment = TODAY
    assert schedule.due(clock.moment) == []  # begins anew
    clock.moment += HALF_HOUR
    assert [each.moment for each in schedule.due(clock.moment)] == [clock.moment]
