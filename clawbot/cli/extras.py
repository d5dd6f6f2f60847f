"""`clawbot extras`: what optional features need, installed into the Python that runs clawbot."""

from __future__ import annotations

import asyncio

import click

from clawbot import extras
from clawbot.cli.output import answer, json_option, say, tell
from clawbot.errors import ClawbotError
from clawbot.signals import on_interruption


@click.group(name="extras")
def command() -> None:
    """Install what optional features need."""


@command.command(name="list")
@json_option
def list_extras(as_json: bool) -> None:
    """List the extras, whether they are installed, and what they are for.

    With --json: an array of objects with name, purpose, installed, packages (versions by name) and command, which
    installs the extra.
    """
    found = [
        {
            "name": name,
            "purpose": purpose,
            "installed": extras.is_installed(name),
            "packages": extras.packages(name),
            "command": extras.install_command(name),
        }
        for name, purpose in extras.EXTRAS.items()
    ]
    lines = (f"{each['name']:<8} {'installed' if each['installed'] else '-':<10} {each['purpose']}" for each in found)
    answer(as_json, found, [*lines, "", f"To install one: {extras.install_command('NAME')}"])


@command.command()
@click.argument("name", type=click.Choice(list(extras.EXTRAS)))
def install(name: str) -> None:
    """Install what the extra NAME needs: pinned packages with hashes, into the Python that runs clawbot.

    Ctrl+C ends pip, and leaves what was installed before as it was. Exits with 1 if it fails.
    """
    if extras.is_installed(name):
        say(f"{name} is already installed.")
        return
    asyncio.run(_install(name))
    say(f"{name} is installed. A chat that is open uses it after a restart.")


async def _install(name: str) -> None:
    installing = asyncio.ensure_future(extras.install(name, tell))
    on_interruption(lambda: installing.cancelling() or installing.cancel())
    try:
        await installing
    except asyncio.CancelledError:
        raise ClawbotError("The installation was stopped.", hint="Run the command again to install it.") from None
