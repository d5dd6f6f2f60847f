"""Looks whether files have changed since they were indexed, on a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class LateScanError(Exception):
    """A scan is not done in time."""


class StaleScan:
    """One scan at a time, for all who ask. Belongs to the event loop.

    Its thread is of no pool: a network share that hangs may keep it for ever, which neither the threads of the
    searches nor the end of the process wait for.
    """

    def __init__(self, scan: Callable[[], bool | None], on_late: Callable[[], None]) -> None:
        """`scan` blocks; `on_late` is called when one is over at last that somebody has given up."""
        self._scan = scan
        self._on_late = on_late
        self._running: asyncio.Future[bool | None] | None = None
        self._begun = 0
        self._given_up = False

    async def result(self, seconds: float) -> bool | None:
        """What a scan says that begins after this call. Raises LateScanError after `seconds`, and what `scan` raises.

        A scan that goes on already may have passed by what was written since; it is waited for, and followed by one.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        earlier = self._begun
        while True:
            running = self._running or self._begin(loop)
            sees_all = self._begun > earlier
            await asyncio.wait([running], timeout=max(0.0, end - loop.time()))
            if not running.done():
                self._given_up = True
                raise LateScanError
            if sees_all:
                return running.result()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[bool | None]:
        future: asyncio.Future[bool | None] = loop.create_future()
        # The first of its callbacks: who waits finds it over.
        future.add_done_callback(self._over)

        def run() -> None:
            found: bool | None = None
            failure: Exception | None = None
            try:
                found = self._scan()
            except Exception as error:
                log.exception("the files could not be looked at")
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody looks any more
                if failure is None:
                    loop.call_soon_threadsafe(future.set_result, found)
                else:
                    loop.call_soon_threadsafe(future.set_exception, failure)

        threading.Thread(target=run, name="memory-scan", daemon=True).start()
        self._running, self._given_up = future, False
        self._begun += 1
        return future

    def _over(self, future: asyncio.Future[bool | None]) -> None:
        self._running = None
        # It is in the log: asyncio need not complain where nobody waits for it any more.
        future.exception()
        if self._given_up:
            self._on_late()
