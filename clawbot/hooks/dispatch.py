"""Hands events to hooks: in order, each with its time limit, and whatever a hook does stays its own problem."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.events import HookEvent
from clawbot.hooks.failures import HookFailedError, Status, one_line
from clawbot.hooks.handle import Services
from clawbot.hooks.hosts import Host, LocalHost, ProcessHost
from clawbot.hooks.manifest import HOOK_FILE
from clawbot.logs import is_secret_name, redact, remember_secret

E = TypeVar("E", bound=HookEvent)

QUEUE = 1_000
"""Events that may wait; of more, the oldest are dropped."""
GRACE_SECONDS = 1.0
"""How long a handler may take to clean up when the program ends."""
_logger = logging.getLogger("clawbot.hooks")


class LastRun(Struct, frozen=True):
    """How a hook did at its last event, or with its later work. `error` is one line for the user without secrets, ""
    when all was well."""

    topic: str
    status: Status
    error: str
    duration_ms: int
    at: datetime


class Dispatcher:
    """The hooks of one program. Everything runs on one event loop."""

    def __init__(self, find: Callable[[], list[FoundHook]], clock: Clock, *, timeout: float) -> None:
        """`find` says which hooks there are; it blocks, and is called in a thread. `timeout`, in seconds, is for hooks
        that name none."""
        self._find = find
        self._clock = clock
        self._timeout = timeout
        self._hosts: dict[str, Host] = {}
        self._queue: deque[tuple[HookEvent, Services]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[Any]] = set()
        self._results: dict[str, LastRun] = {}
        self._loading = asyncio.Lock()
        self._manifests: dict[Path, _FileStamp] = {}
        self._closed = False
        self.hooks: tuple[FoundHook, ...] = ()
        self.on_failure: Callable[[str, LastRun], None] | None = None

    @property
    def results(self) -> Mapping[str, LastRun]:
        """How each hook did last, by its name."""
        return self._results

    async def load(self) -> None:
        """Find the hooks (again). Those that are gone, or may run no longer, are ended."""
        async with self._loading:
            self.hooks, self._manifests = await asyncio.to_thread(self._look)
        ready = {hook.name: hook for hook in self.hooks if hook.ready}
        for name, host in list(self._hosts.items()):
            hook = ready.get(name)
            if hook is not None and _place(hook) == _place(host.hook):
                host.hook = hook
            else:
                del self._hosts[name]
                self._close_soon(host.close())

    def wants(self, topic: str) -> bool:
        """Whether any hook that may run is subscribed to `topic`. Cheap."""
        return any(hook.ready and hook.manifest.wants(topic) for hook in self.hooks)

    async def run(self, event: E, services: Services) -> E:
        """Let the hooks handle `event`, one after the other, and return it as they left it. What goes wrong in a hook
        is logged, told to `on_failure` and else of no effect. Cancelling breaks off the handler that runs."""
        if self._closed:
            return event
        return await self._pass(event, services)

    def notify(self, event: HookEvent, services: Services) -> None:
        """Hand `event` to the hooks in the background, in the order of these calls."""
        if self._closed or not self.wants(event.topic):
            return
        if len(self._queue) >= QUEUE:
            dropped, _ = self._queue.popleft()
            _logger.warning("hooks are too slow: %s of %s is dropped", dropped.topic, dropped.timestamp)
        self._queue.append((event, services))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._work_off())

    async def settled(self) -> None:
        """Wait until all events of `notify` are handled and all later work is done."""
        while True:
            waiting: set[asyncio.Future[Any]] = {future for host in self._hosts.values() for future in host.pending}
            if self._pump is not None and not self._pump.done():
                waiting.add(self._pump)
            waiting |= self._closing
            if not waiting:
                return
            await asyncio.wait(waiting)

    async def close(self, seconds: float) -> None:
        """Wait `seconds` for what is queued and for later work, then end all that still runs. No event is taken any
        more."""
        self._closed = True
        try:
            async with asyncio.timeout(seconds):
                await self.settled()
        except TimeoutError:
            _logger.warning("hooks were not done after %g s; %d events are left out", seconds, len(self._queue))
        self._queue.clear()
        if self._pump is not None and not self._pump.done():
            self._pump.cancel()
            await asyncio.wait([self._pump], timeout=GRACE_SECONDS)
        await asyncio.gather(*(host.close() for host in self._hosts.values()))
        self._hosts.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _work_off(self) -> None:
        while self._queue:
            await self._pass(*self._queue.popleft())

    async def _pass(self, event: E, services: Services) -> E:
        if not self.wants(event.topic):
            return event
        await self._look_again()
        for hook in self.hooks:
            if hook.ready and hook.manifest.wants(event.topic):
                event = await self._handle(hook, event, services)
        return event

    async def _handle(self, hook: FoundHook, event: E, services: Services) -> E:
        began, task = self._clock.monotonic(), asyncio.current_task()
        cancelled = task.cancelling() if task is not None else 0
        status: Status = "ok"
        error = ""
        try:
            event = await self._host(hook).handle(event, services, hook.manifest.timeout or self._timeout)
        except HookFailedError as failure:
            status, error = failure.status, failure.error
        except asyncio.CancelledError:
            self._record(hook.name, event.topic, "cancelled", "was broken off", began)
            raise
        except Exception as failure:
            _logger.exception("%s of the hook %s failed", event.topic, hook.name)
            status, error = "failed", one_line(f"{type(failure).__name__}: {failure}")
        self._record(hook.name, event.topic, status, error, began)
        if task is not None and task.cancelling() > cancelled:
            raise asyncio.CancelledError  # the handler kept it to itself
        return event

    def _host(self, hook: FoundHook) -> Host:
        host = self._hosts.get(hook.name)
        if host is None:
            for name, value in hook.env.items():
                if is_secret_name(name):
                    remember_secret(value)
            kind = LocalHost if hook.source == "shipped" else ProcessHost
            host = self._hosts[hook.name] = kind(hook, partial(self._later_failed, hook.name))
        return host

    def _later_failed(self, name: str, topic: str, error: str) -> None:
        self._record(name, topic, "failed", error, self._clock.monotonic())

    def _record(self, name: str, topic: str, status: Status, error: str, began: float) -> None:
        duration = round((self._clock.monotonic() - began) * 1000)
        last = LastRun(topic, status, redact(error), duration, self._clock.now())
        self._results[name] = last
        if status == "ok":
            return
        _logger.warning("the hook %s, %s: %s: %s", name, topic, status, last.error)
        if self.on_failure is not None:
            try:
                self.on_failure(name, last)
            except Exception:
                _logger.exception("the failure of the hook %s could not be told", name)

    def _look(self) -> tuple[tuple[FoundHook, ...], dict[Path, _FileStamp]]:
        hooks = tuple(self._find())
        return hooks, _stamps(hooks)

    async def _look_again(self) -> None:
        """Find the hooks again when a HOOK.md was changed."""
        if await asyncio.to_thread(_stamps, self.hooks) == self._manifests:
            return
        try:
            await self.load()
        except Exception:
            _logger.exception("hooks changed, but could not be found again")

    def _close_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


_FileStamp = tuple[int, int, int] | None


def _stamps(hooks: tuple[FoundHook, ...]) -> dict[Path, _FileStamp]:
    """What tells a change of each HOOK.md: inode, time and size. Blocks."""
    return {hook.folder: _file_stamp(hook.folder / HOOK_FILE) for hook in hooks}


def _file_stamp(file: Path) -> _FileStamp:
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def _place(hook: FoundHook) -> tuple[Path, str, dict[str, str]]:
    """What a host stands for: when any of it is another, so is the host."""
    return hook.folder, hook.source, dict(hook.env)
