"""The environment that a command of the model sees: this process's, without what is secret."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from dotenv import dotenv_values

SECRET_NAME = re.compile(r"_API_?KEY$|_TOKEN$|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY|CREDENTIAL", re.IGNORECASE)
# A pager or a prompt would wait for a terminal that is not there.
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}


class SecretNames:
    """Which variables hold keys by the user's word: those in `env_file`, and `key_variable` of the settings."""

    def __init__(self, env_file: Path, key_variable: str | None = None) -> None:
        self._env_file = env_file
        self._key_variable = key_variable

    def read(self) -> set[str]:
        """The names as they are now: keys can be added while the program runs. Blocks; raises OSError."""
        named = dotenv_values(self._env_file, interpolate=False) if self._env_file.is_file() else {}
        return {*named, *([self._key_variable] if self._key_variable else [])}


def command_environment(environment: Mapping[str, str], secret: Collection[str]) -> dict[str, str]:
    """`environment` without the variables in `secret` and those whose name says that they are; nothing in it makes a
    program wait for a terminal."""
    kept = {name: value for name, value in environment.items() if name not in secret and not SECRET_NAME.search(name)}
    return kept | QUIET
