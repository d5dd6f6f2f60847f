"""Which hooks there are: folders with HOOK.md and handler.py, from five sources, and whether each may run.

Sources from the lowest to the highest: packages (entry points of the group `clawbot.hooks`), the folders of
`hooks.dirs`, those shipped, the user's own. A higher one replaces a hook of the same name. What lies in a workspace,
where the agent itself may write, replaces nothing and runs only when the user switches it on by name (reference sheet
11.3).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, shipped
from clawbot.config.schema_hooks import HookSettings
from clawbot.extensions import BrokenExtension, installed
from clawbot.hooks.loading import HANDLER_FILE
from clawbot.hooks.manifest import HOOK_FILE, Manifest, ManifestError, Requires, parse_manifest

GROUP = "clawbot.hooks"
FOLDER = "hooks"
"""The name of a folder of hooks, in the installation and in a workspace."""


def _folder(point: EntryPoint) -> Path:
    """The folder that a package calls a hook."""
    if point.attr:
        return Path(os.fspath(point.load()))
    spec = importlib.util.find_spec(point.module)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {point.module!r}")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec.origin is None:
        raise ImportError(f"{point.module} has no folder")
    return Path(spec.origin).parent


_SYSTEMS = {"win32": "windows", "macos": "darwin", "mac": "darwin", "osx": "darwin"}


def missing(manifest: Manifest, given: Mapping[str, str], system: str = sys.platform) -> tuple[str, ...]:
    """What `manifest` requires and is not there, as phrases: `bin: gh`, `any bin: rg, grep`, `env: GITHUB_TOKEN`,
    `python: requests`, `os: darwin`. `given` are the variables that the hook's own entry sets, `system` is the name
    that `sys.platform` has. Looks at PATH and at the installed packages: blocks."""
    return () if manifest.always else tuple(_missing(manifest.requires, given, _system(system)))


def _missing(requires: Requires, given: Mapping[str, str], system: str) -> Iterator[str]:
    if requires.os and system not in {_system(name) for name in requires.os}:
        yield f"os: {' or '.join(requires.os)}"
    path = given.get("PATH")
    yield from (f"bin: {name}" for name in requires.bins if shutil.which(name, path=path) is None)
    if requires.any_bins and not any(shutil.which(name, path=path) for name in requires.any_bins):
        yield f"any bin: {', '.join(requires.any_bins)}"
    yield from (f"env: {name}" for name in requires.env if not (given.get(name) or os.environ.get(name)))
    yield from (f"python: {name}" for name in requires.python if not _installed(name))


def _system(name: str) -> str:
    return _SYSTEMS.get(name.lower(), name.lower())


def _installed(name: str) -> bool:
    """Whether `name` can be imported, or is a distribution: people write `yaml` and `pyyaml`."""
    with contextlib.suppress(ImportError, ValueError):
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return True
    with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
        importlib.metadata.distribution(name)
        return True
    return False


Source = Literal["shipped", "home", "dir", "package", "workspace"]

MOST_HOOKS = 1000
"""Entries of one folder that are looked at."""
LARGEST_HOOK_FILE = 256 * 1024
"""Bytes of a HOOK.md that are still a description."""
_PRECEDENCE: tuple[Source, ...] = ("package", "dir", "shipped", "home", "workspace")
_FILES = (HOOK_FILE, HANDLER_FILE)
# What a hook on disk can make of the questions about it: a loop of links is a RuntimeError, a half character in the
# name of a program a ValueError. A workspace is written by the agent, and must keep no program from starting.
_UNUSABLE = (OSError, RuntimeError, ValueError)
_logger = logging.getLogger("clawbot.hooks")


class HookPaths(Struct, frozen=True):
    """The folders in which hooks lie: `home` is `hooks` in the state folder, `workspace` is `hooks` in a workspace;
    each of `dirs` may also be a single hook. `packages`: whether installed packages are asked."""

    shipped: Path | None
    home: Path
    dirs: tuple[Path, ...] = ()
    workspace: Path | None = None
    packages: bool = True


def hook_paths(paths: Paths, settings: HookSettings, workspace: Path) -> HookPaths:
    """Where the hooks of an agent with the folder `workspace` lie. Raises ConfigError when the installation lacks the
    shipped ones."""
    return HookPaths(shipped=shipped(FOLDER), home=paths.hooks, dirs=tuple(settings.dirs), workspace=workspace / FOLDER)


class FoundHook(Struct, frozen=True):
    """A hook and whether it may run. `missing` are unmet requirements, `problem` says why it can never run as it is,
    `settings` is what its entry holds for itself, `env` the variables for its process. With a problem, `manifest` may
    hold the name alone."""

    name: str
    folder: Path
    source: Source
    manifest: Manifest
    enabled: bool
    missing: tuple[str, ...] = ()
    problem: str = ""
    settings: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}

    @property
    def ready(self) -> bool:
        """Whether it runs at its events."""
        return self.enabled and not self.missing and not self.problem


def discover(paths: HookPaths, settings: HookSettings) -> list[FoundHook]:
    """All hooks, in the order in which they run. Reads folders and imports of packages what they name: blocks. A hook
    that cannot be used is in the list with its `problem`."""
    chosen: dict[str, FoundHook] = {}
    unused: list[FoundHook] = []
    for hook in _all(paths, settings):
        other = chosen.get(hook.name)
        if other is None or hook.source not in {"workspace", other.source}:
            chosen[hook.name] = hook
        else:
            unused.append(msgspec.structs.replace(hook, problem=f"there is a hook {hook.name} already: {other.folder}"))
    return sorted([*chosen.values(), *unused], key=_place)


def _place(hook: FoundHook) -> tuple[int, int, str, str]:
    return hook.manifest.order, _PRECEDENCE.index(hook.source), hook.name, str(hook.folder)


def _all(paths: HookPaths, settings: HookSettings) -> Iterator[FoundHook]:
    """What is found, from the lowest source to the highest. Of two in one source, the first one counts."""
    for extension in installed(GROUP) if paths.packages else ():
        folder = extension.use(_folder)
        if isinstance(folder, BrokenExtension):
            yield _found(Path(), "package", settings, name=folder.name, problem=folder.problem)
        else:
            yield _found(folder, "package", settings, name=extension.name)
    # Of two folders in the settings the later one counts.
    places: tuple[tuple[Source, Iterable[Path | None]], ...] = (
        ("dir", reversed(paths.dirs)),
        ("shipped", [paths.shipped]),
        ("home", [paths.home]),
        ("workspace", [paths.workspace]),
    )
    for source, folders in places:
        for folder in _hook_folders(filter(None, folders)):
            yield _found(folder, source, settings)


def _hook_folders(places: Iterable[Path]) -> Iterator[Path]:
    """The folders that are hooks, or were meant to be: of each place itself or what lies in it, by name."""
    for place in places:
        try:
            if _looks_like_hook(place):
                yield place
                continue
            inside = list(itertools.islice(place.iterdir(), MOST_HOOKS + 1)) if place.is_dir() else []
        except OSError as error:
            _logger.warning("hooks in %s are not found: %s", place, error)
            continue
        if len(inside) > MOST_HOOKS:
            _logger.warning("hooks in %s: there are more than %d entries, and the rest was left out", place, MOST_HOOKS)
        yield from (
            each
            for each in sorted(inside[:MOST_HOOKS])
            if not each.name.startswith((".", "_")) and _looks_like_hook(each)
        )


def _looks_like_hook(folder: Path) -> bool:
    """Whether one of the files of a hook is there, or can't be told to be missing."""
    try:
        return any(folder.joinpath(name).is_symlink() or folder.joinpath(name).is_file() for name in _FILES)
    except OSError:
        return True


