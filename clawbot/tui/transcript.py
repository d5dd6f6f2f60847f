"""From events to items of the page, and the animation of the items of what runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from clawbot.agent.events import CompactionFinished, Level, SessionChanged
from clawbot.clock import Clock, weekday_of
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean
from clawbot.tui.render.housekeeping import QuoteItem, SummaryItem, is_quiet
from clawbot.tui.render.items import HeadItem, Item, MarkdownItem, NoticeItem, UserItem, WaitItem

if TYPE_CHECKING:
    from textual.timer import Timer

    from clawbot.api import RuntimeApi
    from clawbot.tui.render.cards import ToolItem
    from clawbot.tui.render.markdown_blocks import MarkdownBlock
    from clawbot.tui.widgets.transcript import TranscriptView


INTERRUPTED = N_("interrupted")
UNSENT = N_("not sent, and not stored")
CUT = N_("cut off at the model's length limit")


class Times:
    """The times on the page: each is shown once, and the day if that is another one."""

    def __init__(self) -> None:
        self._last: datetime | None = None

    def label(self, moment: datetime) -> str:
        """Return the time of a message of `moment`; "" if the message before has the same."""
        last, self._last = self._last, moment
        if last is None or last.date() == moment.date():
            return "" if last is not None and f"{last:%H:%M}" == f"{moment:%H:%M}" else f"{moment:%H:%M}"
        return f"{weekday_of(moment)} {moment:%H:%M}"


def user_items(text: str, time: str, entry_id: str = "") -> list[Item]:
    """Return a user's message, and as which entry it is stored, if it is."""
    return [HeadItem(time, by_user=True, entry_id=entry_id), UserItem(text)]


def markdown_items(blocks: Sequence[MarkdownBlock], *, first: bool) -> list[Item]:
    """Return Markdown as items; `first` if the speaker is right above."""
    return [MarkdownItem(block, first and number == 0) for number, block in enumerate(blocks)]


def summary_item(summary: str, before: int, after: int, last: Item | None) -> SummaryItem:
    """Return the divider below `last` for summarised turns, which had so many tokens `before`."""
    return SummaryItem(_parsed(summary), before=before, after=after, joined=is_quiet(last))


def quote_item(text: str, files: int, last: Item | None) -> QuoteItem:
    """Return the line below `last` for notes of so many `files`, quoted at the beginning of the session, or for the
    intent that a message brought up."""
    # Deferred import: nothing is quoted before the first paint.
    from clawbot.agent.intents import quoted_in

    joined, intent = is_quiet(last), quoted_in(text)
    return QuoteItem(_parsed(text), files=files, characters=len(text), intent=intent, joined=joined)


def idle_minutes(runtime: RuntimeApi | None) -> int | None:
    """Return the pause that ends a session of `runtime` by itself."""
    # Settings come in after the first paint.
    from clawbot.sessions.reset import policy_of, type_of

    if runtime is None:
        return None
    kind = type_of(runtime.agent.status.session_key)
    return policy_of(runtime.settings.session.reset_of(kind)).idle_minutes


def session_line(event: SessionChanged, idle_minutes: int | None) -> str:
    """Return that the conversation goes on in another session, and why. `idle_minutes` is the pause that ends one."""
    match event.reason:
        case "daily":
            return _("new day, new conversation")
        case "idle":
            if not idle_minutes:
                return _("new conversation after a quiet while")
            template = ngettext(
                "new conversation after {n:,} quiet minute", "new conversation after {n:,} quiet minutes", idle_minutes
            )
            return template.format(n=idle_minutes)
        case "/new" | "/reset":
            return _("new conversation")
        case "fork":
            return _("Forked. The original is unchanged.")
        case _:
            return _("conversation resumed")


def unsummarised_item(event: CompactionFinished) -> Item:
    """Return the notice that a summary failed or was stopped. Only who asked for it is warned."""
    if event.status == "interrupted":
        return NoticeItem("info", _("Summarising was stopped; the history is whole."))
    reason = f" {event.error}" if event.error else ""
    level: Level = "info" if event.trigger == "threshold" else "warning"
    return NoticeItem(level, _("Earlier turns could not be summarised; the history is whole.") + reason)


def text_items(text: str) -> list[Item]:
    """Return a complete Markdown text of no speaker: the output of a command, a welcome."""
    return markdown_items(_parsed(text), first=False)


def _parsed(text: str) -> Sequence[MarkdownBlock]:
    # Markdown comes in after the first paint.
    from clawbot.tui.render.markdown import markdown_blocks

    return markdown_blocks(clean(text))


STEP = 0.25  # seconds between two pictures
STILL = 1.0  # the same where nothing moves


class Motion:
    """The signs on `page`; `is_on` is the user's setting."""

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self.is_on = True
        self.steps = 0  # pictures that were drawn
        self._wait: WaitItem | None = None
        self._since = 0.0
        self._running: dict[int, tuple[ToolItem, float]] = {}
        self._timer: Timer | None = None

    def wait(self, activity: str, figures: str) -> None:
        """Show at the end of the page that this goes on; without an `activity` what it took; nothing without
        `figures`."""
        if not figures:
            self.rest()
            return
        wait = self._wait
        if wait is None or wait is not self._page.foot or (wait.over and activity):
            self._wait, self._since = WaitItem(activity, figures, not activity), self._clock.monotonic()
            self._page.show_foot(self._wait)
        elif (wait.text, wait.figures) != (activity, figures):
            wait.text, wait.figures, wait.over = activity, figures, not activity
            self._page.repaint(wait)
        self._go()

    def rest(self) -> None:
        if self._wait is not None:
            self._wait = None
            self._page.show_foot(None)

    def run(self, item: ToolItem) -> None:
        if item.state == "running":
            self._running[id(item)] = (item, self._clock.monotonic())
            self._go()
        else:
            self.ended(item)

    def ended(self, item: ToolItem) -> None:
        self._running.pop(id(item), None)
        item.lit = True

    def end(self) -> None:
        self.rest()
        for item, _since in list(self._running.values()):
            self.ended(item)

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def _go(self) -> None:
        if self._timer is None:
            self._timer = self._page.set_interval(STEP if self.is_on else STILL, self._step)

    def _step(self) -> None:
        if (self._wait is None or self._wait.over) and not self._running and self._timer is not None:
            self._timer.stop()
            self._timer = None
            return
        now = self._clock.monotonic()
        if self._wait is not None and self.is_on:
            before, self._wait.lit = self._wait.lit, int(2 * (now - self._since)) % 2 == 0
            self.steps += 1
            if before != self._wait.lit:
                self._page.repaint(self._wait)
        for item, since in self._running.values():
            shown = (item.lit, item.seconds)
            item.seconds = int(now - since)
            item.lit = not self.is_on or int(2 * (now - since)) % 2 == 0
            if shown != (item.lit, item.seconds):
                self._page.repaint(item)
