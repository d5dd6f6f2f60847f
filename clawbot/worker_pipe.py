"""A framed pipe to a child process of clawbot: both ends, start, end, and its printed output.

The language model worker and the hook workers are such children. A frame is msgpack preceded by its length (4 bytes). A
child exits when its pipe closes, even if its event loop is busy, so a killed parent leaves none behind; the child's own
children are killed with it.
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

from clawbot.descendants import kill_descendants
from clawbot.messages import scrub
from clawbot.text.sanitize import clean_line

LARGEST_FRAME = 256 * 1024**2
"""Bytes. A longer frame means that the stream is out of step or the child is broken."""
MAX_LINE = 2_000
"""Bytes of a printed line that are logged; the rest is truncated."""
EXIT_SECONDS = 1.0
"""How long a child may take to exit after its pipe was closed."""
_DRAIN_SECONDS = 0.5  # after the child's exit, since its own children may hold the pipes open
_PREFIX = 4

F = TypeVar("F", bound=Struct)
_encoder = msgspec.msgpack.Encoder()


def encode_frame(frame: Struct, largest: int = LARGEST_FRAME) -> bytes:
    """Return `frame` preceded by its length. Lone surrogates, which foreign JSON may contain, become U+FFFD.

    Raises ValueError for more than `largest` bytes, TypeError or OverflowError for values that msgpack can't hold, such
    as an integer beyond 64 bits.
    """
    try:
        body = _encoder.encode(frame)
    except UnicodeEncodeError:
        body = _encoder.encode(scrub(msgspec.to_builtins(frame, builtin_types=(bytes,))))
    if len(body) > largest:
        raise ValueError(f"{len(body) // 1024**2} MB are more than can be sent")
    return len(body).to_bytes(_PREFIX, "big") + body


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame without its length; None at the end of the stream, even in the middle of a frame. Blocks."""
    prefix = stream.read(_PREFIX)
    length = int.from_bytes(prefix, "big")
    body = stream.read(length)
    return body if len(prefix) == _PREFIX and len(body) == length else None


class FrameSplitter:
    """Splits a stream that arrives in parts into frames."""

    def __init__(self, largest: int = LARGEST_FRAME) -> None:
        self._largest = largest
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add the next part and yield the completed frames. Raises ValueError if the stream is out of step."""
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
    """The command line that runs `module` in a process of its own. With -P: a `json.py` in the current folder must not
    be imported."""
    return (sys.executable, "-P", "-m", module, *arguments)


class WorkerProcess(asyncio.SubprocessProtocol, Generic[F]):
    """The parent's side of a child. `take` is called on the loop with each frame; `ended` holds the exit status after
    all output was read.

    Printed output goes to `log` line by line, at most `lines` of them (None: all) until `restart_log` is called.
    """

    def __init__(
        self,
        log: logging.Logger,
        decoder: msgspec.msgpack.Decoder[F],
        take: Callable[[F], None],
        *,
        largest: int = LARGEST_FRAME,
        lines: int | None = None,
        full_tree: bool = False,
    ) -> None:
        """Needs a running event loop; the child starts later. `largest` limits frames in both directions, in bytes.
        `full_tree`: what left the child's session is killed with it as well."""
        self._logger = log
        self._decoder = decoder
        self._take = take
        self._largest = largest
        self._splitter = FrameSplitter(largest)
        self._rest = b""
        self._lines = lines
        self._full_tree = full_tree
        self._printed = 0
        self._transport: asyncio.SubprocessTransport | None = None
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int | None:
        """None before the start."""
        return self._transport.get_pid() if self._transport is not None else None

    async def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Start `command` in a session of its own, so that Ctrl+C in the terminal does not reach it. Raises OSError."""
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self, *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env, start_new_session=True
        )

    def send(self, frame: Struct) -> bool:
        """Write `frame`; False if the child has exited. Raises what `encode_frame` raises."""
        data = encode_frame(frame, self._largest)
        stdin = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if stdin is None or self.ended.done() or stdin.is_closing():
            return False
        cast("asyncio.WriteTransport", stdin).write(data)
        return True

    def restart_log(self) -> None:
        """Reset the limit of logged lines."""
        self._printed = 0

    def kill(self) -> None:
        """Kill the child and its children at once; a full tree in a thread, which takes some milliseconds."""
        if self._transport is None or self._transport.get_returncode() is not None:
            return
        if self._full_tree:
            asyncio.get_running_loop().run_in_executor(None, self._kill_tree, self._transport.get_pid())
        else:
            self._kill_group()

    async def close(self) -> None:
        """Let the child exit by itself; kill it if it does not."""
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
        """The child is running."""
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
            self._logger.exception("the process sent an invalid frame; it is killed")
            self.kill()

    def process_exited(self) -> None:
        """`connection_lost` follows when the pipes were read to their end and closed."""
        # Children still in its session are killed too, also after a regular exit.
        self._kill_group()
        if self._transport is not None:
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """The child has exited and everything was read."""
        if self._rest:
            self._print(b"\n")
        if self._transport is not None and not self.ended.done():
            self._transport.close()
            code = self._transport.get_returncode()
            self.ended.set_result(0 if code is None else code)

    def _kill_tree(self, pid: int) -> None:
        kill_descendants(pid)
        self._kill_group()

    def _kill_group(self) -> None:
        if self._transport is not None:
            # macOS reports EPERM for a group that has ended.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def _print(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:MAX_LINE]
        before, self._printed = self._printed, self._printed + len(lines)
        most = self._printed if self._lines is None else self._lines
        for line in lines[: max(most - before, 0)]:
            self._logger.info("%s", clean_line(line[:MAX_LINE].decode(errors="backslashreplace")))
        if before <= most < self._printed:
            self._logger.warning("more than %d lines were printed; the rest is not logged", most)


class FrameWriter:
    """The child's pipe to its parent; safe for several threads."""

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
    """In the child: reserve both pipes for frames. From here on stdin is empty and stdout goes to stderr, also for
    child processes."""
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
    *,
    full_tree: bool = False,
) -> None:
    """In the child: call `take` on `loop` with each frame of the parent. The process exits when the stream ends or
    sends an invalid frame, with the `full_tree` of processes below it or with those in its session."""

    def read() -> None:
        # In a thread, which notices the end even while the loop is busy.
        try:
            while (body := read_frame(stream)) is not None:
                loop.call_soon_threadsafe(take, decoder.decode(body))
        finally:
            if full_tree:
                kill_descendants(os.getpid())
            end_group()

    threading.Thread(target=read, name="read-frames", daemon=True).start()


def end_group() -> None:
    """Kill this process and all children left in its session: nothing needs them any more."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
