"""A time limit for a block: asyncio's, which also works while a task cleans up after a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def deadline(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the block after `seconds` (None: never) and raise TimeoutError; yields asyncio's own scope.

    In Python 3.11.0 to 3.11.2 that scope reports an expired limit as a cancellation if its task was cancelled before
    the block began (gh-102780). A wait for an unresponsive process after Esc would then return without killing it.
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
