"""The process of one hook: `python -m clawbot.hooks.worker FOLDER NAME`.

It reads requests from a pipe and writes reports to another one (`hooks.frames`). Whatever the handler prints, and what
programs that it starts print, goes to stderr, which the program logs. The process ends when its pipe closes, also in
the middle of a loop that never awaits: the pipe is read by a thread of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import sys
import threading
from collections.abc import Coroutine
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from clawbot.hooks.events import HookEvent, Said
from clawbot.hooks.failures import describe
from clawbot.hooks.frames import (
    Call,
    Cancel,
    Done,
    Failed,
    Handle,
    LaterFailed,
    Log,
    Over,
    Ready,
    Report,
    Request,
    Service,
    encode,
    read_frame,
    request_decoder,
)
from clawbot.hooks.handle import Hook, HookServiceError
from clawbot.hooks.loading import Loaded
from clawbot.hooks.passing import changes_of, decode_event
from clawbot.messages import scrub

RECORDS = 500
"""Log records of a handling that are passed on; a handler gone wild must not fill the log."""
LONGEST_RECORD = 16_000
_logger = logging.getLogger("clawbot.hooks.worker")


class Outlet:
    """The pipe to the program, which threads of the handler may write to as well (by logging)."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, report: Report) -> None:
        """Write a report. Raises what `frames.encode` raises. Blocks while the program does not read."""
        data = encode(report)
        with self._lock:
            self._stream.write(data)
            self._stream.flush()


class LogHandler(logging.Handler):
    """Sends log records to the program, of each handling no more than `RECORDS`."""

    def __init__(self, out: Outlet, own: str) -> None:
        super().__init__()
        self._out = out
        self._own = own
        self.left = RECORDS

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; those of other loggers than the hook's own with the logger's name."""
        self.left -= 1
        if self.left < 0:
            return
        text = self.format(record)[:LONGEST_RECORD].encode("utf-8", "backslashreplace").decode()
        prefix = "" if record.name in {self._own, _logger.name} else f"{record.name}: "
        self._out.send(Log(record.levelno, prefix + text))


class Remote:
    """The program's services, asked for over the pipe on behalf of one handling."""

    def __init__(self, worker: Worker, number: int) -> None:
        self._worker = worker
        self._number = number

    async def _call(self, name: Service, arguments: dict[str, Any]) -> Any:
        return await self._worker.call(self._number, name, arguments)

    async def said(self, limit: int) -> list[Said]:
        """See `Services`."""
        return msgspec.convert(await self._call("said", {"limit": limit}), list[Said])

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        """See `Services`."""
        return str(await self._call("ask", {"prompt": prompt, "system": system, "seconds": seconds, "model": model}))

    async def keep_note(self, text: str, slug: str) -> str:
        """See `Services`."""
        return str(await self._call("keep_note", {"text": text, "slug": slug}))

    async def rename_note(self, path: str, slug: str) -> str:
        """See `Services`."""
        return str(await self._call("rename_note", {"path": path, "slug": slug}))

    async def run(self, prompt: str, *, session: str) -> str:
        """See `Services`."""
        return str(await self._call("run", {"prompt": prompt, "session": session}))

    async def tell(self, text: str, *, level: str, path: str) -> None:
        """See `Services`."""
        await self._call("tell", {"text": text, "level": level, "path": path})


class Worker:
    """Handles the events of the hook in `folder`, several at once, until the pipe closes."""

    def __init__(self, folder: Path, name: str, out: Outlet, log: LogHandler) -> None:
        self._folder = folder
        self._name = name
        self._out = out
        self._log = log
        self._loaded: Loaded | None = None
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._runs: dict[int, set[asyncio.Task[None]]] = {}

    def take(self, request: Request) -> None:
        """Begin with a request; on the loop."""
        if isinstance(request, Handle):
            self._log.left = RECORDS
            self._start(request.run, self._serve(request))
        elif isinstance(request, Cancel):
            for task in self._runs.get(request.run, ()):
                task.cancel()
        elif (answer := self._answers.pop(request.call, None)) is not None and not answer.done():
            if request.error is None:
                answer.set_result(request.value)
            else:
                answer.set_exception(HookServiceError(request.error))

    async def call(self, run: int, name: Service, arguments: dict[str, Any]) -> Any:
        """What the program answers. Raises HookServiceError."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._out.send(Call(run, number, name, scrub(arguments)))
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
            event = decode_event(request.event)
            changes = await self._handle(event, request)
            self._out.send(Done(request.run, changes, self._has_later(request.run)))
        except BaseException as error:
            if not _is_broken_off(error):
                _logger.exception("the handler failed")
            self._out.send(Failed(request.run, describe(error, self._folder), self._has_later(request.run)))

    def _has_later(self, run: int) -> bool:
        return len(self._runs[run]) > 1

    async def _handle(self, event: HookEvent, request: Handle) -> dict[str, Any]:
        if self._loaded is None:
            self._loaded = Loaded(self._folder)

        def later(work: Coroutine[Any, Any, None]) -> None:
            self._start(request.run, self._go_on(request.run, work))

        event.__dict__["hook"] = Hook(self._name, request.settings, Remote(self, request.run), later)
        await self._loaded.handle(event)
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


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Both pipes for frames alone: from here on stdin is empty and stdout leads to stderr, also for programs that the
    handler starts."""
    requests, reports = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.stdout = sys.stderr
    return os.fdopen(requests, "rb"), os.fdopen(reports, "wb")


def _read(stream: BinaryIO, loop: asyncio.AbstractEventLoop, worker: Worker) -> None:
    """Pass requests on until the pipe closes; then nothing that still runs is of use to anybody."""
    try:
        while (body := read_frame(stream)) is not None:
            loop.call_soon_threadsafe(worker.take, request_decoder.decode(body))
    finally:
        _end_all()


def _end_all() -> None:
    """End this process, and what the handler started and left in its session. The program may be gone."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Serve until the pipe closes."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    requests, reports = _take_pipes()
    out = Outlet(reports)
    log = LogHandler(out, f"clawbot.hooks.{name}")
    logging.basicConfig(handlers=[log], level=logging.INFO, format="%(message)s")
    logging.captureWarnings(True)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    worker = Worker(folder, name, out, log)
    threading.Thread(target=_read, args=(requests, loop, worker), name="read-requests", daemon=True).start()
    code = 1
    try:
        out.send(Ready())
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt) as error:
        _logger.exception("a task that the handler started ends the process")
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            code = error.code
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
