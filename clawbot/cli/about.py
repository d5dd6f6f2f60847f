"""What the program runs on, as text for bug reports: versions, machine, libraries, terminal."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping

from clawbot import __version__
from clawbot.distribution import requirements, version_of
from clawbot.extras import EXTRAS, packages

# What decides how the screen is drawn; nothing else of the environment is told.
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
    """The requirements of clawbot and the installed ones of its extras, with their versions."""
    required = requirements().values()
    optional = [name for extra in EXTRAS for name in packages(extra)]
    for name in dict.fromkeys([*required, *optional]):
        if (here := version_of(name)) or name in required:
            yield f"{name} {here or 'is missing'}"


def _terminal(environ: Mapping[str, str]) -> Iterator[str]:
    columns, rows = shutil.get_terminal_size()
    yield f"{columns}x{rows}" if sys.stdout.isatty() else "none"
    yield from (f"{name}={environ[name]}" for name in _TERMINAL if environ.get(name))
    yield from (f"{name} is set" for name in _ONLY_WHETHER if environ.get(name))
