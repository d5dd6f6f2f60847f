"""From stored messages to items of the page: a conversation that is opened again looks as it did."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

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
from clawbot.text.interface import _
from clawbot.text.sanitize import clean
from clawbot.text.visible import title_of
from clawbot.tui.render.attached import chips
from clawbot.tui.render.cards import ToolItem, take_details
from clawbot.tui.render.fallback import attempt
from clawbot.tui.render.housekeeping import SummaryItem, memory_mark
from clawbot.tui.render.items import DividerItem, HeadItem, Item, MarkItem, NoticeItem, ReasoningItem
from clawbot.tui.render.stream import MarkdownStream
from clawbot.tui.transcript import (
    CUT,
    INTERRUPTED,
    Times,
    piece_items,
    quote_item,
    summary_item,
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
        self._spoken = False  # in this turn, so its time stands above already
        self._times = Times()
        self._asked = False  # the last words have no answer yet

    def build(self, history: Sequence[HistoryItem], *, answered: bool) -> list[Item]:
        """The items of `history`, oldest first. `answered`: what follows is an answer, or still to come."""
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
                time = self._times.told(moment)
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
                self._beside(entry)
        if isinstance(entry.message, UserMessage | BashExecutionMessage):
            self._spoken = False

    def _ran(self, message: BashExecutionMessage, moment: datetime) -> None:
        """A command of the user."""
        sign = "!" if message.exclude_from_context else "!!"
        self._items += user_items(f"{sign}{message.command}", self._times.told(moment))
        title = title_of("shell", message.command)
        item = ToolItem("shell", title, {"command": message.command}, message.output, message.ending)
        item.state = "done" if message.exit_code == 0 else "failed"
        item.shared = not message.exclude_from_context
        self._items.append(item)

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

    def _unanswered(self) -> None:
        """The program ended before the last words had an answer."""
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
                items.append(HeadItem(self._times.told(moment)))
            stream = MarkdownStream()  # as it was cut into pieces when it was said
            stream.feed(clean(message.text))
            items += piece_items(stream.finish(), first=not self._spoken)
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
    """The items of `history`. `answered`: its last words are, or will be. Parsing takes its time, so it belongs in a
    thread."""
    return HistoryBuilder(zone).build(history, answered=answered)


def _summary(entry: CompactionEntry, last: Item | None) -> SummaryItem:
    after = entry.details.get("tokensAfter") if isinstance(entry.details, dict) else None
    return summary_item(entry.summary, entry.tokens_before, after if isinstance(after, int) else 0, last)
