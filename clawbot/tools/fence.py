"""The reach of file tools: additional readable folders, and denied places inside the workspace.

Real paths decide; for nested folders the innermost rule applies. Hard links to a denied file are detected by the file's
identity.
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

MAX_TWINS_VISITED = 100_000  # entries of denied folders examined for hard links

RUNNING_HOOK = (
    "it is part of an enabled hook, whose code runs outside of this fence, so only the user changes it: in an editor, "
    "or with `clawbot hooks disable` before"
)
SKILL = "it belongs to a skill that the user has enabled, so only the user changes it"

_STRICTEST = ("none", "read", "write")


class Barred(Struct, frozen=True):
    """A file, or a folder with everything below it. `why` completes the sentence "… is refused: ".

    With a `pattern`, only the entries of the folder `path` whose names match that glob, and what is below them.
    `twins`: deny hard links to its files too.
    """

    path: Path
    why: str
    pattern: str = ""
    twins: bool = True


class Fence(Struct, frozen=True):
    """The rules beside the workspace itself, which is readable and writable.

    `readable` are additional readable folders, as absolute paths. `denied` places are neither reachable nor listed;
    `unwritable` ones are read-only, as are the folders of enabled hooks, which `hook_folders` returns at each call.
    `skill_folders` returns those of enabled skills: read-only too, and readable wherever they are. Paths need not
    exist, and links in them are followed.
    """

    readable: tuple[Path, ...] = ()
    denied: tuple[Barred, ...] = ()
    unwritable: tuple[Barred, ...] = ()
    hook_folders: Callable[[], Collection[Path]] = tuple
    skill_folders: Callable[[], Collection[Path]] = tuple

    def deny(self, *barred: Barred) -> Fence:
        """This fence with more denied places."""
        return msgspec.structs.replace(self, denied=(*self.denied, *barred))


class Verdict(Struct, frozen=True):
    """What is allowed for a path. `base` is the real folder to reach it from, "" if it is outside all; `why` is the
    reason for a refusal."""

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
        """The depth at which the rule applies on the way to `parts`; -1 if it does not."""
        size = len(self.parts)
        if parts[:size] != self.parts:
            return -1
        if not self.pattern:
            return size
        return size + 1 if len(parts) > size and fnmatchcase(parts[size], self.pattern) else -1


class Bounds:
    """The fence around the workspace `root`, evaluated for one call of a tool. Creating it blocks."""

    def __init__(self, root: Path, fence: Fence) -> None:
        self.root = os.path.realpath(root)
        own = _parts(self.root)
        self._rules = [_Rule(own, "write", base=self.root)]
        for folder in fence.readable:
            base = os.path.realpath(folder)
            self._rules.append(
                _Rule(_parts(base), "read", "it belongs to another agent and can only be read", base=base)
            )
        skills = fence.skill_folders()
        bases = [base for base in map(os.path.realpath, skills) if not is_within(self.root, base)]
        self._rules += [_Rule(_parts(base), "read", SKILL, base=base) for base in bases]
        hooks = (Barred(folder, RUNNING_HOOK) for folder in fence.hook_folders())
        unwritable = (*fence.unwritable, *hooks, *(Barred(folder, SKILL) for folder in skills))
        self._unwritable = [_rule(barred, "read") for barred in unwritable]
        self._denied = tuple(barred for barred in fence.denied if barred.twins)
        denied = [_rule(barred, "none") for barred in fence.denied]
        # On case-sensitive file systems a folder that differs from the workspace only in case is another folder.
        self._rules += [rule for rule in denied if rule.pattern or rule.parts != own or rule.exact == self.root]
        self._twins: frozenset[tuple[int, int]] | None = None

    def verdict(self, real: str) -> Verdict:
        """What is allowed for `real`, a path without links."""
        parts = _parts(real)
        holding = [(depth, rule) for rule in self._rules if (depth := rule.depth(parts)) >= 0]
        if not holding:
            return Verdict("none", "")
        deepest = max(depth for depth, _ in holding)
        # The strictest of several rules for the same place applies.
        rule = min(
            (rule for depth, rule in holding if depth == deepest), key=lambda rule: _STRICTEST.index(rule.access)
        )
        if rule.access == "write":
            # Read-only rules restrict, and never open anything.
            rule = next((kept for kept in self._unwritable if kept.depth(parts) >= deepest), rule)
        inside = [rule.base for _, rule in holding if rule.base and is_within(rule.base, real)]
        base = self.root if self.root in inside else max(inside, key=len, default="")
        return Verdict(rule.access, base, rule.why)

    def why_denied(self, real: str) -> str:
        """Why `real`, a path without links, is denied; "" if it is not."""
        verdict = self.verdict(real)
        return verdict.why if verdict.access == "none" else ""

    def bars_below(self, folder: str) -> bool:
        """Whether the real `folder` or something in it is denied."""
        parts = _parts(folder)
        return any(rule.access == "none" and rule.parts[: len(parts)] == parts for rule in self._rules)

    def hides(self, folder: str) -> Callable[[str], bool]:
        """A predicate for walks: whether a path relative to the real `folder` is denied."""
        if not self.bars_below(folder):
            return lambda path: False
        top = folder.rstrip("/")
        return lambda path: bool(self.why_denied(f"{top}/{path}"))

    def is_twin(self, found: os.stat_result) -> bool:
        """Whether a regular file is, or may be, a hard link to a denied one."""
        if found.st_nlink < 2 or not self._denied:
            return False
        if self._twins is None:
            self._twins = self._find_twins()
        return (found.st_dev, found.st_ino) in self._twins or (0, 0) in self._twins

    def _find_twins(self) -> frozenset[tuple[int, int]]:
        """The denied files with several hard links; includes (0, 0) if there are too many to examine."""
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
        """The identity of the file `name` in `parent`, if it is denied and has several hard links."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return set()  # deleted meanwhile
        is_twin = found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and self.why_denied(path)
        return {(found.st_dev, found.st_ino)} if is_twin else set()


def _rule(barred: Barred, access: Access) -> _Rule:
    real = os.path.realpath(barred.path)
    return _Rule(_parts(real), access, barred.why, fold_name(barred.pattern), exact=real)


def _tops_of(barred: Barred) -> list[str]:
    """The files and folders that are currently denied with everything below."""
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
    """Whether the absolute `path` equals `folder` or is below it, by text."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
