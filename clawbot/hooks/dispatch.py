"""Hands events to hooks in order, each with its time limit, and isolates the program from their failures."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.hooks.api import Services
from clawbot.hooks.codec import without_secrets_in
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.events import HookEvent, ToolBefore
from clawbot.hooks.loading import HOOK_FILE, HookFailedError, Stamp, Status, code_files, one_line, stamp
from clawbot.hooks.runners import LocalRunner, ProcessRunner, Runner
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import redact, remember_secret

E = TypeVar("E", bound=HookEvent)

QUEUE = 1_000
"""Maximum number of waiting events; beyond it the oldest are dropped."""
LOADING = "start"
"""Topic of the report on a handler that can't be loaded."""
RUNNING: ContextVar[str] = ContextVar("hook", default="")
"""The name of the hook that handles an event in this context."""
GRACE_SECONDS = 1.0
"""How long a handler may clean up when the program exits."""
_logger = logging.getLogger("clawbot.hooks")


class LastRun(Struct, frozen=True):
    """The result of a hook's last event or later work. `error` is one line for the user without secrets, "" if all went
    well."""

    topic: str
    status: Status
    error: str
    duration_ms: int
    at: datetime


class Dispatcher:
    """The hooks of one program, on one event loop. `results` maps a hook's name to its last result."""

    def __init__(self, find: Callable[[], list[FoundHook]], clock: Clock, *, timeout: float) -> None:
        """`find` discovers the hooks; it blocks, and is called in a thread. `timeout` (seconds) applies to hooks that
        set none."""
        self._find = find
        self._clock = clock
        self._timeout = timeout
        self._runners: dict[str, Runner] = {}
        self._queue: deque[tuple[HookEvent, Services]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loading = asyncio.Lock()
        self._stamps: Stamp = {}
        self._closed = False
        self._by_topic: dict[str, tuple[FoundHook, ...]] = {}  # of `hooks`, as far as it was asked for
        self.hooks: tuple[FoundHook, ...] = ()
        self.results: dict[str, LastRun] = {}
        self.on_failure: Callable[[str, LastRun], None] | None = None
        self.on_load: Callable[[tuple[FoundHook, ...]], None] | None = None

    async def load(self) -> None:
        """Discover the hooks (again). Removed and disabled ones are stopped."""
        async with self._loading:
            self.hooks, self._stamps = await asyncio.to_thread(self._discover)
            self._by_topic = {}
        if self.on_load is not None:
            self.on_load(self.hooks)
        ready = {hook.name: hook for hook in self.hooks if hook.ready}
        for name, runner in list(self._runners.items()):
            hook = ready.get(name)
            if hook is not None and _identity(hook) == _identity(runner.hook):
                runner.hook = hook
            else:
                del self._runners[name]
                self._spawn(runner.close())

    def wants(self, topic: str) -> bool:
        """Return whether any hook runs at `topic`. Cheap."""
        return bool(self._hooks_at(topic))

    def _hooks_at(self, topic: str) -> tuple[FoundHook, ...]:
        """Return the hooks that run at `topic`, in their order."""
        if topic not in self._by_topic:
            self._by_topic[topic] = tuple(hook for hook in self.hooks if hook.runs_at(topic))
        return self._by_topic[topic]

    def prepare(self, topic: str = "") -> asyncio.Future[list[None]]:
        """Load the handlers of the user's hooks that run at `topic` ("": of all) in the background, and report those
        that can't be loaded."""
        wanted = [hook for hook in self.hooks if hook.ready and (not topic or hook.runs_at(topic))]
        return asyncio.gather(*(self._spawn(self._prepare(hook)) for hook in wanted))

    async def _prepare(self, hook: FoundHook) -> None:
        began, runner = self._clock.monotonic(), self._runner(hook)
        if not isinstance(runner, ProcessRunner):
            return
        try:
            await runner.load(hook.manifest.timeout or self._timeout)
        except HookFailedError as failure:
            if runner is self._runners.get(hook.name):
                self._record(hook.name, LOADING, failure.status, failure.error, began)

    async def run(self, event: E, services: Services) -> E:
        """Let the hooks handle `event` one after the other; returns the event with their changes. A hook's failure is
        logged and reported to `on_failure`; of one that is required it refuses the tool call, and has no other effect.
        Cancellation also cancels the running handler."""
        return event if self._closed else await self._pass(event, services)

    def notify(self, event: HookEvent, services: Services) -> None:
        """Queue `event` for the hooks, in order, in the background."""
        if self._closed or not self.wants(event.topic):
            return
        if len(self._queue) >= QUEUE:
            dropped, _ = self._queue.popleft()
            _logger.warning("hooks are too slow: %s of %s was dropped", dropped.topic, dropped.timestamp)
        self._queue.append((event, services))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._work_off())

    async def settled(self) -> None:
        """Wait until all queued events are handled and all later work is done."""
        while True:
            waiting: set[asyncio.Future[Any]] = {
                future for runner in self._runners.values() for future in runner.pending
            }
            if self._pump is not None and not self._pump.done():
                waiting.add(self._pump)
            waiting |= self._tasks
            if not waiting:
                return
            await asyncio.wait(waiting)

    async def close(self, seconds: float = 0.0) -> None:
        """Wait `seconds` for queued events and later work, then stop everything. Accepts no events any more."""
        self._closed = True
        try:
            async with deadline(seconds):
                await self.settled()
        except TimeoutError:
            _logger.warning("hooks did not finish within %g s; %d events were dropped", seconds, len(self._queue))
        self._queue.clear()
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait([self._pump], timeout=GRACE_SECONDS)
        runners = [*self._runners.values()]
        self._runners.clear()  # what can't be loaded because it is stopped now is no failure
        await asyncio.gather(*(runner.close() for runner in runners))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _work_off(self) -> None:
        while self._queue:
            await self._pass(*self._queue.popleft())

    async def _pass(self, event: E, services: Services) -> E:
        if not self.wants(event.topic):
            return event
        await self._reload_if_changed()
        event = await asyncio.to_thread(without_secrets_in, event)
        for hook in self._hooks_at(event.topic):
            event = await self._handle(hook, event, services)
        return event

    async def _handle(self, hook: FoundHook, event: E, services: Services) -> E:
        began, task = self._clock.monotonic(), asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        status: Status = "ok"
        error = ""
        running = RUNNING.set(hook.name)
        try:
            if not hook.ready:
                raise HookFailedError("failed", hook.reason())
            event = await self._runner(hook).handle(event, services, hook.manifest.timeout or self._timeout)
        except HookFailedError as failure:
            status, error = failure.status, failure.error
        except asyncio.CancelledError:
            self._record(hook.name, event.topic, "cancelled", "was broken off", began)
            raise
        except Exception as failure:
            _logger.exception("%s of the hook %s failed", event.topic, hook.name)
            status, error = "failed", one_line(f"{type(failure).__name__}: {failure}")
        finally:
            RUNNING.reset(running)
        self._record(hook.name, event.topic, status, error, began)
        if status != "ok" and hook.required and isinstance(event, ToolBefore):
            event.refuse(f"the hook {hook.name} must check it, and could not: {self.results[hook.name].error}")
        if task is not None and task.cancelling() > cancelled:
            raise asyncio.CancelledError  # the handler swallowed the cancellation
        return event

    def _runner(self, hook: FoundHook) -> Runner:
        runner = self._runners.get(hook.name)
        if runner is None:
            for name, value in hook.env.items():
                if is_secret_name(name):
                    remember_secret(value)
            kind = LocalRunner if hook.source == "shipped" else ProcessRunner
            runner = self._runners[hook.name] = kind(hook, partial(self._later_failed, hook.name))
        return runner

    def _later_failed(self, name: str, topic: str, error: str) -> None:
        self._record(name, topic, "failed", error, self._clock.monotonic())

    def _record(self, name: str, topic: str, status: Status, error: str, began: float) -> None:
        duration = round((self._clock.monotonic() - began) * 1000)
        last = LastRun(topic, status, redact(error), duration, self._clock.now())
        self.results[name] = last
        if status == "ok":
            return
        _logger.warning("the hook %s, %s: %s: %s", name, topic, status, last.error)
        if self.on_failure is not None:
            try:
                self.on_failure(name, last)
            except Exception:
                _logger.exception("the failure of the hook %s could not be reported", name)

    def _discover(self) -> tuple[tuple[FoundHook, ...], Stamp]:
        hooks = tuple(self._find())
        return hooks, stamp(_files(hooks))

    async def _reload_if_changed(self) -> None:
        """Discover the hooks again if a HOOK.md has changed, or the code of one that is trusted by its content."""
        if await asyncio.to_thread(stamp, _files(self.hooks)) == self._stamps:
            return
        try:
            await self.load()
        except Exception:
            _logger.exception("hooks changed, but could not be reloaded")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _files(hooks: tuple[FoundHook, ...]) -> Iterator[Path]:
    """Yield each HOOK.md, and the code that the user trusts by its content. Blocks."""
    for hook in hooks:
        yield hook.folder / HOOK_FILE
        if hook.digest and hook.enabled:
            with contextlib.suppress(OSError, ValueError):
                yield from code_files(hook.folder)


def _identity(hook: FoundHook) -> tuple[Path, str, dict[str, str]]:
    """Return the identity of a runner; when it changes, the runner is replaced."""
    return hook.folder, hook.source, dict(hook.env)
