"""How commands speak: answers on stdout, one line of error on stderr, JSON on request."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
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


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors that a user can act on into exit code 1 and one line on stderr."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ClawbotError as error:
            fail(str(error))
        except OSError as error:
            fail(f"{error.filename or 'a file'}: {error.strerror or error}.")

    return wrapper
