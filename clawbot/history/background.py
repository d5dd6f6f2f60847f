"""Notices in the background what others change, one scan at a time."""

from __future__ import annotations

import asyncio
import logging

from clawbot.history.changes import History

log = logging.getLogger(__name__)


class Noticer:
    """Lets `history` notice changes in a thread. Belongs to the event loop; nothing waits for it but `close`.
    `generation` is the state of the index when it was woken last."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._again = False
        self._task: asyncio.Task[None] | None = None
        self.generation = -1

    def wake(self, generation: int) -> None:
        """If the index has changed, files have: scan them, once more after a scan that is running."""
        if generation == self.generation:
            return
        self.generation = generation
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="changes of memory files")

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                await asyncio.to_thread(self._history.notice)
            except OSError as error:
                log.warning("changes of memory files were not noticed: %s", error)

    async def close(self) -> None:
        """Wait for the scan that is running."""
        self._again = False
        if self._task is not None:
            await asyncio.wait([self._task])
