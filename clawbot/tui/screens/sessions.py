"""The earlier conversations: which there are, how each ended, what was last said in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import OptionList, Static

from clawbot.clock import Clock, SystemClock
from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, BashExecutionMessage, UserMessage
from clawbot.tui.meter import short
from clawbot.tui.render.sanitize import clean, clean_line
from clawbot.tui.screens.parts import Key, age, plural
from clawbot.tui.screens.picker import PickerScreen, Row, Styles

if TYPE_CHECKING:
    from clawbot.agent.views import HistoryItem
    from clawbot.runtime import Runtime
    from clawbot.sessions.listing import SessionSummary

# A preview shows the drift of the talk, not all of it.
PREVIEW_MESSAGES = 20
PREVIEW_CHARS = 600
# Below this many columns the list needs them all.
PREVIEW_WIDTH = 70
# Running down the list with a held key reads no transcript: only the row where it rests does.
PREVIEW_DELAY = 0.08


class SessionsScreen(PickerScreen[str]):
    """Gives the id of the session to go on with, or None."""

    CSS_PATH: ClassVar[Styles] = ["../styles/picker.tcss", "../styles/sessions.tcss"]
    BINDINGS: ClassVar = [
        Binding("ctrl+x", "export", "Export", priority=True),
        Binding("shift+up", "preview_up", "Preview up", show=False),
        Binding("shift+down", "preview_down", "Preview down", show=False),
    ]
    heading = "sessions"
    nothing = "No earlier conversation yet."
    keys = (
        Key("enter", "resume", "screen.choose"),
        Key("ctrl+x", "export", "screen.export"),
        Key("shift+↑", "older", "screen.preview_up"),
        Key("shift+↓", "newer", "screen.preview_down"),
        Key("esc", "back", "screen.back"),
    )
    letter_keys: ClassVar = {"x": "screen.export"}

    def __init__(self, runtime: Runtime, *, clock: Clock | None = None) -> None:
        super().__init__()
        self.runtime = runtime
        self.clock = clock or SystemClock()
        self.previews: dict[str, Content] = {}
        self.waiting: Timer | None = None

    async def load(self) -> list[Row]:
        """The sessions, newest first."""
        found = sorted(await self.runtime.sessions(), key=lambda summary: summary.updated_at, reverse=True)
        return [self._row(summary) for summary in found]

    def _row(self, summary: SessionSummary) -> Row:
        here = summary.session_id == self.runtime.status.session_id
        details = [
            age(summary.updated_at, self.clock.now()),
            "this session" if here else summary.ended,
            plural(summary.turns, "turn"),
            f"{short(summary.tokens)} tokens",
        ]
        return Row(
            id=summary.session_id,
            title=clean_line(summary.title) or "(nothing said)",
            detail=" · ".join(details),
            mark="●" if here else "○",
            more=f"{summary.key} {summary.session_id}",
            warning="open elsewhere" if summary.locked and not here else "",
        )

    def beside(self) -> list[Widget]:
        """The preview."""
        return [VerticalScroll(Static(id="words"), id="preview", can_focus=False)]

    def on_resize(self, event: Resize) -> None:
        """Leave the preview out where there is no room for it."""
        self.set_class(event.size.width < PREVIEW_WIDTH, "-narrow")

    def chosen(self, row: Row) -> None:
        """Give the session back; nothing changes for the one that is open already."""
        self.dismiss(None if row.id == self.runtime.status.session_id else row.id)

    @on(OptionList.OptionHighlighted, "#rows")
    def show_preview(self) -> None:
        """Show the last words of the highlighted session, as soon as the list rests there."""
        if self.waiting is not None:
            self.waiting.stop()
        row = self.current
        if row is None:
            return
        if row.id in self.previews:
            self._show(row.id)
        else:
            self.waiting = self.set_timer(PREVIEW_DELAY, lambda: self._start_preview(row.id))

    def _start_preview(self, session_id: str) -> None:
        self.run_worker(self._preview(session_id), group="preview", exclusive=True)

    async def _preview(self, session_id: str) -> None:
        try:
            items = await self.runtime.preview(session_id, PREVIEW_MESSAGES)
        except (ClawbotError, OSError) as error:
            self.previews[session_id] = Content.styled(clean(f"{error}"), "$text-error")
        else:
            self.previews[session_id] = last_words(items)
        if not self.has_left:
            self._show(session_id)

    def _show(self, session_id: str) -> None:
        if self.current is not None and self.current.id == session_id:
            self.query_one("#words", Static).update(self.previews[session_id])
            self.query_one("#preview").scroll_end(animate=False)

    def action_preview_up(self) -> None:
        """Look further back in the preview."""
        self.query_one("#preview").scroll_page_up(animate=False)

    def action_preview_down(self) -> None:
        """Look further on in the preview."""
        self.query_one("#preview").scroll_page_down(animate=False)

    def action_export(self) -> None:
        """Write the highlighted session to a Markdown file."""
        if self.current is not None:
            self.run_worker(self._export(self.current.id), group="export")

    async def _export(self, session_id: str) -> None:
        try:
            path = await self.runtime.export("md", None, session=session_id)
        except (ClawbotError, OSError) as error:
            self.notify(clean(f"{error}"), title="Not exported", severity="error", markup=False)
        else:
            self.notify(f"{path}", title="Exported", markup=False)


def last_words(items: Sequence[HistoryItem]) -> Content:
    """The messages of a preview: who spoke, and the beginning of what was said."""
    blocks = [block for item in items if (block := _block(item)) is not None]
    return Content("\n\n").join(blocks) if blocks else Content.styled("Nothing said yet.", "$foreground 60%")


def _block(item: HistoryItem) -> Content | None:
    message = item.message
    if isinstance(message, UserMessage):
        speaker = "You"
    elif isinstance(message, AssistantMessage):
        speaker = "Clawbot"
    elif isinstance(message, BashExecutionMessage):
        speaker = "Shell"
    else:
        return None
    text = clean(message.text.strip())
    if not text:
        return None
    if len(text) > PREVIEW_CHARS:
        text = text[:PREVIEW_CHARS].rstrip() + " …"
    return Content.assemble((f"{speaker}\n", "$foreground 60%"), text)
