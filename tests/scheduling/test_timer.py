"""The timer: exact where it can be, each minute in any case, and not to be stopped by a look that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from clawbot.clock import SystemClock
from clawbot.scheduling.runner import MAX_PAUSE, Timer, pause
from tests.scheduling.jobs import SetClock, at

EIGHT = at("2026-11-21T08:00")


class Looks:
    """Counts the looks and lets a test wait for the next one."""

    def __init__(self, answer: Callable[[], Awaitable[datetime | None]] | None = None) -> None:
        self.count = 0
        self._answer = answer
        self._looked = asyncio.Condition()

    async def __call__(self) -> datetime | None:
        async with self._looked:
            self.count += 1
            self._looked.notify_all()
        return await self._answer() if self._answer else None

    async def reach(self, count: int) -> None:
        async with self._looked:
            await self._looked.wait_for(lambda: self.count >= count)


@pytest.mark.parametrize(("seconds", "waits"), [(None, 60), (0.25, 0.25), (59, 59), (3600, 60), (0, 1), (-500, 1)])
def test_how_long_it_waits(seconds: float | None, waits: float) -> None:
    moment = None if seconds is None else EIGHT + timedelta(seconds=seconds)
    assert pause(EIGHT, moment) == waits
    assert waits <= MAX_PAUSE


async def test_it_looks_at_once_at_exact_moments_and_when_it_is_woken() -> None:
    clock = SystemClock()

    async def soon() -> datetime | None:
        return clock.now() + timedelta(milliseconds=5) if looks.count < 3 else None

    looks = Looks(soon)
    timer = Timer(clock, looks)
    await timer.start()
    await timer.start()
    await looks.reach(3)
    timer.wake()
    await looks.reach(4)
    await timer.stop()
    await timer.stop()
    # Started twice it is still one timer, whose looks were the first, two at exact moments, and the one that was woken.
    assert looks.count == 4


async def test_a_look_that_fails_is_told_and_the_timer_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Exception] = []

    async def fails() -> datetime | None:
        raise ValueError("torn")

    looks = Looks(fails)
    timer = Timer(SetClock(EIGHT), looks, told.append)
    await timer.start()
    await looks.reach(1)
    timer.wake()
    await looks.reach(2)
    await timer.stop()
    assert {str(error) for error in told} == {"torn"}
    assert "a check of the schedule failed" in caplog.text


@pytest.mark.parametrize("steps", range(5))
async def test_a_stop_that_comes_together_with_a_wake_up_ends_it(steps: int) -> None:
    looks = Looks()
    timer = Timer(SetClock(EIGHT), looks)
    await timer.start()
    await looks.reach(1)
    for _ in range(5):
        await asyncio.sleep(0)
    timer.wake()
    for _ in range(steps):
        await asyncio.sleep(0)
    ending = asyncio.create_task(timer.stop())
    finished, _ = await asyncio.wait([ending], timeout=100)
    assert finished == {ending}
    assert looks.count >= 1


async def test_looks_do_not_overlap() -> None:
    happened: list[str] = []
    go = asyncio.Event()

    async def slow() -> datetime | None:
        happened.append("begins")
        await go.wait()
        happened.append("ends")
        return None

    looks = Looks(slow)
    timer = Timer(SetClock(EIGHT), looks)
    both = [asyncio.create_task(timer.check()) for _ in range(2)]
    await looks.reach(1)
    go.set()
    await asyncio.gather(*both)
    assert happened == ["begins", "ends"] * 2


async def test_stop_ends_a_look_that_hangs() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hangs() -> datetime | None:
        began.set()
        try:
            await asyncio.Future()
        finally:
            ended.set()
        return None

    timer = Timer(SetClock(EIGHT), hangs)
    await timer.start()
    await began.wait()
    await timer.stop()
    assert ended.is_set()


async def test_who_stops_it_can_be_cancelled_while_a_look_is_being_ended() -> None:
    began, cleaning, clean = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def cleans_up() -> datetime | None:
        began.set()
        try:
            await asyncio.Future()
        finally:
            cleaning.set()
            await clean.wait()
        return None

    timer = Timer(SetClock(EIGHT), cleans_up)
    await timer.start()
    await began.wait()
    stopping = asyncio.create_task(timer.stop())
    await cleaning.wait()
    stopping.cancel()
    await asyncio.wait([stopping])
    assert stopping.cancelled()
    clean.set()
