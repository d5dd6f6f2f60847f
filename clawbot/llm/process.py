"""The main process's side of the worker: starts it, sends calls, passes each call its reports, and ends it.

The worker (with litellm in it: 2 seconds of CPU and 164 MB) is shared by all models of an event loop and starts at the
first `warm` or call. When it dies, its calls fail, and the next call starts another. It is ended after a while without
calls: its memory is more than twice that of everything else. A running one is reused (`llm.worker_reuse`).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

from clawbot.deadline import deadline
from clawbot.llm import worker_reuse
from clawbot.llm.frames import CallFailed, CancelCall, Ended, Logged, Report, Request, WorkerReady, report_decoder
from clawbot.llm.tokens import release_vocabulary
from clawbot.worker_pipe import MAX_LINE, WorkerProcess, module_command

CANCEL_SECONDS = 3.0
"""How long the worker may take to close a connection; then it is killed, which closes it for sure."""
IDLE_SECONDS = 300.0
"""How long the worker runs without a call, as long as most providers keep their caches. Another one is loaded when the
user begins to type again."""
_logger = logging.getLogger("clawbot.llm.worker")


class WorkerLostError(Exception):
    """The worker process could not be started, or ended while a call was under way."""


class _Channel:
    """The reports of one call, in order; None marks the death of the worker."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[Report | None] = asyncio.Queue()
        self.over = asyncio.Event()

    def put(self, report: Report | None) -> None:
        self.reports.put_nowait(report)
        if report is None or isinstance(report, Ended | CallFailed):
            self.over.set()


class WorkerClient:
    """One worker process and the calls that run in it.

    `linger`: a worker that it starts runs for so many seconds after its last client (0: it is not reused). `alone`: it
    shares none.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._channels: dict[int, _Channel] = {}
        self._process: WorkerProcess[Report] | worker_reuse.Connection | None = None
        self._ready = asyncio.Event()
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self.users = 0
        self.linger = 0.0
        self.alone = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def warm(self) -> None:
        """Start the process and wait until litellm is loaded. The first call reports a failure to do so."""
        with contextlib.suppress(WorkerLostError):
            await self._start()
            await self._ready.wait()
            self._schedule_end()

    async def next_id(self) -> int:
        await self._start()
        return next(self._ids)

    async def reports(self, request: Request, idle: float | None = None) -> AsyncGenerator[Report, None]:
        """Send `request` and yield its reports, up to `Ended` or `CallFailed`. Raises WorkerLostError, and TimeoutError
        without a report for `idle` seconds. Closing the generator cancels the call and awaits the end of its
        connection."""
        channel = self._channels[request.id] = _Channel()
        try:
            self._send(request)
            while True:
                async with deadline(idle):
                    report = await channel.reports.get()
                if report is None:
                    raise WorkerLostError
                yield report
                if isinstance(report, Ended | CallFailed):
                    return
        finally:
            try:
                if not channel.over.is_set():
                    await asyncio.shield(self._spawn(self._cancel(request.id, channel)))
            finally:
                self._channels.pop(request.id, None)
                self._schedule_end()

    def _schedule_end(self) -> None:
        self._cancel_end()
        if self._process is not None and not self._channels:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._retire)

    def _cancel_end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _retire(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _logger.info("nobody called for %.0f s, so the worker is ended", IDLE_SECONDS)
            self._ready.set()
            self._spawn(process.close())
            self._spawn(asyncio.to_thread(release_vocabulary))

    async def _cancel(self, identity: int, channel: _Channel) -> None:
        self._send(CancelCall(identity))
        try:
            async with deadline(CANCEL_SECONDS):
                await channel.over.wait()
        except TimeoutError:
            _logger.warning("the worker did not close a connection within %s s and is killed", CANCEL_SECONDS)
            self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        self._cancel_end()
        if self._process is not None:
            await self._process.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send(self, request: Request) -> None:
        if self._process is None or not self._process.send(request):
            self._channels[request.id].put(None)

    async def _start(self) -> None:
        async with self._starting:
            self._cancel_end()
            if self._process is not None:
                return
            self._ready = asyncio.Event()
            process = await self._shared_one() or await self._own_one()
            self._process = process
            process.ended.add_done_callback(self._end)

    async def _shared_one(self) -> worker_reuse.Connection | None:
        """Return the running worker, or a new one that can be reused; None if there can't be any."""
        if self.alone:
            return None
        begun = bool(worker_reuse.begun)
        found = None if begun else await worker_reuse.join(self._take, self.linger)
        if found is None and (self.linger or begun):
            # Without reuse the caller starts a worker of its own.
            with contextlib.suppress(OSError, NotImplementedError):
                found = await worker_reuse.launch(self._take, self.linger)
        return found

    async def _own_one(self) -> WorkerProcess[Report]:
        process = WorkerProcess(_logger, report_decoder, self._take)
        try:
            await process.start(module_command("clawbot.llm.worker"))
        except OSError as error:
            _logger.exception("the worker could not be started")
            raise WorkerLostError from error
        return process

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _take(self, report: Report) -> None:
        if isinstance(report, WorkerReady):
            self._ready.set()
        elif isinstance(report, Logged):
            for line in report.text.splitlines():
                _logger.info("%s", line[:MAX_LINE])
        elif (channel := self._channels.get(report.id)) is not None:
            channel.put(report)

    def _end(self, ended: asyncio.Future[int]) -> None:
        if self._process is None or self._process.ended is not ended:
            return  # it was retired; the calls are another's
        if isinstance(self._process, worker_reuse.Connection) and not self._process.greeted:
            self.alone = True  # it can't be launched so; the log of one of its own has the reason
        if self._channels:
            _logger.error("the worker ended with status %d during %d calls", ended.result(), len(self._channels))
        self._process = None
        self._ready.set()
        for channel in list(self._channels.values()):
            if not channel.over.is_set():
                channel.put(None)


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, WorkerClient] = WeakKeyDictionary()


def acquire_worker() -> WorkerClient:
    """Return the worker of this event loop, to be released with `release_worker`. Does not start it."""
    loop = asyncio.get_running_loop()
    worker = _shared.get(loop)
    if worker is None:
        worker = _shared[loop] = WorkerClient()
    worker.users += 1
    return worker


def keep_worker(seconds: float) -> None:
    """Let the worker of this event loop run for `seconds` after its last client, for the next program. Call it before
    the first use."""
    worker = _shared.get(asyncio.get_running_loop())
    if worker is not None:
        worker.linger = seconds


async def release_worker(worker: WorkerClient) -> None:
    """Release a worker; the last user ends its process."""
    worker.users -= 1
    if worker.users > 0:
        return
    with contextlib.suppress(KeyError):
        del _shared[asyncio.get_running_loop()]
    await worker.close()
