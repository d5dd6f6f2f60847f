"""What the program runs on, as text for bug reports: versions, machine, libraries, terminal."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping

from clawbot import __version__

_NAME = re.compile(r"[\w.-]+")
# What only the tests of the program need.
_FOR_CHECKS = ("extra == 'dev'", 'extra == "dev"')
# What decides how the screen is drawn; nothing else of the environment is told.
_TERMINAL = (
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "NO_COLOR",
    "LC_ALL",
    "LC_CTYPE",
    "LANG",
)
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
    """Each that clawbot requires, and those of its extras that are there, with their versions."""
    try:
        required = importlib.metadata.requires("clawbot-agent") or []
    except importlib.metadata.PackageNotFoundError:
        return
    wanted = (line for line in required if not line.endswith(_FOR_CHECKS))
    names = {match[0]: "extra ==" in line for line in wanted if (match := _NAME.match(line))}
    for name, is_extra in names.items():
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            if not is_extra:
                yield f"{name} is missing"


def _terminal(environ: Mapping[str, str]) -> Iterator[str]:
    columns, rows = shutil.get_terminal_size()
    yield f"{columns}x{rows}" if sys.stdout.isatty() else "none"
    yield from (f"{name}={environ[name]}" for name in _TERMINAL if environ.get(name))
    yield from (f"{name} is set" for name in _ONLY_WHETHER if environ.get(name))
