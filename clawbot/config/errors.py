"""What is wrong in the settings: each problem with its place, and the error that carries all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clawbot.errors import ClawbotError


class Problem(NamedTuple):
    """One thing that is wrong: `place` is `file:line`, a file or "command line", `key` dotted ("" for a whole file)."""

    place: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)

    @property
    def line(self) -> int:
        """The line in `place`, 0 when it has none."""
        number = self.place.rpartition(":")[2]
        return int(number) if number.isdigit() else 0


class ConfigError(ClawbotError):
    """Settings that cannot be used. `problems` holds every one that was found; no text holds the value of a secret."""

    def __init__(self, problems: Sequence[Problem], *, hint: str = "") -> None:
        more = f" (and {len(problems) - 1} more: `clawbot config check` lists them)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}{'.' if hint else ''}", hint=hint)
        self.problems = tuple(problems)


def config_error(place: str, text: str, *, key: str = "", hint: str = "") -> ConfigError:
    """A ConfigError with one problem."""
    return ConfigError([Problem(place, key, text)], hint=hint)
