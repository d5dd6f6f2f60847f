"""How far file tools reach: beside the workspace some folders to read, inside it some places that are barred.

Decided by real paths, and where folders lie in each other, the innermost one counts. What no path tells, a second name
of a barred file (a hard link), is told by the file's identity.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.text.names import fold_name
from clawbot.trees import TreeWalk

Access = Literal["write", "read", "none"]

MAX_TWINS_VISITED = 100_000  # entries of barred folders that are looked at for the other name of one file

RUNNING_HOOK = (
    "it is part of an enabled hook, whose code runs outside of this fence, so only the user changes it: in an editor, "
    "or with `clawbot hooks disable` before"
)

_STRICTEST = ("none", "read", "write")


class Barred(Struct, frozen=True):
    """A file, or a folder with all below it. `why` goes on after "… is refused: ".

    With a `pattern` only the entries of the folder `path` whose names fit that glob, and what is below them. `twins`:
    files in it are barred by their other names as well.
    """

    path: Path
    why: str
    pattern: str = ""
    twins: bool = True


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
        self._denied = tuple(barred for barred in fence.denied if barred.twins)
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
        inside = [rule.base for _, rule in holding if rule.base and is_within(rule.base, real)]
        base = self.root if self.root in inside else max(inside, key=len, default="")
        return Verdict(rule.access, base, rule.why)

    def why_denied(self, real: str) -> str:
        """Why the path `real`, in which no links are left, is denied; "" where it is not."""
        verdict = self.verdict(real)
        return verdict.why if verdict.access == "none" else ""

    def bars_below(self, folder: str) -> bool:
        """Whether something in the real `folder`, or all of it, is denied."""
        parts = _parts(folder)
        return any(rule.access == "none" and rule.parts[: len(parts)] == parts for rule in self._rules)

    def hides(self, folder: str) -> Callable[[str], bool]:
        """Whether a path below the real `folder`, relative to it, is denied: for walks."""
        if not self.bars_below(folder):
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
        room = MAX_TWINS_VISITED
        for top in itertools.chain.from_iterable(map(_tops_of, self._denied)):
            room -= 1
            if not Path(top).is_dir():
                twins |= self._identities(top, top, None)
                continue
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    walk = TreeWalk(folder, most=max(room, 0))
                    for entry in walk:
                        if not entry.is_folder:
                            twins |= self._identities(f"{top}/{entry.path}", entry.name, entry.parent)
                finally:
                    os.close(folder)
                room -= walk.visited
                if not walk.is_whole:
                    return frozenset({(0, 0)})
        return frozenset(twins)

    def _identities(self, path: str, name: str, parent: int | None) -> set[tuple[int, int]]:
        """The identity of the file `name` in the folder `parent`, when it is denied and has another name."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return set()  # gone, so it is nothing's other name
        is_twin = found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and self.why_denied(path)
        return {(found.st_dev, found.st_ino)} if is_twin else set()


def _rule(barred: Barred, access: Access) -> _Rule:
    real = os.path.realpath(barred.path)
    return _Rule(_parts(real), access, barred.why, fold_name(barred.pattern), exact=real)


def _tops_of(barred: Barred) -> list[str]:
    """The files and folders that are barred with all below them, as they are on disk now."""
    top = os.path.realpath(barred.path)
    if not barred.pattern:
        return [top]
    pattern = fold_name(barred.pattern)
    try:
        with os.scandir(top) as entries:
            return [f"{top}/{entry.name}" for entry in entries if fnmatchcase(fold_name(entry.name), pattern)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _parts(real: str) -> tuple[str, ...]:
    return Path(fold_name(real)).parts


def is_within(folder: str, path: str) -> bool:
    """Whether the absolute `path` is `folder` or lies below it, by their texts."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
