"""hooks.json of the time when names alone decided which hooks of a workspace run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from clawbot.config.switches import Switches, adopt, read_switches
from clawbot.extensions.manifest import UNUSABLE
from clawbot.hooks.loading import code_digest


def trusted_hooks(file: Path, workspaces: Iterable[Path]) -> Switches:
    """What hooks.json switches and trusts.

    Where that is of the time when names alone decided, the hooks that it enables in `workspaces` are trusted as they
    are now, and no other from then on. Raises ConfigError. Blocks.
    """
    known = read_switches(file)
    if known.trusted is None:
        adopt(file, dict(_enabled_by_name(known.enabled, workspaces)))
        known = read_switches(file)
    return known


def _enabled_by_name(enabled: Mapping[str, bool], workspaces: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for workspace in workspaces:
        for name in (name for name, on in enabled.items() if on and Path(name).name == name):
            folder = workspace / "hooks" / name
            try:
                if folder.is_dir():
                    yield os.path.realpath(folder), code_digest(folder)
            except UNUSABLE:
                continue
