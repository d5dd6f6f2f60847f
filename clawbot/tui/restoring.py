"""From stored messages to items of the page: a conversation that is opened again looks as it did."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from clawbot.sessions.conversation import quoted_files
from clawbot.text.sanitize import clean
from clawbot.text.visible import title_of
from clawbot.tui.render.housekeeping import SummaryItem, memory_mark
from clawbot.tui.render.items import DividerItem, Item, MarkItem, NoticeItem, ReasoningItem, ToolItem
from clawbot.tui.render.stream import MarkdownStream
from clawbot.tui.transcript import (
    CUT,
    INTERRUPTED,
    agent_items,
    piece_items,
    quote_item,
    summary_item,
    take_details,
    user_items,
)

if TYPE_CHECKING:
    from clawbot.agent.status_types import HistoryItem
    from clawbot.sessions.entries import CompactionEntry


class HistoryBuilder:
    """Stored messages as items. Answers of tools find their calls; the answers of one turn share a speaker."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._calls: dict[str, ToolItem] = {}
        self._items: list[Item] = []
        self._spoken = False  # in this turn, so its speaker stands above already

    def build(self, history: Sequence[HistoryItem]) -> list[Item]:
        """The items of `history`, oldest first."""
        for entry in history:
            before = len(self._items)
            self._add(entry)
            for item in self._items[before:]:
                item.entry = entry.entry_id
        return self._items

    def _add(self, entry: HistoryItem) -> None:
        moment = datetime.fromtimestamp(entry.timestamp / 1000, self._zone)
        match entry.message:
            case UserMessage() as message:
                self._items += user_items(message.text, moment, entry.entry_id)
            case AssistantMessage() as message:
                self._reply(message, moment, interrupted=entry.interrupted)
            case ToolResultMessage() as message:
                self._result(message)
            case BashExecutionMessage() as message:
                self._items.append(
                    ToolItem("shell", title_of("!", message.command), {}, message.output, f"exit {message.exit_code}")
                )
            case None:
                self._beside(entry)
        if isinstance(entry.message, UserMessage | BashExecutionMessage):
            self._spoken = False

    def _beside(self, entry: HistoryItem) -> None:
        """What happened beside the talk. Housekeeping may come in the middle of an answer, which goes on below."""
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
                items += agent_items(moment)
            stream = MarkdownStream()  # as it was cut into pieces when it was said
            stream.feed(clean(message.text))
            items += piece_items(stream.finish(), first=not self._spoken)
            self._spoken = True
        if interrupted or message.stop_reason == "aborted":
            items.append(MarkItem(INTERRUPTED))
        elif message.stop_reason == "length":
            items.append(MarkItem(CUT))
        elif message.stop_reason == "error" and message.error_message:
            items.append(NoticeItem("error", message.error_message))
        for call in message.tool_calls:
            items.append(self._call(call))

    def _call(self, call: ToolCallBlock) -> ToolItem:
        title = title_of(call.name, next(iter(call.arguments.values()), ""))
        item = ToolItem(call.name, title, call.arguments, right="no result", joined=isinstance(self._last, ToolItem))
        self._calls[call.id] = item
        return item

    def _result(self, message: ToolResultMessage) -> None:
        item = self._calls.get(message.tool_call_id)
        if item is None:
            return
        item.output = message.text
        item.is_error = message.is_error
        item.right = "failed" if message.is_error else ""
        take_details(item, message.details)


def load_items(history: Sequence[HistoryItem], zone: tzinfo | None) -> list[Item]:
    """The items of `history`. Parsing takes its time, so it belongs in a thread."""
    return HistoryBuilder(zone).build(history)


def _summary(entry: CompactionEntry, last: Item | None) -> SummaryItem:
    after = entry.details.get("tokensAfter") if isinstance(entry.details, dict) else None
    return summary_item(entry.summary, entry.tokens_before, after if isinstance(after, int) else 0, last)
