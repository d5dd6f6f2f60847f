"""Where a handler runs: shipped hooks in the program's process, all others in a process of their own."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from clawbot.deadline import deadline
from clawbot.hooks.api import Hook, Services
from clawbot.hooks.codec import changes_of, with_changes
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.events import HookEvent
from clawbot.hooks.loading import HookFailedError, Loaded, Stamp, describe, stamp
from clawbot.hooks.process import HookProcess, OnLater, too_long

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
        """Cancel all later work."""
        later = self.pending
        for task in later:
            task.cancel()
        if later:
            await asyncio.wait(later, timeout=GRACE_SECONDS)

    async def _load(self) -> Loaded:
        """The current handler, reloaded after changes of its files."""
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
        """Stop all processes."""
        self._closed = True
        await asyncio.gather(*(process.close() for process in self._running()))
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _running(self) -> set[HookProcess]:
        return self._retired | ({self._process} if self._process is not None else set())

    async def _current(self) -> HookProcess:
        """A process that runs the current files."""
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
