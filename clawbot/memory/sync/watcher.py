"""Watches the folders of the memory, reports changes after a debounce, and asks for syncs as the settings require."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.memory.documents.memory_files import DocumentSource

if TYPE_CHECKING:
    from clawbot.config.schema_memory import SyncSettings
    from clawbot.memory.sync.observer import FolderObserver

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""The polling interval if the system offers no watches."""

SAFETY_SECONDS = 60.0
"""The additional polling interval: changes on network shares are not reported, and watches may be lost."""

_PATIENCE = 8
"""Files that keep changing are reported after this many times the debounce."""


MINUTE = 60.0


class SyncReminder:
    """Calls `request` at the start, when files of `sources` change and by interval, as `settings` require. Belongs to
    the event loop."""

    def __init__(
        self, sources: Sequence[DocumentSource], settings: SyncSettings, request: Callable[[], object]
    ) -> None:
        self._settings = settings
        self._request = request
        self._watcher = Watcher(sources, settings.watch_debounce_ms / 1000, self._remind) if settings.watch else None
        self._starting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    @property
    def problem(self) -> str:
        """Why the files are polled, as one sentence; empty if they are watched, or need not be."""
        return self._watcher.problem if self._watcher is not None else ""

    def start(self) -> None:
        """Begin. Needs a running loop."""
        if self._watcher is not None and self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._watcher.start())
        if self._settings.on_session_start:
            self._remind()
        self._plan()

    async def stop(self) -> None:
        """Call nobody any more, and stop all threads."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None and self._starting is not None:
            await self._watcher.stop()
            await asyncio.wait([self._starting])

    def _remind(self) -> None:
        if not self._stopped:
            self._request()

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._settings.interval_minutes and not self._stopped:
            seconds = MINUTE * self._settings.interval_minutes
            self._timer = asyncio.get_running_loop().call_later(seconds, self._interval_over)

    def _interval_over(self) -> None:
        self._remind()
        self._plan()


class Watcher:
    """Calls `on_change` on the event loop once it watches, and `debounce` seconds after the last of a series of
    changes.

    `problem` is why it polls, in one sentence; empty while it is notified.
    """

    def __init__(self, sources: Sequence[DocumentSource], debounce: float, on_change: Callable[[], None]) -> None:
        self.problem = ""
        self._sources = sources
        self._debounce = debounce
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observer: FolderObserver | None = None
        self._poll: asyncio.Task[None] | None = None
        self._notifying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._noticed = False
        self._last = 0.0
        self._stopped = False
        self._observing = threading.Lock()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._observe)
        if self._stopped:
            return
        self._poll = asyncio.create_task(self._polling(bool(self.problem)))
        # A file may have changed after a sync read it and before its folder was watched.
        self._on_change()

    async def stop(self) -> None:
        """Stop all threads; they end as well when the caller is cancelled, even before he waits."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        released = asyncio.get_running_loop().run_in_executor(None, self._release)
        tasks = [task for task in (self._poll, self._notifying) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.shield(released)
        if tasks:
            await asyncio.wait(tasks)

    def _observe(self) -> None:
        """Watch the existing folders. Blocks."""
        with self._observing:
            if self._stopped:
                return
            folders: dict[Path, bool] = {}
            for source in self._sources:
                for number, folder in enumerate(source.watched()):
                    # In the first folder only separately listed subfolders matter, unless it is a memory folder itself.
                    deep = number > 0 or source.owns(folder / "folder" / "note.md")
                    folders[folder] = folders.get(folder, False) or deep
            self.problem = self._watch(folders)

    def _watch(self, folders: dict[Path, bool]) -> str:
        # Deferred: importing watchdog takes longer than a search.
        from clawbot.memory.sync.observer import FolderObserver

        try:
            if self._observer is None:
                self._observer = FolderObserver(self._on_path)
            self._observer.watch(folders)
        except OSError as error:
            reason = error.strerror or str(error)
            problem = f"Files are polled every {POLL_SECONDS:g} s: the system offers no watches ({reason})."
            if problem != self.problem:
                log.warning("%s", problem)
            return problem
        return "" if folders else f"Files are polled every {POLL_SECONDS:g} s: there is no folder to watch yet."

    def _release(self) -> None:
        """Blocks for a moment."""
        with self._observing:
            if self._observer is not None:
                self._observer.stop()
                self._observer = None

    async def _polling(self, had_problem: bool) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS if had_problem else SAFETY_SECONDS)
            await asyncio.to_thread(self._observe)
            had_problem = bool(self.problem)
            self._on_change()

    def _on_path(self, path: Path) -> None:
        """On the observer's thread."""
        if self._loop is None or not any(source.owns(path) for source in self._sources):
            return
        self._last = self._now()
        # Coalesce a burst of events into one call.
        if not self._noticed:
            self._noticed = True
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._check, self._last + _PATIENCE * self._debounce)

    def _check(self, latest: float) -> None:
        wait = min(self._last + self._debounce, latest) - self._now()
        if self._stopped:
            return
        if wait > 0:
            self._timer = asyncio.get_running_loop().call_later(wait, self._check, latest)
        else:
            self._notifying = asyncio.create_task(self._notify())

    async def _notify(self) -> None:
        self._noticed = False
        # Watch new folders before reading them, so that no change is missed.
        had_problem = bool(self.problem)
        await asyncio.to_thread(self._observe)
        if bool(self.problem) != had_problem and self._poll is not None and not self._stopped:
            self._poll.cancel()
            self._poll = asyncio.create_task(self._polling(bool(self.problem)))
        self._on_change()

    def _now(self) -> float:
        return self._loop.time() if self._loop is not None else 0.0
