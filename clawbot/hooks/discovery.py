"""Finds hooks (folders with HOOK.md and handler.py) in five sources, and decides whether each may run.

Sources from lowest to highest priority: packages (entry points of the group `clawbot.hooks`), the folders of
`hooks.dirs`, the shipped hooks, the user's own. A higher one replaces a hook of the same name. Hooks in a workspace,
where the agent itself can write, replace nothing and run only as the user enabled them: in this folder with this
content, or by name in the settings file.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, shipped
from clawbot.config.schema_hooks import HookSettings
from clawbot.entry_points import BrokenExtension, installed
from clawbot.extensions.manifest import (
    UNUSABLE,
    ManifestError,
    check_folder,
    manifest_folders,
    manifest_text,
    read_manifest,
    unmet,
)
from clawbot.hooks.loading import CHANGED, HANDLER_FILE, HOOK_FILE, code_digest
from clawbot.hooks.manifest import Manifest, parse_manifest
from clawbot.hooks.trust import BY_NAME, NOTHING, Trust

GROUP = "clawbot.hooks"
GUARDED = "tool:before"
"""The topic at which a required hook must run."""
ABSENT = "hooks.entries requires it, and no hook has this name"
FOLDER = "hooks"
"""The name of the hook folder in the installation and in a workspace."""


def _folder(point: EntryPoint) -> Path:
    """The folder that a package's entry point names."""
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


def missing(manifest: Manifest, given: Mapping[str, str], system: str = sys.platform) -> tuple[str, ...]:
    """What `unmet` says of `manifest`; nothing if it ignores that. `given` are the variables set by the hook's config
    entry. Blocks."""
    return () if manifest.always else unmet(manifest.requires, given, system)


Source = Literal["shipped", "home", "dir", "package", "workspace"]

_PRECEDENCE: tuple[Source, ...] = ("package", "dir", "shipped", "home", "workspace")
_FILES = (HOOK_FILE, HANDLER_FILE)


class HookPaths(Struct, frozen=True):
    """The folders with hooks: `home` is `hooks` in the state folder, `workspace` is `hooks` in a workspace; each of
    `dirs` may also be a single hook. `packages`: whether installed packages are searched."""

    shipped: Path | None
    home: Path
    dirs: tuple[Path, ...] = ()
    workspace: Path | None = None
    packages: bool = True


def hook_paths(paths: Paths, settings: HookSettings, workspace: Path) -> HookPaths:
    """The hook folders of an agent with the folder `workspace`. Raises ConfigError if the shipped hooks are missing
    from the installation."""
    return HookPaths(shipped=shipped(FOLDER), home=paths.hooks, dirs=tuple(settings.dirs), workspace=workspace / FOLDER)


class FoundHook(Struct, frozen=True):
    """A hook and whether it may run. `missing` are unmet requirements, `problem` says why it can't run at all,
    `settings` are its own settings from the config, `env` the variables for its process. With a problem, `manifest` may
    contain only the name. Of one in a workspace `digest` is that of its code, and `off_because` says why it is off
    although the user switched it on. `required`: no tool call passes without it."""

    name: str
    folder: Path
    source: Source
    manifest: Manifest
    enabled: bool
    missing: tuple[str, ...] = ()
    problem: str = ""
    settings: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    digest: str = ""
    off_because: str = ""
    required: bool = False

    @property
    def changed(self) -> bool:
        """Whether it is another one than the user enabled."""
        return self.off_because == CHANGED

    @property
    def ready(self) -> bool:
        """Whether it runs at its events."""
        return self.enabled and not self.missing and not self.problem

    @property
    def blocked(self) -> bool:
        """Whether the user wants it, and it can't run. One for another system is not wanted."""
        elsewhere = not self.problem and all(phrase.startswith("os: ") for phrase in self.missing)
        return not self.ready and (self.required or (self.enabled and not elsewhere))

    @property
    def reason(self) -> str:
        """Why it does not run; "" if it does."""
        off = "" if self.enabled or self.problem else f"off: {self.off_because}".removesuffix(": ")
        missing = f"missing {', '.join(self.missing)}" if self.missing else ""
        return "; ".join(filter(None, (off, self.problem, missing)))

    def hears(self, topic: str) -> bool:
        """Whether it is called at `topic`: it is ready, subscribed, and its settings give it something to do. One that
        is required and can't run is called before tools, and fails."""
        if not self.ready:
            return self.required and topic == GUARDED
        needed = self.manifest.idle_without
        has_work = not needed or any(self.settings.get(name) for name in needed)
        return has_work and self.manifest.wants(topic)


