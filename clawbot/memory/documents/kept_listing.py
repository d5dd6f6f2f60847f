"""The last listing of a source, kept while inotify reports no change: among ten thousand files a scan costs each search
50 to 80 ms of CPU, the check of the queue 0.1 ms.

The kernel queues an event before the system call that causes it returns. So a check of the queue sees everything that
any process of this machine wrote before. It misses changes by other machines (network shares are refused), of a file
that is written under another hard link, and through a memory map, until the map is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import stat
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.memory.documents.walking import Closed, Listing, Opened, Root, Walk, file_identity

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


Event = tuple[int, str, bool]
"""A change: the number of a watched folder; the name in it, "" for the folder itself, whose content is unknown now; and
whether that is a folder."""


class FolderWatch:
    """Watches folders with inotify. For one thread at a time."""

    def __init__(self) -> None:
        """Raises OSError where the system has no inotify, or none left."""
        if os.uname().sysname != "Linux":
            raise OSError("only Linux has inotify")
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
        """Watch the open directory `folder` (a descriptor); returns its number in events. Raises OSError."""
        path = f"/proc/self/fd/{folder}"
        device = os.fstat(folder).st_dev
        if device not in self._local:
            self._local[device] = _kind_of_mount(str(Path(path).readlink())) in LOCAL
        if not self._local[device]:
            raise OSError("other machines may write to this file system")
        return _checked(self._libc.inotify_add_watch(self._queue, os.fsencode(path), _ALL))

    def events(self) -> list[Event] | None:
        """Return the changes since the last call; None if unknown, after too many of them or after a mount."""
        if os.getpid() != self._process:
            return None
        is_known = not self._mounted.poll(0)
        if not is_known:
            self._local.clear()
        found: list[Event] = []
        while data := _read(self._queue):
            for number, kinds, name in _events_in(data):
                is_known &= not kinds & _OVERFLOW
                found.append((number, "" if kinds & _ENDS else name, bool(kinds & _IS_FOLDER)))
        return found if is_known else None


def _read(queue: int) -> bytes:
    try:
        return os.read(queue, _BUFFER_BYTES)
    except BlockingIOError:
        return b""


def _events_in(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the number, the kinds and the name of each event."""
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
    """Return the type of the file system that holds the real path `path`."""
    best, kind = "", ""
    for line in os.fsdecode(_MOUNTS.read_bytes()).splitlines():
        before, _, after = line.partition(" - ")
        mount = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
        is_above = path == mount or path.startswith(mount.rstrip("/") + "/")
        # The last of several mounts on one path is on top.
        if is_above and len(mount) >= len(best):
            best, kind = mount, after.split(" ")[0]
    return kind


class _Kept(Struct):
    """A listing and what it depends on: the paths of each watched folder, by its number in events; the identity of the
    folders that hold the roots; what `closed` returned by path. It expires at `until`, by the monotonic clock."""

    listing: Listing
    folders: Mapping[int, set[str]]
    holders: Mapping[str, tuple[int, int]]
    fence: Mapping[str, str]
    until: float


class _Recorder:
    """Records what a walk depends on, and watches each folder before it is read. `is_sure`: all of it is watched."""

    def __init__(self, watch: FolderWatch | None, closed: Closed | None) -> None:
        self.closed = self._asked if closed is not None else None
        self.folders: dict[int, set[str]] = {}
        self.holders: dict[str, tuple[int, int]] = {}
        self.fence: dict[str, str] = {}
        self.is_sure = watch is not None
        self._watch = watch
        self._why_closed = closed

    def hold(self, roots: Sequence[Root]) -> None:
        """Watch the folders that hold `roots`, which may come and go."""
        for root in roots if self.is_sure else ():
            holder, _ = os.path.split(root.absolute)
            files, path = root.reached(holder)
            try:
                with files.folder(path) as folder:
                    found = os.fstat(folder)
                    self.holders[holder] = found.st_dev, found.st_ino
                    self.opened(folder, holder)
            except OSError:
                self.is_sure = False

    def opened(self, folder: int, path: str) -> None:
        """Watch `folder` (a descriptor), which is at `path` and about to be read."""
        if self._watch is not None and self.is_sure:
            try:
                self.folders.setdefault(self._watch.add(folder), set()).add(path)
            except OSError:
                self.is_sure = False

    def _asked(self, path: str) -> str:
        self.fence[path] = self._why_closed(path) if self._why_closed is not None else ""
        return self.fence[path]


MAX_SECONDS = 60.0
"""How long a listing is kept: watches may be lost, and a file can be written under another hard link."""


class KeptListing:
    """Listings of `roots`, by `walk` unless the last one is still valid. Thread-safe: a walk that hangs blocks no other
    caller."""

    def __init__(
        self,
        roots: Sequence[Root],
        walk: Callable[[Closed | None, Opened], Walk],
        owns: Callable[[Path], bool],
        closed: Callable[[], Closed] | None,
        *,
        watch: bool,
    ) -> None:
        """`owns` and `closed` are those of `MemoryDocuments`. Without `watch` each listing is a walk."""
        self._roots = roots
        self._walk = walk
        self._owns = owns
        self._closed = closed
        self._watches = watch
        self._lock = threading.Lock()
        self._watch: FolderWatch | None = None
        self._kept: _Kept | None = None
        self._walks = 0

    def get(self) -> Listing:
        """Return what a walk would list now: the same object while nothing has changed. Blocks."""
        kept, closed = self._kept, self._closed() if self._closed is not None else None
        holds = kept is not None and all(closed is None or closed(path) == why for path, why in kept.fence.items())
        with self._lock:
            if holds and self._kept is not None and self._is_valid(self._kept):
                return self._kept.listing
            self._kept = None
            self._walks += 1
            number, watch = self._walks, self._begun_watch()
        until = time.monotonic() + MAX_SECONDS
        recorder = _Recorder(watch, closed)
        recorder.hold(self._roots)
        walk = self._walk(recorder.closed, recorder.opened)
        listing = walk.listing()
        with self._lock:
            # A later walk may have dropped events that concern this one.
            if number == self._walks and recorder.is_sure and not listing.hidden and not walk.has_links:
                self._kept = _Kept(listing, recorder.folders, recorder.holders, recorder.fence, until)
        return listing

    def _begun_watch(self) -> FolderWatch | None:
        """Return the watch, without earlier events; None at the first listing of a process, which may be its only one,
        and where the system offers none."""
        if not self._watches or self._walks == 1:
            return None
        with contextlib.suppress(OSError):
            self._watch = self._watch or FolderWatch()
            self._watch.events()
        return self._watch

    def _is_valid(self, kept: _Kept) -> bool:
        events = self._watch.events() if self._watch is not None else None
        if events is None or time.monotonic() > kept.until:
            return False
        if any(file_identity(path) != known for path, known in kept.holders.items()):
            return False
        return not any(
            not name or kept.listing.issues or self._matters(Path(folder, name), is_folder=is_folder)
            for number, name, is_folder in dict.fromkeys(events)
            for folder in kept.folders.get(number, ())
        )

    def _matters(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a change of `path` may change the listing: also by a link, symbolic or hard."""
        if (owned := self._owns(path)) or is_folder:
            return owned
        try:
            found = path.lstat()
        except OSError:
            return False
        return not stat.S_ISREG(found.st_mode) or found.st_nlink > 1
