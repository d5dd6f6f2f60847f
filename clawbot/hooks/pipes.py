"""One process and its pipes: frames in and out, what it prints on the way to the log, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from clawbot.hooks.frames import Frames, Report, Request, encode, report_decoder

LINES = 200
"""Printed lines that are logged of each handling; a handler gone wild must not fill the log."""
LONGEST_LINE = 2_000
"""Bytes."""
EXIT_SECONDS = 1.0
"""How long a process may take to end by itself once its pipe is closed."""
_DRAIN_SECONDS = 0.5  # after the end of the process: a child of it may hold the pipes open


class Pipes(asyncio.SubprocessProtocol):
    """A running process. `take` is called with each of its reports, `ended` is its exit status once all was read."""

    def __init__(self, log: logging.Logger, take: Callable[[Report], None]) -> None:
        self._logger = log
        self._take = take
        self._frames = Frames()
        self._rest = b""
        self._lines_left = LINES
        self._transport: asyncio.SubprocessTransport | None = None
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the process, in a session of its own. Raises OSError."""
        loop = asyncio.get_running_loop()
        await loop.subprocess_exec(
            lambda: self, *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env, start_new_session=True
        )

    def send(self, request: Request) -> None:
        """Write a request, or nothing when the process has ended. Raises what `frames.encode` raises."""
        data = encode(request)
        stdin = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if stdin is not None and not self.ended.done() and not stdin.is_closing():
            cast("asyncio.WriteTransport", stdin).write(data)

    def log_anew(self) -> None:
        """Log what is printed from now on, however much it was before."""
        self._lines_left = LINES

    def kill(self) -> None:
        """End the process, and what it started, at once."""
        if self._transport is not None and self._transport.get_returncode() is None:
            self._kill_group()

    async def close(self) -> None:
        """Let the process end by itself, and kill it when it does not."""
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
        """The process runs."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take frames apart, or log lines."""
        if fd != 1:
            self._print(data)
            return
        try:
            for body in self._frames.feed(data):
                self._take(report_decoder.decode(body))
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
        """The process is gone and all was read."""
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
        for line in lines[: max(self._lines_left, 0)]:
            self._logger.info("%s", line[:LONGEST_LINE].decode(errors="backslashreplace"))
        if lines and 0 <= self._lines_left < len(lines):
            self._logger.warning("more than %d lines were printed; the others are left out", LINES)
            self._lines_left = -1
        else:
            self._lines_left -= len(lines) if self._lines_left >= 0 else 0