def discover(paths: HookPaths, settings: HookSettings, trusted: Trust = NOTHING) -> list[FoundHook]:
    """All hooks in the order in which they run, including unusable ones with their `problem`. `trusted` are those of
    workspaces. Reads folders and imports hook packages: blocks."""
    chosen: dict[str, FoundHook] = {}
    unused: list[FoundHook] = []
    for hook in _all(paths, settings, trusted):
        other = chosen.get(hook.name)
        if other is None or hook.source not in {"workspace", other.source}:
            chosen[hook.name] = hook
        else:
            problem = f"there is a hook {hook.name} already: {other.folder}"
            wanted = hook.enabled and hook.source != "workspace"
            unused.append(msgspec.structs.replace(hook, problem=problem, enabled=wanted, required=False))
    absent = [name for name, entry in settings.named().items() if entry.required and name not in chosen]
    unused += [_found(paths.home / name, "home", settings, name=name, problem=ABSENT) for name in absent]
    return sorted([*chosen.values(), *unused], key=_place)


def _place(hook: FoundHook) -> tuple[int, int, str, str]:
    return hook.manifest.order, _PRECEDENCE.index(hook.source), hook.name, str(hook.folder)


def _all(paths: HookPaths, settings: HookSettings, trusted: Trust) -> Iterator[FoundHook]:
    """The hooks from the lowest source to the highest. Within a source the first of a name wins."""
    for extension in installed(GROUP) if paths.packages else ():
        folder = extension.use(_folder)
        if isinstance(folder, BrokenExtension):
            yield _found(Path(), "package", settings, name=folder.name, problem=folder.problem)
        else:
            yield _found(folder, "package", settings, name=extension.name)
    # A later folder in the settings takes precedence.
    places: tuple[tuple[Source, Iterable[Path | None]], ...] = (
        ("dir", reversed(paths.dirs)),
        ("shipped", [paths.shipped]),
        ("home", [paths.home]),
    )
    for source, folders in places:
        for folder in manifest_folders(filter(None, folders), _FILES):
            yield _found(folder, source, settings)
    for folder in manifest_folders(filter(None, [paths.workspace]), _FILES):
        yield _of_workspace(_found(folder, "workspace", settings), settings, trusted)


def _of_workspace(hook: FoundHook, settings: HookSettings, trusted: Trust) -> FoundHook:
    """`hook` with whether it may run: only if its folder is trusted with its content, or the settings file names it."""
    digest, problem = "", hook.problem
    try:
        digest = "" if problem else code_digest(hook.folder)
    except UNUSABLE as error:
        problem = str(error)
    by_name, known = settings.entry(hook.name).enabled, trusted.folders.get(os.path.realpath(hook.folder))
    named = by_name is True and hook.name not in trusted.switched
    # What the user trusted and what can't be read any more is broken rather than off.
    may_run = named or (known is not None and (bool(problem) or known == digest))
    wanted = by_name is not False and (bool(digest) or may_run)
    return msgspec.structs.replace(
        hook,
        enabled=settings.enabled and wanted and may_run,
        digest="" if named else digest,
        problem=problem,
        off_because="" if not wanted or may_run else CHANGED if known else BY_NAME if by_name else "",
    )


def _found(folder: Path, source: Source, settings: HookSettings, *, name: str = "", problem: str = "") -> FoundHook:
    manifest = Manifest(name=name or folder.name)
    lacking: tuple[str, ...] = ()
    try:
        if not problem:
            check_folder(folder, _FILES, in_workspace=source == "workspace")
            manifest = _manifest(folder, source)
            lacking = missing(manifest, settings.entry(manifest.name).env)
    except (ManifestError, *UNUSABLE) as error:
        problem = str(error)
    entry = settings.entry(manifest.name)
    if entry.timeout is not None:
        manifest = msgspec.structs.replace(manifest, timeout=entry.timeout)
    return FoundHook(
        name=manifest.name,
        folder=folder,
        source=source,
        manifest=manifest,
        enabled=settings.enabled and (manifest.default if entry.enabled is None else entry.enabled),
        missing=lacking,
        problem=problem,
        settings=entry.own,
        env=entry.env,
        # Events that can't be read may be these.
        required=entry.required and (not manifest.events or manifest.wants(GUARDED)),
    )


def _manifest(folder: Path, source: Source) -> Manifest:
    manifest = parse_manifest(manifest_text(read_manifest(folder / HOOK_FILE), HOOK_FILE), folder.name)
    if source == "workspace" and manifest.name != folder.name:
        # The agent can create folders there: none may impersonate the hook that the user has enabled.
        raise ManifestError(f"{HOOK_FILE}: in a workspace a hook has the name of its folder, not {manifest.name!r}")
    return manifest
