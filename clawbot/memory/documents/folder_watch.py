"""The only use of inotify: which names in some folders of this machine changed since one last asked.

The kernel queues an event before the system call that causes it returns. So a look at the queue sees everything that
any process of this machine wrote before. What it can't see: other machines (network shares are refused), a file that
is written under another hard link, and what is written through a memory map, until the map is closed.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import struct
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

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
