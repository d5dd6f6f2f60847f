"""The main process's side of the worker: starts it, sends calls, hands each call its reports, and ends it.

The worker (with litellm in it: 3 seconds of CPU and 164 MB) is shared by all models of an event loop and starts at the
first `warm` or call. When it dies, its calls fail, and the next call starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

from clawbot.llm.frames import (
    Cancel,
    Ended,
    Failed,
    Ready,
    Report,
    Request,
    encode,
    read_frame,
    report_decoder,
)

CANCEL_SECONDS = 3.0
"""How long the worker may take to close a connection; then it is killed, which closes it for sure."""
EXIT_SECONDS = 1.0
_STDERR_BYTES = 16 * 1024
# Not from the current folder (-P): a `json.py` that lies there must not be imported.
_COMMAND = (sys.executable, "-P", "-m", "clawbot.llm.worker")
_logger = logging.getLogger("clawbot.llm.worker")


class WorkerLostError(Exception):
    """The worker process could not be started, or ended while a call was under way."""


class _Channel:
    """The reports of one call, in order; None stands for the death of the worker."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[Report | None] = asyncio.Queue()
        self.over = asyncio.Event()

    def put(self, report: Report | None) -> None:
        self.reports.put_nowait(report)
        if report is None or isinstance(report, Ended | Failed):
            self.over.set()


class Worker:
    """One worker process and the calls that run in it."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._channels: dict[int, _Channel] = {}
        self._process: Process | None = None
        self._ready = asyncio.Event()
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.users = 0

    @property
    def pid(self) -> int | None:
        """The process id; None while no worker runs."""
        return self._process.pid if self._process else None

    async def warm(self) -> None:
        """Start the process and wait until litellm is loaded. That it cannot be is told by the first call."""
        with contextlib.suppress(WorkerLostError):
            await self._start()
            await self._ready.wait()

    async def next_id(self) -> int:
        """An id for a request, of a worker that runs."""
        await self._start()
        return next(self._ids)

    async def reports(self, request: Request, idle: float | None = None) -> AsyncGenerator[Report, None]:
        """Send `request` and yield what the worker reports of it, up to `Ended` or `Failed`.

        Raises WorkerLostError, and TimeoutError when there is nothing for `idle`
        seconds. Closing the generator cancels the call and waits until its connection is closed.
        """
        channel = self._channels[request.id] = _Channel()
        try:
            self._send(request)
            while True:
                async with asyncio.timeout(idle):
                    report = await channel.reports.get()
                if report is None:
                    raise WorkerLostError
                yield report
                if isinstance(report, Ended | Failed):
                    return
        finally:
            try:
                if not channel.over.is_set():
                    await asyncio.shield(self._spawn(self._cancel(request.id, channel)))
            finally:
                self._channels.pop(request.id, None)

    async def _cancel(self, identity: int, channel: _Channel) -> None:
        self._send(Cancel(identity))
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await channel.over.wait()
        except TimeoutError:
            _logger.warning("the worker did not close a connection within %s s and is killed", CANCEL_SECONDS)
            self.kill()

    def kill(self) -> None:
        """End the process at once; its calls fail."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def close(self) -> None:
        """End the process: it stops by itself when its stdin closes."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send(self, request: Request) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            self._channels[request.id].put(None)
            return
        process.stdin.write(encode(request))

    async def _start(self) -> None:
        async with self._starting:
            if self._process is not None:
                return
            self._ready = asyncio.Event()
            # A session of its own: Ctrl+C in the terminal is for this process alone.
            try:
                process = await asyncio.create_subprocess_exec(
                    *_COMMAND, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
                )
            except OSError as error:
                _logger.exception("the worker could not be started")
                raise WorkerLostError from error
            self._process = process
            self._spawn(self._read(process))
            self._spawn(_log_stderr(process))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _read(self, process: Process) -> None:
        """Hand out the reports until the process ends, then fail what is left."""
        try:
            if process.stdout is not None:
                await self._dispatch(process.stdout)
        except ValueError:
            _logger.exception("the worker's reports make no sense; it is killed")
            process.kill()
        code = await process.wait()
        if self._channels:
            _logger.error("the worker ended with status %d during %d calls", code, len(self._channels))
        if self._process is process:
            self._process = None
        self._ready.set()
        for channel in list(self._channels.values()):
            if not channel.over.is_set():
                channel.put(None)

    async def _dispatch(self, stream: asyncio.StreamReader) -> None:
        while (body := await read_frame(stream)) is not None:
            report = report_decoder.decode(body)
            if isinstance(report, Ready):
                self._ready.set()
            elif (channel := self._channels.get(report.id)) is not None:
                channel.put(report)


async def _log_stderr(process: Process) -> None:
    """Put what the worker prints into the log, line by line."""
    if process.stderr is None:
        return
    rest = b""
    while block := await process.stderr.read(_STDERR_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            _logger.info("%s", line.decode(errors="backslashreplace"))
    if rest:
        _logger.info("%s", rest.decode(errors="backslashreplace"))


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, Worker] = WeakKeyDictionary()


def acquire_worker() -> Worker:
    """The worker of this event loop, to be given back with `release_worker`. Does not start it."""
    loop = asyncio.get_running_loop()
    worker = _shared.get(loop)
    if worker is None:
        worker = _shared[loop] = Worker()
    worker.users += 1
    return worker


async def release_worker(worker: Worker) -> None:
    """Give a worker back; the last user ends its process."""
    worker.users -= 1
    if worker.users > 0:
        return
    with contextlib.suppress(KeyError):
        del _shared[asyncio.get_running_loop()]
    await worker.close()
