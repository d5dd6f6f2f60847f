"""Puts lines at the end of a transcript: each one whole or not at all, whatever the disk does."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from clawbot.files import PRIVATE_FILE, create_exclusive
from clawbot.sessions.errors import SessionStoreError, store_error

# More side files than anybody has crashes between two looks; then something else is wrong.
MOST_TORN_FILES = 1000


class LineAppender:
    """The writing end of a transcript. One thread at a time; the caller holds the session's lock.

    A line is one `write` on an O_APPEND descriptor. When that fails, the file is cut back to what it was; where even
    that fails, the next line starts on a new one, so that a torn line never spoils its neighbour.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise store_error("open", path, error) from error

    @classmethod
    def create(cls, path: Path, first: bytes) -> LineAppender:
        """A new file with its first line, both on disk when this returns. Raises SessionStoreError; leaves nothing."""
        try:
            if not create_exclusive(path, first, mode=PRIVATE_FILE):
                raise SessionStoreError(f"{path} exists already.", hint="Start a session with another id.")
        except OSError as error:
            raise store_error("create", path, error) from error
        return cls(path)

    def close(self) -> None:
        """Give the file back. Twice does no harm."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def append(self, line: bytes, *, sync: bool = False) -> int:
        """Write `line` and return the byte where it begins. `sync`: it is on the disk when this returns.

        Raises SessionStoreError; then the line is not in the file, and a later call works once the cause is gone.
        """
        self._check_in_place()
        before = self.size
        data = line if self._ends_whole(before) else b"\n" + line
        try:
            self._write(data)
            if sync:
                os.fsync(self._descriptor)
        except OSError as error:
            # If cutting back fails too, the next line sees the unfinished one and starts on a line of its own.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise store_error("write to", self.path, error) from error
        return before + len(data) - len(line)

    def _write(self, data: bytes) -> None:
        """One write; a second one only where the disk took less, to learn why."""
        while data:
            written = os.write(self._descriptor, data)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            data = data[written:]

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return os.fstat(self._descriptor).st_size

    def complete(self) -> None:
        """Give the last line the line break that it lacks. Raises SessionStoreError."""
        if not self._ends_whole(self.size):
            self.append(b"")

    def cut_off(self, start: int) -> Path:
        """Move everything from byte `start` on into a side file `<name>.torn`, and return its path.

        The side file is on disk before the transcript gets shorter. Raises SessionStoreError; nothing is lost then.
        """
        torn = os.pread(self._descriptor, self.size - start, start)
        try:
            side = _set_aside(self.path, torn)
            os.ftruncate(self._descriptor, start)
            os.fsync(self._descriptor)
        except OSError as error:
            raise store_error("cut the torn end off", self.path, error) from error
        return side

    def _ends_whole(self, size: int) -> bool:
        return size == 0 or os.pread(self._descriptor, 1, size - 1) == b"\n"

    def _check_in_place(self) -> None:
        """A file that was deleted or replaced would swallow what is written to it."""
        try:
            there, here = self.path.stat(), os.fstat(self._descriptor)
        except FileNotFoundError:
            there = None
        except OSError as error:
            raise store_error("write to", self.path, error) from error
        if there is None or (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise SessionStoreError(
                f"{self.path} was deleted or replaced while the session was open.",
                hint="Put it back, or start a fresh session with /new.",
            )


def _set_aside(path: Path, torn: bytes) -> Path:
    """Keep `torn` beside `path` in a file of its own, unless a crash in between has left it there already."""
    for number in range(1, MOST_TORN_FILES):
        side = path.with_name(f"{path.name}.torn" if number == 1 else f"{path.name}.torn.{number}")
        if create_exclusive(side, torn) or side.read_bytes() == torn:
            return side
    raise OSError(errno.EEXIST, "too many side files of torn ends", str(path))
