"""What the housekeeping of one submission works with: who hears of it, and the wish to stop.

That wish ends the one await that is running, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from clawbot.agent.events import Event
from clawbot.deadline import deadline

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
        try:
            async with deadline(None) as self._scope:
                return await start()
        except TimeoutError:
            if self._scope is not None and self._scope.expired():
                raise InterruptedTurnError from None
            raise
        finally:
            self._scope = None


Emit = Callable[[Event], None]
Origin = Literal["user", "schedule"]


@dataclass
class Scope:
    """One submission, or one end of the program. `rounds` counts how often its context was made smaller because a
    request did not fit; `compaction_failed` says that one failed in it, which is not tried again by itself. `origin` is
    `user` or `schedule`: what a job says keeps no session alive and ends none (reference sheet 4.2). `unsent_id` is the
    one under which its text is kept until a transcript holds it, empty while it is not."""

    emit: Emit
    cancel: Cancellation
    rounds: int = 0
    compaction_failed: bool = False
    origin: Origin = "user"
    unsent_id: str = ""

    def go_on(self) -> None:
        """What was stopped was not all of it: what comes next may be stopped by itself."""
        self.cancel = Cancellation()


def silent_scope() -> Scope:
    """For what happens while nobody reads events."""
    return Scope(_unheard, Cancellation())


def _unheard(_event: Event) -> None:
    """Nobody reads it."""
