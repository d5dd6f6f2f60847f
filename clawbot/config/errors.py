"""Problems in the settings with their locations, and the error that carries all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clawbot.errors import ClawbotError
from clawbot.text.numbers import whole_number


class ConfigProblem(NamedTuple):
    """One problem: `place` is `file:line`, a file or "command line"; `key` is dotted ("" for a whole file)."""

    place: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)

    @property
    def line(self) -> int:
        """The line in `place`, 0 if it has none."""
        return whole_number(self.place.rpartition(":")[2]) or 0


class ConfigError(ClawbotError):
    """The settings cannot be used. `problems` are all that were found; no text contains a secret's value."""

    def __init__(self, problems: Sequence[ConfigProblem], *, hint: str = "") -> None:
        more = f" (and {len(problems) - 1} more: `clawbot config check` lists them)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}{'.' if hint else ''}", hint=hint)
        self.problems = tuple(problems)


def config_error(place: str, text: str, *, key: str = "", hint: str = "") -> ConfigError:
    """A ConfigError with one problem."""
    return ConfigError([ConfigProblem(place, key, text)], hint=hint)


def nearest(word: str, words: list[str]) -> str:
    """The most similar of `words`, or ""."""
    # Deferred: settings without a mistake need none.
    from difflib import get_close_matches

    folded = {known.replace("_", "").lower(): known for known in words}
    found = get_close_matches(word.replace("_", "").lower(), list(folded), n=1)
    return folded[found[0]] if found else ""
