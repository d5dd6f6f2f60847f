"""Switching agents in one program: the new runtime is opened before the old one is closed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from clawbot.api import RuntimeApi
    from clawbot.tui.turns import Turns

log = logging.getLogger(__name__)


class OpenRuntime(Protocol):
    """Opens the agent of the command line, or `agent`. Raises ClawbotError."""

    def __call__(self, agent: str | None = None) -> Awaitable[RuntimeApi]:
        """The runtime, to be closed by the caller."""
        ...


class AgentSwitch:
    """The runtimes of one program, of which one is `current`.

    `runtimes` are open and not closing; `closing` is the task that closes the previous one, which may save to memory
    for some seconds.
    """

    def __init__(self, open_runtime: OpenRuntime, turns: Turns) -> None:
        self._open_runtime = open_runtime
        self._turns = turns
        self.runtimes: list[RuntimeApi] = []
        self.closing: asyncio.Task[None] | None = None
        self.busy = False

    async def open(self, agent: str | None = None) -> RuntimeApi:
        """Open a runtime. Raises ClawbotError."""
        runtime = await (self._open_runtime() if agent is None else self._open_runtime(agent))
        self.runtimes.append(runtime)
        return runtime

    async def change(self, old: RuntimeApi, agent: str) -> tuple[RuntimeApi, Exception | None]:
        """Open `agent`, wait until submissions to `old` have ended, close `old`; meanwhile inputs wait.

        Returns the new runtime, and the exception of closing the old one. Raises ClawbotError if the new one can't be
        opened; the old one then continues.
        """
        self.busy = True
        try:
            new = await self.open(agent)
            await self._turns.hold()
            return new, await self._close(old)
        finally:
            self.busy = False

    def skip(self) -> bool:
        """Stop waiting for the memory flush of the previous agent. False if nothing is closing."""
        return self.closing is not None and self.closing.cancel()

    async def _close(self, old: RuntimeApi) -> Exception | None:
        self.runtimes.remove(old)
        self.closing = closing = asyncio.create_task(old.close())
        # Whoever cancels this one leaves the program, which waits for the closing by itself.
        await asyncio.wait({closing})
        self.closing = None
        if closing.cancelled():
            log.info("What was said is not saved to memory yet: the wait for it was ended.")
            return None
        error = closing.exception()
        if error is not None:
            log.critical("The session of the other agent could not be closed.", exc_info=error)
        return error if isinstance(error, Exception) else None
