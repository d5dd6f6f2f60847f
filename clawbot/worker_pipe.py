"""A child process of clawbot's own that speaks in frames: both ends of its pipes, its start and end, what it prints.

The worker of the language models and those of hooks are such children. A frame is msgpack with its length before it,
in 4 bytes. A child ends when its pipe closes, also while its loop is busy, so that a parent that was killed leaves
none behind; and whatever it started ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from typing import IO, Any, BinaryIO, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from clawbot.messages import scrub

LARGEST_FRAME = 256 * 1024**2
"""Bytes. A longer one is a sign of a stream that is out of step, or of a child gone wild."""
LONGEST_LINE = 2_000
"""Bytes of a printed line that are logged."""
EXIT_SECONDS = 1.0
"""How long a child may take to end by itself once its pipe is closed."""
_DRAIN_SECONDS = 0.5  # after the end of the child: what it started may hold the pipes open
_PREFIX = 4

F = TypeVar("F", bound=Struct)
_encoder = msgspec.msgpack.Encoder()


def encode_frame(frame: Struct, largest: int = LARGEST_FRAME) -> bytes:
    """`frame` with its length before it. Halves of surrogate pairs, which JSON from elsewhere may hold, become U+FFFD.

    Raises ValueError for one that is larger than `largest` bytes, TypeError or OverflowError for what a frame can't
    hold, such as an integer beyond 64 bits.
    """
    try:
        body = _encoder.encode(frame)
    except UnicodeEncodeError:
        body = _encoder.encode(scrub(msgspec.to_builtins(frame, builtin_types=(bytes,))))
    if len(body) > largest:
        raise ValueError(f"{len(body) // 1024**2} MB are more than can be handed over")
    return len(body).to_bytes(_PREFIX, "big") + body


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame, without its length; None at the end of the stream, also when that is in a frame. Blocks."""
    prefix = stream.read(_PREFIX)
    length = int.from_bytes(prefix, "big")
    body = stream.read(length)
    return body if len(prefix) == _PREFIX and len(body) == length else None


