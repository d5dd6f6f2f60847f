"""Adds files that the settings name to the system prompt (reference sheet 11.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from clawbot.hooks import AgentBootstrap, Hook, InjectedFile, RefusedFileError, read_guarded

from . import globs

SETTINGS = ("paths", "patterns", "files")
NAMES = frozenset(
    f"{name}.md"
    for name in ("AGENTS", "SOUL", "TOOLS", "IDENTITY", "USER", "HEARTBEAT", "BOOTSTRAP", "MEMORY", "memory")
)


async def handle(event: AgentBootstrap) -> None:
    """Add what the settings name, and is not in the prompt already, to `event.files`."""
    patterns = patterns_in(event.hook.settings)
    if patterns:
        known = {file.name for file in event.files}
        event.files += await asyncio.to_thread(_found, Path(event.workspace), patterns, known, event.hook)


def patterns_in(settings: Mapping[str, Any]) -> list[str]:
    """The globs of the settings, in their order; each of the keys holds one or a list."""
    values = [settings.get(key) or [] for key in SETTINGS]
    lists = [[value] if isinstance(value, str) else value for value in values]
    return [str(pattern) for patterns in lists for pattern in patterns]


def _found(workspace: Path, patterns: list[str], known: Collection[str], hook: Hook) -> list[InjectedFile]:
    names: dict[str, None] = {}
    for pattern in patterns:
        try:
            names.update(dict.fromkeys(globs.matches(workspace, pattern)))
        except ValueError as problem:
            hook.log.warning("%r is not looked for: %s", pattern, problem)
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
