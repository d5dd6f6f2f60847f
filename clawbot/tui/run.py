"""Runs the screen, from the first paint until the terminal is restored."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from typing import TYPE_CHECKING

from clawbot.collector import collecting_later
from clawbot.errors import ClawbotError
from clawbot.signals import on_signals
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean_line
from clawbot.tui.terminal import SavedTerminal, typing_kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clawbot.api import RuntimeApi
    from clawbot.clock import Clock
    from clawbot.tui.app import ClawbotApp
    from clawbot.tui.app_base import OpenRuntime


log = logging.getLogger(__name__)

SAVING = N_("Saving what matters to memory … (Ctrl+C skips)")
FINISHING = N_("Waiting for the hooks … (Ctrl+C skips)")
PATIENCE = 0.7  # seconds of a closing that nobody wonders about


def run_chat(open_runtime: OpenRuntime, *, theme: str = "auto", clock: Clock | None = None) -> int:
    """Show the conversation until the user quits; return the exit code.

    `open_runtime` is awaited after the first paint, and again whenever the user switches the agent; its result is
    closed after a switch, or at the end. It should import in a thread. A ClawbotError of it or of closing is raised
    here with the terminal restored. After any other error one line on stderr names the log, and the exit code is 1. If
    memory is saved at the end, a line reports it. `theme` applies until the settings are read, if none
    was chosen on the screen.
    """
    with typing_kept() as kept:
        # Textual takes a quarter of a second to import: the keys of that time are kept.
        with collecting_later():
            from rich.console import Console

            from clawbot.config.paths import Paths, find_home
            from clawbot.tui.app import ClawbotApp
            from clawbot.tui.driver import driver_after
            from clawbot.tui.themes import kept_theme

        theme = kept_theme(Paths(find_home()).theme_file) or theme
        sixteen = Console(force_terminal=True).color_system == "standard"
        app = ClawbotApp(open_runtime, theme=theme, clock=clock, driver=driver_after(kept), sixteen=sixteen)
        unclosed = asyncio.run(_run(app, kept))
    if app.failure is not None:
        raise app.failure
    if app.crash is not None:
        _report_crash(_("the screen crashed"), app.crash)
    if isinstance(unclosed, ClawbotError):
        raise unclosed
    if unclosed is not None:
        _report_crash(_("the conversation could not be closed as usual"), unclosed)
    if app.crash is not None or unclosed is not None:
        return 1
    return 128 + app.ended_by if app.ended_by else app.return_code or 0


async def _run(app: ClawbotApp, kept: SavedTerminal) -> Exception | None:
    """Show the screen, then close what it opened; returns the exception of closing, if any."""
    ending = _Ending(app)
    # A closed window (SIGHUP) or SIGTERM: the conversation so far is stored as at any other end.
    on_signals((signal.SIGHUP, signal.SIGTERM), ending.signalled)
    if kept.ended_by:
        raise SystemExit(128 + kept.ended_by)
    try:
        await app.run_async()
    finally:
        # Before the closing, which may take seconds: Ctrl+C must be a signal again.
        kept.restore()
        if app.agents.closing is not None:
            await ending.wait(app.agents.closing)
        if app.runtime in app.agents.runtimes:
            await app.chat.unsent.leave(app.runtime)
        else:
            _report_unsent([text for text, _ident in app.chat.turns.held])
        for runtime in app.agents.runtimes:
            await ending.close(runtime)
    return ending.failure


class _Ending:
    """Closes the screen and then the runtime, which may save to memory for some seconds.

    After a signal nobody waits for that: what is not saved remains in the conversation for the next time.
    """

    def __init__(self, app: ClawbotApp) -> None:
        self._app = app
        self._hasty = False
        self._closing: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    def signalled(self, number: int) -> None:
        """Quit at once, even while memory is saved. Repeated signals of a closed window are ignored, so that cleaning
        up is not disturbed."""
        if self._hasty and number == signal.SIGHUP:
            return
        self._hasty = True
        self._app.end_by_signal(number)
        if self._closing is not None:
            self._closing.cancel()

    async def close(self, runtime: RuntimeApi) -> None:
        """Close `runtime`, and report it if that takes time. Ctrl+C cancels this task and the closing, which then only
        releases resources. Failures are logged and stored as `failure`."""
        if runtime.agent.will_flush:
            self._report()
            await self._end(asyncio.create_task(runtime.close(hasty=self._hasty)))
            return
        late = asyncio.get_running_loop().call_later(PATIENCE, self._report, FINISHING)
        try:
            await self._end(asyncio.create_task(runtime.close(hasty=self._hasty)))
        finally:
            late.cancel()

    async def wait(self, closing: asyncio.Task[None]) -> None:
        """Wait for a runtime that is already closing: the user switched agents and then quit."""
        self._report()
        if self._hasty:
            closing.cancel()
        await self._end(closing)

    def _report(self, what: str = SAVING) -> None:
        """Report what takes time, unless a signal ended the program."""
        if not self._hasty:
            # A window that has just been closed takes no words, and memory is saved nevertheless.
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{clean_line(_(what))}\n")
                sys.stderr.flush()

    async def _end(self, closing: asyncio.Task[None]) -> None:
        self._closing = closing
        try:
            await closing
        except asyncio.CancelledError:
            log.info("The conversation is not saved to memory yet: the wait for it was ended.")
        except Exception as error:
            log.critical("The session could not be closed.", exc_info=True)
            self.failure = error


def _report_unsent(texts: Sequence[str]) -> None:
    """Print inputs that no conversation could store yet."""
    # A window that has just been closed takes no words.
    with contextlib.suppress(OSError):
        for text in texts:
            template = _("clawbot: this was not sent, the conversation was not open yet: {text}")
            sys.stderr.write(f"{template.format(text=clean_line(text))}\n")
        sys.stderr.flush()


def _report_crash(what: str, crash: BaseException) -> None:
    from clawbot.config.paths import Paths, find_home

    reason = next(iter(f"{type(crash).__name__}: {crash}".splitlines()))
    template = _("clawbot: {what} ({reason}). The log tells more: {file}").format(
        what=what, reason=reason, file=Paths(find_home()).log_file
    )
    sys.stderr.write(f"{clean_line(template)}\n")
