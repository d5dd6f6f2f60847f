"""Another agent in the same program: its runtime is opened before the one that was talked to is closed."""

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
    """Opens the agent of the command line, or the one that `agent` names. Raises ClawbotError."""

    def __call__(self, agent: str | None = None) -> Awaitable[RuntimeApi]:
        """The runtime; it is the caller's to close."""
        ...


class AgentSwitch:
    """The runtimes of one program: one at a time is talked to, the `current` one.

    `runtimes` are those that are open and not being closed; `closing` is the end of the one that was left, which may
    save to memory for some seconds.
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
        """Open `agent`, let what was submitted to `old` end, close `old`; what is submitted meanwhile waits.

        Returns the new runtime, and what failed while the old one was closed. Raises ClawbotError when the new one
        can't be opened; the old one goes on then.
        """
        self.busy = True
        try:
            new = await self.open(agent)
            await self._turns.hold()
            return new, await self._close(old)
        finally:
            self.busy = False

    def skip(self) -> bool:
        """Wait no longer for what the agent that is left saves to memory. False when nothing is closed."""
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
