"""Runs the screen from its first paint to the restored terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from typing import TYPE_CHECKING

from clawbot.errors import ClawbotError
from clawbot.text.sanitize import clean_line
from clawbot.tui.terminal import SavedTerminal, typing_kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clawbot.api import RuntimeApi
    from clawbot.clock import Clock
    from clawbot.tui.app import ClawbotApp
    from clawbot.tui.switching import OpenRuntime


log = logging.getLogger(__name__)

SAVING = "Saving what matters to memory … (Ctrl+C skips)"
FINISHING = "Waiting for the hooks … (Ctrl+C skips)"
PATIENCE = 0.7  # seconds of a closing that nobody wonders about


def run_chat(open_runtime: OpenRuntime, *, theme: str = "auto", clock: Clock | None = None) -> int:
    """Show the conversation until the user leaves; return the exit code.

    `open_runtime` is awaited after the first paint, and again for each agent that the user changes to; what it returns
    is closed when another agent was opened, or at the end. Its heavy imports belong in a thread. A ClawbotError that it
    or the closing raises comes out of here, with the terminal restored. After another error one line on stderr names
    the log, and the exit code is 1; when memory is saved at the end, a line says so. `theme` counts until the settings
    are read.
    """
    with typing_kept() as kept:
        # Textual takes a quarter of a second to import: the keys of that time are kept.
        from clawbot.tui.app import ClawbotApp
        from clawbot.tui.driver import driver_after

        app = ClawbotApp(open_runtime, theme=theme, clock=clock, driver=driver_after(kept))
        unclosed = asyncio.run(_run(app, kept))
    if app.failure is not None:
        raise app.failure
    if app.crash is not None:
        _tell_crash("the screen crashed", app.crash)
    if isinstance(unclosed, ClawbotError):
        raise unclosed
    if unclosed is not None:
        _tell_crash("the session could not be closed as usual", unclosed)
    if app.crash is not None or unclosed is not None:
        return 1
    return 128 + app.ended_by if app.ended_by else app.return_code or 0


async def _run(app: ClawbotApp, kept: SavedTerminal) -> Exception | None:
    """Show the screen, then close what it opened; returns what failed in the closing."""
    ending = _Ending(app)
    if sys.platform != "win32":
        # A closed window (SIGHUP) or a polite end from outside: what was said so far is written like at any other end.
        for number in (signal.SIGHUP, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ending.signalled, number)
    if kept.ended_by:
        raise SystemExit(128 + kept.ended_by)
    try:
        await app.run_async()
    finally:
        # Before the closing, which may take seconds: Ctrl+C must be a signal again.
        kept.give_back()
        if app.agents.closing is not None:
            await ending.wait(app.agents.closing)
        if app.runtime in app.agents.runtimes:
            await app.chat.unsent.leave(app.runtime)
        else:
            _tell_unsent(app.chat.turns.held)
        for runtime in app.agents.runtimes:
            await ending.close(runtime)
    return ending.failure


class _Ending:
    """The end of the screen and then of the runtime, which may save to memory for some seconds.

    Nobody waits for that after a signal: what is not saved stays in the conversation, and is the next time.
    """

    def __init__(self, app: ClawbotApp) -> None:
        self._app = app
        self._hasty = False
        self._closing: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    def signalled(self, number: int) -> None:
        """Leave at once, also while memory is saved. A closed window is told more than once: that counts once, and what
        is being let go is not disturbed."""
        if self._hasty and number == signal.SIGHUP:
            return
        self._hasty = True
        self._app.end_by_signal(number)
        if self._closing is not None:
            self._closing.cancel()

    async def close(self, runtime: RuntimeApi) -> None:
        """Close `runtime`, and say so when that takes time. Ctrl+C cancels this task and the closing in it, which then
        only lets go of what it holds. What fails in it is logged and is the `failure`."""
        if runtime.agent.will_flush:
            self._tell()
            await self._end(asyncio.create_task(runtime.close(hasty=self._hasty)))
            return
        late = asyncio.get_running_loop().call_later(PATIENCE, self._tell, FINISHING)
        try:
            await self._end(asyncio.create_task(runtime.close(hasty=self._hasty)))
        finally:
            late.cancel()

    async def wait(self, closing: asyncio.Task[None]) -> None:
        """Wait for a runtime that is being closed already: the user left for another agent, and then altogether."""
        self._tell()
        if self._hasty:
            closing.cancel()
        await self._end(closing)

    def _tell(self, what: str = SAVING) -> None:
        """Say what takes time; nobody waits for it after a signal."""
        if not self._hasty:
            # A window that has just been closed takes no words, and memory is saved nevertheless.
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{clean_line(what)}\n")
                sys.stderr.flush()

    async def _end(self, closing: asyncio.Task[None]) -> None:
        self._closing = closing
        try:
            await closing
        except asyncio.CancelledError:
            log.info("What was said is not saved to memory yet: the wait for it was ended.")
        except Exception as error:
            log.critical("The session could not be closed.", exc_info=True)
            self.failure = error


def _tell_unsent(texts: Sequence[str]) -> None:
    """Say what was entered before there was a conversation that could keep it."""
    # A window that has just been closed takes no words.
    with contextlib.suppress(OSError):
        for text in texts:
            sys.stderr.write(f"clawbot: this was not sent, the conversation was not open yet: {clean_line(text)}\n")
        sys.stderr.flush()


def _tell_crash(what: str, crash: BaseException) -> None:
    from clawbot.config.paths import Paths, find_home

    reason = next(iter(f"{type(crash).__name__}: {crash}".splitlines()))
    said = f"clawbot: {what} ({reason}). The log tells more: {Paths(find_home()).log_file}"
    sys.stderr.write(f"{clean_line(said)}\n")
