"""`clawbot script`: the scripted model as a server, for tests that go through real HTTP."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import click

from clawbot.cli.output import reports_errors, say, tell
from clawbot.errors import ClawbotError
from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.llm.scripted.server import LOOPBACK, serve_script


@click.group(name="script")
def command() -> None:
    """Play a scripted model for tests."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; 0 takes a free one.")
@reports_errors
def serve(file: Path, port: int) -> None:
    """Serve the script FILE as an OpenAI-compatible server on loopback.

    Prints its address, and runs until Ctrl+C or SIGTERM. Exits with 1 when a request did not fit the script or turns
    were left over.
    """
    engine = ScriptEngine(load_script(file))
    asyncio.run(_serve(engine, port))
    problems = engine.problems()
    for problem in problems:
        tell(f"clawbot: {problem}")
    sys.exit(1 if problems else 0)


async def _serve(engine: ScriptEngine, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with serve_script(engine, port=port) as served:
            say(f"serving {engine.script.path} on {served.url}")
            await stopped.wait()
    except OSError as error:
        raise ClawbotError(
            f"Port {port} on {LOOPBACK} can't be used: {error.strerror or error}.", hint="Choose another with --port."
        ) from error
