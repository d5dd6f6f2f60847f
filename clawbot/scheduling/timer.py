"""When to look at the schedule: at the next exact moment, and each minute in any case.

The minute is counted by a clock that never goes back, and what is due is asked of the wall clock. So a suspended
machine, or one whose clock was set, is noticed within a minute; a scheduler that sleeps until a time of the wall clock
would sleep for an hour longer when that was set back by one.
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
# Before the look at a moment that has passed while the last look was still at work.
_AGAIN = 1.0

Look = Callable[[], Awaitable[datetime | None]]
"""Does what is due, and returns the next moment at which something is; None when nothing is known to be."""


class Timer:
    """Calls `look` as long as it runs, never twice at a time. What `look` raises is logged and handed to `on_error`,
    and the timer goes on."""

    def __init__(self, clock: Clock, look: Look, on_error: Callable[[Exception], None] | None = None) -> None:
        self._clock = clock
        self._look = look
        self._on_error = on_error
        self._alone = asyncio.Lock()
        self._woken = asyncio.Event()
        self._next: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin with a look, in the background. The library behind the triggers is imported in a thread before."""
        if self._task is None:
            await asyncio.to_thread(triggers.load)
            self._task = asyncio.create_task(self._run(), name="schedule")

    def wake(self) -> None:
        """Look soon: what is due next may have changed."""
        self._woken.set()

    async def stop(self) -> None:
        """End; a look that is running is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not the task itself: its cancellation and the caller's own would look alike.
            await asyncio.wait([task])

    async def look(self) -> None:
        """Look now, after the look that may be running."""
        async with self._alone:
            try:
                self._next = await self._look()
            except Exception as error:
                log.exception("A look at the schedule failed")
                self._next = None
                if self._on_error is not None:
                    self._on_error(error)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            await self.look()
            # Python 3.11's `wait_for` would lose a cancellation that comes together with the wake-up.
            with contextlib.suppress(TimeoutError):
                async with deadline(pause(self._clock.now(), self._next)):
                    await self._woken.wait()


def pause(now: datetime, moment: datetime | None) -> float:
    """How many seconds to wait before the next look, when something is due at `moment`."""
    seconds = (moment - now).total_seconds() if moment else LONGEST_PAUSE
    return min(seconds, LONGEST_PAUSE) if seconds > 0 else _AGAIN
