"""Hooks that installed Python packages bring: the entry points of the group `clawbot.hooks`.

The value of an entry point names a module or package (`acme.hooks.greeting`) whose folder is the hook, or an attribute
(`acme.hooks:GREETING`) that holds the path of the folder. The package runs none of its handlers' code here, but its
`__init__` and, for an attribute, the module are imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
from importlib.metadata import EntryPoint
from pathlib import Path

from msgspec import Struct

GROUP = "clawbot.hooks"
_logger = logging.getLogger("clawbot.hooks")


class PackagedHook(Struct, frozen=True):
    """A folder that a package calls a hook; `problem` says why there is none."""

    name: str
    folder: Path
    problem: str = ""


def packaged_hooks() -> list[PackagedHook]:
    """What the installed packages offer, by name. Imports of them: blocks."""
    points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return [_packaged(point) for point in points]


def _packaged(point: EntryPoint) -> PackagedHook:
    try:
        return PackagedHook(point.name, _folder(point))
    except (Exception, SystemExit) as error:
        _logger.exception("the entry point %s = %s leads to no hook", point.name, point.value)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return PackagedHook(point.name, Path(), f"the entry point {point.value} leads to no hook: {reason}")


def _folder(point: EntryPoint) -> Path:
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
