"""What ends an await early: a time limit, which also works while a task cleans up after a cancellation, and the user's
cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def deadline(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block after `seconds` (None: never) and raise TimeoutError; yields asyncio's own scope.

    In Python 3.11.0 to 3.11.2 that scope reports an expired limit as a cancellation if its task was cancelled before
    the block began (gh-102780). A wait for an unresponsive process after Esc would then return without killing it.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            yield scope
    except asyncio.CancelledError:
        if task is not None and scope.expired() and task.cancelling() <= before:
            raise TimeoutError from None
        raise


class InterruptedTurnError(Exception):
    """The user asked the turn to stop."""


class Cancellation:
    """One turn's cancellation.

    Awaits that may be cut short go through `run`; everything between them (such as writing to the transcript) always
    completes. asyncio's own timeout scope does the cutting, so a cancellation that came from elsewhere remains one.
    """

    def __init__(self) -> None:
        self.requested = False
        self._scope: asyncio.Timeout | None = None

    def request(self) -> None:
        """Stop the turn: now if it waits in `run`, else at the next `run`. Must be called on the event loop.

        Asked again while the await is still cleaning up (a connection, a process group), it changes nothing.
        """
        if self.requested:
            return
        self.requested = True
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def run(self, start: Callable[[], Awaitable[T]]) -> T:
        """Await `start()` and return its result; raises InterruptedTurnError when the turn is to stop."""
        if self.requested:
            raise InterruptedTurnError
        try:
            async with deadline(None) as self._scope:
                return await start()
        except TimeoutError:
            if self._scope is not None and self._scope.expired():
                raise InterruptedTurnError from None
            raise
        finally:
            self._scope = None
