"""Where a handler runs: shipped hooks in the program's process, all others in a process of their own."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import itertools
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from clawbot.deadline import deadline
from clawbot.hooks.api import Hook, HookServiceError, Services
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
    Report,
    ServiceAnswer,
    ServiceCall,
    changes_of,
    encode_event,
    report_decoder,
    with_changes,
)
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.events import HookEvent
from clawbot.hooks.loading import HookFailedError, Loaded, Stamp, describe, stamp
from clawbot.worker_pipe import WorkerProcess, module_command

LINES = 200
"""Printed lines that are logged for each handling, so that a broken handler can't fill the log."""
START_SECONDS = 30.0
"""How long the interpreter may take to start; not part of the hook's own time limit."""
CANCEL_SECONDS = 1.0
"""How long a cancelled handler may clean up before its process is killed."""

OnLater = Callable[[str, str], None]
"""Called with the topic and one line when later work fails."""


class _Run:
    """One event in the process. `finished` is set when the handler ends (None: the process did), `over` when its later
    work has ended too."""

    def __init__(self, topic: str, services: Services | None) -> None:
        loop = asyncio.get_running_loop()
        self.topic = topic
        self.services = services
        self.context = contextvars.copy_context()
        self.finished: asyncio.Future[HandlingDone | HandlingFailed | None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        self.calls: set[asyncio.Task[None]] = set()
        self.cancelled = False

    def finish(self, report: HandlingDone | HandlingFailed | None) -> None:
        if not self.finished.done():
            self.finished.set_result(report)

    def end(self) -> None:
        self.finish(None)
        if not self.over.done():
            self.over.set_result(None)
        for call in self.calls:
            call.cancel()


class HookProcess:
    """A process that runs the handler of one hook, with the files as they were at its start."""

    def __init__(self, hook: FoundHook, on_later: OnLater) -> None:
        self._hook = hook
        self._on_later = on_later
        self._logger = logging.getLogger(f"clawbot.hooks.{hook.name}")
        self._numbers = itertools.count(1)
        self._runs: dict[int, _Run] = {}
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._process = WorkerProcess(self._logger, report_decoder, self._take, largest=LARGEST_FRAME, lines=LINES)
        self._killed_by = ""
        self._closing = False

    @property
    def usable(self) -> bool:
        """Whether it can take another event."""
        return not (self._killed_by or self._closing or self._process.ended.done())

    @property
    def pending(self) -> set[asyncio.Future[None]]:
        """Futures of running events, each done when its handler and later work are."""
        return {run.over for run in self._runs.values()}

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises HookFailedError."""
        command = module_command("clawbot.hooks.worker", str(self._hook.folder), self._hook.name, self._hook.digest)
        try:
            await self._process.start(command, {**os.environ, **self._hook.env})
        except OSError as error:
            raise HookFailedError("exited", f"its process could not be started: {error}") from error
        self._process.ended.add_done_callback(self._end)
        first: list[asyncio.Future[Any]] = [self._ready, self._process.ended]
        done, _ = await asyncio.wait(first, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if self._ready not in done:
            what = self._how_it_ended() if done else f"was not up after {START_SECONDS:g} s"
            self._process.kill()
            raise HookFailedError("exited", f"its process {what}; see the log")

    async def cancelled(self) -> None:
        """Wait until cancelled handlers have ended, or their process was killed."""
        if ending := [run.over for run in self._runs.values() if run.cancelled]:
            await asyncio.wait(ending)

    async def handle(
        self, event: HookEvent | None, services: Services | None, settings: dict[str, Any], seconds: float
    ) -> HandlingDone:
        """Let the handler process `event`, None: be loaded. Raises HookFailedError, after `seconds` at the latest. When
        the caller is cancelled, the handler is cancelled too, and killed if it does not end."""
        topic = event.topic if event is not None else "loading"
        number, run = next(self._numbers), _Run(topic, services)
        try:
            request = Handle(number, encode_event(event) if event is not None else b"", settings)
            self._process.restart_log()
            self._process.send(request)
        except (TypeError, ValueError, OverflowError) as error:
            raise HookFailedError("failed", f"the event could not be sent: {error}") from error
        self._runs[number] = run
        try:
            # Plain wait: only a message of the process, or its exit, ends a run.
            await asyncio.wait([run.finished], timeout=seconds)
        except asyncio.CancelledError:
            self._cancel(number, run)
            raise
        if not run.finished.done():
            self._kill(f"{topic} took too long")
            raise HookFailedError("timeout", too_long(self._hook.name, seconds))
        return self._result(run)

    async def close(self) -> None:
        """Stop the process and wait for its end."""
        self._closing = True
        await self._process.close()

    def _result(self, run: _Run) -> HandlingDone:
        report = run.finished.result()
        if isinstance(report, HandlingFailed):
            raise HookFailedError("failed", report.error)
        if report is None:
            raise HookFailedError("exited", f"its process {self._how_it_ended()}; the next event starts another")
        return report

    def _kill(self, why: str) -> None:
        self._killed_by = why
        self._process.kill()

    def _cancel(self, number: int, run: _Run) -> None:
        run.cancelled = True
        self._process.send(CancelHandling(number))
        asyncio.get_running_loop().call_later(CANCEL_SECONDS, self._kill_unless_over, run)

    def _kill_unless_over(self, run: _Run) -> None:
        if not run.over.done():
            self._logger.warning("%s was cancelled and did not end; its process is killed", run.topic)
            self._kill(f"{run.topic} was broken off, and did not end")

    def _how_it_ended(self) -> str:
        if self._killed_by:
            return f"was killed, since {self._killed_by}"
        if self._closing:
            return "was ended"
        code = self._process.ended.result()
        if code >= 0:
            return f"ended with status {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def _end(self, _: asyncio.Future[int]) -> None:
        """The process has exited: fail all running events."""
        for run in list(self._runs.values()):
            if run.finished.done() and not run.cancelled:
                self._on_later(run.topic, f"its process {self._how_it_ended()} before its later work was done")
            run.end()
        self._runs.clear()

    def _take(self, report: Report) -> None:
        if isinstance(report, HookProcessReady):
            if not self._ready.done():
                self._ready.set_result(None)
        elif isinstance(report, Log):
            self._logger.log(report.level, "%s", report.text)
        elif isinstance(report, ServiceCall):
            self._answer(report, self._runs.get(report.run))
        elif run := self._runs.get(report.run):
            self._go_on(run, report)

    def _go_on(self, run: _Run, report: HandlingDone | HandlingFailed | LaterFailed | Over) -> None:
        if isinstance(report, LaterFailed):
            if not run.cancelled:
                self._on_later(run.topic, f"later work failed: {report.error}")
            return
        if isinstance(report, HandlingDone | HandlingFailed):
            run.finish(report)
        if isinstance(report, Over) or not report.later:
            del self._runs[report.run]
            run.end()

    def _answer(self, call: ServiceCall, run: _Run | None) -> None:
        if run is None or run.services is None:
            self._process.send(
                ServiceAnswer(call.call, error="The event is over; use event.hook.later() for longer work.")
            )
            return
        task = asyncio.get_running_loop().create_task(self._serve(call, run.services), context=run.context)
        run.calls.add(task)
        task.add_done_callback(run.calls.discard)

    async def _serve(self, call: ServiceCall, services: Services) -> None:
        try:
            service: Callable[..., Awaitable[Any]] = getattr(services, call.name)
            answer = ServiceAnswer(call.call, msgspec.to_builtins(await service(**call.arguments)))
        except HookServiceError as error:
            answer = ServiceAnswer(call.call, error=str(error))
        except Exception as error:
            self._logger.exception("%s could not be done", call.name)
            answer = ServiceAnswer(call.call, error=f"{call.name} failed: {type(error).__name__}")
        self._process.send(answer)


def too_long(name: str, seconds: float) -> str:
    """Return the message for a handler that exceeded its `seconds`."""
    return (
        f"took longer than {seconds:g} s and was ended; what takes long belongs into event.hook.later(), and "
        f"hooks.entries.{name}.timeout allows more"
    )


E = TypeVar("E", bound=HookEvent)
GRACE_SECONDS = 1.0
"""How long cancelled later work may clean up."""


class LocalRunner:
    """Runs a handler on the program's own loop. `hook` may be replaced; its new settings apply from the next event."""

    def __init__(self, hook: FoundHook, on_later: OnLater) -> None:
        self.hook = hook
        self._on_later = on_later
        self._logger = logging.getLogger(f"clawbot.hooks.{hook.name}")
        self._loaded: Loaded | None = None
        self._stamp: Stamp = {}
        self._loading = asyncio.Lock()
        self._later: set[asyncio.Future[Any]] = set()

    @property
    def pending(self) -> set[asyncio.Future[Any]]:
        """Later work."""
        return set(self._later)

    async def handle(self, event: E, services: Services, seconds: float) -> E:
        """Returns the event with the hook's changes. Raises HookFailedError, and CancelledError when the caller is
        cancelled."""

        def later(work: Coroutine[Any, Any, None]) -> None:
            task = asyncio.get_running_loop().create_task(self._go_on(event.topic, work))
            self._later.add(task)
            task.add_done_callback(self._later.discard)

        handled = copy.deepcopy(event)
        handled.__dict__["hook"] = Hook(self.hook.name, self.hook.settings, services, later)
        before = _cancellations()
        try:
            async with deadline(seconds) as limit:
                await (await self._load()).handle(handled)
            if limit.expired():
                raise TimeoutError
            return with_changes(event, changes_of(handled))
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancellations() > before:
                raise
            if limit.expired():
                raise HookFailedError("timeout", too_long(self.hook.name, seconds)) from error
            self._logger.exception("%s failed", event.topic)
            raise HookFailedError("failed", describe(error, self.hook.folder)) from error

    async def close(self) -> None:
        later = self.pending
        for task in later:
            task.cancel()
        if later:
            await asyncio.wait(later, timeout=GRACE_SECONDS)

    async def _load(self) -> Loaded:
        """Return the current handler, reloaded after changes of its files."""
        async with self._loading:
            now = await asyncio.to_thread(stamp, self.hook.folder.glob("*.py"))
            if self._loaded is not None and now != self._stamp:
                self._loaded.forget()
                self._loaded = None
            if self._loaded is None:
                self._loaded = await asyncio.to_thread(Loaded, self.hook.folder)
                self._stamp = now
            return self._loaded

    async def _go_on(self, topic: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancellations():
                raise
            self._logger.exception("later work of %s failed", topic)
            self._on_later(topic, f"later work failed: {describe(error, self.hook.folder)}")


def _cancellations() -> int:
    """Pending cancellations of the current task: a handler may also raise CancelledError itself."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


class ProcessRunner:
    """Runs a handler in its own process, started at the first event and after each change of its files. `hook` may be
    replaced, as in `LocalRunner`."""

    def __init__(self, hook: FoundHook, on_later: OnLater) -> None:
        self.hook = hook
        self._on_later = on_later
        self._process: HookProcess | None = None
        self._stamp: Stamp = {}
        self._starting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._retired: set[HookProcess] = set()
        self._closed = False

    @property
    def pending(self) -> set[asyncio.Future[Any]]:
        """Work in the current process and in retired ones."""
        return {over for process in self._running() for over in process.pending}

    async def handle(self, event: E, services: Services, seconds: float) -> E:
        """Returns the event with the hook's changes. Raises HookFailedError, and CancelledError when the caller is
        cancelled."""
        # Shielded: a cancelled caller must not abort the start.
        process = await asyncio.shield(self._spawn(self._current()))
        done = await process.handle(event, services, dict(self.hook.settings), seconds)
        try:
            return with_changes(event, done.changes)
        except ValueError as error:
            raise HookFailedError("failed", str(error)) from error

    async def load(self, seconds: float) -> None:
        """Start the process and load the handler. Raises HookFailedError."""
        await (await asyncio.shield(self._spawn(self._current()))).handle(None, None, {}, seconds)

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(process.close() for process in self._running()))
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _running(self) -> set[HookProcess]:
        return self._retired | ({self._process} if self._process is not None else set())

    async def _current(self) -> HookProcess:
        """Return a process that runs the current files."""
        async with self._starting:
            now = await asyncio.to_thread(stamp, self.hook.folder.glob("*.py"))
            process = self._process
            if process is not None:
                await process.cancelled()
                if now == self._stamp and process.usable:
                    return process
                self._process = None
                self._retired.add(process)
                self._spawn(self._retire(process))
            return await self._start(now)

    async def _start(self, now: Stamp) -> HookProcess:
        process = self._process = HookProcess(self.hook, self._on_later)
        self._stamp = now
        try:
            await process.start()
            if self._closed:
                raise HookFailedError("cancelled", "is no longer in use")
        except HookFailedError:
            self._process = None
            await process.close()
            raise
        return process

    async def _retire(self, process: HookProcess) -> None:
        """Let `process` finish its work, then stop it."""
        if process.pending:
            await asyncio.wait(process.pending)
        await process.close()
        self._retired.discard(process)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


Runner = LocalRunner | ProcessRunner
