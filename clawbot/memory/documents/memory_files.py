"""The files that are the memory: which they are, how they are read, and which paths outside readers may ask for."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.memory.documents.days import DayMark, day_of, marks_of
from clawbot.memory.documents.walking import (
    IGNORED_FOLDERS,
    MAX_FILE_BYTES,
    NOT_THERE,
    Closed,
    FileState,
    Listing,
    Root,
    Walk,
    change_time,
    is_markdown,
    is_missing,
    links_on_the_way,
    printable,
    why_no_folder,
)
from clawbot.memory.values import Hit, Issue, Source
from clawbot.text.encoding import decoded, encoding_of
from clawbot.text.globs import compile_glob
from clawbot.text.names import on_disk

if TYPE_CHECKING:
    from clawbot.config.schema_memory import ExtraPath

# Reference sheet 12.1. Where case does not count in file names these are one file, and it is listed once.
ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"
_ANY_MD = "**/*.md"
# Without O_NONBLOCK, opening a FIFO would wait for somebody at its other end.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# The clocks of file systems tick: every 10 ms at most on Linux, every 2 s on FAT and some network shares.
_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_500_000_000
_SECOND_NS = 1_000_000_000

UNSETTLED = -1
"""The time in a state that no listing ever gives: the file is to be looked at once more."""


class ForbiddenPathError(ClawbotError):
    """A path that is no memory file."""


class UnreadableDocumentError(ClawbotError):
    """A memory file can't be read. `issue` is the same for a report."""

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}.", hint=hint)
        self.issue = Issue(path, f"{reason}: {hint[0].lower()}{hint[1:].rstrip('.')}" if hint else reason)


class Document(Struct, frozen=True):
    """A memory file as it was read.

    `state` is that of the content; its time is UNSETTLED when the file was written a moment before, so that
    the next listing differs and it is compared by `digest` (BLAKE2b-16 of its bytes) once more. `line_numbers` are the
    lines of the file that the lines of `text` come from, where these are not the same. `date` is the day that it is of
    as a whole; `days` tell where lines of the file begin that are of other days, and are empty where none are.
    """

    state: FileState
    text: str
    digest: bytes
    date: dt.date | None
    line_numbers: tuple[int, ...] | None = None
    days: tuple[DayMark, ...] = ()


class DocumentSource(Protocol):
    """Where documents come from. All methods block."""

    @property
    def source(self) -> Source:
        """What its documents are marked with."""
        ...

    def list(self) -> Listing:
        """What there is now. Never raises for a file; a folder that is missing is an issue."""
        ...

    def read(self, state: FileState) -> Document | None:
        """The document; None when it vanished meanwhile. Raises UnreadableDocumentError."""
        ...

    def describe(self, hit: Hit) -> Hit:
        """`hit`, found in one of its documents, as results show it."""
        ...

    def is_gone(self, path: str) -> bool:
        """Whether the document `path` was deleted. Not so while the folder of all of them is away, or can't be looked
        at: a disk that is not there has lost nothing."""
        ...

    def watched(self) -> tuple[Path, ...]:
        """The folders to watch. Those that are missing are left out: ask again when something was owned."""
        ...

    def owns(self, path: Path) -> bool:
        """Whether a change of this absolute path may matter."""
        ...


