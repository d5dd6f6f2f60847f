"""The memory files: which they are, how they are read, and which paths may be requested."""

from __future__ import annotations

import datetime as dt
import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from clawbot.errors import ClawbotError
from clawbot.files import version_of
from clawbot.guarded import SpecialFileError
from clawbot.memory.dates.named import YEAR_LAST, Order, is_ambiguous, named_path, order_in, order_of_locale
from clawbot.memory.documents.days import DayMark, days_in, marks_of, named_by
from clawbot.memory.documents.kept_listing import KeptListing
from clawbot.memory.documents.walking import (
    IGNORED_FOLDERS,
    MAX_FILE_BYTES,
    NOT_THERE,
    Closed,
    FileState,
    Listing,
    Opened,
    Root,
    Walk,
    change_time,
    is_markdown,
    is_missing,
    printable,
    why_no_folder,
)
from clawbot.memory.values import Hit, Issue, Source
from clawbot.text.encoding import decoded, encoding_of
from clawbot.text.globs import compile_glob
from clawbot.text.names import on_disk

if TYPE_CHECKING:
    from clawbot.config.schema_memory import ExtraPath

# On case-insensitive file systems these are one file, which is listed once.
ROOT_FILES = ("MEMORY.md", "memory.md")
MEMORY_FOLDER = "memory"
_ANY_MD = "**/*.md"
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# The timestamp granularity of file systems: up to 10 ms on Linux, 2 s on FAT and some network shares.
_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_500_000_000
_SECOND_NS = 1_000_000_000

UNSETTLED = -1
"""A modification time that no listing returns: the file must be compared again."""


class ForbiddenPathError(ClawbotError):
    """A path that is not a memory file."""


class UnreadableDocumentError(ClawbotError):
    """A memory file can't be read. `issue` is the same for reports."""

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}.", hint=hint)
        self.issue = Issue(path, f"{reason}: {hint[0].lower()}{hint[1:].rstrip('.')}" if hint else reason)


class Document(Struct, frozen=True):
    """A memory file as read.

    `state` is that of the content; its time is UNSETTLED if the file was written a moment before, so that the next
    listing differs and the file is compared by `digest` (BLAKE2b-16 of its bytes). `line_numbers` map the lines of
    `text` to the file, if they differ. `date` is the day of the document, or the last one of its week or month;
    `days` mark where lines of other days begin, and all days of a week or month.
    """

    state: FileState
    text: str
    digest: bytes
    date: dt.date | None
    line_numbers: tuple[int, ...] | None = None
    days: tuple[DayMark, ...] = ()


class AmbiguousDay(Struct, frozen=True):
    """A note that is named by two days, such as 03-04-2026, and the one that it is read as: as the names in the folder
    show (`by_folder`), or the locale."""

    path: str
    day: dt.date | None
    by_folder: bool


class DocumentSource(Protocol):
    """A source of documents. All methods block."""

    @property
    def source(self) -> Source:
        """The name of the source."""

    def list(self) -> Listing:
        """Return the current documents. Never raises for a single file; a missing folder is an issue."""

    def read(self, state: FileState) -> Document | None:
        """Return the document; None if it was deleted since. Raises UnreadableDocumentError."""

    def describe(self, hit: Hit) -> Hit:
        """`hit`, found in one of its documents, as shown in results."""

    def is_gone(self, path: str) -> bool:
        """Return whether the document `path` was deleted. False while the folder of all documents is missing or
        inaccessible, for example an unmounted disk."""

    def watched(self) -> tuple[Path, ...]:
        """Return the existing folders to watch; ask again after a change that `owns` accepts."""

    def owns(self, path: Path) -> bool:
        """Return whether a change of this absolute path may matter."""


