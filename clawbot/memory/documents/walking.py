"""Lists the files of folders with size and time; follows no links, and lists a file with two names once."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from clawbot.guarded import GuardedFolder
from clawbot.memory.values import Issue, Source
from clawbot.text.globs import Glob
from clawbot.text.names import composed
from clawbot.trees import MAX_TREE_ENTRIES

MAX_FILE_BYTES = 20 * 1024 * 1024
"""Larger files are reported and left out."""

MAX_ISSUES = 100
"""Further issues of a listing are only counted."""

# Also folders of other version control systems.
IGNORED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__"}
)
SUFFIXES = (".md", ".markdown")
"""File name suffixes of notes, in any case."""
NOT_THERE = "it is not there"
LINKED_FOLDER = "it is a link to a folder, and links are not followed: name what it leads to in extra_paths"
_BY_NAME = attrgetter("name")


Closed = Callable[[str], str]
"""Why a real path is excluded from this index because it belongs to another agent; "" if it is not."""

Opened = Callable[[int, str], None]
"""Called with each folder that is about to be read: its descriptor and its path."""


class FileState(Struct, frozen=True):
    """A file as seen by a listing.

    `path` is relative to the workspace, with "/" ("../x.md" outside it), for transcripts "sessions/<file>". `size` is
    in bytes, `mtime_ns` is the `change_time`. If two states differ, the file must be read again.
    """

    path: str
    source: Source
    size: int
    mtime_ns: int


class Listing(Struct, frozen=True):
    """The files of a source in a fixed order, and why others are missing.

    `hidden` are files, and folders with everything below ("" for the workspace), that could not be read, each with its
    issue: they may be unchanged.
    """

    files: tuple[FileState, ...]
    issues: tuple[Issue, ...]
    hidden: Mapping[str, Issue] = {}


class Root(Struct, frozen=True):
    """A file or folder to list: its location, and its path in results ("" for the workspace itself).

    `pattern` selects files of a folder by their relative path; None: those with a Markdown suffix. A `configured` root
    must exist. Names that begin with a dot (`.trash`, `.obsidian`) are skipped unless it `shows_hidden`. No link below
    `base` is followed: the workspace, or "" for a root outside of it, which is itself no link.
    """

    absolute: str
    shown: str
    pattern: Glob | None = None
    configured: bool = False
    shows_hidden: bool = False
    base: str = ""

    def reached(self, absolute: str) -> tuple[GuardedFolder, str]:
        """Return the folder to reach `absolute` through (the root, the folder that holds it, or below it), and the path
        in there."""
        base = self.base or (self.absolute if f"{absolute}/".startswith(f"{self.absolute}/") else absolute)
        return GuardedFolder(Path(base), real=base == self.absolute), os.path.relpath(absolute, base)

    def entry(self, absolute: str) -> tuple[GuardedFolder, Path]:
        """Return the folder to reach the file `absolute` through, and its path in there."""
        folder, name = os.path.split(absolute)
        files, inside = self.reached(folder)
        return files, Path(inside, name)

    def wants(self, inside: str) -> bool:
        """Return whether the file at `inside` (its path below the root, with "/") is listed."""
        if not self.enters(inside.split("/")):
            return False
        return is_markdown(inside) if self.pattern is None else self.pattern.fits(inside)

    def enters(self, names: Iterable[str]) -> bool:
        """Return whether folders and files of these names are considered."""
        return self.shows_hidden or not any(name.startswith(".") for name in names)


class Walk:
    """One listing in progress. All methods block; none raises for a single file.

    A `closed` root is an issue; a `closed` folder below a root is skipped. `has_links`: a file was met that has another
    name, as a hard link.
    """

    def __init__(self, source: Source, closed: Closed | None, opened: Opened) -> None:
        self.has_links = False
        self._opened = opened
        self._source = source
        self._closed = closed
        self._files: list[FileState] = []
        self._issues: list[Issue] = []
        self._hidden: dict[str, Issue] = {}
        self._seen: set[tuple[int, int]] = set()
        self._named: dict[str, str] = {}
        self._visited = 0

    def listing(self) -> Listing:
        """Return the listing so far."""
        issues = self._issues[:MAX_ISSUES]
        if len(self._issues) > MAX_ISSUES:
            issues.append(Issue("", f"{len(self._issues) - MAX_ISSUES:,} more files could not be taken"))
        return Listing(tuple(self._files), tuple(issues), self._hidden)

    def report(self, path: str, text: str, *hidden: str) -> None:
        """Record the issue of `path`; `hidden`: it could not be read."""
        issue = Issue(printable(path) or ".", text)
        self._issues.append(issue)
        self._hidden.update(dict.fromkeys(hidden, issue))

    def add_root(self, root: Root) -> None:
        """List `root`: a file, or a folder with everything below it."""
        shown = root.shown
        if self._closed is not None and (why := self._closed(os.path.realpath(root.absolute))):
            self.report(shown, f"it is left out: {why}")
            return
        try:
            found = os.lstat(root.absolute)
        except OSError as error:
            if not _is_gone(error):
                self.report(shown, _reason(error), shown)
            elif root.configured:
                # If its parent folder is missing too, it was probably not deleted: a disk is not mounted.
                away = why_no_folder(Path(root.absolute).parent)
                self.report(shown, _reason(error), *([shown] if away else []))
            return
        if stat.S_ISDIR(found.st_mode):
            self._add_folders(root)
        elif not stat.S_ISREG(found.st_mode):
            is_link = stat.S_ISLNK(found.st_mode)
            self.report(
                shown,
                LINKED_FOLDER if is_link and root.configured and Path(root.absolute).is_dir() else _no_file(is_link),
            )
        elif is_markdown(root.absolute):
            self._add(shown, found)
        elif root.configured:
            self.report(shown, f"only files that end with {' or '.join(SUFFIXES)} are indexed")

    def _add_folders(self, root: Root) -> None:
        waiting = [""]
        real = os.path.realpath(root.absolute)
        while waiting:
            inside = waiting.pop()
            below = [f"{inside}{name}/" for name in self._add_folder(root, inside)]
            if self._visited > MAX_TREE_ENTRIES:
                text = f"there are more than {MAX_TREE_ENTRIES:,} entries, and the rest was left out"
                self.report(root.shown, text, root.shown)
                return
            waiting.extend(folder for folder in reversed(below) if not self._is_closed(real, folder))

    def _is_closed(self, real: str, folder: str) -> bool:
        return self._closed is not None and bool(self._closed(os.path.normpath(f"{real}/{folder}")))

    def _add_folder(self, root: Root, inside: str) -> list[str]:
        """List the files of one folder; returns the names of its subfolders. `inside` is "" or ends with "/"."""
        prefix = f"{root.shown}/{inside}" if root.shown else inside
        absolute = f"{root.absolute}/{inside}"
        files, path = root.reached(absolute)
        try:
            with files.folder(path) as folder:
                self._opened(folder, absolute)
                # By descriptor, names are not resolved from the root again: a fifth of the time.
                with os.scandir(folder) as found:
                    entries = list(itertools.islice(found, max(0, MAX_TREE_ENTRIES - self._visited) + 1))
                self._visited += len(entries)
                entries.sort(key=_BY_NAME)
                return self._add_entries(root, inside, prefix, entries)
        except FileNotFoundError:
            return []
        except OSError as error:
            shown = prefix.rstrip("/")
            self.report(shown, _reason(error), *([] if _is_gone(error) else [shown]))
            return []

    def _add_entries(self, root: Root, inside: str, prefix: str, entries: list[os.DirEntry[str]]) -> list[str]:
        folders = []
        pattern = root.pattern
        for entry in entries:
            name = entry.name
            if name[0] == "." and not root.shows_hidden:
                continue
            # Inlined from `Root.wants`: this runs ten thousand times.
            wanted = name.lower().endswith(SUFFIXES) if pattern is None else pattern.fits(inside + name)
            if wanted and entry.is_file(follow_symlinks=False):
                if name.isascii() or self._is_text(prefix, name):
                    self._add_entry(prefix + name, entry)
            elif entry.is_dir(follow_symlinks=False):
                if name not in IGNORED_FOLDERS and self._is_text(prefix, name):
                    folders.append(name)
            elif entry.is_symlink() and Path(f"{root.absolute}/{inside}{name}").is_dir():
                self.report(prefix + name, LINKED_FOLDER)
            elif wanted:
                self.report(prefix + name, _no_file(entry.is_symlink()))
        return folders

    def _add_entry(self, path: str, entry: os.DirEntry[str]) -> None:
        try:
            self._add(path, entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            return
        except OSError as error:
            self.report(path, _reason(error), path)

    def _is_text(self, prefix: str, name: str) -> bool:
        if printable(name) == name:
            return True
        self.report(prefix + name, "its name is not UTF-8; rename it to have it indexed")
        return False

    def _add(self, path: str, found: os.stat_result) -> None:
        self.has_links |= found.st_nlink > 1
        identity = (found.st_dev, found.st_ino)
        if identity in self._seen:
            return
        self._seen.add(identity)
        if not path.isascii() and (other := self._named.setdefault(composed(path), path)) != path:
            text = "another file has the same name in another Unicode form: rename one of the two"
            self._issues += [Issue(printable(each), text) for each in (other, path)]
        if found.st_size > MAX_FILE_BYTES:
            self.report(path, f"it is larger than {MAX_FILE_BYTES >> 20} MB and not indexed")
            return
        self._files.append(FileState(path, self._source, found.st_size, change_time(found)))


def is_markdown(path: str) -> bool:
    """Return whether the file name has a suffix of notes."""
    return path.lower().endswith(SUFFIXES)


def change_time(found: os.stat_result) -> int:
    """Return the time of the last change, in nanoseconds.

    This is the ctime: the mtime can be set back (`touch -d`, `rsync -t`, unpacked archives), which hides a change of
    equal size.
    """
    return found.st_ctime_ns


def file_identity(path: str | Path) -> tuple[int, int] | None:
    """Return the device and inode of `path`, following links; None if it is gone. Blocks."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def why_no_folder(path: Path) -> str:
    """Why there is no folder at `path` (following links); "" if there is one. Blocks."""
    try:
        return "" if stat.S_ISDIR(path.stat().st_mode) else NOT_THERE
    except OSError as error:
        return _reason(error)


def is_hidden(path: str, hidden: Iterable[str]) -> bool:
    """Return whether the file `path` is in one of the unreadable paths of a listing."""
    return any(
        path == folder or path.startswith(f"{folder}/") if folder else not path.startswith("../") for folder in hidden
    )


def printable(path: str) -> str:
    """`path` with bytes that are not UTF-8 replaced by U+FFFD."""
    return path if path.isascii() else path.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _is_gone(error: OSError) -> bool:
    """Return whether the error means that the path no longer exists, or is a link."""
    return isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return NOT_THERE
    if isinstance(error, PermissionError):
        return "it can't be read: give yourself permission to read it"
    return f"it can't be read: {error.strerror or type(error).__name__}"


def _no_file(is_link: bool) -> str:
    return "it is a symlink, and links are not followed" if is_link else "it is no plain file"


def is_missing(path: str | Path) -> bool:
    """Return whether nothing exists at `path`; false if that is unknown. Blocks."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False
