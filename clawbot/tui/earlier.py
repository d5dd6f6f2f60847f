"""Stored messages as items of the page: the end of a conversation when it is opened, more as the user scrolls up.

Messages far above are unloaded, so that a conversation of days takes no more memory than one of an hour, and read from
the transcript again on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

from clawbot.collector import trim_heaps
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from clawbot.sessions.conversation import quoted_files
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean
from clawbot.text.visible import title_of
from clawbot.tui.render.cards import ToolItem, take_details
from clawbot.tui.render.housekeeping import SummaryItem, memory_mark
from clawbot.tui.render.items import DividerItem, HeadItem, Item, MarkItem, NoticeItem, ReasoningItem, attempt, chips
from clawbot.tui.transcript import CUT, INTERRUPTED, Times, markdown_items, quote_item, summary_item, user_items

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.clock import Clock
    from clawbot.sessions.conversation import HistoryItem
    from clawbot.sessions.entries import CompactionEntry
    from clawbot.tui.widgets.transcript import TranscriptView


ABOVE = N_("↑ earlier messages are above")
PAGE_OF_HISTORY = 50  # messages shown at the start, and fetched at the top
MAX_ITEMS = 1200  # on the page when a turn begins
KEPT_ITEMS = 600  # of them, when there are more


class EarlierMessages:
    """Loads stored messages into `page` in parts."""

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self._runtime: RuntimeApi | None = None
        self._oldest: str | None = None  # the entry at the top
        self._marked = 0  # items at the top that mark that there is more above
        self._answered = False  # what is at the top answers what is above it
        self._fetching = asyncio.Lock()

    @property
    def has_more(self) -> bool:
        return self._oldest is not None

    async def load(self, runtime: RuntimeApi) -> None:
        """Show only the end of the conversation of `runtime`."""
        self._runtime = runtime
        self._page.clear()
        self._oldest, self._marked = None, 0
        # The words of a turn that runs have no answer yet.
        self._answered = runtime.agent.status.busy
        await self._fetch(runtime)
        self._page.go_to_end()

    async def more(self) -> None:
        """Load the part above, unless that is already running."""
        if not self._fetching.locked():
            await self.next_part()

    async def next_part(self) -> None:
        """Load the part above, if there is one, after what is already running."""
        async with self._fetching:
            if self._runtime is not None and self.has_more:
                await self._fetch(self._runtime)

    async def go_to(self, entry: str, query: str) -> None:
        """Show the stored `entry` with the words of `query` highlighted, however far above it is."""
        await self.reach(lambda: self._page.point_at(entry, query))

    async def reach(self, found: Callable[[], bool]) -> None:
        """Load the parts above until something is `found`, or nothing is left; one that is on its way is waited for."""
        async with self._fetching:
            while not found() and self._runtime is not None and self.has_more:
                await self._fetch(self._runtime)

    def shorten(self) -> None:
        """Unload items far above the end when a turn begins. Items that are not stored (command output, notices) are
        lost, as after a restart."""
        stack = self._page.stack
        if len(stack) <= MAX_ITEMS or self._fetching.locked() or self._page.is_read:
            return
        for index in range(len(stack) - KEPT_ITEMS, len(stack)):
            item = stack.item(index)
            if isinstance(item, HeadItem) and item.entry_id:
                self._oldest = item.entry_id
                self._answered = False
                self._page.prepend([MarkItem(_(ABOVE))], drop=index)
                self._marked = 1
                self._page.run_worker(asyncio.to_thread(trim_heaps), group="memory")
                return

    async def _fetch(self, runtime: RuntimeApi) -> None:
        history = await runtime.sessions.history(before=self._oldest, limit=PAGE_OF_HISTORY)
        zone = self._clock.now().tzinfo
        items = await asyncio.to_thread(load_items, history, zone, answered=self._answered)
        self._answered = bool(history) and not isinstance(history[0].message, UserMessage)
        self._oldest = history[0].entry_id if len(history) == PAGE_OF_HISTORY else None
        above = [MarkItem(_(ABOVE))] if self.has_more else []
        self._page.prepend([*above, *items], drop=self._marked)
        self._marked = len(above)


class HistoryBuilder:
    """Stored messages as items. Answers of tools find their calls; the answers of one turn share a speaker."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._calls: dict[str, ToolItem] = {}
        self._items: list[Item] = []
        self._spoken = False  # in this turn, so its time is above already
        self._times = Times()
        self._asked = False  # the last words have no answer yet

    def build(self, history: Sequence[HistoryItem], *, answered: bool) -> list[Item]:
        """Return the items of `history`, oldest first. `answered`: what follows is an answer, or still to come."""
        for entry in history:
            before = len(self._items)
            attempt(partial(self._add, entry), partial(self._plain, entry.message))
            for item in self._items[before:]:
                item.entry = entry.entry_id
        if not answered:
            self._unanswered()
        return self._items

    def _plain(self, message: Message | None, report: str) -> None:
        self._items.append(MarkItem(f"{message.text if message else ''}\n{report}"))

    def _add(self, entry: HistoryItem) -> None:
        moment = datetime.fromtimestamp(entry.timestamp / 1000, self._zone)
        match entry.message:
            case UserMessage() as message:
                self._unanswered()
                time = self._times.label(moment)
                self._items += [*user_items(message.text, time, entry.entry_id), *chips(message.attached)]
                self._asked = True
            case AssistantMessage() as message:
                self._asked = False
                self._reply(message, moment, interrupted=entry.interrupted)
            case ToolResultMessage() as message:
                self._result(message)
            case BashExecutionMessage() as message:
                self._ran(message, moment)
            case None:
                self._out_of_turn(entry)
        if isinstance(entry.message, UserMessage | BashExecutionMessage):
            self._spoken = False

    def _ran(self, message: BashExecutionMessage, moment: datetime) -> None:
        sign = "!" if message.exclude_from_context else "!!"
        self._items += user_items(f"{sign}{message.command}", self._times.label(moment))
        title = title_of("shell", message.command)
        item = ToolItem("shell", title, {"command": message.command}, message.output, message.ending)
        item.state = "done" if message.exit_code == 0 else "failed"
        item.shared = not message.exclude_from_context
        self._items.append(item)

    def _out_of_turn(self, entry: HistoryItem) -> None:
        """Add an event of no turn. Housekeeping may come in the middle of an answer, which goes on below."""
        if entry.compaction is not None:
            self._items.append(_summary(entry.compaction, self._last))
        elif entry.quote is not None:
            files = len(quoted_files(entry.quote))
            self._items.append(quote_item(text_of(entry.quote.content), files, self._last))
        elif entry.offer is not None:
            for write in entry.offer.writes:
                item, is_new = memory_mark(self._last, write.path, write.line, write.end_line)
                self._items += [item] if is_new else []
        else:
            self._items.append(DividerItem(entry.note))
            self._spoken = False

    def _unanswered(self) -> None:
        if self._asked:
            self._items.append(MarkItem(_("never answered")))
        self._asked = False

    @property
    def _last(self) -> Item | None:
        return self._items[-1] if self._items else None

    def _reply(self, message: AssistantMessage, moment: datetime, *, interrupted: bool) -> None:
        items = self._items
        for block in message.content:
            if isinstance(block, ThinkingBlock):
                items.append(ReasoningItem(block.thinking))
        if message.text.strip():
            if not self._spoken:
                items.append(HeadItem(self._times.label(moment)))
            from clawbot.tui.render.stream import MarkdownStream  # after the first paint

            stream = MarkdownStream()  # cut into blocks as it was when it streamed
            stream.feed(clean(message.text))
            items += markdown_items(stream.finish(), first=not self._spoken)
            self._spoken = True
        if interrupted or message.stop_reason == "aborted":
            items.append(MarkItem(_(INTERRUPTED)))
        elif message.stop_reason == "length":
            items.append(MarkItem(message.error_message or _(CUT)))
        elif message.stop_reason == "error" and message.error_message:
            items.append(NoticeItem("error", message.error_message))
        for call in message.tool_calls:
            items.append(self._call(call))

    def _call(self, call: ToolCallBlock) -> ToolItem:
        title = title_of(call.name, next(iter(call.arguments.values()), ""))
        joined = isinstance(self._last, ToolItem)
        item = ToolItem(call.name, title, call.arguments, None, "no result", "stopped", joined=joined)
        self._calls[call.id] = item
        return item

    def _result(self, message: ToolResultMessage) -> None:
        item = self._calls.get(message.tool_call_id)
        if item is None:
            return
        item.output = message.text
        item.state = "failed" if message.is_error else "done"
        item.summary = message.summary or ("failed" if message.is_error else "")
        item.milliseconds = -1 if message.duration_ms is UNSET else message.duration_ms
        take_details(item, message.details)


def load_items(history: Sequence[HistoryItem], zone: tzinfo | None, *, answered: bool = True) -> list[Item]:
    """Return the items of `history`. `answered`: its last words are, or will be. Parsing takes its time, so it belongs
    in a thread."""
    return HistoryBuilder(zone).build(history, answered=answered)


def _summary(entry: CompactionEntry, last: Item | None) -> SummaryItem:
    after = entry.details.get("tokensAfter") if isinstance(entry.details, dict) else None
    return summary_item(entry.summary, entry.tokens_before, after if isinstance(after, int) else 0, last)
