"""From stored messages to items of the page: a conversation that is opened again looks as it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from clawbot.tui.render.housekeeping import QuoteItem, SummaryItem, is_quiet, memory_mark
from clawbot.tui.render.items import DividerItem, Item, MarkItem, NoticeItem, ReasoningItem, ToolItem
from clawbot.tui.render.sanitize import clean
from clawbot.tui.transcript import CUT, INTERRUPTED, agent_items, piece_items, take_details, user_items

if TYPE_CHECKING:
    from clawbot.agent.views import HistoryItem
    from clawbot.sessions.entries import CompactionEntry, CustomMessageEntry
    from clawbot.tui.render.pieces import Piece


class HistoryBuilder:
    """Stored messages as items. Answers of tools find their calls; the answers of one turn share a speaker."""

    def __init__(self, parse: Callable[[str], Sequence[Piece]], zone: tzinfo | None) -> None:
        self._parse = parse
        self._zone = zone
        self._calls: dict[str, ToolItem] = {}
        self._items: list[Item] = []
        self._spoken = False  # in this turn, so its speaker stands above already

    def build(self, history: Sequence[HistoryItem]) -> list[Item]:
        """The items of `history`, oldest first."""
        for entry in history:
            self._add(entry)
        return self._items

    def _add(self, entry: HistoryItem) -> None:
        moment = datetime.fromtimestamp(entry.timestamp / 1000, self._zone)
        match entry.message:
            case UserMessage() as message:
                self._items += user_items(message.text, moment)
            case AssistantMessage() as message:
                self._reply(message, moment, interrupted=entry.interrupted)
            case ToolResultMessage() as message:
                self._result(message)
            case BashExecutionMessage() as message:
                self._items.append(
                    ToolItem("shell", f"! {message.command}", {}, message.output, f"exit {message.exit_code}")
                )
            case None:
                self._beside(entry)
        if isinstance(entry.message, UserMessage | BashExecutionMessage):
            self._spoken = False

    def _beside(self, entry: HistoryItem) -> None:
        """What happened beside the talk. Housekeeping may come in the middle of an answer, which goes on below."""
        if entry.compaction is not None:
            self._items.append(self._summary(entry.compaction))
        elif entry.quote is not None:
            self._items.append(self._quote(entry.quote))
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

    def _summary(self, entry: CompactionEntry) -> SummaryItem:
        after = entry.details.get("tokensAfter") if isinstance(entry.details, dict) else None
        pieces = self._parse(clean(entry.summary))
        tokens = after if isinstance(after, int) else 0
        return SummaryItem(pieces, before=entry.tokens_before, after=tokens, joined=is_quiet(self._last))

    def _quote(self, entry: CustomMessageEntry) -> QuoteItem:
        text = text_of(entry.content)
        files = len(quoted_files(entry))
        return QuoteItem(self._parse(clean(text)), files=files, characters=len(text), joined=is_quiet(self._last))

    def _reply(self, message: AssistantMessage, moment: datetime, *, interrupted: bool) -> None:
        items = self._items
        for block in message.content:
            if isinstance(block, ThinkingBlock):
                items.append(ReasoningItem(block.thinking))
        if message.text.strip():
            if not self._spoken:
                items += agent_items(moment)
            items += piece_items(self._parse(clean(message.text)), first=not self._spoken)
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
        title = " ".join([call.name, *(str(value).split("\n")[0] for value in list(call.arguments.values())[:1])])
        joined = bool(self._items) and isinstance(self._items[-1], ToolItem)
        item = ToolItem(call.name, title, call.arguments, right="no result", joined=joined)
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
    from clawbot.tui.render.stream import MarkdownStream

    def parse(text: str) -> Sequence[Piece]:
        stream = MarkdownStream()
        stream.feed(text)
        return stream.finish()

    return HistoryBuilder(parse, zone).build(history)