class MemoryDocuments:
    """MEMORY.md (or memory.md), everything below memory/, and the configured extra paths.

    `closed` returns for each listing what belongs to other agents (None: nothing can). It may block. With `watch`, a
    listing is kept until the system reports a change. `zone` is the user's, None: the machine's.
    """

    def __init__(
        self,
        workspace: Path,
        extra_paths: Sequence[ExtraPath],
        closed: Callable[[], Closed] | None = None,
        *,
        watch: bool = False,
        zone: dt.tzinfo | None = None,
    ) -> None:
        self._closed = closed
        self._zone = zone
        # The orders of day and month that names in each folder and below it show; and the last listing, as it is and as
        # it is returned.
        self._orders: Mapping[str, Collection[Order]] = {}
        self._marked_listing: tuple[Listing | None, Listing] = None, Listing((), ())
        self._workspace = os.path.normpath(workspace.absolute())
        base = self._workspace
        files = [Root(self._absolute(name), name, base=base) for name in ROOT_FILES]
        folder = Root(self._absolute(MEMORY_FOLDER), MEMORY_FOLDER, base=base)
        self._extras = [self._extra(extra) for extra in extra_paths]
        self._roots = [*files, folder, *self._extras]
        self._listings = KeptListing(self._roots, self._walk, self.owns, closed, watch=watch)

    @property
    def source(self) -> Source:
        return "memory"

    def list(self) -> Listing:
        """Return all current memory files: MEMORY.md, memory.md, memory/, then the extra paths in order. Blocks."""
        listing = self._listings.get()
        if listing is not self._marked_listing[0]:
            orders: dict[str, set[Order]] = {}
            # One search for all of them: the names of nearly all notes have the year first.
            has_order = YEAR_LAST.search("\n".join([state.path for state in listing.files]))
            for state in listing.files if has_order else ():
                folder, _, name = state.path.rpartition("/")
                while (order := order_in(name)) and folder:
                    orders.setdefault(folder, set()).add(order)
                    folder = folder.rpartition("/")[0]
            self._orders = orders
            files = tuple(map(self._marked, listing.files)) if has_order else listing.files
            self._marked_listing = listing, listing if files == listing.files else replace(listing, files=files)
        return self._marked_listing[1]

    def _walk(self, closed: Closed | None, opened: Opened) -> Walk:
        walk = Walk(self.source, closed, opened)
        workspace = Path(self._workspace)
        away = why_no_folder(workspace)
        for root in self._roots:
            if not away or not self._is_inside(root):
                walk.add_root(root)
        # Check again: the folder may have been unmounted since, without its files being deleted.
        if away := away or why_no_folder(workspace):
            if away == NOT_THERE:
                away = "the workspace does not exist: `clawbot workspace init` creates it"
            walk.report(self._workspace, away, *(root.shown for root in self._roots if self._is_inside(root)))
        return walk

    def read(self, state: FileState) -> Document | None:
        """Return the document; None if it was deleted since. Blocks. Raises UnreadableDocumentError."""
        absolute = self._absolute(state.path)
        root = self._root_of(absolute)
        content = read_content(root or Root(absolute, state.path, base=self._workspace), absolute, state.path)
        if content is None:
            return None
        read = self._marked(FileState(state.path, self.source, content.size, content.mtime_ns))
        inside = self._inside(root, absolute)
        named = named_by(inside, content.text, self._order(state.path), self._zone)
        period = named.period if named else None
        marks = marks_of(content.text, days_in(period) if period else ())
        return Document(read, content.text, content.digest, period.end if period else None, days=marks)

    def ambiguous(self) -> tuple[AmbiguousDay, ...]:
        """Return the notes whose names leave the day and the month ambiguous. Blocks."""
        found = []
        for state in self.list().files:
            if is_ambiguous(state.path):
                absolute = self._absolute(state.path)
                named = named_path(self._inside(self._root_of(absolute), absolute), self._order(state.path))
                if named and named.is_ambiguous:
                    day = named.period.start if named.period else None
                    found.append(AmbiguousDay(state.path, day, self._shown_order(state.path) is not None))
        return tuple(found)

    def _inside(self, root: Root | None, absolute: str) -> str:
        """Return the path below its root, whose own name and location mean nothing for its notes."""
        is_folder = root is not None and _is_within(root.absolute, absolute)
        return absolute[len(root.absolute) :].strip("/") if root and is_folder else Path(absolute).name

    def _order(self, path: str) -> Order | None:
        """Return the order of ambiguous days at `path`: that of other names in its folder, else that of the locale."""
        return self._shown_order(path) or order_of_locale(os.environ)

    def _shown_order(self, path: str) -> Order | None:
        """Return the order that names show in the folder of `path`, or in one above it."""
        folder = path
        while folder := folder.rpartition("/")[0]:
            if len(shown := self._orders.get(folder, ())) == 1:
                return next(iter(shown))
        return None

    def _marked(self, state: FileState) -> FileState:
        """`state` with another time where its ambiguous name is read in another order, so that it is read again."""
        if state.mtime_ns == UNSETTLED or not is_ambiguous(state.path):
            return state
        mark = {None: 0, "day": 1, "month": 2}[self._order(state.path)]
        return FileState(state.path, state.source, state.size, state.mtime_ns ^ mark)

    def describe(self, hit: Hit) -> Hit:
        return hit

    def is_gone(self, path: str) -> bool:
        """Return whether the file with the result path `path` was deleted. Blocks: at most two stats."""
        absolute = self._absolute(path)
        root = self._root_of(absolute)
        above = root.absolute if root is not None and root.configured else self._workspace
        return is_missing(on_disk(absolute)) and not is_missing(above)

    def read_path(self, path: str) -> Document | None:
        """Return the memory file requested as `path`; None if it does not exist. Blocks.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """
        return self.read(FileState(self._shown(str(self.locate(path))), self.source, 0, 0))

    def locate(self, path: str) -> Path:
        """Return the actual or future location of the memory file `path`: relative to the workspace, absolute, or with
        `~`. Blocks.

        If it does not exist, one whose name is the same in another Unicode form is used (see `on_disk`).

        Raises ForbiddenPathError for paths that are not memory files, for links and for special files.
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
        if self._closed is not None and (why := self._closed()(os.path.realpath(absolute))):
            raise ForbiddenPathError(f"{printable(path)} is refused: {why}.")
        files, inside = root.entry(absolute)
        try:
            found = files.state(inside)
        except (OSError, ValueError) as error:
            if isinstance(error, NotADirectoryError) and error.errno == errno.ELOOP:
                raise ForbiddenPathError(f"{printable(path)} is refused: links are not followed.") from error
            found = None  # it can't be read either
        if found is not None and not stat.S_ISREG(found.st_mode):
            kind = "a symlink" if stat.S_ISLNK(found.st_mode) else "no plain file"
            raise ForbiddenPathError(f"{printable(path)} is refused: it is {kind}.")
        return Path(absolute)

    def watched(self) -> tuple[Path, ...]:
        """Return the workspace, memory/ and the extra folders, if they exist. Blocks.

        The workspace needs no recursive watch: the relevant subfolders are listed themselves.
        """
        roots = [Path(root.absolute) for root in self._roots]
        folders = [root if stat.S_ISDIR(_mode(root)) else root.parent for root in roots]
        return tuple(folder for folder in dict.fromkeys([Path(self._workspace), *folders]) if not why_no_folder(folder))

    def owns(self, path: Path) -> bool:
        """Return whether a change of `path` may matter: a memory file, or a folder of them. At most one lstat."""
        absolute = os.path.normpath(path)
        if self._root_of(absolute) is not None:
            return True
        inside = any(absolute == root.absolute or _is_within(root.absolute, absolute) for root in self._roots)
        if not inside and not any(_is_within(absolute, root.absolute) for root in self._extras):
            return False
        # A deleted path may have been a folder with memory files; that can't be determined any more.
        mode = _mode(absolute)
        folder = stat.S_ISDIR(mode) if mode else not path.suffix
        return folder and not self._is_ignored(absolute)

    def _extra(self, extra: ExtraPath) -> Root:
        absolute = str(on_disk(self._absolute(extra.path)))
        pattern = None if extra.pattern == _ANY_MD else compile_glob(extra.pattern)
        hidden = any(part.startswith(".") for part in extra.pattern.split("/"))
        base = self._workspace if f"{absolute}/".startswith(f"{self._workspace}/") else ""
        return Root(absolute, self._shown(absolute), pattern, configured=True, shows_hidden=hidden, base=base)

    def _is_inside(self, root: Root) -> bool:
        return root.absolute == self._workspace or _is_within(self._workspace, root.absolute)

    def _absolute(self, path: str | Path) -> str:
        try:
            expanded = Path(path).expanduser()
        except RuntimeError:  # the user of `~name` does not exist
            expanded = Path(path)
        return os.path.normpath(self._workspace / expanded)

    def _shown(self, absolute: str) -> str:
        relative = os.path.relpath(absolute, self._workspace)
        return "" if relative == "." else relative

    def _root_of(self, absolute: str) -> Root | None:
        """Return the root that lists the file `absolute`, or would if it existed; None if there is none."""
        for root in self._roots:
            if absolute == root.absolute and is_markdown(absolute):
                return root
            if not _is_within(root.absolute, absolute):
                continue
            inside = absolute[len(root.absolute.rstrip("/")) + 1 :]
            if root.wants(inside) and IGNORED_FOLDERS.isdisjoint(inside.split("/")[:-1]):
                return root
        return None

    def _is_ignored(self, absolute: str) -> bool:
        return any(
            not IGNORED_FOLDERS.isdisjoint(names) or not root.enters(names)
            for root in self._roots
            if _is_within(root.absolute, absolute) and (names := absolute[len(root.absolute) :].strip("/").split("/"))
        )


def _is_within(folder: str, path: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _mode(path: str | Path) -> int:
    """Return the file mode of `path`, without following links; 0 if it does not or cannot exist."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


