"""How long something may take: asyncio's time limit, which also holds while a task cleans up behind a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def deadline(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block after `seconds` (None: never) and raise TimeoutError; yields asyncio's own scope.

    That scope takes an expired limit for a cancellation in Python 3.11.0 to 3.11.2 when its task was cancelled before
    the block began (gh-102780). What waits for a deaf process behind Esc would then leave without killing it.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            yield scope
    except asyncio.CancelledError:
        if task is not None and scope.expired() and task.cancelling() <= before:
            raise TimeoutError from None
        raise
