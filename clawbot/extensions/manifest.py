"""Folders that are described by a Markdown file with a YAML head (HOOK.md, SKILL.md): which there are, whether they are
complete, what its head holds, and which of its requirements are unmet.

Keys may be spelled `any_bins`, `any-bins` or `anyBins`; those below `metadata.openclaw` count too.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct

from clawbot.guarded import open_real

Source = Literal["shipped", "home", "dir", "package", "workspace"]
MAX_FOLDERS = 1000
"""The number of entries read from one folder."""
LARGEST_MANIFEST = 256 * 1024
"""Maximum size of a manifest in bytes."""
UNUSABLE = (OSError, RuntimeError, ValueError)
"""What checking a folder on disk may raise: RuntimeError for a loop of links, ValueError for a lone surrogate in a
program's name. The agent writes the workspace, and must not keep the program from starting."""

_FENCE = re.compile(r"---[ \t]*")
_LINE = re.compile(r"([A-Za-z][\w-]*)\s*:(.*)")
_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")
_SYSTEMS = {"win32": "windows", "macos": "darwin", "mac": "darwin", "osx": "darwin"}
_logger = logging.getLogger(__name__)


class ManifestError(Exception):
    """A manifest, or the folder around it, cannot be used; the text has path and reason."""


class Requires(Struct, frozen=True, forbid_unknown_fields=False):
    """Requirements: all of `bins`, `env` and `python`, any of `any_bins` and of `os`."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


class BaseManifest(Struct, frozen=True):
    """What the heads of all manifests have; `always` ignores unmet `requires`."""

    name: str
    description: str = ""
    requires: Requires = Requires()
    always: bool = False

    def needs(self, given: Mapping[str, str], system: str = sys.platform) -> dict[str, bool]:
        """Return whether each requirement is met, by phrases: `os: darwin`, `bin: gh`, `any bin: rg, grep`, `env:
        GITHUB_TOKEN`, `python: requests`. `given` are additional variables, `system` is `sys.platform`.
        Searches PATH and the installed packages: blocks."""
        wanted, path = self.requires, given.get("PATH")
        is_here = {name: shutil.which(name, path=path) is not None for name in (*wanted.bins, *wanted.any_bins)}
        found: dict[str, bool] = {}
        if wanted.os:
            found[f"os: {' or '.join(wanted.os)}"] = _system(system) in map(_system, wanted.os)
        found |= {f"bin: {name}": is_here[name] for name in wanted.bins}
        if wanted.any_bins:
            found[f"any bin: {', '.join(wanted.any_bins)}"] = any(is_here[name] for name in wanted.any_bins)
        found |= {f"env: {name}": bool(given.get(name) or os.environ.get(name)) for name in wanted.env}
        return found | {f"python: {name}": _installed(name) for name in wanted.python}

    def unmet(self, given: Mapping[str, str], system: str = sys.platform) -> tuple[str, ...]:
        """Return the phrases of the requirements that `needs` does not find; none if they are ignored."""
        return () if self.always else tuple(need for need, met in self.needs(given, system).items() if not met)


def _system(name: str) -> str:
    return _SYSTEMS.get(name.lower(), name.lower())


def _installed(name: str) -> bool:
    """Return whether `name` is importable or an installed distribution: people write both `yaml` and `pyyaml`."""
    with contextlib.suppress(ImportError, ValueError):
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return True
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        importlib.metadata.distribution(name)
        return True
    return False


# -- folders on disk ---------------------------------------------------------------------------------------------------


def manifest_folders(folders: Iterable[tuple[Source, Path]], files: Collection[str]) -> Iterator[tuple[Source, Path]]:
    """The folders that have one of `files`, valid or not: each of `folders` itself, or the entries in it, sorted by
    name. Blocks."""
    for source, folder in folders:
        try:
            if _has_one(folder, files):
                yield source, folder
                continue
            inside = list(itertools.islice(folder.iterdir(), MAX_FOLDERS + 1)) if folder.is_dir() else []
        except OSError as error:
            _logger.warning("%s can't be listed: %s", folder, error)
            continue
        if len(inside) > MAX_FOLDERS:
            _logger.warning("%s has more than %d entries; the rest is ignored", folder, MAX_FOLDERS)
        for each in sorted(inside[:MAX_FOLDERS]):
            if not each.name.startswith((".", "_")) and _has_one(each, files):
                yield source, each


def _has_one(folder: Path, files: Collection[str]) -> bool:
    """Return whether one of `files` exists in it, or can't be checked."""
    try:
        return any(folder.joinpath(name).is_symlink() or folder.joinpath(name).is_file() for name in files)
    except OSError:
        return True


def check_folder(folder: Path, files: Collection[str], *, in_workspace: bool) -> None:
    """Raise ManifestError if one of `files` is missing or resolves to a path elsewhere. The user may link to a folder;
    one in a workspace must remain inside it."""
    real = folder.resolve()
    if in_workspace and not real.is_relative_to(folder.parent.resolve()):
        raise ManifestError(f"the folder is a link to {real}, outside of {folder.parent}")
    for name in files:
        file = folder.joinpath(name)
        if not file.resolve().is_relative_to(real):
            raise ManifestError(f"{name} is a link to {file.resolve()}, outside its folder")
        if not file.is_file():
            raise ManifestError(f"there is no {name} in {folder}")


