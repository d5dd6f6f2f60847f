"""Matches lines of open files against a pattern: in the program, or as a separate process for costly patterns. Run as a
program, this is that process: the system limits its memory and time, and it can be killed safely; its parent is
`clawbot.tools.grep`.

It reads a JSON line with the pattern from the socket on its stdin, answers null or the error, and then receives one
open file per byte: it answers `[number, text]` for each matching line, and null at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import TYPE_CHECKING

from clawbot.tools.text import LINE_BYTES, PROBE_BYTES, decode, in_utf8, is_binary

if TYPE_CHECKING:
    from regex import Match, Pattern
import json
import os
import resource
import socket

SHOWN_CHARS = 400  # of one line; more of it is noise
LEAD_CHARS = 100  # what is shown before a match far into a long line


def compiled(pattern: str, *, ignore_case: bool) -> Pattern[str] | str:
    """The compiled pattern, or an error message."""
    # Imported when it is first needed: 40 ms that no start should pay.
    import regex

    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        return str(error)
    except (RecursionError, OverflowError, ValueError):
        return "it is nested too deeply or counts too far"


Find = Callable[[str], "Match[str] | None"]
"""Searches a text."""


def fitting_lines(stream: BufferedReader, find: Find, *, block: int = 1) -> Iterator[tuple[int, str]]:
    """The number and text, truncated around the match of `find`, of each matching line; none for a binary file. Stops
    at a read error. Blocks; raises what `find` raises.

    Lines are searched together first, about `block` bytes of them: only where a match in a line is one in the lines
    around it.
    """
    number = 1
    for parts in _blocks(_parts(stream), block):
        if len(parts) > 1 and _fits_nowhere(parts, find):
            number += sum(part.endswith(b"\n") for part in parts)
            continue
        for part in parts:
            line = decode(part)[0].rstrip("\r\n")
            if found := find(line):
                yield number, _cut(line, found.start())
            number += part.endswith(b"\n")


def _blocks(parts: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    left = size
    for part in parts:
        block.append(part)
        left -= len(part)
        if left <= 0:
            yield block
            block, left = [], size
    if block:
        yield block


def _fits_nowhere(parts: list[bytes], find: Find) -> bool:
    try:
        return find(b"".join(parts).decode()) is None
    except UnicodeDecodeError:
        return False


def _parts(stream: BufferedReader) -> Iterator[bytes]:
    """Yield the lines of a text, too long ones in parts."""
    with contextlib.suppress(OSError):
        if not is_binary(stream.peek(PROBE_BYTES)[:PROBE_BYTES]):
            text, _ = in_utf8(stream, 0)
            while part := text.readline(LINE_BYTES):
                yield part


def _cut(line: str, start: int) -> str:
    """`line`, or the part around the match if it is long."""
    if len(line) <= SHOWN_CHARS:
        return line
    begin = max(0, start - LEAD_CHARS) if start > SHOWN_CHARS // 2 else 0
    part = line[begin : begin + SHOWN_CHARS]
    return f"{'…' if begin else ''}{part}{'…' if begin + SHOWN_CHARS < len(line) else ''}"


MEMORY_BYTES = 256 * 1024 * 1024  # ten times what the interpreter takes, and the line is at most 64 KB
CPU_SECONDS = 20  # where nobody is left to end it; above what the tool waits for
_REQUEST_BYTES = 65536


def main() -> None:
    """Serve until the other end is closed."""
    _limit()
    connection = socket.socket(fileno=0)
    with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        request = json.loads(_first_line(connection))
        pattern = compiled(request["pattern"], ignore_case=request["ignore_case"])
        if isinstance(pattern, str):
            _send(connection, pattern)
            return
        _send(connection, None)
        while handles := socket.recv_fds(connection, 1, 1)[1]:
            with os.fdopen(handles[0], "rb") as stream:
                for found in fitting_lines(stream, pattern.search):
                    _send(connection, found)
            _send(connection, None)


def _limit() -> None:
    for kind, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SECONDS)):
        hard = resource.getrlimit(kind)[1]
        # macOS knows no limit of memory that holds; there the time has to do.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _first_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (block := connection.recv(_REQUEST_BYTES)):
        line += block
    return line


def _send(connection: socket.socket, answer: object) -> None:
    connection.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
