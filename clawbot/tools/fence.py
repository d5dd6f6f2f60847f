"""How far file tools reach: beside the workspace some folders to read, inside it some places that are barred.

Decided by real paths, and where folders lie in each other, the innermost one counts. What no path tells, a second name
of a barred file (a hard link), is told by the file's identity.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

Access = Literal["write", "read", "none"]

MAX_TWINS_VISITED = 100_000  # entries of barred folders that are looked at for the other name of one file

RUNNING_HOOK = (
    "it is part of an enabled hook, whose code runs outside of this fence, so only the user changes it: in an editor, "
    "or with `clawbot hooks disable` before"
)

_STRICTEST = ("none", "read", "write")


class Barred(Struct, frozen=True):
    """A file, or a folder with all below it. `why` goes on after "… is refused: ".

    With a `pattern` only the entries of the folder `path` whose names fit that glob, and what is below them.
    """

    path: Path
    why: str
    pattern: str = ""


class Fence(Struct, frozen=True):
    """What counts beside the workspace itself, which may be read and written.

    `readable` are other folders that may be read, by absolute path. What is `denied` can't be reached at all, and is
    not listed; what is `unwritable` can be read only, and so can the folders of enabled hooks, which `hook_folders`
    tells at each call. Paths need not exist, and links in them are followed.
    """

    readable: tuple[Path, ...] = ()
    denied: tuple[Barred, ...] = ()
    unwritable: tuple[Barred, ...] = ()
    hook_folders: Callable[[], Collection[Path]] | None = None

    def deny(self, *barred: Barred) -> Fence:
        """This fence with more that is denied."""
        return msgspec.structs.replace(self, denied=(*self.denied, *barred))


class Verdict(Struct, frozen=True):
    """What may be done with a path. `base` is the real folder to reach it from, "" when it lies outside of all, and
    `why` the reason where a rule forbids something."""

    access: Access
    base: str
    why: str = ""


class _Rule(Struct, frozen=True):
    parts: tuple[str, ...]
    access: Access
    why: str = ""
    pattern: str = ""
    base: str = ""
    exact: str = ""

    def depth(self, parts: tuple[str, ...]) -> int:
        """How far down the rule takes hold on the way to `parts`; -1 where it does not."""
        size = len(self.parts)
        if parts[:size] != self.parts:
            return -1
        if not self.pattern:
            return size
        return size + 1 if len(parts) > size and fnmatchcase(parts[size], self.pattern) else -1


class Bounds:
    """A fence around the workspace `root` as the disk stands now, good for one call of a tool. Blocks when made."""

    def __init__(self, root: Path, fence: Fence) -> None:
        self.root = os.path.realpath(root)
        own = _parts(self.root)
        self._rules = [_Rule(own, "write", base=self.root)]
        for folder in fence.readable:
            base = os.path.realpath(folder)
            self._rules.append(
                _Rule(_parts(base), "read", "it belongs to another agent and can only be read", base=base)
            )
        hooks = fence.hook_folders() if fence.hook_folders is not None else ()
        unwritable = (*fence.unwritable, *(Barred(folder, RUNNING_HOOK) for folder in hooks))
        self._unwritable = [_rule(barred, "read") for barred in unwritable]
        self._denied = fence.denied
        denied = [_rule(barred, "none") for barred in fence.denied]
        # A folder whose name differs from the workspace's by case alone is another one, where that makes a difference.
        self._rules += [rule for rule in denied if rule.pattern or rule.parts != own or rule.exact == self.root]
        self._twins: frozenset[tuple[int, int]] | None = None

    def verdict(self, real: str) -> Verdict:
        """What may be done with the path `real`, in which no links are left."""
        parts = _parts(real)
        holding = [(depth, rule) for rule in self._rules if (depth := rule.depth(parts)) >= 0]
        if not holding:
            return Verdict("none", "")
        deepest = max(depth for depth, _ in holding)
        # Of rules for the same place the strictest counts.
        rule = min(
            (rule for depth, rule in holding if depth == deepest), key=lambda rule: _STRICTEST.index(rule.access)
        )
        if rule.access == "write":
            # What can only be read takes away from what is open, and opens nothing.
            rule = next((kept for kept in self._unwritable if kept.depth(parts) >= deepest), rule)
        inside = [rule.base for _, rule in holding if rule.base and _is_within(rule.base, real)]
        base = self.root if self.root in inside else max(inside, key=len, default="")
        return Verdict(rule.access, base, rule.why)

    def why_denied(self, real: str) -> str:
        """Why the path `real`, in which no links are left, is denied; "" where it is not."""
        verdict = self.verdict(real)
        return verdict.why if verdict.access == "none" else ""

    def hides(self, folder: str) -> Callable[[str], bool]:
        """Whether a path below the real `folder`, relative to it, is denied: for walks."""
        parts = _parts(folder)
        if not any(rule.access == "none" and rule.parts[: len(parts)] == parts for rule in self._rules):
            return lambda path: False
        top = folder.rstrip("/")
        return lambda path: bool(self.why_denied(f"{top}/{path}"))

    def is_twin(self, found: os.stat_result) -> bool:
        """Whether a plain file is another name of one that is denied, or may be."""
        if found.st_nlink < 2 or not self._denied:
            return False
        if self._twins is None:
            self._twins = self._find_twins()
        return (found.st_dev, found.st_ino) in self._twins or (0, 0) in self._twins

    def _find_twins(self) -> frozenset[tuple[int, int]]:
        """The files with several names in denied places; with (0, 0) when there is too much to look at."""
        twins: set[tuple[int, int]] = set()
        visited = 0
        for barred in self._denied:
            for path in _files_of(barred):
                visited += 1
                if visited > MAX_TWINS_VISITED:
                    return frozenset({(0, 0)})
                try:
                    found = os.lstat(path)
                except OSError:
                    continue  # gone, so it is nothing's other name
                if found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and self.why_denied(path):
                    twins.add((found.st_dev, found.st_ino))
        return frozenset(twins)


def _rule(barred: Barred, access: Access) -> _Rule:
    real = os.path.realpath(barred.path)
    return _Rule(_parts(real), access, barred.why, _folded(barred.pattern), exact=real)


def _files_of(barred: Barred) -> Iterator[str]:
    top = os.path.realpath(barred.path)
    if not barred.pattern:
        yield from _files(top)
    elif Path(top).is_dir():
        pattern = _folded(barred.pattern)
        for entry in Path(top).iterdir():
            if fnmatchcase(_folded(entry.name), pattern):
                yield from _files(str(entry))


def _files(top: str) -> Iterator[str]:
    """`top` itself, or all files below it."""
    if not Path(top).is_dir():
        yield top
    for folder, _, names in os.walk(top):
        yield from (f"{folder}/{name}" for name in names)


def _parts(real: str) -> tuple[str, ...]:
    return Path(_folded(real)).parts


def _folded(text: str) -> str:
    """`text` as the least exact of file systems compares names: a name too many is barred rather than one too few."""
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def _is_within(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
