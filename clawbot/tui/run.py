"""Runs the screen from its first paint to the restored terminal."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from clawbot.tui.terminal import typing_kept

if TYPE_CHECKING:
    from clawbot.clock import Clock
    from clawbot.runtime import Runtime
    from clawbot.tui.app import ClawbotApp


def run_chat(open_runtime: Callable[[], Awaitable[Runtime]], *, theme: str = "auto", clock: Clock | None = None) -> int:
    """Show the conversation until the user leaves; return the exit code.

    `open_runtime` is awaited after the first paint, and what it returns is closed at the end; its heavy imports belong
    in a thread. A ClawbotError that it raises comes out of here, with the terminal restored. After a crash one line on
    stderr names the log. `theme` counts until the settings are read.
    """
    with typing_kept():
        # Textual takes a quarter of a second to import: the keys of that time are kept.
        from clawbot.tui.app import ClawbotApp

        app = ClawbotApp(open_runtime, theme=theme, clock=clock)
        asyncio.run(_run(app))
    if app.failure is not None:
        raise app.failure
    if app.crash is not None:
        _tell_crash(app.crash)
        return 1
    return app.return_code or 0


async def _run(app: ClawbotApp) -> None:
    if sys.platform != "win32":
        # A closed window (SIGHUP) or a polite end from outside: what was said so far is written like at any other end.
        for number in (signal.SIGHUP, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, app.end_by_signal, number)
    try:
        await app.run_async()
    finally:
        if app.runtime is not None:
            await app.runtime.close()


def _tell_crash(crash: BaseException) -> None:
    from clawbot.config.paths import Paths, find_home

    reason = next(iter(f"{type(crash).__name__}: {crash}".splitlines()))
    sys.stderr.write(f"clawbot: the screen crashed ({reason}). The log tells more: {Paths(find_home()).log_file}\n")
