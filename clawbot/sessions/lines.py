"""Reads the lines of a file backwards from its end, at a cost independent of its length, and appends lines
atomically."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from msgspec import Struct

from clawbot.files import PRIVATE_FILE, create_complete
from clawbot.sessions.errors import SessionStoreError, store_error, store_errors

FIRST_BLOCK = 64 * 1024
LARGEST_BLOCK = 1024 * 1024
# A header has a few hundred bytes; a longer first line is not one.
HEAD_BYTES = 64 * 1024


class RawLine(Struct, frozen=True, gc=False):
    """A line without its line break, from byte `start` to before byte `end`."""

    start: int
    end: int
    raw: bytes


class ByteSource:
    """A file for random access. `bytes_read` counts the bytes read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.bytes_read = 0

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open `path` for reading. Raises OSError."""
        return cls(os.open(path, os.O_RDONLY))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def is_closed(self) -> bool:
        """Whether there is nothing to read any more."""
        return self._descriptor < 0

    @property
    def size(self) -> int:
        """The current size in bytes."""
        return os.fstat(self._descriptor).st_size

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`; fewer at the end of the file."""
        parts = []
        while start < end:
            part = os.pread(self._descriptor, end - start, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
        data = b"".join(parts)
        self.bytes_read += len(data)
        return data


def lines_backwards(source: ByteSource, end: int) -> Iterator[RawLine]:
    """The non-empty lines before byte `end`, last one first. Needs memory for one block and the longest line."""
    block, position, line_end = FIRST_BLOCK, end, end
    pending: list[bytes] = []  # parts of the incomplete line, last one first
    while position > 0:
        start = max(0, position - block)
        data = source.read(start, position)
        cut = len(data)
        while (found := data.rfind(b"\n", 0, cut)) >= 0:
            pending.append(data[found + 1 : cut])
            yield from _line(start + found + 1, line_end, pending)
            pending.clear()
            cut = found
            line_end = start + found
        pending.append(data[:cut])
        position = start
        block = min(2 * block, LARGEST_BLOCK)
    yield from _line(0, line_end, pending)


def _line(start: int, end: int, parts: list[bytes]) -> Iterator[RawLine]:
    raw = b"".join(reversed(parts))
    if raw.strip():
        yield RawLine(start, end, raw)


def first_line(source: ByteSource) -> bytes:
    """The first non-empty line without its line break, truncated to the maximum length of a header."""
    head = source.read(0, HEAD_BYTES).lstrip(b"\r\n")
    return head.split(b"\n", 1)[0]


def line_end(source: ByteSource, offset: int, end: int) -> int:
    """The byte after the line break that ends the line at `offset`; `end` if there is none before it."""
    while offset < end:
        data = source.read(offset, min(end, offset + FIRST_BLOCK))
        found = data.find(b"\n")
        if found >= 0:
            return offset + found + 1
        if not data:
            break
        offset += len(data)
    return end


def lines_on(source: ByteSource, offset: int, count: int, end: int) -> int:
    """The byte offset of the line `count` lines after the one at `offset`; at most `end`."""
    while count and offset < end:
        data = source.read(offset, min(end, offset + LARGEST_BLOCK))
        here = data.count(b"\n")
        if not data:
            return end
        if here < count:
            count, offset = count - here, offset + len(data)
            continue
        at = -1
        for _ in range(count):
            at = data.index(b"\n", at + 1)
        return offset + at + 1
    return min(offset, end)


def line_breaks(source: ByteSource, start: int, end: int) -> int:
    """The number of line breaks between two bytes."""
    return sum(source.read(at, min(end, at + LARGEST_BLOCK)).count(b"\n") for at in range(start, end, LARGEST_BLOCK))


def line_numbers(source: ByteSource, offsets: Iterable[int], start: int = 0) -> dict[int, int]:
    """The line number of each of `offsets`, from 1 at the byte `start`. Reads up to the last one."""
    numbers: dict[int, int] = {}
    line = 1
    for offset in sorted(offsets):
        line += line_breaks(source, start, offset)
        numbers[offset], start = line, offset
    return numbers


# More side files than plausible crashes; something else is wrong.
MAX_SIDE_FILES = 1000


class LineAppender:
    """The writing end of a transcript. For one thread at a time; the caller holds the session's lock. A line is a
    single `write` to an O_APPEND descriptor. If it fails, the file is truncated to its old size; if that fails too, the
    next line starts on a new line, so that a partial line never damages its neighbour."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with store_errors("open", path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND)

    @classmethod
    def create(cls, path: Path, first: bytes) -> LineAppender:
        """A new file with its first line, both synced to disk. Raises SessionStoreError and leaves nothing
        behind then."""
        with store_errors("create", path):
            if not create_complete(path, first, mode=PRIVATE_FILE):
                raise SessionStoreError(f"{path} exists already.", hint="Start a session with another id.")
        return cls(path)

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def append(self, line: bytes, *, sync: bool = False) -> int:
        """Write `line` and return its byte offset. `sync`: it is on disk when this returns. Raises SessionStoreError;
        then the line is not in the file, and later calls work once the cause is fixed."""
        self._check_unmoved()
        before = self.size
        data = line if self._is_complete(before) else b"\n" + line
        try:
            self._write(data)
            if sync:
                os.fsync(self._descriptor)
        except OSError as error:
            # If truncating fails too, the next line detects the unfinished one and starts on a new line.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise store_error("write to", self.path, error) from error
        return before + len(data) - len(line)

    def _write(self, data: bytes) -> None:
        """One write; a second one only after a short write, to learn the error."""
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
        """Add the missing line break to the last line. Raises SessionStoreError."""
        if not self._is_complete(self.size):
            self.append(b"")

    def cut_off(self, start: int) -> Path:
        """Move everything from byte `start` into a side file `<name>.torn`, and return its path. The side file is on
        disk before the transcript is truncated. Raises SessionStoreError; nothing is lost then."""
        partial = os.pread(self._descriptor, self.size - start, start)
        with store_errors("cut the partial end off", self.path):
            side = _set_aside(self.path, partial)
            os.ftruncate(self._descriptor, start)
            os.fsync(self._descriptor)
        return side

    def _is_complete(self, size: int) -> bool:
        return size == 0 or os.pread(self._descriptor, 1, size - 1) == b"\n"

    def _check_unmoved(self) -> None:
        """Raise if the file was deleted or replaced: writes to it would be lost."""
        try:
            there, here = self.path.stat(), os.fstat(self._descriptor)
        except FileNotFoundError:
            there = None
        except OSError as error:
            raise store_error("write to", self.path, error) from error
        if there is None or (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise SessionStoreError(
                f"{self.path} was deleted or replaced while the session was open.",
                hint="Restore it, or start a new session with /new.",
            )


def _set_aside(path: Path, partial: bytes) -> Path:
    """Store `partial` in a side file of `path`, unless a crash has already left one."""
    for number in range(1, MAX_SIDE_FILES):
        side = path.with_name(f"{path.name}.torn" if number == 1 else f"{path.name}.torn.{number}")
        if create_complete(side, partial) or side.read_bytes() == partial:
            return side
    raise OSError(errno.EEXIST, "too many side files of partial ends", str(path))
