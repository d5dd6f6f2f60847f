"""What was said before: the end of a conversation when it is opened, and more of it as the reader goes up.

What has gone far up is let go of, so that a talk of days takes no more memory than one of an hour: it is read from the
transcript again when the reader goes there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clawbot.tui.heap import give_back
from clawbot.tui.render.items import SpeakerItem

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.clock import Clock
    from clawbot.tui.widgets.transcript import TranscriptView

PAGE_OF_HISTORY = 50  # messages shown at the start, and fetched each time the reader reaches the top
MOST_ITEMS = 1200  # on the page when a turn begins
KEPT_ITEMS = 600  # of them, when there are more


class EarlierMessages:
    """Puts stored messages on `page`, a part at a time."""

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self._oldest: str | None = None  # the entry that stands at the top
        self._fetching = asyncio.Lock()

    @property
    def has_more(self) -> bool:
        """Whether more of the conversation lies above what is loaded."""
        return self._oldest is not None

    async def load(self, runtime: RuntimeApi) -> None:
        """Show the end of the conversation, and nothing else."""
        self._page.clear()
        self._oldest = None
        await self._fetch(runtime)
        self._page.go_to_end()

    async def more(self, runtime: RuntimeApi) -> None:
        """Show what lies above, unless that is on its way."""
        if self._oldest is None or self._fetching.locked():
            return
        async with self._fetching:
            await self._fetch(runtime)

    async def go_to(self, runtime: RuntimeApi, entry: str, query: str) -> None:
        """Show what is stored as `entry`, the words in it that `query` meant set off, however far above it lies."""
        async with self._fetching:
            while not self._page.point_at(entry, query) and self._oldest is not None:
                await self._fetch(runtime)

    def shorten(self) -> None:
        """Let go of what stands far above the end, from the beginning of a turn on. What is stored nowhere (the output
        of a command, a notice) is gone then, as it is after a restart."""
        stack = self._page.stack
        if len(stack) <= MOST_ITEMS or self._fetching.locked() or self._page.is_read:
            return
        for index in range(len(stack) - KEPT_ITEMS, len(stack)):
            item = stack.item(index)
            if isinstance(item, SpeakerItem) and item.entry_id:
                self._oldest = item.entry_id
                self._page.shorten(index)
                self._page.run_worker(asyncio.to_thread(give_back), group="heap")
                return

    async def _fetch(self, runtime: RuntimeApi) -> None:
        # Markdown comes in after the first paint.
        from clawbot.tui.restoring import load_items

        history = await runtime.sessions.history(before=self._oldest, limit=PAGE_OF_HISTORY)
        items = await asyncio.to_thread(load_items, history, self._clock.now().tzinfo)
        self._oldest = history[0].entry_id if len(history) == PAGE_OF_HISTORY else None
        self._page.prepend(items)
