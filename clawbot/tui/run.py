"""Runs the screen from its first paint to the restored terminal."""

from __future__ import annotations

import asyncio
import sys

from clawbot.clock import Clock
from clawbot.tui.app import ClawbotApp, OpenRuntime


def run_chat(open_runtime: OpenRuntime, *, theme: str = "auto", clock: Clock | None = None) -> int:
    """Show the conversation until the user leaves; return the exit code.

    `open_runtime` is awaited after the first paint, and what it returns is closed at the end; its heavy imports belong
    in a thread. A ClawbotError that it raises comes out of here, with the terminal restored. After a crash one line on
    stderr names the log. `theme` counts until the settings are read.
    """
    app = ClawbotApp(open_runtime, theme=theme, clock=clock)
    asyncio.run(_run(app))
    if app.failure is not None:
        raise app.failure
    if app.crash is not None:
        from clawbot.config.paths import Paths, find_home

        reason = f"{type(app.crash).__name__}: {app.crash}".splitlines()[0]
        where = Paths(find_home()).log_file
        sys.stderr.write(f"clawbot: the screen crashed ({reason}). The log tells more: {where}\n")
        return 1
    return app.return_code or 0


async def _run(app: ClawbotApp) -> None:
    try:
        await app.run_async()
    finally:
        if app.runtime is not None:
            await app.runtime.close()
