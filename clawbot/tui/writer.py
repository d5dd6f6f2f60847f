"""Writes a running turn into the transcript: text as it streams, at most 25 times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import process_time
from typing import TYPE_CHECKING

from clawbot.agent import events
from clawbot.agent.slash import parse_command
from clawbot.clock import Clock
from clawbot.text.interface import _
from clawbot.tui.render.cards import SubagentRun, ToolItem, take_details
from clawbot.tui.render.housekeeping import KeptItem, SessionItem, is_quiet, memory_mark
from clawbot.tui.render.items import (
    DividerItem,
    HeadItem,
    Item,
    MarkdownItem,
    MarkItem,
    NoticeItem,
    ReasoningItem,
    UserItem,
    WaitItem,
    chips,
)
from clawbot.tui.transcript import (
    CUT,
    INTERRUPTED,
    UNSENT,
    Motion,
    Times,
    markdown_items,
    quote_item,
    summary_item,
    text_items,
    unsummarised_item,
    user_items,
)

if TYPE_CHECKING:
    from clawbot.tui.render.call_titles import CardState
    from clawbot.tui.render.markdown_blocks import MarkdownBlock
    from clawbot.tui.render.stream import MarkdownStream
    from clawbot.tui.widgets.transcript import TranscriptView

FLUSH_SECONDS = 1 / 25
# A flush that is slow makes the next one wait so many times as long: a seventh of the time at most.
REST_FACTOR = 6


class TranscriptWriter:
    """Writes turns to the page, each event by its method."""

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self.motion = Motion(page, clock)
        self._times = Times()
        self._stream: MarkdownStream | None = None
        self._live = 0  # items at the end that the next flush replaces
        self._answer: list[Item] = []  # what is shown of the answer so far
        self._reasoning: ReasoningItem | None = None
        self._unvoiced: list[ReasoningItem] = []  # what was thought, and nothing written or done since
        self._tools: dict[str, ToolItem] = {}
        self._asked = ""  # what the turn began with
        self._words: UserItem | None = None  # the same on the page
        self._spoken = False
        self._head: HeadItem | None = None  # above the answer
        self._text_seen = False
        self._marked = False
        self._timer: asyncio.TimerHandle | None = None
        self._rest = FLUSH_SECONDS
        self.last_reply = ""

    @property
    def is_writing(self) -> bool:
        return self._stream is not None

    def user(self, text: str, entry_id: str = "", attached: Sequence[str] = ()) -> None:
        """Begin a turn with these words, stored as `entry_id`, and with what is `attached`. What followed a command
        (`/new TEXT`) is a message of its own, and is not shown twice."""
        command = parse_command(self._asked)
        if self._words is not None and command is not None and command.argument == text.strip():
            self._words.text = f"/{command.name}"
            self._page.update(self._words)
        self._begin()
        self._asked = text
        items = user_items(text, self._times.label(self._clock.now()), entry_id)
        self._words = next(item for item in items if isinstance(item, UserItem))
        self._page.append([*items, *chips(attached)])

    def unsent(self, text: str) -> None:
        """Show words that reached nobody, so that they are not lost."""
        self._finish_text()
        self._page.append([*user_items(text, self._times.label(self._clock.now())), MarkItem(_(UNSENT))])

    def _begin(self) -> None:
        self._finish_text()
        self._spoken = self._text_seen = self._marked = False
        self._head = None
        self._asked = ""
        self._tools.clear()
        self._answer = []
        self._reasoning = None
        self._unvoiced = []

    def delta(self, event: events.TextDelta) -> None:
        self._write(event.text)

    def _write(self, text: str) -> None:
        if self._stream is None:
            from clawbot.tui.render.stream import MarkdownStream

            self._stream = MarkdownStream()
            self._show_thought()
        self._text_seen = True
        self._unvoiced = []
        self._stream.feed(text)
        if self._timer is None:
            self._timer = self._flush_later()

    def _flush_later(self) -> asyncio.TimerHandle:
        # Textual skips a timer if the thread is stopped for as long.
        return asyncio.get_running_loop().call_later(self._rest, self._page.call_next, self.flush)

    def reasoning(self, event: events.ReasoningDelta) -> None:
        if self._reasoning is None:
            self._finish_text()
            self._reasoning = ReasoningItem("")
            self._unvoiced.append(self._reasoning)
            self._page.append([self._reasoning])
        self._reasoning.text += event.text
        if self._page.stack.page.show_reasoning and self._timer is None:
            self._timer = self._flush_later()

    def withdrawn(self, event: events.TextWithdrawn) -> None:
        """Turn what was shown of this answer into reasoning."""
        self._finish_text()
        shown, page = self._answer, [item for item in self._page.stack.items if not isinstance(item, WaitItem)]
        if shown and page[-len(shown) :] == shown:
            self._page.append([], drop=len(shown))
            if isinstance(shown[0], HeadItem):
                self._head, self._spoken = None, False
            self._answer = []
        self.discard()
        self.reasoning(events.ReasoningDelta(text=event.text))

    def flush(self) -> None:
        self._timer = None
        started = process_time()
        if self._stream is None:
            self._show_thought()
        else:
            done, tail = self._stream.flush()
            committed = self._items(done)
            self._answer += committed
            self._spoken = self._spoken or bool(committed)
            live = self._items(tail)
            self._page.append([*committed, *live], drop=self._live)
            self._live = len(live)
        self._rest = max(FLUSH_SECONDS, REST_FACTOR * (process_time() - started))

    def _show_thought(self) -> None:
        if self._reasoning is not None:
            self._page.update(self._reasoning)

    def _items(self, blocks: Sequence[MarkdownBlock]) -> list[Item]:
        if not blocks:
            return []
        if self._spoken:
            return markdown_items(blocks, first=False)
        if self._head is None:
            self._head = HeadItem(self._times.label(self._clock.now()))
        return [self._head, *markdown_items(blocks, first=True)]

    def _finish_text(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stream is not None:
            items = self._items(self._stream.finish())
            self._answer += items
            self._page.append(items, drop=self._live)
            self._spoken = self._spoken or bool(items)
        else:
            self._show_thought()
        self._stream = None
        self._live = 0
        self._rest = FLUSH_SECONDS

    def message_finished(self, event: events.MessageFinished) -> None:
        if not self._text_seen and event.text.strip():
            self._write(event.text)
        self._finish_text()
        if event.text.strip():
            self.last_reply = event.text
        mark = {"aborted": _(INTERRUPTED), "length": event.reason or _(CUT)}.get(event.stop_reason)
        self._marked = mark is not None
        self._page.append([MarkItem(mark)] if mark else [])
        self._text_seen = False
        self._reasoning = None
        self._answer = []

    def discard(self) -> None:
        """Strike through what was shown of this answer: the model failed."""
        self._finish_text()
        for item in self._answer:
            if isinstance(item, MarkdownItem):
                item.style = "discarded"
                self._page.update(item)
        self._answer = []
        self._text_seen = False

    def tool_started(self, event: events.ToolStarted) -> None:
        self._finish_text()
        self._unvoiced = []
        joined = isinstance(self._page.last, ToolItem)
        item = ToolItem(event.name, event.title, event.arguments, joined=joined)
        self._tools[event.call_id] = item
        self._page.append([item])
        self.motion.run(item)

    def tool_is(self, call_id: str, state: CardState) -> None:
        """Show a call as `state`: while the user is asked, and running after the answer, when its time begins."""
        item = self._tools.get(call_id)
        if item is not None and item.output is None:
            item.state = state
            self.motion.run(item)
            self._page.update(item)

    def tool_output(self, event: events.ToolOutput) -> None:
        item = self._tools.get(event.call_id)
        if item is not None:
            item.printed(event.text)
            self._page.update(item)

    def subagent_step(self, event: events.SubagentStep) -> None:
        """Show a step of a sub-agent. What those do that work for a sub-agent is not on the page."""
        item = self._tools.get(event.parent_call_id)
        if item is not None:
            item.subagent = item.subagent or SubagentRun()
            item.subagent.take(event)
            self._page.update(item)

    def tool_finished(self, event: events.ToolFinished) -> None:
        item = self._tools.get(event.call_id)
        if item is not None:
            item.output, item.summary, item.milliseconds = event.output, event.summary, event.duration_ms
            item.state = "failed" if event.is_error else "done"
            take_details(item, event.details)
            self.motion.ended(item)
            self._page.update(item)

    def notice(self, notice: events.Notice) -> None:
        self._finish_text()
        self._page.append([NoticeItem(notice.level, notice.text, notice.path or "", notice.line)])

    def divider(self, text: str) -> None:
        self._finish_text()
        self._page.append([DividerItem(text)])

    def session_changed(self, text: str) -> None:
        """Begin another session. The note of the one before it is shown below the line, though it may have been
        shown before."""
        self._finish_text()
        kept = self._kept_last()
        for item in kept[1:]:
            item.joined = True
        session = SessionItem((), text=text, path=kept[0].path if kept else "", joined=is_quiet(self._page.last))
        self._page.append([session, *kept[1:]], drop=len(kept))

    def _kept_last(self) -> list[KeptItem]:
        """Return the notes that were kept at the end of the page, for which no line was drawn yet."""
        kept: list[KeptItem] = []
        for item in reversed(self._page.stack.items):
            if isinstance(item, WaitItem):
                continue
            if not isinstance(item, KeptItem):
                return [] if isinstance(item, SessionItem) else kept
            kept.insert(0, item)
        return kept

    def memory_written(self, event: events.MemoryWritten) -> None:
        self._finish_text()
        item, is_new = memory_mark(self._page.last, event.path, event.line, event.end_line)
        if is_new:
            self._page.append([item])
        else:
            self._page.update(item)

    def note_kept(self, event: events.NoteKept) -> None:
        """Show the note of a conversation, or its new name, in its line. A line
        that is not on the page any more is missed by nobody."""
        if event.was:
            for item in self._page.stack.items:
                if isinstance(item, KeptItem | SessionItem) and item.path == event.was:
                    item.path = event.path
                    self._page.update(item)
            return
        self._finish_text()
        last = self._page.last
        if isinstance(last, SessionItem) and not last.path:
            last.path = event.path
            self._page.update(last)
        else:
            self._page.append([KeptItem(event.session_id, event.path, joined=is_quiet(last))])

    def notes_quoted(self, event: events.NotesQuoted) -> None:
        self._finish_text()
        last, quote = self._page.last, quote_item(event.text, len(event.files), self._page.last)
        if isinstance(last, SessionItem) and not last.blocks and not quote.intent:
            last.blocks, last.files, last.characters = quote.blocks, quote.files, quote.characters
            self._page.update(last)
        else:
            self._page.append([quote])

    def compacted(self, event: events.CompactionFinished) -> None:
        self._finish_text()
        if event.status == "done":
            summary = summary_item(event.summary, event.tokens_before, event.tokens_after, self._page.last)
            self._page.append([summary])
        else:
            self._page.append([unsummarised_item(event)])
            # Whoever asked for the summary alone stopped nothing else.
            self._marked = self._marked or (event.status == "interrupted" and event.trigger == "manual")

    def output(self, command: str, text: str) -> None:
        self._finish_text()
        title = [] if self._asked.startswith(command) else [DividerItem(command)]
        self._page.append([*title, *text_items(text)])
        self.last_reply = text

    def ended(self, event: events.TurnEnded) -> None:
        """End the turn. What was thought for an answer without text is not shown."""
        self._finish_text()
        self.motion.end()
        for thought in self._unvoiced if event.status == "done" else ():
            thought.text = ""
            self._page.update(thought)
        items: list[Item] = []
        if event.status == "failed":
            items = [NoticeItem("error", " ".join(filter(None, (event.error or _("The turn failed."), event.hint))))]
        elif event.status == "interrupted" and not self._marked:
            items = [MarkItem(_(INTERRUPTED))]
        for tool in self._tools.values():
            if tool.output is None:
                tool.state, tool.summary = "stopped", INTERRUPTED if event.status == "interrupted" else "no result"
                self._page.update(tool)
        self._page.append(items)
        self._tools.clear()
        self._asked = ""
        self._words = None
