"""Interrupting a turn: a request from outside that ends the one await that is running, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class InterruptedTurnError(Exception):
    """The user asked the turn to stop."""


class Cancellation:
    """One turn's wish to stop.

    Awaits that may be cut short go through `run`; everything between them (writing to the transcript, say) always
    completes. asyncio's own timeout scope does the cutting, so a cancellation that came from elsewhere stays one.
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
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scope = scope
                return await start()
        except TimeoutError:
            if scope.expired():
                raise InterruptedTurnError from None
            raise
        finally:
            self._scope = None
