"""A bounded walk over a folder tree, safe for any content.

It uses no recursion and at most two file descriptors, follows no links, and reports what it skipped instead of failing:
folders nested too deeply, unreadable ones, and everything after a maximum number of entries.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Container, Iterator
from operator import attrgetter

from msgspec import Struct

Skips = Callable[[str], bool]
"""Returns whether a path is left out."""

DEEPEST = 64
"""Maximum depth of nested folders. Real trees are below 20, and every system call accepts a path of 64 names. The file
tools create nothing deeper, so the walk finds all that they write."""

MAX_TREE_ENTRIES = 100_000
"""A tree with more entries is almost certainly the wrong folder."""

MAX_PROBLEMS = 5
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
_BY_NAME = attrgetter("name")


class TreeEntry(Struct, frozen=True):
    """One entry of a walk: `name` inside the folder open as the descriptor `parent` (valid until the next entry is
    requested), `path` relative to the start. `is_folder` is false for a link to a folder."""

    parent: int
    name: str
    path: str
    is_folder: bool


class TreeWalk:
    """One walk below the open folder `top`, level by level, sorted by name. Blocks; never raises for what it finds.

    Paths for which `skips` returns true are neither yielded nor entered, nor are folders whose name is in `ignored`.
    `most` limits the entries read, `deepest` the depth. Afterwards `visited` is the number of entries read,
    `is_complete` whether that was all, and `problems` lists what was skipped, one line each.
    """

    def __init__(
        self,
        top: int,
        *,
        skips: Skips | None = None,
        ignored: Container[str] = (),
        most: int = MAX_TREE_ENTRIES,
        deepest: int = DEEPEST,
    ) -> None:
        self._top = top
        self._skips = skips
        self._ignored = ignored
        self._most = most
        self._deepest = deepest
        self.visited = 0
        self.is_complete = True
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[TreeEntry]:
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            folders: list[str] = []
            try:
                for entry in self._entries_of(inside):
                    if entry.is_folder:
                        folders.append(entry.path)
                    yield entry
            except OSError as error:
                if error.errno not in _GONE:
                    self._leave_out(inside or ".", error.strerror or type(error).__name__)
            if self.visited > self._most:
                self._report(f"there are more than {self._most:,} entries, and the rest was left out")
                return
            if folders and folders[0].count("/") >= self._deepest:
                self._leave_out(folders[0], f"it is more than {self._deepest} folders deep")
            else:
                waiting.extend(reversed(folders))

    def _entries_of(self, inside: str) -> Iterator[TreeEntry]:
        """Yield the entries of the folder `inside` ("": the top)."""
        prefix = f"{inside}/" if inside else ""
        folder = self._open(inside)
        try:
            for entry in self._scan(folder):
                path = prefix + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not (is_folder and entry.name in self._ignored) and not (self._skips and self._skips(path)):
                    yield TreeEntry(folder, entry.name, path, is_folder)
        finally:
            os.close(folder)

    def _scan(self, folder: int) -> list[os.DirEntry[str]]:
        """Return the entries within the limit; one more is counted if there are more."""
        room = self._most - self.visited
        with os.scandir(folder) as found:
            entries = list(itertools.islice(found, room + 1))
        self.visited += len(entries)
        return sorted(entries[:room], key=_BY_NAME)

    def _open(self, inside: str) -> int:
        """Open a folder from the top, name by name: this refuses a link that was put in the way, and works for paths
        longer than the system's limit."""
        current = os.open(".", _OPEN_FOLDER, dir_fd=self._top)
        for name in inside.split("/") if inside else ():
            try:
                following = os.open(name, _OPEN_FOLDER, dir_fd=current)
            finally:
                os.close(current)
            current = following
        return current

    def _leave_out(self, path: str, why: str) -> None:
        shown = path if len(path) <= 200 else f"{path[:200]}…"
        self._report(f"{shown} was not entered: {why}")

    def _report(self, problem: str) -> None:
        self.is_complete = False
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
