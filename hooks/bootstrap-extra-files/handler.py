"""Adds configured files to the system prompt."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from clawbot.hooks import AgentBootstrap, Hook, InjectedFile, RefusedFileError, compile_glob, read_guarded

SETTINGS = ("paths", "patterns", "files")
NAMES = frozenset(
    f"{name}.md"
    for name in ("AGENTS", "SOUL", "TOOLS", "IDENTITY", "USER", "HEARTBEAT", "BOOTSTRAP", "MEMORY", "memory")
)
_PACKAGES = frozenset({"node_modules", "__pycache__", "venv"})
_WILD = frozenset("*?[{")
_DEEPEST = 64  # maximum folder depth


async def handle(event: AgentBootstrap) -> None:
    """Append the configured files to `event.files`, except those already in the prompt."""
    patterns = patterns_in(event.hook.settings)
    if patterns:
        known = {file.name for file in event.files}
        event.files += await asyncio.to_thread(_found, Path(event.workspace), patterns, known, event.hook)


def patterns_in(settings: Mapping[str, Any]) -> list[str]:
    """Return the globs of the settings, in order; each key holds one or a list."""
    values = [settings.get(key) or [] for key in SETTINGS]
    lists = [[value] if isinstance(value, str) else value for value in values]
    return [str(pattern) for patterns in lists for pattern in patterns]


def _found(workspace: Path, patterns: list[str], known: Collection[str], hook: Hook) -> list[InjectedFile]:
    names: dict[str, None] = {}
    for pattern in patterns:
        try:
            names.update(dict.fromkeys(matches(workspace, pattern)))
        except ValueError as problem:
            hook.log.warning("%r is ignored: %s", pattern, problem)
    files = []
    for name in names:
        if name in known or name.rpartition("/")[2] not in NAMES:
            continue
        try:
            text = read_guarded(workspace, name)
        except RefusedFileError as problem:
            hook.log.warning("%s is not in the prompt: it %s", name, problem)
            continue
        if text is not None and text.strip():
            files.append(InjectedFile(name=name, text=text))
    return files


def matches(root: Path, pattern: str) -> list[str]:
    """The files below `root` that match the glob `pattern`, as sorted relative paths. Blocks. Raises ValueError for a
    pattern that leaves `root` or is too long.

    Hidden folders, package folders and links are only entered if `pattern` names them. Names with unprintable
    characters never match.
    """
    parts = [part for part in pattern.strip().split("/") if part not in ("", ".")]
    if pattern.strip().startswith(("/", "~")) or ".." in parts or "\0" in pattern:
        raise ValueError("it must remain inside the workspace")
    named = {part for part in parts if _WILD.isdisjoint(part)}
    if len(named) == len(parts):
        return ["/".join(parts)] if parts and root.joinpath(*parts).is_file() else []
    fits = compile_glob("/".join(parts)).fits
    found: list[str] = []
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root)
        is_deep = len(below.parts) > _DEEPEST
        folders[:] = [] if is_deep else [name for name in folders if name in named or _is_meant(name)]
        paths = (str(below / name) for name in files if name in named or _is_meant(name))
        found += filter(fits, paths)
    return sorted(found)


def _is_meant(name: str) -> bool:
    return not name.startswith(".") and name not in _PACKAGES and name.isprintable()
