"""The environment that a command of the model sees: this process's, without what is secret and without what makes a
program run something else than the command says.

The user's own settings count as they are. What is taken out are the ways by which a file of the workspace, which the
model may write, would become a setting, a program or a library of the next command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from dotenv import dotenv_values

SECRET_NAME = re.compile(r"_API_?KEY$|_TOKEN$|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY|CREDENTIAL", re.IGNORECASE)
# A pager, an editor or a prompt would wait for a terminal that is not there; a pager and an editor can start programs.
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
    # `git status` writes the index otherwise, and a hook of the repository runs.
    "GIT_OPTIONAL_LOCKS": "0",
}
# git takes these over each of its files (git 2.31 and newer). The first one counts from git 2.38 on: a folder of the
# workspace that looks like a repository is none, unless `--git-dir` names it.
GIT_SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    # `git diff` writes the index otherwise.
    "diff.autoRefreshIndex": "false",
    # It runs gpg.
    "log.showSignature": "false",
}
# Of git's own variables only those that say who the user is and how servers are reached. The others name a repository
# or programs, and one that clawbot was started with (in a hook of git, say) is not meant for the workspace.
GIT_KEPT = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_|GIT_SSH|GIT_SSL_|GIT_HTTP_|GIT_PROXY_|GIT_CONFIG_(COUNT|KEY_|VALUE_|NOSYSTEM$)"
    r"|GIT_CEILING_DIRECTORIES$|GIT_DISCOVERY_ACROSS_FILESYSTEM$|GIT_ALLOW_PROTOCOL$"
)
# Files that a shell runs when it starts, functions in place of programs, and what changes how words are read.
STARTUP = re.compile(
    r"(BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|BASH_XTRACEFD|CDPATH|GLOBIGNORE|POSIXLY_CORRECT"
    r"|LESSOPEN|LESSCLOSE|GREP_OPTIONS|RIPGREP_CONFIG_PATH|PYTHONSTARTUP|PYTHONINSPECT|GCONV_PATH|LOCPATH|SSH_ASKPASS"
    r"|SUDO_ASKPASS)"
)
# Libraries that are loaded into every program.
LOADED = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH")


class SecretNames:
    """Which variables hold keys by the user's word: those in `env_file`, and `key_variable` of the settings."""

    def __init__(self, env_file: Path, key_variable: str | None = None) -> None:
        self._env_file = env_file
        self._key_variable = key_variable

    def read(self) -> set[str]:
        """The names as they are now: keys can be added while the program runs. Blocks; raises OSError."""
        named = dotenv_values(self._env_file, interpolate=False) if self._env_file.is_file() else {}
        return {*named, *([self._key_variable] if self._key_variable else [])}


def command_environment(environment: Mapping[str, str], secret: Collection[str], workspace: Path) -> dict[str, str]:
    """`environment` as a command in `workspace` gets it. Blocks.

    Without the variables in `secret`, those whose name says that they are, and those that make a program start
    something; git's settings of the workspace's making are left out, and nothing waits for a terminal.
    """
    root = Path(os.path.realpath(workspace))
    kept = {
        name: value
        for name, value in environment.items()
        if name not in secret
        and not SECRET_NAME.search(name)
        and not STARTUP.fullmatch(name)
        and (not name.startswith("GIT_") or GIT_KEPT.match(name))
    }
    if "PATH" in kept:
        kept["PATH"] = search_path(kept["PATH"])
    for name in LOADED:
        outside = [item for item in re.split("[: ]", kept.get(name, "")) if item and not is_below(root, item)]
        kept.pop(name, None)
        kept |= {name: ":".join(outside)} if outside else {}
    return kept | QUIET | _git_settings(kept) | _git_files(environment, root)


def search_path(value: str) -> str:
    """The PATH `value` without its relative folders: these are the workspace's, wherever a command goes."""
    return os.pathsep.join(folder for folder in value.split(os.pathsep) if Path(folder).is_absolute())


def is_below(root: Path, path: str) -> bool:
    """Whether `path`, relative to the real folder `root` or absolute, is that folder or lies in it. Blocks."""
    return Path(os.path.realpath(root / path)).is_relative_to(root)


def _git_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """GIT_SETTINGS behind the settings that the user's environment has already."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0
    named = {
        f"GIT_CONFIG_{part}_{first + index}": text
        for index, setting in enumerate(GIT_SETTINGS.items())
        for part, text in zip(("KEY", "VALUE"), setting, strict=True)
    }
    return named | {"GIT_CONFIG_COUNT": str(first + len(GIT_SETTINGS))}


def _git_files(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Which files git takes the settings of the machine and of the user from, where these are not the usual ones.

    One in the workspace counts as none: a home or a folder of dotfiles there would let the model name programs.
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