def _found(folder: Path, source: Source, settings: HookSettings, *, name: str = "", problem: str = "") -> FoundHook:
    manifest = Manifest(name=name or folder.name)
    lacking: tuple[str, ...] = ()
    try:
        if not problem:
            _check_folder(folder, source)
            manifest = _manifest(folder, source)
            lacking = missing(manifest, settings.entry(manifest.name).env)
    except (ManifestError, *_UNUSABLE) as error:
        problem = str(error)
    entry = settings.entry(manifest.name)
    if entry.timeout is not None:
        manifest = msgspec.structs.replace(manifest, timeout=entry.timeout)
    usual = source != "workspace" and manifest.default
    return FoundHook(
        name=manifest.name,
        folder=folder,
        source=source,
        manifest=manifest,
        enabled=settings.enabled and (usual if entry.enabled is None else entry.enabled),
        missing=lacking,
        problem=problem,
        settings=entry.own,
        env=entry.env,
    )


def _manifest(folder: Path, source: Source) -> Manifest:
    manifest = parse_manifest(_read(folder / HOOK_FILE), folder.name)
    if source == "workspace" and manifest.name != folder.name:
        # The agent may write new folders there: none of them may pass for the hook that the user has switched on.
        raise ManifestError(f"{HOOK_FILE}: in a workspace a hook has the name of its folder, not {manifest.name!r}")
    return manifest


def _check_folder(folder: Path, source: Source) -> None:
    """Raises ManifestError when a file is missing or, by its real path, elsewhere. The user may link to a folder of
    hooks; what lies in a workspace stays in it."""
    real = folder.resolve()
    if source == "workspace" and not real.is_relative_to(folder.parent.resolve()):
        raise ManifestError(f"the folder is a link to {real}, outside the workspace's hooks")
    for name in _FILES:
        file = folder.joinpath(name)
        if not file.resolve().is_relative_to(real):
            raise ManifestError(f"{name} is a link to {file.resolve()}, outside the folder of the hook")
        if not file.is_file():
            raise ManifestError(f"there is no {name} in {folder}")


def _read(file: Path) -> str:
    with file.open("rb") as stream:
        data = stream.read(LARGEST_HOOK_FILE + 1)
    if len(data) > LARGEST_HOOK_FILE:
        raise ManifestError(f"{HOOK_FILE}: larger than {LARGEST_HOOK_FILE // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{HOOK_FILE} line {line}: is not UTF-8") from None