class FrameSplitter:
    """Splits a stream that comes in pieces into frames."""

    def __init__(self, largest: int = LARGEST_FRAME) -> None:
        self._largest = largest
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next piece, and yield the frames that are complete. Raises ValueError for a stream out of step."""
        self._rest += data
        while len(self._rest) >= _PREFIX:
            length = int.from_bytes(self._rest[:_PREFIX], "big")
            if length > self._largest:
                raise ValueError(f"a frame of {length} bytes")
            end = _PREFIX + length
            if len(self._rest) < end:
                return
            body = bytes(self._rest[_PREFIX:end])
            del self._rest[:end]
            yield body


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """What runs `module` in a process of its own. Not from the current folder (-P): a `json.py` that lies there must
    not be imported."""
    return (sys.executable, "-P", "-m", module, *arguments)


class WorkerProcess(asyncio.SubprocessProtocol, Generic[F]):
    """The parent's side of a child. `take` is called with each frame that it sends, on the loop; `ended` is its exit
    status once all was read.

    What it prints goes to `log`, line by line, no more than `lines` of them (None: all) until `log_anew`.
    """

    def __init__(
        self,
        log: logging.Logger,
        decoder: msgspec.msgpack.Decoder[F],
        take: Callable[[F], None],
        *,
        largest: int = LARGEST_FRAME,
        lines: int | None = None,
    ) -> None:
        """Starts nothing. Needs a running event loop. `largest` is the longest frame in bytes, either way."""
        self._logger = log
        self._decoder = decoder
        self._take = take
        self._largest = largest
        self._splitter = FrameSplitter(largest)
        self._rest = b""
        self._lines = lines
        self._printed = 0
        self._transport: asyncio.SubprocessTransport | None = None
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return self._transport.get_pid() if self._transport is not None else None

    async def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Start `command` in a session of its own: Ctrl+C in the terminal is for this process alone. Raises OSError."""
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self, *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env, start_new_session=True
        )

    def send(self, frame: Struct) -> bool:
        """Write `frame`; False when the child has ended. Raises what `encode_frame` raises."""
        data = encode_frame(frame, self._largest)
        stdin = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if stdin is None or self.ended.done() or stdin.is_closing():
            return False
        cast("asyncio.WriteTransport", stdin).write(data)
        return True

    def log_anew(self) -> None:
        """Log what is printed from now on, however much it was before."""
        self._printed = 0

    def kill(self) -> None:
        """End the child, and what it started, at once."""
        if self._transport is not None and self._transport.get_returncode() is None:
            self._kill_group()

    async def close(self) -> None:
        """Let the child end by itself, and kill it when it does not."""
        if self._transport is None or self.ended.done():
            return
        stdin = self._transport.get_pipe_transport(0)
        if stdin is not None:
            stdin.close()
        await asyncio.wait([self.ended], timeout=EXIT_SECONDS)
        if not self.ended.done():
            self.kill()
            await asyncio.wait([self.ended], timeout=EXIT_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The child runs."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Split frames, or log lines."""
        if fd != 1:
            self._print(data)
            return
        try:
            for body in self._splitter.feed(data):
                self._take(self._decoder.decode(body))
        except ValueError:
            self._logger.exception("what the process reports makes no sense; it is killed")
            self.kill()

    def process_exited(self) -> None:
        """What is in the pipes is read first; `connection_lost` comes when all of them are closed."""
        # What it started and did not take out of its session ends with it, also at a regular end.
        self._kill_group()
        if self._transport is not None:
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """The child is gone and all was read."""
        if self._rest:
            self._print(b"\n")
        if self._transport is not None and not self.ended.done():
            self._transport.close()
            code = self._transport.get_returncode()
            self.ended.set_result(0 if code is None else code)

    def _kill_group(self) -> None:
        if self._transport is not None:
            # macOS says EPERM of a group that has ended.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def _print(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LONGEST_LINE]
        before, self._printed = self._printed, self._printed + len(lines)
        most = self._printed if self._lines is None else self._lines
        for line in lines[: max(most - before, 0)]:
            self._logger.info("%s", line[:LONGEST_LINE].decode(errors="backslashreplace"))
        if before <= most < self._printed:
            self._logger.warning("more than %d lines were printed; the others are left out", most)


class FrameWriter:
    """The child's pipe to its parent, which several threads may write to."""

    def __init__(self, stream: BinaryIO, largest: int = LARGEST_FRAME) -> None:
        self._stream = stream
        self._largest = largest
        self._lock = threading.Lock()

    def send(self, frame: Struct) -> None:
        """Write a frame. Raises what `encode_frame` raises. Blocks while the parent does not read."""
        data = encode_frame(frame, self._largest)
        with self._lock:
            self._stream.write(data)
            self._stream.flush()


def claim_pipes() -> tuple[BinaryIO, BinaryIO]:
    """In the child: both pipes, for frames alone. From here on stdin is empty and stdout leads to stderr, also for
    programs that are started."""
    requests, reports = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.stdout = sys.stderr
    return os.fdopen(requests, "rb"), os.fdopen(reports, "wb")


def serve_frames(
    stream: BinaryIO,
    decoder: msgspec.msgpack.Decoder[Any],
    loop: asyncio.AbstractEventLoop,
    take: Callable[[Any], None],
) -> None:
    """In the child: call `take` on `loop` with each frame of the parent. The process ends with the stream, or with a
    frame that makes no sense."""

    def read() -> None:
        # A thread of its own, which sees the end also while the loop is busy.
        try:
            while (body := read_frame(stream)) is not None:
                loop.call_soon_threadsafe(take, decoder.decode(body))
        finally:
            _end_group()

    threading.Thread(target=read, name="read-frames", daemon=True).start()


def _end_group() -> None:
    """End this process, and what it started and left in its session: nothing that still runs is of use to anybody."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