class Content(Struct, frozen=True):
    """A file's text, the size in bytes and modification time that identify this version, and its digest."""

    text: str
    size: int
    mtime_ns: int
    digest: bytes


def read_content(root: Root, absolute: str, shown: str) -> Content | None:
    """Return the content of the file `absolute` of `root`, called `shown` in errors; None if it does not exist. Blocks.

    A byte order mark selects UTF-16 and is removed; CRLF becomes LF and NUL becomes U+FFFD, with as many lines.
    If the file was written so recently that another write could leave the time unchanged, `mtime_ns` is UNSETTLED.
    Raises UnreadableDocumentError.
    """
    try:
        data, found = _read(root, absolute, shown)
    except ValueError as error:
        raise UnreadableDocumentError(shown, "it is no usable path") from error
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _unreadable(shown, error) from error
    text = _decoded(data, shown)
    return Content(text, len(data), _settled_time(found), bytes.fromhex(version_of(data)))


def _read(root: Root, absolute: str, shown: str) -> tuple[bytes, os.stat_result]:
    files, inside = root.entry(absolute)
    with os.fdopen(files.open(inside), "rb") as stream:
        found = os.fstat(stream.fileno())
        if found.st_size > MAX_FILE_BYTES:
            raise UnreadableDocumentError(shown, f"it is larger than {MAX_FILE_BYTES >> 20} MB", hint="Split it.")
        return stream.read(), found


def _settled_time(found: os.stat_result) -> int:
    # File times come from the machine's clock, so only that clock can be compared with them.
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
        return UnreadableDocumentError(shown, "it is a symlink, or below one, and links are not followed")
    if isinstance(error, SpecialFileError | IsADirectoryError):
        return UnreadableDocumentError(shown, "it is no plain file")
    if isinstance(error, PermissionError):
        return UnreadableDocumentError(shown, "it can't be read", hint="Give yourself permission to read it.")
    return UnreadableDocumentError(shown, f"it can't be read ({error.strerror or type(error).__name__})")
