"""`clawbot script`: serves a scripted model, for tests over real HTTP."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from clawbot.cli.output import echo, listening, warn
from clawbot.errors import ClawbotError
from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.llm.scripted.record import Recorder
from clawbot.llm.scripted.server import LOOPBACK, recording, serve_script
from clawbot.signals import asked_to_end
from clawbot.text.secrets import left_out


@click.group(name="script")
def command() -> None:
    """Serve a scripted model for tests."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; 0 takes a free one.")
def serve(file: Path, port: int) -> None:
    """Serve the script FILE as an OpenAI-compatible server on loopback.

    Prints its address, and runs until Ctrl+C or SIGTERM. Exits with 1 if a request did not match the script or turns
    were left over.
    """
    engine = ScriptEngine(load_script(file))
    asyncio.run(_serve(engine, port))
    problems = engine.problems()
    warn(*map(str, problems))
    sys.exit(1 if problems else 0)


@command.command()
@click.option("--base", required=True, metavar="URL", help="The real server's address, as in api_base.")
@click.option("--to", "file", required=True, type=click.Path(path_type=Path), help="The script to write; a new file.")
@click.option("--listen", "port", type=click.IntRange(0, 65535), default=0, help="The port; 0 takes a free one.")
def record(base: str, file: Path, port: int) -> None:
    """Record a session with a real server as a script that replays it.

    Prints the address to give clawbot as api_base, in place of URL. What is asked there goes to the server, with its
    key, and the answers into FILE, without keys and passwords. Runs until Ctrl+C or SIGTERM.
    """
    if not base.startswith(("http://", "https://")):
        raise click.UsageError("--base must be a URL: http://127.0.0.1:8080/v1")
    if file.exists():
        raise ClawbotError(f"{file} exists already.", hint="Choose another name with --to.")
    asyncio.run(_record(base, file, port))


async def _record(base: str, file: Path, port: int) -> None:
    stopped = asked_to_end()
    recorder = Recorder(file, stopped.set)
    with listening(f"Port {port} on {LOOPBACK} can't be used", "Choose another with --port."):
        async with recording(recorder, base, port=port) as url:
            echo(f"recording {base} on {url} into {file}")
            await stopped.wait()
    left = f", {left_out(recorder.secrets)}" if recorder.secrets else ""
    echo(
        f"{recorder.count} turns are in {file}{left}"
        if recorder.count
        else "Nothing was recorded: no file was written."
    )
    if recorder.error is not None:
        raise recorder.error


async def _serve(engine: ScriptEngine, port: int) -> None:
    stopped = asked_to_end()
    with listening(f"Port {port} on {LOOPBACK} can't be used", "Choose another with --port."):
        async with serve_script(engine, port=port) as served:
            echo(f"serving {engine.script.path} on {served.url}")
            await stopped.wait()
