"""The main process's side of the worker: starts it, sends calls, hands each call its reports, and ends it.

The worker (with litellm in it: 2 seconds of CPU and 164 MB) is shared by all models of an event loop and starts at the
first `warm` or call. When it dies, its calls fail, and the next call starts another. It is ended when nobody called for
a while: its memory is more than twice that of everything else. Where one stays (`llm.worker_reuse`), that one serves.
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
from clawbot.llm.frames import (
    CallFailed,
    CancelCall,
    Ended,
    Logged,
    Report,
    Request,
    WorkerReady,
    report_decoder,
)
from clawbot.worker_pipe import LONGEST_LINE, WorkerProcess, module_command

CANCEL_SECONDS = 3.0
"""How long the worker may take to close a connection; then it is killed, which closes it for sure."""
IDLE_SECONDS = 300.0
"""How long the worker is kept without a call, as long as most providers keep their caches. Whoever begins to type again
has another one loaded meanwhile."""
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
        if report is None or isinstance(report, Ended | CallFailed):
            self.over.set()


class WorkerClient:
    """One worker process and the calls that run in it.

    `stay`: a worker that it starts stays for so many seconds after the last client (0: none). `alone`: it shares none.
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
        self.stay = 0.0
        self.alone = False

    @property
    def pid(self) -> int | None:
        """The process id; None while no worker runs."""
        return self._process.pid if self._process else None

    async def warm(self) -> None:
        """Start the process and wait until litellm is loaded. The first call reports a failure to do so."""
        with contextlib.suppress(WorkerLostError):
            await self._start()
            await self._ready.wait()
            self._rest()

    async def next_id(self) -> int:
        """An id for a request, of a worker that runs."""
        await self._start()
        return next(self._ids)

    async def reports(self, request: Request, idle: float | None = None) -> AsyncGenerator[Report, None]:
        """Send `request` and yield what the worker reports of it, up to `Ended` or `CallFailed`.

        Raises WorkerLostError, and TimeoutError when there is nothing for `idle`
        seconds. Closing the generator cancels the call and waits until its connection is closed.
        """
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
                self._rest()

    def _rest(self) -> None:
        """End the process unless somebody wants something of it in time."""
        self._stir()
        if self._process is not None and not self._channels:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._retire)

    def _stir(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _retire(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _logger.info("nobody called for %.0f s, so the worker is ended", IDLE_SECONDS)
            self._ready.set()
            self._spawn(process.close())

    async def _cancel(self, identity: int, channel: _Channel) -> None:
        self._send(CancelCall(identity))
        try:
            async with deadline(CANCEL_SECONDS):
                await channel.over.wait()
        except TimeoutError:
            _logger.warning("the worker did not close a connection within %s s and is killed", CANCEL_SECONDS)
            self.kill()

    def kill(self) -> None:
        """End the process at once; its calls fail."""
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """End the process: it stops by itself when its pipe closes."""
        self._stir()
        if self._process is not None:
            await self._process.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send(self, request: Request) -> None:
        if self._process is None or not self._process.send(request):
            self._channels[request.id].put(None)

    async def _start(self) -> None:
        async with self._starting:
            self._stir()
            if self._process is not None:
                return
            self._ready = asyncio.Event()
            process = await self._shared_one() or await self._own_one()
            self._process = process
            process.ended.add_done_callback(self._end)

    async def _shared_one(self) -> worker_reuse.Connection | None:
        """The worker that stays here, or one that will; None where this client shares none, or can't."""
        if self.alone:
            return None
        found = await worker_reuse.join(self._take, self.stay)
        if found is None and self.stay:
            # A worker that can't stay is no loss: the caller starts one of its own.
            with contextlib.suppress(OSError, NotImplementedError):
                found = await worker_reuse.launch(self._take, self.stay)
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
                _logger.info("%s", line[:LONGEST_LINE])
        elif (channel := self._channels.get(report.id)) is not None:
            channel.put(report)

    def _end(self, ended: asyncio.Future[int]) -> None:
        """The process is gone: fail what is left."""
        if self._process is None or self._process.ended is not ended:
            return  # it was retired, and what is left is another's
        if isinstance(self._process, worker_reuse.Connection) and not self._process.greeted:
            self.alone = True  # it can't be launched so; one of this client's own says in the log why
        if self._channels:
            _logger.error("the worker ended with status %d during %d calls", ended.result(), len(self._channels))
        self._process = None
        self._ready.set()
        for channel in list(self._channels.values()):
            if not channel.over.is_set():
                channel.put(None)


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, WorkerClient] = WeakKeyDictionary()


def acquire_worker() -> WorkerClient:
    """The worker of this event loop, to be given back with `release_worker`. Does not start it."""
    loop = asyncio.get_running_loop()
    worker = _shared.get(loop)
    if worker is None:
        worker = _shared[loop] = WorkerClient()
    worker.users += 1
    return worker


def let_stay(seconds: float) -> None:
    """Have a worker that is started on this event loop stay for the next program, so long after its last client. Before
    its first use."""
    worker = _shared.get(asyncio.get_running_loop())
    if worker is not None:
        worker.stay = seconds


async def release_worker(worker: WorkerClient) -> None:
    """Give a worker back; the last user ends its process."""
    worker.users -= 1
    if worker.users > 0:
        return
    with contextlib.suppress(KeyError):
        del _shared[asyncio.get_running_loop()]
    await worker.close()
