"""How commands speak: answers on stdout, one line of error on stderr, JSON on request."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from typing import Any, NoReturn, ParamSpec, TypeVar

import click
import msgspec

from clawbot.errors import ClawbotError

P = ParamSpec("P")
R = TypeVar("R")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    """Print `value` (plain data or msgspec structs) as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2))


def fail(message: str) -> NoReturn:
    """Print one line on stderr and exit with 1."""
    click.echo(f"clawbot: {' '.join(message.split())}", err=True)
    sys.exit(1)


@contextlib.contextmanager
def dependable_streams() -> Iterator[None]:
    """Let the program within read and print wherever it was started.

    A stream that was closed at the start (`>&-`) is empty or drops what it gets; what the terminal's encoding lacks is
    printed as an escape. A full disk behind stdout is one line and exit code 1, a reader that left (`| head -1`) is no
    more than exit code 1.
    """
    _mend_streams()
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # What could not be written is still in the buffer, and Python would try again, and complain, at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        fail(f"The output can't be written: {error.strerror or error}.")


def _mend_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest number that is free: no file or socket of ours may get the number of a standard stream.
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
        elif mode == "w" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors that a user can act on into exit code 1 and one line on stderr."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ClawbotError as error:
            fail(str(error))
        except OSError as error:
            if error.filename is None:
                raise
            fail(f"{error.filename}: {error.strerror or error}.")

    return wrapper
