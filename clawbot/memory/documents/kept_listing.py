"""The last listing of a source, kept while inotify reports what changed since: a scan of ten thousand files takes
50 ms, one of those that changed next to nothing.

The kernel queues an event before the system call that causes it returns. So a look at the queue sees everything that
any process of this machine wrote before. What it can't see: other machines (network shares are refused), a file that
is written under another hard link, and what is written through a memory map, until the map is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import stat
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.memory.documents.walking import (
    IGNORED_FOLDERS,
    MAX_FILE_BYTES,
    Closed,
    FileState,
    Listing,
    Root,
    Walk,
    change_time,
    file_identity,
)
from clawbot.memory.values import Source

# Kinds of events, and flags, of <sys/inotify.h>.
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_IS_FOLDER = 0x40000000
_ALL = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_ENDS = _UNMOUNT | _IGNORED | _DELETE_SELF | _MOVE_SELF
_HEAD = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024

LOCAL = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"})
"""File systems on which only this machine writes. On others changes may go unnoticed."""

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")


class FolderEvent(Struct, frozen=True):
    """A change in the folder with the number `folder`: of `name`, a folder itself or not; "" for the folder itself, of
    which nothing is known any more."""

    folder: int
    name: str
    is_folder: bool


class FolderWatch:
    """The changes in folders since the last `events`. For one thread at a time."""

    def __init__(self) -> None:
        """Raises OSError where the system has no inotify, or none left."""
        _demand_linux()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        weakref.finalize(self, os.close, self._queue)
        self._mounts = os.open(_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._mounts)
        self._mounted = select.poll()
        self._mounted.register(self._mounts, select.POLLPRI | select.POLLERR)
        self._local: dict[int, bool] = {}
        # A child of a fork would take the events of its parent.
        self._process = os.getpid()

    def add(self, folder: int) -> int:
        """Watch the open directory `folder` (a descriptor); its number in events. Raises OSError."""
        path = f"/proc/self/fd/{folder}"
        device = os.fstat(folder).st_dev
        if device not in self._local:
            self._local[device] = _kind_of_mount(str(Path(path).readlink())) in LOCAL
        if not self._local[device]:
            raise OSError("others may write to this file system unnoticed")
        return _checked(self._libc.inotify_add_watch(self._queue, os.fsencode(path), _ALL))

    def events(self) -> list[FolderEvent] | None:
        """What changed since the last call; None if that is unknown, because there was too much, or something was
        mounted."""
        if os.getpid() != self._process:
            return None
        is_known = not self._mounted.poll(0)
        if not is_known:
            self._local.clear()
        found: list[FolderEvent] = []
        while data := self._read():
            for number, kinds, name in _events_in(data):
                is_known &= not kinds & _OVERFLOW
                found.append(FolderEvent(number, "" if kinds & _ENDS else name, bool(kinds & _IS_FOLDER)))
        return found if is_known else None

    def _read(self) -> bytes:
        try:
            return os.read(self._queue, _BUFFER_BYTES)
        except BlockingIOError:
            return b""


def _demand_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise OSError("only Linux has inotify")


def _events_in(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The number, the kinds and the name of each event."""
    start = 0
    while start < len(data):
        number, kinds, _, length = _HEAD.unpack_from(data, start)
        start += _HEAD.size + length
        yield number, kinds, os.fsdecode(data[start - length : start].rstrip(b"\0"))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _kind_of_mount(path: str) -> str:
    """The name of the file system that the real path `path` is on."""
    best, kind = "", ""
    for line in os.fsdecode(_MOUNTS.read_bytes()).splitlines():
        before, _, after = line.partition(" - ")
        place = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
        is_on_the_way = path == place or path.startswith(place.rstrip("/") + "/")
        # The last of several on one place is on top.
        if is_on_the_way and len(place) >= len(best):
            best, kind = place, after.split(" ")[0]
    return kind


class _Folder(Struct):
    """A watched folder: as what it was listed (the root, and the path inside it), and the roots directly in it."""

    listed: list[tuple[Root, str]] = []
    roots: dict[str, Root] = {}


class _Kept(Struct):
    """A listing, where each file is in it, the folders by number, and what else it depends on: the identity of the
    folders that hold the roots, and what the fence said of folders. It ends at `until`, by the monotonic clock."""

    listing: Listing
    places: dict[str, int]
    folders: Mapping[int, _Folder]
    holders: Mapping[str, tuple[int, int]]
    fence: Mapping[str, str]
    until: float


class _Recorder:
    """Notes what a walk depends on, and watches each folder before it is read. `is_sure`: all of it is watched."""

    def __init__(self, watch: FolderWatch | None, closed: Closed | None) -> None:
        self.closed = self._asked if closed is not None else None
        self.folders: dict[int, _Folder] = {}
        self.holders: dict[str, tuple[int, int]] = {}
        self.fence: dict[str, str] = {}
        self.is_sure = watch is not None
        self._watch = watch
        self._why_closed = closed

    def hold(self, roots: Sequence[Root]) -> None:
        """Watch the folders that hold `roots`, which may come and go."""
        for root in roots if self.is_sure else ():
            holder, name = os.path.split(root.absolute)
            files, path = root.reached(holder)
            try:
                with files.folder(path) as folder:
                    found = os.fstat(folder)
                    self.holders[holder] = found.st_dev, found.st_ino
                    if (watched := self._add(folder)) is not None:
                        watched.roots[name] = root
            except OSError:
                self.is_sure = False
                return

    def opened(self, folder: int, root: Root, inside: str) -> None:
        """The walk is about to read `folder` (a descriptor), which is at `inside` below `root`."""
        if (watched := self._add(folder)) is not None:
            watched.listed.append((root, inside))

    def _add(self, folder: int) -> _Folder | None:
        try:
            number = self._watch.add(folder) if self._watch is not None and self.is_sure else None
        except OSError:
            number = None
        self.is_sure = number is not None
        return None if number is None else self.folders.setdefault(number, _Folder())

    def _asked(self, path: str) -> str:
        self.fence[path] = self._why_closed(path) if self._why_closed is not None else ""
        return self.fence[path]


