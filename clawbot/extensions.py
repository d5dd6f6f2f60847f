"""What installed packages add to clawbot through entry points: one look at them, and a broken one as a value."""

from __future__ import annotations

import importlib.metadata
import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")
GROUPS = (
    "clawbot.hooks",
    "clawbot.tools",
    "clawbot.models",
    "clawbot.memory_backends",
    "clawbot.commands",
    "clawbot.compactions",
)
_logger = logging.getLogger(__name__)


class BrokenExtension(Struct, frozen=True):
    """An extension that can't be used, and why, as a sentence without its end."""

    name: str
    problem: str


class Extension(Struct, frozen=True):
    """What a package offers as `name`; `distribution` is the package as pip knows it, `point` where it stands in it."""

    name: str
    distribution: str
    point: EntryPoint

    def load(self) -> Any | BrokenExtension:
        """The object that the entry point names. Imports the package: blocks."""
        return self.use(EntryPoint.load)

    def use(self, make: Callable[[EntryPoint], T]) -> T | BrokenExtension:
        """What `make` makes of the entry point. Whatever it raises becomes the problem, SystemExit included; the log
        has the traceback."""
        try:
            return make(self.point)
        except (Exception, SystemExit) as error:
            _logger.exception("%s of the package %s can't be used", self.point.value, self.distribution)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            problem = f"{self.point.value} of the package {self.distribution} can't be used: {reason}"
            return BrokenExtension(self.name, problem)


def installed(group: str) -> list[Extension]:
    """What the installed packages offer in `group`, by name; of two with one name, the package decides by its own.
    Imports nothing of them. The first call reads the metadata of all packages: blocks."""
    return list(_by_group(tuple(sys.path)).get(group, ()))


@lru_cache(maxsize=1)
def _by_group(_path: tuple[str, ...]) -> dict[str, tuple[Extension, ...]]:
    """All groups of clawbot at once: the metadata of a hundred packages takes milliseconds, and each group reads it."""
    found: dict[str, list[Extension]] = {}
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            points = [point for point in distribution.entry_points if point.group in GROUPS]
            name = distribution.name if points else ""
        except Exception:
            # One damaged package must keep no program from starting.
            _logger.exception("the entry points of an installed package can't be read")
            continue
        if not points or name in seen:
            continue  # the first one on the path is the one that is imported
        seen.add(name)
        for point in points:
            found.setdefault(point.group, []).append(Extension(point.name, name, point))
    return {group: tuple(sorted(each, key=_place)) for group, each in found.items()}


def _place(extension: Extension) -> tuple[str, str, str]:
    return extension.name, extension.distribution, extension.point.value
