"""Which hooks there are: folders with HOOK.md and handler.py, from five sources, and whether each may run.

Sources from the lowest to the highest: packages, the folders of `hooks.dirs`, those shipped, the user's own. A higher
one replaces a hook of the same name. What lies in a workspace, where the agent itself may write, replaces nothing and
runs only when the user switches it on by name (reference sheet 11.3).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clawbot.config.schema_hooks import HookSettings
from clawbot.hooks.loading import HANDLER_FILE
from clawbot.hooks.manifest import HOOK_FILE, Manifest, ManifestError, parse_manifest
from clawbot.hooks.packages import packaged_hooks
from clawbot.hooks.requirements import missing

Source = Literal["shipped", "home", "dir", "package", "workspace"]

LARGEST_HOOK_FILE = 256 * 1024
"""Bytes of a HOOK.md that are still a description."""
_PRECEDENCE: tuple[Source, ...] = ("package", "dir", "shipped", "home", "workspace")
_FILES = (HOOK_FILE, HANDLER_FILE)
# What a hook on disk can make of the questions about it: a loop of links is a RuntimeError, a half character in the
# name of a program a ValueError. A workspace is written by the agent, and must keep no program from starting.
_UNUSABLE = (OSError, RuntimeError, ValueError)
_logger = logging.getLogger("clawbot.hooks")


class Places(Struct, frozen=True):
    """The folders in which hooks lie: `home` is `hooks` in the state folder, `workspace` is `hooks` in a workspace;
    each of `dirs` may also be a single hook. `packages`: whether installed packages are asked."""

    shipped: Path | None
    home: Path
    dirs: tuple[Path, ...] = ()
    workspace: Path | None = None
    packages: bool = True


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


def discover(places: Places, settings: HookSettings) -> list[FoundHook]:
    """All hooks, in the order in which they run. Reads folders and imports of packages what they name: blocks. A hook
    that cannot be used is in the list with its `problem`."""
    chosen: dict[str, FoundHook] = {}
    unused: list[FoundHook] = []
    for hook in _all(places, settings):
        other = chosen.get(hook.name)
        if other is None or hook.source not in {"workspace", other.source}:
            chosen[hook.name] = hook
        else:
            unused.append(msgspec.structs.replace(hook, problem=f"there is a hook {hook.name} already: {other.folder}"))
    return sorted([*chosen.values(), *unused], key=_place)


def _place(hook: FoundHook) -> tuple[int, int, str, str]:
    return hook.manifest.order, _PRECEDENCE.index(hook.source), hook.name, str(hook.folder)


def _all(places: Places, settings: HookSettings) -> Iterator[FoundHook]:
    """What is found, from the lowest source to the highest. Of two in one source, the first one counts."""
    for packaged in packaged_hooks() if places.packages else ():
        yield _found(packaged.folder, "package", settings, name=packaged.name, problem=packaged.problem)
    # Of two folders in the settings the later one counts.
    for folder in _hook_folders(reversed(places.dirs)):
        yield _found(folder, "dir", settings)
    for folder in _hook_folders([places.shipped] if places.shipped else []):
        yield _found(folder, "shipped", settings)
    for folder in _hook_folders([places.home]):
        yield _found(folder, "home", settings)
    for folder in _hook_folders([places.workspace] if places.workspace else []):
        yield _found(folder, "workspace", settings)


def _hook_folders(places: Iterable[Path]) -> Iterator[Path]:
    """The folders that are hooks, or were meant to be: of each place itself or what lies in it, by name."""
    for place in places:
        try:
            if _looks_like_hook(place):
                yield place
                continue
            inside = sorted(place.iterdir()) if place.is_dir() else []
        except OSError as error:
            _logger.warning("hooks in %s are not found: %s", place, error)
            continue
        yield from (each for each in inside if not each.name.startswith((".", "_")) and _looks_like_hook(each))


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
