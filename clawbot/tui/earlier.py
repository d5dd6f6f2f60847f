"""Earlier messages: the end of a conversation when it is opened, and more as the user scrolls up.

Messages far above are unloaded, so that a conversation of days takes no more memory than one of an hour, and read from
the transcript again on demand.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clawbot.messages import UserMessage
from clawbot.text.interface import N_, _
from clawbot.tui.heap import give_back
from clawbot.tui.render.items import HeadItem, MarkItem

if TYPE_CHECKING:
    from collections.abc import Callable

    from clawbot.api import RuntimeApi
    from clawbot.clock import Clock
    from clawbot.tui.widgets.transcript import TranscriptView

ABOVE = N_("↑ earlier messages are above")
PAGE_OF_HISTORY = 50  # messages shown at the start, and fetched at the top
MOST_ITEMS = 1200  # on the page when a turn begins
KEPT_ITEMS = 600  # of them, when there are more


class EarlierMessages:
    """Loads stored messages into `page` in parts."""

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self._oldest: str | None = None  # the entry that stands at the top
        self._marked = 0  # items at the top that say that there is more above
        self._answered = False  # what stands at the top answers what is above it
        self._fetching = asyncio.Lock()

    @property
    def has_more(self) -> bool:
        """Whether there is more of the conversation above the loaded part."""
        return self._oldest is not None

    async def load(self, runtime: RuntimeApi) -> None:
        """Show only the end of the conversation."""
        self._page.clear()
        self._oldest, self._marked = None, 0
        # The words of a turn that runs have no answer yet.
        self._answered = runtime.agent.status.busy
        await self._fetch(runtime)
        self._page.go_to_end()

    async def more(self, runtime: RuntimeApi) -> None:
        """Load the part above, unless that is already running."""
        if not self._fetching.locked():
            await self.next_part(runtime)

    async def next_part(self, runtime: RuntimeApi) -> None:
        """Load the part above, if there is one, after what is already running."""
        async with self._fetching:
            if self._oldest is not None:
                await self._fetch(runtime)

    async def go_to(self, runtime: RuntimeApi, entry: str, query: str) -> None:
        """Show the stored `entry` with the words of `query` highlighted, however far above it is."""
        await self.reach(runtime, lambda: self._page.point_at(entry, query))

    async def reach(self, runtime: RuntimeApi, found: Callable[[], bool]) -> None:
        """Load the parts above until something is `found`, or nothing is left; one that is on its way is waited for."""
        async with self._fetching:
            while not found() and self._oldest is not None:
                await self._fetch(runtime)

    def shorten(self) -> None:
        """Unload items far above the end when a turn begins. Items that are not stored (command output, notices) are
        lost, as after a restart."""
        stack = self._page.stack
        if len(stack) <= MOST_ITEMS or self._fetching.locked() or self._page.is_read:
            return
        for index in range(len(stack) - KEPT_ITEMS, len(stack)):
            item = stack.item(index)
            if isinstance(item, HeadItem) and item.entry_id:
                self._oldest = item.entry_id
                self._answered = False
                self._page.prepend([MarkItem(_(ABOVE))], drop=index)
                self._marked = 1
                self._page.run_worker(asyncio.to_thread(give_back), group="heap")
                return

    async def _fetch(self, runtime: RuntimeApi) -> None:
        # Markdown comes in after the first paint.
        from clawbot.tui.restoring import load_items

        history = await runtime.sessions.history(before=self._oldest, limit=PAGE_OF_HISTORY)
        zone = self._clock.now().tzinfo
        items = await asyncio.to_thread(load_items, history, zone, answered=self._answered)
        self._answered = bool(history) and not isinstance(history[0].message, UserMessage)
        self._oldest = history[0].entry_id if len(history) == PAGE_OF_HISTORY else None
        above = [MarkItem(_(ABOVE))] if self.has_more else []
        self._page.prepend([*above, *items], drop=self._marked)
        self._marked = len(above)
