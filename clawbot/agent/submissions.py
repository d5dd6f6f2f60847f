"""The queue of one conversation: texts are taken up one after the other, and may be withdrawn or interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import structs

from clawbot.agent.cancel import Cancellation
from clawbot.agent.events import Event, MessageQueued, TurnEnded
from clawbot.agent.scope import Origin, Scope
from clawbot.clock import Clock
from clawbot.messages import scrub


class Submissions:
    """One runs, the others wait in their order. `take_up` runs one and says how it ended; it raises nothing."""

    def __init__(self, take_up: Callable[[str, Scope], Awaitable[TurnEnded]], clock: Clock) -> None:
        self._take_up = take_up
        self._clock = clock
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.running: Scope | None = None

    async def submit(self, text: str, origin: Origin = "user") -> AsyncGenerator[Event, None]:
        """The events of `text`, up to its TurnEnded.

        Closing the stream withdraws a text that still waits and interrupts one that runs.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        scope = Scope(events.put_nowait, Cancellation(), origin=origin)
        driver = asyncio.create_task(self._drive(scrub(text), scope))
        driver.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await driver
        finally:
            if not driver.done():
                if self.running is scope:
                    scope.cancel.request()
                else:
                    driver.cancel()
                await asyncio.wait({driver})

    def interrupt(self) -> bool:
        """Stop what runs. False when nothing does."""
        if self.running is None:
            return False
        self.running.cancel.request()
        return True

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Wait until nothing runs, and keep it so inside the context."""
        return self._turn

    @asynccontextmanager
    async def alone(self, scope: Scope) -> AsyncIterator[None]:
        """The same for the program's own work, which `interrupt` stops as it stops a turn."""
        async with self._turn:
            self.running = scope
            try:
                yield
            finally:
                self.running = None

    async def _drive(self, text: str, scope: Scope) -> None:
        # The lock is free for a moment between two turns: who waits already goes first.
        if self._turn.locked() or self._waiting:
            self._waiting += 1
            scope.emit(MessageQueued(text=text, position=self._waiting))
            try:
                await self._turn.acquire()
            finally:
                self._waiting -= 1
        else:
            await self._turn.acquire()
        began = self._clock.monotonic()
        self.running = scope
        try:
            ended = await self._take_up(text, scope)
        finally:
            self.running = None
            self._turn.release()
        scope.emit(structs.replace(ended, duration_ms=round((self._clock.monotonic() - began) * 1000)))
