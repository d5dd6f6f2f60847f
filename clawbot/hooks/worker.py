"""The process of one hook: `python -m clawbot.hooks.worker FOLDER NAME DIGEST`.

It receives requests and sends reports (`hooks.codec`) over the pipes of `clawbot.worker_pipe`. Output of the handler
and its child processes goes to stderr, which the program logs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from clawbot.hooks.api import Hook, HookServiceError
from clawbot.hooks.codec import (
    LARGEST_FRAME,
    CancelHandling,
    Handle,
    HandlingDone,
    HandlingFailed,
    HookProcessReady,
    LaterFailed,
    Log,
    Over,
    Request,
    RequestedServices,
    Service,
    ServiceCall,
    changes_of,
    decode_event,
    request_decoder,
)
from clawbot.hooks.events import HookEvent
from clawbot.hooks.loading import CHANGED, HandlerError, Loaded, code_digest, describe
from clawbot.worker_pipe import FrameWriter, claim_pipes, serve_frames

RECORDS = 500
"""Log records forwarded for each handling, so that a broken handler can't fill the log."""
MAX_RECORD = 16_000
_logger = logging.getLogger("clawbot.hooks.worker")


class LogHandler(logging.Handler):
    """Forwards log records to the program, at most `RECORDS` for each handling."""

    def __init__(self, out: FrameWriter, own: str) -> None:
        super().__init__()
        self._out = out
        self._own = own
        self.left = RECORDS

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; those of foreign loggers are prefixed with the logger's name."""
        self.left -= 1
        if self.left < 0:
            return
        text = self.format(record)[:MAX_RECORD].encode("utf-8", "backslashreplace").decode()
        prefix = "" if record.name in {self._own, _logger.name} else f"{record.name}: "
        self._out.send(Log(record.levelno, prefix + text))


class Remote(RequestedServices):
    """The program's services, requested over the pipe for one handling."""

    def __init__(self, worker: HookWorker, number: int) -> None:
        self._worker = worker
        self._number = number

    async def _call(self, name: Service, arguments: dict[str, Any]) -> Any:
        return await self._worker.call(self._number, name, arguments)


class HookWorker:
    """Handles the events of the hook in `folder`, several at once, until the pipe closes."""

    def __init__(self, folder: Path, name: str, digest: str, out: FrameWriter, log: LogHandler) -> None:
        """`digest` is what its code must have; "": whatever it is."""
        self._folder = folder
        self._digest = digest
        self._name = name
        self._out = out
        self._log = log
        self._loaded: Loaded | None = None
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._runs: dict[int, set[asyncio.Task[None]]] = {}

    def take(self, request: Request) -> None:
        """Start processing a request; called on the loop."""
        if isinstance(request, Handle):
            self._log.left = RECORDS
            self._start(request.run, self._serve(request))
        elif isinstance(request, CancelHandling):
            for task in self._runs.get(request.run, ()):
                task.cancel()
        elif (answer := self._answers.pop(request.call, None)) is not None and not answer.done():
            if request.error is None:
                answer.set_result(request.value)
            else:
                answer.set_exception(HookServiceError(request.error))

    async def call(self, run: int, name: Service, arguments: dict[str, Any]) -> Any:
        """Return the program's answer. Raises HookServiceError."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._out.send(ServiceCall(run, number, name, arguments))
            return await answer
        finally:
            self._answers.pop(number, None)

    def _start(self, run: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks = self._runs.setdefault(run, set())
        tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if not tasks:
                del self._runs[run]
                self._out.send(Over(run))

        task.add_done_callback(ended)

    async def _serve(self, request: Handle) -> None:
        try:
            loaded = self._load()
            changes = await self._handle(loaded, decode_event(request.event), request) if request.event else {}
            self._out.send(HandlingDone(request.run, changes, self._has_later(request.run)))
        except BaseException as error:
            if not _is_broken_off(error):
                _logger.exception("the handler failed")
            self._out.send(HandlingFailed(request.run, describe(error, self._folder), self._has_later(request.run)))

    def _has_later(self, run: int) -> bool:
        return len(self._runs[run]) > 1

    def _load(self) -> Loaded:
        if self._loaded is None:
            if self._digest and code_digest(self._folder) != self._digest:
                raise HandlerError(CHANGED)
            self._loaded = Loaded(self._folder)
        return self._loaded

    async def _handle(self, loaded: Loaded, event: HookEvent, request: Handle) -> dict[str, Any]:
        def later(work: Coroutine[Any, Any, None]) -> None:
            self._start(request.run, self._go_on(request.run, work))

        event.__dict__["hook"] = Hook(self._name, request.settings, Remote(self, request.run), later)
        await loaded.handle(event)
        return changes_of(event)

    async def _go_on(self, run: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException as error:
            if _is_broken_off(error):
                raise
            _logger.exception("later work failed")
            self._out.send(LaterFailed(run, describe(error, self._folder)))


def _is_broken_off(error: BaseException) -> bool:
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def main() -> None:
    """Serve until the pipe closes."""
    folder, name, digest = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    requests, reports = claim_pipes()
    out = FrameWriter(reports, LARGEST_FRAME)
    log = LogHandler(out, f"clawbot.hooks.{name}")
    logging.basicConfig(handlers=[log], level=logging.INFO, format="%(message)s")
    logging.captureWarnings(True)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    worker = HookWorker(folder, name, digest, out, log)
    serve_frames(requests, request_decoder, loop, worker.take)
    code = 1
    try:
        out.send(HookProcessReady())
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as error:
        _logger.exception("a task that the handler started ends the process")
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = error.code
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
