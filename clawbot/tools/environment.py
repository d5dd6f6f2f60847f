"""The environment of the model's commands: without secrets, and without variables that would make a program run
something else than the command says.

The user's own settings remain. Removed are the ways in which a workspace file, which the model may write, could become
configuration, a program or a library of the next command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from dotenv import dotenv_values

from clawbot.text.numbers import whole_number
from clawbot.text.secret_names import is_secret_variable

# Pagers, editors and prompts would wait for a terminal; pagers and editors can also start programs.
QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "LESSSECURE": "1",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "TERM": "dumb",
    # Otherwise `git status` writes the index and runs a hook of the repository.
    "GIT_OPTIONAL_LOCKS": "0",
}
# These override git's config files (git 2.31 and newer). The first one applies from git 2.38 on: a folder in the
# workspace that looks like a bare repository is not used as one unless `--git-dir` names it.
GIT_SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    # Otherwise `git diff` writes the index.
    "diff.autoRefreshIndex": "false",
    # It runs gpg.
    "log.showSignature": "false",
}
# Only git variables that identify the user and configure connections. Others name a repository or programs; those set
# at clawbot's start (for example in a git hook) are not meant for the workspace.
GIT_KEPT = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_|GIT_SSH|GIT_SSL_|GIT_HTTP_|GIT_PROXY_|GIT_CONFIG_(COUNT|KEY_|VALUE_|NOSYSTEM$)"
    r"|GIT_CEILING_DIRECTORIES$|GIT_DISCOVERY_ACROSS_FILESYSTEM$|GIT_ALLOW_PROTOCOL$"
)
GIT_NUMBERED = re.compile(r"GIT_CONFIG_(COUNT|KEY_|VALUE_)")
# Shell startup files, exported functions, and what changes word splitting.
STARTUP = re.compile(
    r"(BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|BASH_XTRACEFD|CDPATH|GLOBIGNORE|POSIXLY_CORRECT"
    r"|LESSOPEN|LESSCLOSE|GREP_OPTIONS|RIPGREP_CONFIG_PATH|PYTHONSTARTUP|PYTHONINSPECT|GCONV_PATH|LOCPATH|SSH_ASKPASS"
    r"|SUDO_ASKPASS)"
)
# Libraries loaded into every program.
LOADED = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH")


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
    root = Path(os.path.realpath(workspace))
    secret = {*secret, *(name for name, value in environment.items() if is_secret_variable(name, value))}
    if any(GIT_NUMBERED.match(name) for name in secret):
        # Without one of them git refuses to start.
        secret |= {name for name in environment if GIT_NUMBERED.match(name)}
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secret and not STARTUP.fullmatch(name) and (not name.startswith("GIT_") or GIT_KEPT.match(name))
    }
    if "PATH" in kept:
        kept["PATH"] = search_path(kept["PATH"])
    for name in LOADED:
        outside = [item for item in re.split("[: ]", kept.get(name, "")) if item and not is_below(root, item)]
        kept.pop(name, None)
        kept |= {name: ":".join(outside)} if outside else {}
    return kept | QUIET | _git_settings(kept) | _git_files(environment, root)


def search_path(value: str) -> str:
    """The PATH `value` without relative folders, which would be resolved in the workspace."""
    return os.pathsep.join(folder for folder in value.split(os.pathsep) if Path(folder).is_absolute())


def is_below(root: Path, path: str) -> bool:
    """Whether `path`, relative to the real folder `root` or absolute, is in that folder or equal to it. Blocks."""
    return Path(os.path.realpath(root / path)).is_relative_to(root)


def _git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """GIT_SETTINGS appended to the git settings in the environment."""
    first = whole_number(environment.get("GIT_CONFIG_COUNT", "")) or 0
    named = {
        f"GIT_CONFIG_{part}_{first + index}": text
        for index, setting in enumerate(GIT_SETTINGS.items())
        for part, text in zip(("KEY", "VALUE"), setting, strict=True)
    }
    return named | {"GIT_CONFIG_COUNT": str(first + len(GIT_SETTINGS))}


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