class MemoryDocuments:
    """MEMORY.md (or memory.md), everything below memory/, and the extra paths of the settings; see reference 12.1.

    `closed` tells for each listing what of it belongs to another agent (None: nothing can). It may block.
    """

    def __init__(
        self, workspace: Path, extra_paths: Sequence[ExtraPath], closed: Callable[[], Closed] | None = None
    ) -> None:
        self._closed = closed
        self._workspace = os.path.normpath(workspace.absolute())
        files = [Root(self._absolute(name), name) for name in ROOT_FILES]
        folder = Root(self._absolute(MEMORY_FOLDER), MEMORY_FOLDER)
        self._extras = [self._extra(extra) for extra in extra_paths]
        self._roots = [*files, folder, *self._extras]

    @property
    def source(self) -> Source:
        """`memory`."""
        return "memory"

    def list(self) -> Listing:
        """All memory files now: MEMORY.md, memory.md, memory/, then the extra paths in their order. Blocks."""
        walk = Walk(self.source, self._closed() if self._closed is not None else None)
        workspace = Path(self._workspace)
        away = why_no_folder(workspace)
        for root in self._roots:
            if not away or not self._is_inside(root):
                walk.add_root(root)
        # Once more, since it may have gone away meanwhile, with files that were not deleted.
        if away := away or why_no_folder(workspace):
            if away == NOT_THERE:
                away = "the workspace is not there: `clawbot workspace init` makes it"
            walk.report(self._workspace, away, *(root.shown for root in self._roots if self._is_inside(root)))
        return walk.listing()

    def read(self, state: FileState) -> Document | None:
        """The document; None when it vanished meanwhile. Blocks. Raises UnreadableDocumentError."""
        absolute = self._absolute(state.path)
        root = self._root_of(absolute)
        if root is not None and self._has_links(root, absolute):
            raise UnreadableDocumentError(state.path, "a folder on the way to it is a symlink")
        content = read_content(absolute, state.path)
        if content is None:
            return None
        read = FileState(state.path, self.source, content.size, content.mtime_ns)
        day = day_of(state.path, content.text)
        return Document(read, content.text, content.digest, day, days=marks_of(content.text, day))

    def describe(self, hit: Hit) -> Hit:
        """The hit as it is."""
        return hit

    def is_gone(self, path: str) -> bool:
        """Whether the file `path`, as results name it, was deleted. Blocks: two looks at most."""
        absolute = self._absolute(path)
        root = self._root_of(absolute)
        above = root.absolute if root is not None and root.configured else self._workspace
        return is_missing(on_disk(absolute)) and not is_missing(above)

    def read_path(self, path: str) -> Document | None:
        """The memory file that somebody asks for by `path`; None when there is none. Blocks.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """
        return self.read(FileState(self._shown(str(self.locate(path))), self.source, 0, 0))

    def locate(self, path: str) -> Path:
        """Where the memory file `path` is or would be: relative to the workspace, absolute, or with `~`. Blocks.

        Where there is none, a file is meant whose name looks the same (see `on_disk`).

        Raises ForbiddenPathError for what is no memory file, for links and for what is no plain file.
        """
        if not path.strip():
            raise ForbiddenPathError("A path is required.", hint="Name a file such as MEMORY.md.")
        absolute = str(on_disk(self._absolute(path.strip())))
        root = self._root_of(absolute)
        if root is None:
            raise ForbiddenPathError(
                f"{printable(path)} is no memory file.",
                hint="Only MEMORY.md, Markdown files below memory/ and those of memory_search.extra_paths can be read.",
            )
        if self._has_links(root, absolute):
            raise ForbiddenPathError(f"{printable(path)} is refused: a folder on the way to it is a symlink.")
        if self._closed is not None and (why := self._closed()(os.path.realpath(absolute))):
            raise ForbiddenPathError(f"{printable(path)} is refused: {why}.")
        mode = _mode(absolute)
        if mode and not stat.S_ISREG(mode):
            kind = "a symlink" if stat.S_ISLNK(mode) else "no plain file"
            raise ForbiddenPathError(f"{printable(path)} is refused: it is {kind}.")
        return Path(absolute)

    def watched(self) -> tuple[Path, ...]:
        """The workspace, memory/ and the extra folders, as far as they are there. Blocks.

        The first needs no watch over its subfolders: what matters of them is named on its own.
        """
        roots = [Path(root.absolute) for root in self._roots]
        folders = [root if _is_folder(root) else root.parent for root in roots]
        return tuple(folder for folder in dict.fromkeys([Path(self._workspace), *folders]) if not why_no_folder(folder))

    def owns(self, path: Path) -> bool:
        """Whether a change of `path` may matter: a memory file, or a folder that holds some. At most one lstat."""
        absolute = os.path.normpath(path)
        if self._root_of(absolute) is not None:
            return True
        inside = any(absolute == root.absolute or _is_within(root.absolute, absolute) for root in self._roots)
        if not inside and not any(_is_within(absolute, root.absolute) for root in self._extras):
            return False
        # A folder that went away took its files along, and nothing tells any more that it was one.
        mode = _mode(absolute)
        folder = stat.S_ISDIR(mode) if mode else not path.suffix
        return folder and not self._is_ignored(absolute)

    def _extra(self, extra: ExtraPath) -> Root:
        absolute = str(on_disk(self._absolute(extra.path)))
        pattern = None if extra.pattern == _ANY_MD else compile_glob(extra.pattern)
        hidden = any(part.startswith(".") for part in extra.pattern.split("/"))
        return Root(absolute, self._shown(absolute), pattern, configured=True, shows_hidden=hidden)

    def _is_inside(self, root: Root) -> bool:
        return root.absolute == self._workspace or _is_within(self._workspace, root.absolute)

    def _absolute(self, path: str | Path) -> str:
        try:
            expanded = Path(path).expanduser()
        except RuntimeError:  # a `~name` that nobody has
            expanded = Path(path)
        return os.path.normpath(self._workspace / expanded)

    def _shown(self, absolute: str) -> str:
        relative = os.path.relpath(absolute, self._workspace)
        return "" if relative == "." else relative

    def _root_of(self, absolute: str) -> Root | None:
        """The root that lists the file `absolute`, or would if it were there; None when no root does."""
        for root in self._roots:
            if absolute == root.absolute and is_markdown(absolute):
                return root
            if not _is_within(root.absolute, absolute):
                continue
            inside = absolute[len(root.absolute.rstrip("/")) + 1 :]
            if root.wants(inside) and IGNORED_FOLDERS.isdisjoint(inside.split("/")[:-1]):
                return root
        return None

    def _has_links(self, root: Root, absolute: str) -> bool:
        """Whether a folder on the way to `absolute` is a symlink. What lies above the root may be one."""
        base = root.absolute if root.configured else self._workspace
        return (root.configured and stat.S_ISLNK(_mode(base))) or any(links_on_the_way(base, absolute))

    def _is_ignored(self, absolute: str) -> bool:
        return any(
            not IGNORED_FOLDERS.isdisjoint(names) or not root.enters(names)
            for root in self._roots
            if _is_within(root.absolute, absolute) and (names := absolute[len(root.absolute) :].strip("/").split("/"))
        )