LONGEST_SECONDS = 60.0
"""For how long a listing is kept at most: watches may be lost, and a file can be written under another hard link."""


class KeptListing:
    """Listings of `roots`, made by `walk` where there is none that still holds. Thread-safe: a walk that hangs holds up
    nobody else."""

    def __init__(
        self,
        source: Source,
        roots: Sequence[Root],
        walk: Callable[[Walk], None],
        closed: Callable[[], Closed] | None,
        *,
        watch: bool,
    ) -> None:
        """`closed` is that of `MemoryDocuments`. Without `watch` each listing is a walk."""
        self._source = source
        self._roots = roots
        self._walk = walk
        self._closed = closed
        self._watches = watch
        self._lock = threading.Lock()
        self._watch: FolderWatch | None = None
        self._kept: _Kept | None = None
        self._walks = 0

    def get(self) -> Listing:
        """What a walk would list now: the same object while nothing has changed. Blocks."""
        kept, closed = self._kept, self._closed() if self._closed is not None else None
        holds = kept is not None and all(closed is None or closed(path) == why for path, why in kept.fence.items())
        with self._lock:
            self._kept = self._renewed(self._kept) if self._kept is not None and holds else None
            if self._kept is not None:
                return self._kept.listing
            self._walks += 1
            number, watch = self._walks, self._begun_watch()
        until = time.monotonic() + LONGEST_SECONDS
        recorder = _Recorder(watch, closed)
        recorder.hold(self._roots)
        walk = Walk(self._source, recorder.closed, recorder.opened)
        self._walk(walk)
        listing = walk.listing()
        with self._lock:
            # Events that a later walk has thrown away may have been about this one.
            if number == self._walks and recorder.is_sure and not listing.hidden and not walk.has_links:
                places = {state.path: place for place, state in enumerate(listing.files)}
                self._kept = _Kept(listing, places, recorder.folders, recorder.holders, recorder.fence, until)
        return listing

    def _begun_watch(self) -> FolderWatch | None:
        """The watch, without what happened before; None in a process that has listed nothing before, and may never do
        so again, and where the system offers none."""
        if not self._watches or self._walks == 1:
            return None
        with contextlib.suppress(OSError):
            self._watch = self._watch or FolderWatch()
            self._watch.events()
        return self._watch

    def _renewed(self, kept: _Kept) -> _Kept | None:
        """`kept` as of now; None if only a walk can tell."""
        events = self._watch.events() if self._watch is not None else None
        if events is None or time.monotonic() > kept.until:
            return None
        if any(file_identity(path) != known for path, known in kept.holders.items()):
            return None
        changed: dict[str, str] = {}
        for event in dict.fromkeys(events):
            found = _changed(event, kept)
            if found is None:
                return None
            changed |= found
        return _updated(kept, changed)


def _changed(event: FolderEvent, kept: _Kept) -> dict[str, str] | None:
    """The listed files that `event` changes, and where they are; None if it may change more than these."""
    folder = kept.folders.get(event.folder)
    if folder is None:
        return {}
    if not event.name:
        return None
    found: dict[str, str] = {}
    listed = [(root, inside) for root, inside in folder.listed if not _is_passed_over(event, root)]
    if event.is_folder and (listed or event.name in folder.roots):
        return None
    for root, inside in listed:
        shown = f"{root.shown}/{inside}{event.name}" if root.shown else f"{inside}{event.name}"
        absolute = f"{root.absolute}/{inside}{event.name}"
        if shown in kept.places:
            found[shown] = absolute
        elif kept.listing.issues or root.wants(inside + event.name) or not _is_harmless(absolute):
            return None
    if (itself := folder.roots.get(event.name)) is not None:
        if itself.shown not in kept.places:
            return None
        found[itself.shown] = itself.absolute
    return found


def _is_harmless(absolute: str) -> bool:
    """Whether what is now at `absolute`, which is no note, says nothing about notes."""
    try:
        found = os.lstat(absolute)
    except OSError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _is_passed_over(event: FolderEvent, root: Root) -> bool:
    return not root.enters([event.name]) or (event.is_folder and event.name in IGNORED_FOLDERS)


def _updated(kept: _Kept, changed: Mapping[str, str]) -> _Kept | None:
    """`kept` with the current states of the files `changed`; None if one is no plain file any more."""
    files = list(kept.listing.files) if changed else []
    for shown, absolute in changed.items():
        try:
            found = os.lstat(absolute)
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size > MAX_FILE_BYTES:
            return None
        place = kept.places[shown]
        files[place] = FileState(shown, files[place].source, found.st_size, change_time(found))
    if all(files[kept.places[shown]] == kept.listing.files[kept.places[shown]] for shown in changed):
        return kept
    return msgspec.structs.replace(kept, listing=msgspec.structs.replace(kept.listing, files=tuple(files)))
