"""`clawbot extras`: what optional features need, installed into the Python that runs clawbot; and for bug reports what
the program runs on: versions, machine, libraries, terminal."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping

import click

from clawbot import __version__, extras
from clawbot.cli.output import answer, echo, echo_error, json_option
from clawbot.distribution import requirements, version_of
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
        echo(f"{name} is already installed.")
        return
    asyncio.run(_install(name))
    echo(f"{name} is installed. A chat that is open uses it after a restart.")


async def _install(name: str) -> None:
    installing = asyncio.ensure_future(extras.install(name, echo_error))
    on_interruption(lambda: installing.cancelling() or installing.cancel())
    try:
        await installing
    except asyncio.CancelledError:
        raise ClawbotError("The installation was stopped.", hint="Run the command again to install it.") from None


# What decides how the screen is drawn; nothing else of the environment is shown.
_TERMINAL = ("TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG")
# Their values are paths and addresses.
_ONLY_WHETHER = ("TMUX", "STY", "SSH_CONNECTION", "WSL_DISTRO_NAME")


def about(environ: Mapping[str, str] = os.environ) -> str:
    """One line for each fact: its name, and what it is here."""
    facts = [
        ("clawbot", __version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()}, {sys.platform})"),
        ("machine", f"{platform.platform()}, {os.cpu_count()} processors"),
        ("libraries", ", ".join(_libraries()) or "clawbot runs without being installed"),
        ("terminal", ", ".join(_terminal(environ))),
    ]
    return "\n".join(f"{name:<10} {fact}" for name, fact in facts)


def _libraries() -> Iterator[str]:
    """Yield the requirements of clawbot and the installed ones of its extras, with their versions."""
    required = requirements().values()
    optional = [name for extra in extras.EXTRAS for name in extras.packages(extra)]
    for name in dict.fromkeys([*required, *optional]):
        if (here := version_of(name)) or name in required:
            yield f"{name} {here or 'is missing'}"


def _terminal(environ: Mapping[str, str]) -> Iterator[str]:
    columns, rows = shutil.get_terminal_size()
    yield f"{columns}x{rows}" if sys.stdout.isatty() else "none"
    yield from (f"{name}={environ[name]}" for name in _TERMINAL if environ.get(name))
    yield from (f"{name} is set" for name in _ONLY_WHETHER if environ.get(name))