def read_manifest(file: Path) -> bytes:
    """Return the content of `file`. Raises ManifestError for a large one, OSError. Blocks."""
    with open_real(file) as stream:
        data = stream.read(LARGEST_MANIFEST + 1)
    if len(data) > LARGEST_MANIFEST:
        raise ManifestError(f"{file.name}: larger than {LARGEST_MANIFEST // 1024} KiB")
    return data


def manifest_text(data: bytes, name: str) -> str:
    """Return `data` as text. Raises ManifestError, which calls the file `name`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{name} line {line}: is not UTF-8") from None


# -- the head ----------------------------------------------------------------------------------------------------------


class Head(Struct, frozen=True):
    """The `values` of a manifest's head by their keys in snake_case, without empty ones, the `lines` of its keys, and
    the text of the `body` below it, from the line `body_line` on."""

    values: dict[str, Any]
    lines: dict[str, int]
    body: str
    body_line: int


def parse_head(text: str, name: str, *, by_line: bool = False) -> Head:
    """The head of the manifest `text`, called `name` in errors. `by_line`: a head that is no YAML is read line by line,
    and its key "" has the error. Raises ManifestError."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise ManifestError(f"{name} line 1: must be ---, the start of the YAML head")
    end = next((number for number, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise ManifestError(f"{name}: its YAML head has no end, a second line ---")
    try:
        head = _yaml(lines[1:end], name)
    except ManifestError as error:
        if not by_line:
            raise
        head = _by_line(lines[1:end]) | {"": str(error)}
    metadata = head.pop("metadata", None)
    family = metadata.get("openclaw") if isinstance(metadata, Mapping) else None
    joined = _joined(_snake(family) if isinstance(family, Mapping) else {}, _snake(head))
    numbers = {_snake_key(line.partition(":")[0]): at for at, line in enumerate(lines[:end], 1) if line[:1].strip()}
    return Head(_filled(joined), numbers, "\n".join(lines[end + 1 :]).rstrip("\n"), end + 2)


def readable(error: msgspec.ValidationError) -> str:
    """msgspec's message, which ends in the path: "Expected `int`, got `str` - at `$.order`"."""
    what, _, folder = str(error).partition(" - at `$")
    what = what.replace("`", "").replace("array", "list").replace("object", "mapping")
    return f"{folder.strip('.`')}: {what[:1].lower()}{what[1:]}" if folder else what


def as_list(value: Any) -> Any:
    """Return a single name as a list of one."""
    return [value] if isinstance(value, str) else value


def _yaml(lines: list[str], name: str) -> dict[Any, Any]:
    """Parse YAML without aliases: a few lines of them can expand beyond all memory, or refer to themselves."""
    # Keep the fence as an empty line, so that YAML's line numbers match an editor's.
    text = "\n".join(["", *lines])
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                where = _at(name, event.start_mark)
                raise ManifestError(f"{where}: an alias (*{event.anchor}) is not allowed here")
        head = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = _at(name, getattr(error, "problem_mark", None))
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        raise ManifestError(f"{where}: no YAML: {what}") from None
    if head is not None and not isinstance(head, dict):
        raise ManifestError(f"{name} line 2: expected keys with values, as in `description: what it does`")
    return head or {}


def _by_line(lines: list[str]) -> dict[Any, Any]:
    """Return the keys at the start of a line with what follows on it, and on lines that are indented below it."""
    found: dict[Any, Any] = {}
    key = ""
    for line in lines:
        if match := _LINE.match(line):
            key = match[1]
            found[key] = re.sub(r"^[>|][+-]?$", "", match[2].strip()).strip("\"'")
        elif key and line[:1].isspace():
            found[key] = f"{found[key]} {line.strip()}".strip()
    return found


def _at(name: str, mark: Any) -> str:
    return f"{name} line {mark.line + 1}" if mark is not None else name


def _snake(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return `value` with keys in snake_case, also in nested mappings."""
    return {_snake_key(str(key)): _snake(item) if isinstance(item, Mapping) else item for key, item in value.items()}


def _snake_key(key: str) -> str:
    return _CAMEL.sub(r"_\1", key.strip()).lower().replace("-", "_")


def _joined(family: dict[str, Any], head: dict[str, Any]) -> dict[str, Any]:
    """Merge both; the head's own keys win. The family may have `os` next to `requires`, and another name."""
    requires = [part.pop("requires", None) for part in (family, head)]
    if all(part is None or isinstance(part, dict) for part in requires):
        wanted: Any = {"os": family.pop("os", None) or []} | (requires[0] or {}) | (requires[1] or {})
    else:
        wanted = requires[1] if requires[1] is not None else requires[0]
    return family | head | {"requires": wanted}


def _filled(head: dict[str, Any]) -> dict[str, Any]:
    """Return `head` without empty keys, with single names of its requirements as lists."""
    filled = {key: value for key, value in head.items() if value is not None}
    if isinstance(filled["requires"], dict):
        filled["requires"] = {key: as_list(value) for key, value in filled["requires"].items() if value is not None}
    return filled
