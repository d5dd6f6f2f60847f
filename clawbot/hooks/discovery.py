"""Finds hooks (folders with HOOK.md and handler.py) in five sources, reads their HOOK.md, and decides whether each may
run.

Sources from lowest to highest priority: packages (entry points of the group `clawbot.hooks`), the folders of
`hooks.dirs`, the shipped hooks, the user's own. A higher one replaces a hook of the same name. Hooks in a workspace,
where the agent itself can write, replace nothing and run only as the user enabled them: in this folder with this
content, or by name in the settings file.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, get_args

import msgspec

from clawbot.config.paths import Paths, shipped
from clawbot.config.schema_extensions import HookSettings
from clawbot.config.switches import NOTHING, Switches, adopt, read_switches
from clawbot.entry_points import BrokenExtension, Extension, installed
from clawbot.extensions.discovery import Found, trusted
from clawbot.extensions.manifest import (
    UNUSABLE,
    BaseManifest,
    ManifestError,
    Source,
    as_list,
    check_folder,
    manifest_folders,
    manifest_text,
    parse_head,
    read_manifest,
    readable,
)
from clawbot.hooks.events import AnyEvent
from clawbot.hooks.loading import CHANGED, HANDLER_FILE, HOOK_FILE, code_digest
from clawbot.text.interface import N_, _

DEFAULT_ORDER = 100
NAME_RULE = "a name is made of a-z, 0-9, _ and -, and begins with a letter or digit"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OPEN_FAMILY = "schedule"  # followed by a name from the user's jobs


class Manifest(BaseManifest, frozen=True):
    """The head of a HOOK.md. `timeout` is in seconds, None for the default; hooks run in ascending `order`; with
    `default` false it runs only when enabled in the settings; with `idle_without` only while one of these settings of
    its own is set."""

    events: tuple[str, ...] = ()
    timeout: float | None = None
    order: int = DEFAULT_ORDER
    homepage: str = ""
    emoji: str = ""
    default: bool = True
    idle_without: tuple[str, ...] = ()

    def wants(self, topic: str) -> bool:
        """Return whether the hook is subscribed to `topic`, by name or by family."""
        while topic and topic not in self.events:
            topic = topic.rpartition(":")[0]
        return bool(topic)


def parse_manifest(text: str, folder: str) -> Manifest:
    """Return the head of the HOOK.md `text`; `folder` is the default name. Raises ManifestError."""
    head = parse_head(text, HOOK_FILE).values
    for key in {"events", "idle_without"} & head.keys():
        head[key] = as_list(head[key])
    try:
        manifest = msgspec.convert({"name": folder, **head}, Manifest)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{HOOK_FILE}: {readable(error)}") from None
    _check(manifest)
    return manifest


def _topics() -> Iterable[str]:
    for event in get_args(AnyEvent):
        topic = str(event.__struct_config__.tag)
        yield topic
        while ":" in topic:
            topic = topic.rpartition(":")[0]
            yield topic


TOPICS = tuple(sorted(set(_topics())))
"""Valid `events`: every topic and every family. `schedule:ANYTHING` is valid too."""


def _check(manifest: Manifest) -> None:
    if not _NAME.fullmatch(manifest.name):
        raise ManifestError(f"{HOOK_FILE}: {NAME_RULE}; {manifest.name!r} is none")
    if manifest.timeout is not None and not 0 < manifest.timeout < float("inf"):
        raise ManifestError(f"{HOOK_FILE}: timeout: expected seconds, more than 0")
    if not manifest.events:
        raise ManifestError(f"{HOOK_FILE}: events: expected at least one, as in `events: command:new`")
    for topic in manifest.events:
        if topic not in TOPICS and not topic.startswith(f"{_OPEN_FAMILY}:"):
            nearest = get_close_matches(topic, TOPICS, 1, 0.0)[0]
            raise ManifestError(f"{HOOK_FILE}: events: there is no {topic!r}; did you mean {nearest!r}?")


GROUP = "clawbot.hooks"
GUARDED = "tool:before"
"""The topic at which a required hook must run."""
ABSENT = "hooks.entries requires it, and no hook has this name"
FOLDER = "hooks"
"""The name of the hook folder in the installation and in a workspace."""


def _folder(point: EntryPoint) -> Path:
    """Return the folder that a package's entry point names."""
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


_PRECEDENCE: tuple[Source, ...] = ("package", "dir", "shipped", "home", "workspace")
_FILES = (HOOK_FILE, HANDLER_FILE)
# Of OpenClaw's hooks.
_JAVASCRIPT = ("handler.ts", "handler.js", "handler.mjs", "index.ts", "index.js")
_OTHER_LANGUAGE = N_("{file} is JavaScript of OpenClaw; hooks here are Python (docs/writing-hooks.md)")


def _check_language(folder: Path) -> None:
    """Raise ManifestError for a hook of OpenClaw, which has no handler.py."""
    other = next((name for name in _JAVASCRIPT if (folder / name).is_file()), "")
    if other and not (folder / HANDLER_FILE).exists():
        raise ManifestError(_(_OTHER_LANGUAGE).format(file=other))


def find_hooks(paths: Paths, settings: HookSettings, workspace: Path, switches: Switches) -> list[FoundHook]:
    """All hooks of an agent with the folder `workspace`, as `discover` returns them. Raises ConfigError if the shipped
    hooks are missing from the installation."""
    # A later folder in the settings takes precedence.
    dirs: list[tuple[Source, Path]] = [("dir", folder) for folder in reversed(settings.dirs)]
    folders: list[tuple[Source, Path]] = [("home", paths.hooks), ("shipped", shipped(FOLDER)), *dirs]
    return discover([*folders, ("workspace", workspace / FOLDER)], settings, switches, installed(GROUP))


