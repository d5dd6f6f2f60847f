"""Running one command to its end: own process group, bounded output, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

GRACE = 2.0  # seconds between SIGTERM and SIGKILL: enough for git to remove its lock file
# After the end, how long output is still read from a process that left the group and holds the pipe.
DRAIN = 0.5
CHUNK = 65536


class Finished(Struct, frozen=True):
    """How a command ended: `code` as subprocess has it (negative: the signal), `output` with what was left out in
    the middle as `dropped` bytes, `timed_out`, and `seconds`."""

    code: int
    head: str
    tail: str
    dropped: int
    timed_out: bool
    seconds: float


class BoundedOutput:
    """Keeps the first and the last bytes of a stream, half of `limit` each."""

    def __init__(self, limit: int) -> None:
        self._room = max(limit // 2, 1)
        self._limit = self._room
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        taken = data[: self._room]
        self._head += taken
        self._room -= len(taken)
        rest = data[len(taken) :]
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._limit:
            gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self.dropped += len(gone)

    def parts(self) -> tuple[str, str]:
        """Beginning and end as text; the end is empty when nothing had to go there."""
        tail = b"".join(self._tail)
        self.dropped += max(len(tail) - self._limit, 0)
        tail = tail[-self._limit :]
        if not self.dropped:
            return (self._head + tail).decode(errors="replace"), ""
        while tail and 0x80 <= tail[0] < 0xC0:  # the rest of a character whose beginning was dropped
            tail = tail[1:]
            self.dropped += 1
        return self._head.decode(errors="replace").rstrip("\ufffd"), tail.decode(errors="replace")


async def run_command(
    argv: list[str], *, folder: Path, environment: Mapping[str, str], seconds: float, max_bytes: int
) -> Finished:
    """Run `argv` in `folder`, without input, for at most `seconds`.

    stdout and stderr come together. Whatever ends it (its own end, the timeout, a cancellation), its whole process
    group is gone when this returns. Raises OSError when it cannot be started.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    output = BoundedOutput(max_bytes)
    # A pipe of our own: waiting for asyncio's would wait for every grandchild that holds it.
    reader, transport, write_end = await _open_pipe()
    try:
        try:
            process = await _start(argv, folder, environment, write_end)
        finally:
            os.close(write_end)
        reading = asyncio.create_task(_collect(reader, output))
        try:
            timed_out = await _wait(process, seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(reading), DRAIN)
        finally:
            reading.cancel()
    finally:
        transport.close()
    head, tail = output.parts()
    return Finished(process.returncode or 0, head, tail, output.dropped, timed_out, loop.time() - began)


async def _start(argv: list[str], folder: Path, environment: Mapping[str, str], output: int) -> Process:
    """Start the command in a session of its own, without a terminal. A cancellation in the middle of it is no way
    for the process to get lost."""
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=dict(environment),
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _terminate(await starting)
        raise


async def _open_pipe() -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    """A pipe: its reading end as a stream, the transport to close, and the writing end for the process."""
    read_end, write_end = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(read_end, "rb", 0)
        )
    except BaseException:
        os.close(write_end)
        raise
    return reader, transport, write_end


async def _collect(reader: asyncio.StreamReader, output: BoundedOutput) -> None:
    while data := await reader.read(CHUNK):
        output.add(data)


async def _wait(process: Process, seconds: float) -> bool:
    """Wait for the end of `process` and of its group; returns whether it had to be stopped for the time."""
    try:
        await asyncio.wait_for(process.wait(), seconds)
        return False
    except TimeoutError:
        await _terminate(process)
        return True
    except asyncio.CancelledError:
        await _terminate(process)
        raise
    finally:
        # Also after a normal end: what it put into the background goes with it.
        signal_group(process.pid, signal.SIGKILL)


async def _terminate(process: Process) -> None:
    """SIGTERM for the group, then SIGKILL for what is left of it."""
    signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE)
    signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to the process group that a command leads. A group that is gone already is no error, nor is one
    that now belongs to another user (sudo), which nobody but that user can end."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
