"""The environment of the model's commands: without secrets, and without variables that would make a program run
something else than the command says.

The user's own settings remain. Removed are the ways in which a workspace file, which the model may write, could become
configuration, a program or a library of the next command. The names are in `environment.toml`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from dotenv import dotenv_values
from msgspec import Struct

from clawbot.text.numbers import whole_number
from clawbot.text.patterns import lazy_re
from clawbot.text.secret_names import is_secret_variable
from clawbot.text.tables import packaged_table


class _Variables(Struct, frozen=True, forbid_unknown_fields=True):
    quiet: dict[str, str]
    git_settings: dict[str, str]
    git_kept: str
    startup: str
    loaded: tuple[str, ...]


@cache
def _variables() -> _Variables:
    return packaged_table("clawbot.tools", "environment.toml", _Variables)


_GIT_NUMBERED = lazy_re(r"GIT_CONFIG_(COUNT|KEY_|VALUE_)")


class SecretNames:
    """The variables declared as keys by the user: those in `env_file`, and `key_variable` of the settings."""

    def __init__(self, env_file: Path, key_variable: str | None = None) -> None:
        self._env_file = env_file
        self._key_variable = key_variable

    def read(self) -> set[str]:
        """The current names: keys can be added while the program runs. Blocks; raises OSError."""
        named = dotenv_values(self._env_file, interpolate=False) if self._env_file.is_file() else {}
        return {*named, *([self._key_variable] if self._key_variable else [])}


def command_environment(environment: Mapping[str, str], secret: Collection[str], workspace: Path) -> dict[str, str]:
    """The environment of a command in `workspace`. Blocks.

    Removed are the variables in `secret`, those that are a secret by name or value, those that make a program start
    something, and git settings located in the workspace; nothing waits for a terminal.
    """
    root, variables = Path(os.path.realpath(workspace)), _variables()
    secret = {*secret, *(name for name, value in environment.items() if is_secret_variable(name, value))}
    if any(_GIT_NUMBERED.match(name) for name in secret):
        # Without one of them git refuses to start.
        secret |= {name for name in environment if _GIT_NUMBERED.match(name)}
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secret
        and not re.fullmatch(variables.startup, name)
        and (not name.startswith("GIT_") or re.match(variables.git_kept, name))
    }
    if "PATH" in kept:
        kept["PATH"] = search_path(kept["PATH"])
    for name in variables.loaded:
        outside = [item for item in re.split("[: ]", kept.get(name, "")) if item and not is_below(root, item)]
        kept.pop(name, None)
        kept |= {name: ":".join(outside)} if outside else {}
    return kept | variables.quiet | _git_settings(kept) | _git_files(environment, root)


def search_path(value: str) -> str:
    """The PATH `value` without relative folders, which would be resolved in the workspace."""
    return os.pathsep.join(folder for folder in value.split(os.pathsep) if Path(folder).is_absolute())


def is_below(root: Path, path: str) -> bool:
    """Whether `path`, relative to the real folder `root` or absolute, is in that folder or equal to it. Blocks."""
    return Path(os.path.realpath(root / path)).is_relative_to(root)


def _git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the table appended to the git settings in the environment."""
    settings = _variables().git_settings
    first = whole_number(environment.get("GIT_CONFIG_COUNT", "")) or 0
    named = {
        f"GIT_CONFIG_{part}_{first + index}": text
        for index, setting in enumerate(settings.items())
        for part, text in zip(("KEY", "VALUE"), setting, strict=True)
    }
    return named | {"GIT_CONFIG_COUNT": str(first + len(settings))}


def _git_files(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """The machine's and user's git config files, if not the usual ones.

    Files in the workspace are ignored: with a home or dotfiles there, the model could configure programs.
    """
    home = environment.get("HOME", "")
    own = environment.get("GIT_CONFIG_GLOBAL")
    folder = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    usual = [f"{folder}/git/config", *([f"{home}/.gitconfig"] if home else [])]
    files = {}
    if any(is_below(root, path) for path in ([own] if own else usual)):
        files["GIT_CONFIG_GLOBAL"] = os.devnull
    elif own is not None:
        files["GIT_CONFIG_GLOBAL"] = own
    system = environment.get("GIT_CONFIG_SYSTEM")
    if system is not None and not is_below(root, system):
        files["GIT_CONFIG_SYSTEM"] = system
    return files