def _is_within(folder: str, path: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(_mode(path))


def _mode(path: str | Path) -> int:
    """The kind of file at `path`, links not followed; 0 when there is none, or can be none by that name."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


class Content(Struct, frozen=True):
    """A file's text, the size in bytes and the time that tell this content from later ones, and its digest."""

    text: str
    size: int
    mtime_ns: int
    digest: bytes


def read_content(absolute: str, shown: str) -> Content | None:
    """The content of the file `absolute`, called `shown` in errors; None when it is not there. Blocks.

    A byte order mark says whether it is UTF-16, and goes; CRLF becomes LF and NUL becomes U+FFFD; the number of lines
    stays. Where the file was written so shortly before that a later write might leave its time as it is, `mtime_ns` is
    UNSETTLED.
    Raises UnreadableDocumentError.
    """
    try:
        data, found = _read(absolute, shown)
    except ValueError as error:
        raise UnreadableDocumentError(shown, "it is no usable path") from error
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _unreadable(shown, error) from error
    text = _decoded(data, shown)
    return Content(text, len(data), _settled_time(found), digest_of(data))


def digest_of(data: bytes) -> bytes:
    """The digest by which contents are compared: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _read(absolute: str, shown: str) -> tuple[bytes, os.stat_result]:
    descriptor = os.open(absolute, _OPEN)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableDocumentError(shown, "it is no plain file")
        if found.st_size > MAX_FILE_BYTES:
            raise UnreadableDocumentError(shown, f"it is larger than {MAX_FILE_BYTES >> 20} MB", hint="Split it.")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(), found
    finally:
        os.close(descriptor)


def _settled_time(found: os.stat_result) -> int:
    # The times of files come from the machine, so only the machine's own clock can be compared with them.
    changed = change_time(found)
    age = time.time_ns() - changed
    tick = _TICK_NS if changed % _SECOND_NS else _COARSE_TICK_NS
    return UNSETTLED if -tick < age < tick else changed


def _decoded(data: bytes, shown: str) -> str:
    try:
        text = decoded(data)
    except UnicodeDecodeError as error:
        encoding = encoding_of(data)
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"it is not UTF-8 (line {line})"
        if encoding.is_wide:
            reason = f"it is broken {encoding.name[:6].upper()}"
        raise UnreadableDocumentError(shown, reason, hint="Save it as UTF-8 to have it indexed.") from None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _unreadable(shown: str, error: OSError) -> UnreadableDocumentError:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnreadableDocumentError(shown, "it is a symlink, and links are not followed")
    if isinstance(error, PermissionError):
        return UnreadableDocumentError(shown, "it can't be read", hint="Give yourself permission to read it.")
    return UnreadableDocumentError(shown, f"it can't be read ({error.strerror or type(error).__name__})")
