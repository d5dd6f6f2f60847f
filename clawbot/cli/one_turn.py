"""One turn without a screen: the reply on stdout, everything else on stderr, or events as JSON lines."""

from __future__ import annotations

import asyncio
import signal
import sys

import click
import msgspec

from clawbot.agent.events import (
    CommandOutput,
    CompactionFinished,
    Event,
    MessageFinished,
    ModelRetry,
    Notice,
    ToolStarted,
    TurnEnded,
)
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.tui.render.sanitize import clean, clean_line


class _Printer:
    """Prints the reply when it is known to be the last one: what a model says before a tool call is not the reply."""

    def __init__(self) -> None:
        self._reply = ""
        # A program that reads the reply gets it as it is; a terminal must not be steered by it.
        self._shown = clean if sys.stdout.isatty() else str
        self.ended: TurnEnded | None = None

    def take(self, event: Event) -> None:
        match event:
            case MessageFinished(text=text):
                self._reply = text
            case ToolStarted():
                self._reply = ""
            case CommandOutput(text=text):
                click.echo(self._shown(text))
            case Notice():
                tell_beside(event)
            case CompactionFinished(status="failed", error=error, trigger="threshold" | "overflow"):
                _warn(f"earlier turns could not be summarised: {error}")
            case ModelRetry(wait=wait, reason=reason):
                _warn(f"{reason} Trying again in {wait:.0f} s.")
            case TurnEnded():
                self._finish(event)
            case _:
                pass

    def _finish(self, event: TurnEnded) -> None:
        self.ended = event
        if self._reply:
            click.echo(self._shown(self._reply))
        if event.status == "failed":
            _warn(f"{event.error} {event.hint}")
        elif event.status == "interrupted":
            _warn("Interrupted; what was said is kept.")


class _JsonPrinter:
    """Prints each event as one line of JSON."""

    def __init__(self) -> None:
        self.ended: TurnEnded | None = None

    def take(self, event: Event) -> None:
        click.echo(msgspec.json.encode(event))
        if isinstance(event, TurnEnded):
            self.ended = event


def tell_beside(event: Event) -> None:
    """Print on stderr what belongs to no answer, such as a hook that fails while the program ends."""
    if isinstance(event, Notice) and event.level != "info":
        _warn(event.text)


def _warn(text: str) -> None:
    """Print a line on stderr. Its words may come from a model, a server or a hook, and must not steer a terminal."""
    click.echo(f"clawbot: {clean_line(text)}", err=True)


async def run_one_turn(options: RuntimeOptions, text: str, *, as_json: bool) -> int:
    """Submit `text` and print what comes back; returns the exit code. Raises ClawbotError when nothing could start.

    Ctrl+C and SIGTERM interrupt the turn; what was said by then is printed and kept.
    """
    printer = _JsonPrinter() if as_json else _Printer()
    runtime = await Runtime.open(options)
    runtime.on_event = tell_beside
    try:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, runtime.interrupt)
        for notice in runtime.notices:
            printer.take(notice)
        async for event in runtime.submit(text):
            printer.take(event)
    finally:
        await runtime.close()
    return 0 if printer.ended is not None and printer.ended.status == "done" else 1
