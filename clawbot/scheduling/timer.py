"""Decides when to look at the schedule: at the next due time, and at least once a minute.

The minute is measured with a monotonic clock, and due times are compared with the wall clock. So a suspended machine or
a changed clock is noticed within a minute; a scheduler that slept until a wall-clock time would be an hour late when
the clock is set back by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.scheduling import triggers

log = logging.getLogger(__name__)

LONGEST_PAUSE = 60.0
# Delay if the due time passed while the last look was still running.
_AGAIN = 1.0

Look = Callable[[], Awaitable[datetime | None]]
"""Does what is due, and returns the next due time; None if none is known."""


class Timer:
    """Calls `look` repeatedly, never concurrently. Its exceptions are logged and passed to `on_error`, and the timer
    continues."""

    def __init__(self, clock: Clock, look: Look, on_error: Callable[[Exception], None] | None = None) -> None:
        self._clock = clock
        self._look = look
        self._on_error = on_error
        self._alone = asyncio.Lock()
        self._woken = asyncio.Event()
        self._next: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start in the background with a first look. The scheduling library is imported in a thread first."""
        if self._task is None:
            await asyncio.to_thread(triggers.load)
            self._task = asyncio.create_task(self._run(), name="schedule")

    def wake(self) -> None:
        """Look soon: the next due time may have changed."""
        self._woken.set()

    async def stop(self) -> None:
        """Stop; a running look is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not `await task`: its cancellation could not be told from the caller's own.
            await asyncio.wait([task])

    async def look(self) -> None:
        """Look now, or after a running look."""
        async with self._alone:
            try:
                self._next = await self._look()
            except Exception as error:
                log.exception("a look at the schedule failed")
                self._next = None
                if self._on_error is not None:
                    self._on_error(error)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            await self.look()
            # Python 3.11's `wait_for` would lose a cancellation that coincides with the wake-up.
            with contextlib.suppress(TimeoutError):
                async with deadline(pause(self._clock.now(), self._next)):
                    await self._woken.wait()


def pause(now: datetime, moment: datetime | None) -> float:
    """Seconds to wait until the next look if the next due time is `moment`."""
    seconds = (moment - now).total_seconds() if moment else LONGEST_PAUSE
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else _AGAIN
