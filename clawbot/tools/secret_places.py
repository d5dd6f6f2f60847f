"""Where secrets lie by custom: one list for what a command in the sandbox can't see, for what a command that only reads
asks about, and for the line of risks. The places are in `secret_places.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from clawbot.text.names import fold_name
from clawbot.text.patterns import any_glob, lazy_re
from clawbot.text.tables import packaged_table

_BETWEEN = lazy_re(r"[\s\"'=@~:;,()<>|&]+")


@cache
def secret_places() -> dict[str, list[str]]:
    """The lists of `secret_places.toml`. Blocks at the first call."""
    return packaged_table("clawbot.tools", "secret_places.toml", dict[str, Any])


@cache
def _like(*lists: str) -> re.Pattern[str]:
    return any_glob(glob for name in lists for glob in secret_places()[name])


def is_env_file(name: str) -> bool:
    """Whether `name` is that of a file with variables of a project, which hold its keys by custom."""
    return bool(_like("env_files").match(fold_name(name))) and not _like("public").match(fold_name(name))


def is_secret_file(name: str) -> bool:
    """Whether `name` is that of a file in a project that holds keys, passwords or variables by custom."""
    return bool(_like("env_files", "files").match(fold_name(name))) and not _like("public").match(fold_name(name))


def is_secret_folder(name: str) -> bool:
    """Whether `name` is that of a folder in a project that holds keys by custom."""
    return fold_name(name) in secret_places()["folders"]


def is_secret_path(path: str) -> bool:
    """Whether `path` names a secret file or folder, or leads into a place of the home that holds secrets."""
    parts = [fold_name(part) for part in path.split("/") if part]
    if any(is_secret_file(part) or is_secret_folder(part) for part in parts):
        return True
    return any(_below_home().match("/".join(parts[at:])) for at, part in enumerate(parts) if part.startswith("."))


def mentions_secret(text: str) -> bool:
    """Whether a word of a command, which may be a text in quotes, names a secret place."""
    parts = [part for part in _BETWEEN.split(text) if part]
    paths = parts if len(parts) == 1 else [part for part in parts if "/" in part or part.startswith(".")]
    return any(is_secret_path(path) or _like("system").match(path) for path in paths)


def secret_globs(homes: tuple[Path, ...], environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Folders with globs of secrets below them: in each of `homes`, and where `environment` has the folders of XDG."""
    globs = secret_places()["home"]
    yield from ((home, glob) for home in homes for glob in globs)
    for variable, _, prefix in (entry.partition("=") for entry in secret_places()["xdg_folders"]):
        folder = Path(environment.get(variable, ""))
        if folder.is_absolute():
            yield from ((folder, glob.removeprefix(prefix)) for glob in globs if glob.startswith(prefix))


@cache
def _below_home() -> re.Pattern[str]:
    """What a path is matched by from its first part with a dot on: `.config/gh/hosts.yml`."""
    return any_glob(
        f"{glob.lower()}{rest}" for glob in secret_places()["home"] if glob[0] == "." for rest in ("", "/*")
    )