class FoundHook(Found[Manifest], frozen=True):
    """A hook and whether it may run. `settings` are its own settings from the config, `env` the variables for its
    process. `required`: no tool call passes without it."""

    kind = "hook"
    unknown = "There is no hook {name!r}."
    listing = "`clawbot hooks list` shows all."
    changed_text = CHANGED

    settings: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    required: bool = False

    def data(self) -> dict[str, Any]:
        return {**super().data(), "events": list(self.manifest.events)}

    @property
    def blocked(self) -> bool:
        """Whether the user wants it, and it can't run. One for another system is not wanted."""
        elsewhere = not self.problem and all(phrase.startswith("os: ") for phrase in self.missing)
        return not self.ready and (self.required or (self.enabled and not elsewhere))

    def runs_at(self, topic: str) -> bool:
        """Whether it is called at `topic`: it is ready, subscribed, and its settings give it something to do. One that
        is required and can't run is called before tools, and fails."""
        if not self.ready:
            return self.required and topic == GUARDED
        needed = self.manifest.idle_without
        has_work = not needed or any(self.settings.get(name) for name in needed)
        return has_work and self.manifest.wants(topic)


def discover(
    folders: Sequence[tuple[Source, Path]],
    settings: HookSettings,
    switches: Switches = NOTHING,
    packages: Iterable[Extension] = (),
) -> list[FoundHook]:
    """All hooks in the order in which they run, including unusable ones with their `problem`. Each of `folders`, from
    the highest source to the lowest, is a folder with hooks, or a hook; `switches` trust those of workspaces. Reads
    folders and imports `packages`: blocks."""
    found = [_found(folder, source, settings, switches) for source, folder in manifest_folders(folders, _FILES)]
    found += [_of_package(extension, settings) for extension in packages]
    found = list(_chosen(sorted(found, key=lambda hook: hook.source == "workspace")))
    names = {hook.name for hook in found}
    absent = [name for name, entry in settings.named().items() if entry.required and name not in names]
    found += [_found(dict(folders)["home"] / name, "home", settings, name=name, problem=ABSENT) for name in absent]
    if not settings.enabled:
        found = [msgspec.structs.replace(hook, enabled=False) for hook in found]
    rank = _PRECEDENCE.index
    return sorted(found, key=lambda hook: (hook.manifest.order, rank(hook.source), hook.name, str(hook.folder)))


def _chosen(hooks: Iterable[FoundHook]) -> Iterator[FoundHook]:
    """`hooks` without those that one of a higher source replaces; of others with the same name the first one runs."""
    chosen: dict[str, FoundHook] = {}
    for hook in hooks:
        first = chosen.setdefault(hook.name, hook)
        if first is hook:
            yield hook
        elif hook.source in ("workspace", first.source):
            wanted = hook.enabled and hook.source != "workspace"
            yield msgspec.structs.replace(hook, problem=first.taken, enabled=wanted, required=False)


def _of_package(extension: Extension, settings: HookSettings) -> FoundHook:
    folder = extension.use(_folder)
    if isinstance(folder, BrokenExtension):
        return _found(Path(), "package", settings, name=folder.name, problem=folder.problem)
    return _found(folder, "package", settings, name=extension.name)


def _found(
    folder: Path,
    source: Source,
    settings: HookSettings,
    switches: Switches = NOTHING,
    *,
    name: str = "",
    problem: str = "",
) -> FoundHook:
    manifest, digest = Manifest(name=name or folder.name), ""
    missing: tuple[str, ...] = ()
    try:
        if not problem:
            _check_language(folder)
            check_folder(folder, _FILES, in_workspace=source == "workspace")
            manifest = _manifest(folder, source)
            missing = manifest.unmet(settings.entry(manifest.name).env)
            digest = code_digest(folder) if source == "workspace" else ""
    except (ManifestError, *UNUSABLE) as error:
        problem = str(error)
    entry = settings.entry(manifest.name)
    if entry.timeout is not None:
        manifest = msgspec.structs.replace(manifest, timeout=entry.timeout)
    hook = FoundHook(
        name=manifest.name,
        folder=folder,
        source=source,
        manifest=manifest,
        enabled=manifest.default if entry.enabled is None else entry.enabled,
        missing=missing,
        problem=problem,
        digest=digest,
        settings=entry.own,
        env=entry.env,
        # Events that can't be read may be these.
        required=entry.required and (not manifest.events or manifest.wants(GUARDED)),
    )
    return trusted(hook, switches, entry.enabled) if source == "workspace" else hook


def _manifest(folder: Path, source: Source) -> Manifest:
    manifest = parse_manifest(manifest_text(read_manifest(folder / HOOK_FILE), HOOK_FILE), folder.name)
    if source == "workspace" and manifest.name != folder.name:
        # The agent can create folders there: none may impersonate the hook that the user has enabled.
        raise ManifestError(f"{HOOK_FILE}: in a workspace a hook has the name of its folder, not {manifest.name!r}")
    return manifest


def trusted_hooks(file: Path, workspaces: Iterable[Path]) -> Switches:
    """What hooks.json switches and trusts.

    Where that is of the time when names alone decided, the hooks that it enables in `workspaces` are trusted as they
    are now, and no other from then on. Raises ConfigError. Blocks.
    """
    known = read_switches(file)
    if known.trusted is None:
        return adopt(file, dict(_enabled_by_name(known.enabled, workspaces)))
    return known


def _enabled_by_name(enabled: Mapping[str, bool], workspaces: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for workspace in workspaces:
        for name in (name for name, on in enabled.items() if on and Path(name).name == name):
            folder = workspace / FOLDER / name
            try:
                if folder.is_dir():
                    yield os.path.realpath(folder), code_digest(folder)
            except UNUSABLE:
                continue
