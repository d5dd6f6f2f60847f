"""What was said before: the end of a conversation when it is opened, and more of it as the reader goes up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clawbot.clock import Clock
    from clawbot.runtime import Runtime
    from clawbot.tui.widgets.transcript import Transcript

PAGE_OF_HISTORY = 50  # messages shown at the start, and fetched each time the reader reaches the top


class Earlier:
    """Puts stored messages on `page`, a part at a time."""

    def __init__(self, page: Transcript, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self._oldest: str | None = None  # the entry that stands at the top
        self._fetching = False

    @property
    def has_more(self) -> bool:
        """Whether more of the conversation lies above what is loaded."""
        return self._oldest is not None

    async def load(self, runtime: Runtime) -> None:
        """Show the end of the conversation, and nothing else."""
        self._page.clear()
        self._oldest = None
        await self._fetch(runtime)
        self._page.go_to_end()

    async def more(self, runtime: Runtime) -> None:
        """Show what lies above, unless that is on its way."""
        if self._oldest is None or self._fetching:
            return
        self._fetching = True
        try:
            await self._fetch(runtime)
        finally:
            self._fetching = False

    async def _fetch(self, runtime: Runtime) -> None:
        # Markdown comes in after the first paint.
        from clawbot.tui.restoring import load_items

        history = await runtime.history(before=self._oldest, limit=PAGE_OF_HISTORY)
        items = await asyncio.to_thread(load_items, history, self._clock.now().tzinfo)
        self._oldest = history[0].entry_id if len(history) == PAGE_OF_HISTORY else None
        self._page.prepend(items)
