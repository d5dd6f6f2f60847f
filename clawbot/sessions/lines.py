"""Reads the lines of a file from its end, so that what lies long ago costs nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from msgspec import Struct

FIRST_BLOCK = 64 * 1024
LARGEST_BLOCK = 1024 * 1024
# A header is a few hundred bytes; a first line longer than this is none.
HEAD_BYTES = 64 * 1024


class Line(Struct, frozen=True):
    """A line without its line break: it begins at byte `start` and ends before byte `end`."""

    start: int
    end: int
    raw: bytes


class ByteSource:
    """A file to read from at any place. `bytes_read` counts what was read, for those who promise to read little."""

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
        """Give the file back. Twice does no harm."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def size(self) -> int:
        """The file's size now, in bytes."""
        return os.fstat(self._descriptor).st_size

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`; fewer only where the file ends."""
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


def lines_backwards(source: ByteSource, end: int) -> Iterator[Line]:
    """The lines before byte `end`, last one first, empty ones left out. Memory: one block and the longest line."""
    block, position, line_end = FIRST_BLOCK, end, end
    pending: list[bytes] = []  # the pieces of the line that is not yet whole, last piece first
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


def _line(start: int, end: int, pieces: list[bytes]) -> Iterator[Line]:
    raw = b"".join(reversed(pieces))
    if raw.strip():
        yield Line(start, end, raw)


def first_line(source: ByteSource) -> bytes:
    """The first line that is not empty, without its line break; cut at the length that no header reaches."""
    head = source.read(0, HEAD_BYTES).lstrip(b"\r\n")
    return head.split(b"\n", 1)[0]


def blocks(source: ByteSource, end: int) -> Iterator[bytes]:
    """The bytes up to `end`, from the beginning, in blocks."""
    for start in range(0, end, LARGEST_BLOCK):
        yield source.read(start, min(end, start + LARGEST_BLOCK))


def line_numbers(source: ByteSource, offsets: Iterable[int]) -> dict[int, int]:
    """The number (from 1) of the line that each of `offsets` lies in. Reads the file up to the last of them."""
    wanted = sorted(set(offsets))
    numbers: dict[int, int] = {}
    line, position = 1, 0
    for block in blocks(source, wanted[-1] if wanted else 0):
        here = [offset for offset in wanted if position <= offset < position + len(block)]
        cut = 0
        for offset in here:
            line += block.count(b"\n", cut, offset - position)
            cut = offset - position
            numbers[offset] = line
        line += block.count(b"\n", cut)
        position += len(block)
    return {offset: numbers.get(offset, line) for offset in wanted}
