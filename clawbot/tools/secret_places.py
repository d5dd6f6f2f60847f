"""Where secrets lie by custom: one list for what a command in the sandbox can't see, for what a command that only reads
asks about, and for the line of risks. The places are in `secret_places.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import translate
from functools import cache
from pathlib import Path

from msgspec import Struct

from clawbot.text.names import fold_name
from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table

_BETWEEN = lazy_re(r"[\s\"'=@~:;,()<>|&]+")


class SecretPlaces(Struct, frozen=True, forbid_unknown_fields=True):
    """The lists of `secret_places.toml`."""

    home: tuple[str, ...]
    system: tuple[str, ...]
    env_files: tuple[str, ...]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    public: tuple[str, ...]
    xdg_folders: dict[str, str]


@cache
def secret_places() -> SecretPlaces:
    """The places. Blocks at the first call."""
    return packaged_table("clawbot.tools", "secret_places.toml", SecretPlaces)


@cache
def _fitting(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, globs)))


def is_env_file(name: str) -> bool:
    """Whether `name` is that of a file with variables of a project, which hold its keys by custom."""
    return _is_listed(name, secret_places().env_files)


def is_secret_file(name: str) -> bool:
    """Whether `name` is that of a file in a project that holds keys, passwords or variables by custom."""
    return _is_listed(name, secret_places().env_files + secret_places().files)


def is_secret_folder(name: str) -> bool:
    """Whether `name` is that of a folder in a project that holds keys by custom."""
    return fold_name(name) in secret_places().folders


def is_secret_path(path: str) -> bool:
    """Whether `path` names a secret file or folder, or leads into a place of the home that holds secrets."""
    parts = [fold_name(part) for part in path.split("/") if part]
    if any(is_secret_file(part) or is_secret_folder(part) for part in parts):
        return True
    dotted = (at for at, part in enumerate(parts) if part.startswith("."))
    return any(_below_home().match("/".join(parts[at:])) for at in dotted)


def mentions_secret(text: str) -> bool:
    """Whether a word of a command, which may be a text in quotes, names a secret place."""
    parts = [part for part in _BETWEEN.split(text) if part]
    paths = parts if len(parts) == 1 else [part for part in parts if "/" in part or part.startswith(".")]
    return any(is_secret_path(path) or _fitting(secret_places().system).match(path) for path in paths)


def secret_globs(homes: tuple[Path, ...], environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Folders with globs of secrets below them: in each of `homes`, and where `environment` has the folders of XDG."""
    globs = secret_places().home
    yield from ((home, glob) for home in homes for glob in globs)
    for variable, prefix in secret_places().xdg_folders.items():
        folder = Path(environment.get(variable, ""))
        if folder.is_absolute():
            yield from ((folder, glob.removeprefix(prefix)) for glob in globs if glob.startswith(prefix))


def _is_listed(name: str, globs: tuple[str, ...]) -> bool:
    folded = fold_name(name)
    return bool(_fitting(globs).match(folded)) and not _fitting(secret_places().public).match(folded)


@cache
def _below_home() -> re.Pattern[str]:
    """What a path is matched by from its first part with a dot on: `.config/gh/hosts.yml`."""
    globs = [glob.lower() for glob in secret_places().home if glob.startswith(".")]
    return _fitting((*globs, *(f"{glob}/*" for glob in globs)))
