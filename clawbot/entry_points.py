"""Finds what installed packages add to clawbot through entry points; a broken one is returned as a value."""

from __future__ import annotations

import importlib.metadata
import logging
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from msgspec import Struct

from clawbot.distribution import DISTRIBUTION

T = TypeVar("T")
GROUPS = (
    "clawbot.cli",
    "clawbot.cli.memory",
    "clawbot.hooks",
    "clawbot.tools",
    "clawbot.models",
    "clawbot.memory_backends",
    "clawbot.rankings",
    "clawbot.rerankers",
    "clawbot.commands",
    "clawbot.screens",
    "clawbot.compactions",
)
_logger = logging.getLogger(__name__)


class BrokenExtension(Struct, frozen=True):
    """An extension that can't be used. `problem` is a sentence without its full stop."""

    name: str
    problem: str

    def use(self, make: Callable[[EntryPoint], T]) -> T | BrokenExtension:
        return self

    def load(self) -> BrokenExtension:
        return self


class Extension(Struct, frozen=True):
    """An entry point called `name`; `distribution` is the package as pip knows it."""

    name: str
    distribution: str
    point: EntryPoint

    def load(self) -> Any | BrokenExtension:
        """Import the package and return the object that the entry point names. Blocks."""
        return self.use(EntryPoint.load)

    def use(self, make: Callable[[EntryPoint], T]) -> T | BrokenExtension:
        """`make(self.point)`. Anything it raises, SystemExit included, becomes a BrokenExtension; the traceback is
        logged."""
        try:
            return make(self.point)
        except (Exception, SystemExit) as error:
            _logger.exception("%s of the package %s can't be used", self.point.value, self.distribution)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            problem = f"{self.point.value} of the package {self.distribution} can't be used: {reason}"
            return BrokenExtension(self.name, problem)


def installed(group: str) -> list[Extension]:
    """The entry points of `group`, sorted by name, then by package. Imports none of them. The first call reads the
    metadata of all packages and blocks."""
    return list(_by_group(tuple(sys.path)).get(group, ()))


def find(group: str, name: str) -> Extension | BrokenExtension:
    """Return the first of `installed(group)` that is called `name`."""
    return next((each for each in installed(group) if each.name == name), BrokenExtension(name, "it is not installed"))


@lru_cache(maxsize=1)
def _by_group(_path: tuple[str, ...]) -> dict[str, tuple[Extension, ...]]:
    """All groups at once: reading the metadata of a hundred packages takes milliseconds, and every group needs it."""
    found: dict[str, list[Extension]] = {}
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            points = [point for point in distribution.entry_points if point.group in GROUPS]
            name = distribution.name if points else ""
        except Exception:
            # A damaged package must not keep the program from starting.
            _logger.exception("the entry points of an installed package can't be read")
            continue
        if not points or name in seen:
            continue  # the first one on the path is the one that gets imported
        seen.add(name)
        for point in points:
            found.setdefault(point.group, []).append(Extension(point.name, name, point))
    return {group: tuple(sorted(each, key=_sort_key)) for group, each in found.items()}


def _sort_key(extension: Extension) -> tuple[str, bool, str, str]:
    """What comes with the program comes before what a package offers under the same name."""
    return extension.name, extension.distribution != DISTRIBUTION, extension.distribution, extension.point.value
