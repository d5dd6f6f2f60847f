"""The context window on the screen: where its tokens go, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.tui.render.inline import note_link
from clawbot.tui.render.sanitize import clean
from clawbot.tui.screens.context_view import context_lines
from clawbot.tui.screens.page import PageScreen
from clawbot.tui.screens.parts import Key, KeyLine

if TYPE_CHECKING:
    from clawbot.context.report import ContextReport
    from clawbot.runtime import Runtime

WIDEST = 120  # cells of the page: a longer bar is no clearer
COUNTING = "counting …"
AFTER_TURN = "The figures come when the running turn has ended."
MARGIN = 5  # left and right of the page, its scroll bar included


class ContextScreen(PageScreen[str]):
    """Gives the target of a note that is to be opened, or None."""

    CSS_PATH: ClassVar = ["../styles/page.tcss", "../styles/context.tcss"]
    BINDINGS: ClassVar = [
        Binding("d", "detail", "More or less detail", show=False),
        Binding("o", "open_flush", "Open what the last flush wrote", show=False),
    ]

    def __init__(self, runtime: Runtime, *, clock: Clock) -> None:
        super().__init__()
        self.runtime = runtime
        self.clock = clock
        self.report: ContextReport | None = None
        self.detail = False

    def compose(self) -> ComposeResult:
        """The page, and its keys."""
        with VerticalScroll(id="page", can_focus=False):
            wait = AFTER_TURN if self.runtime.status.busy else COUNTING
            yield Static(Content.styled(wait, "$foreground 60%"), id="report")
        yield KeyLine([])

    def on_mount(self) -> None:
        """Counting takes a moment."""
        self.run_worker(self._load(), group="report")
        self._show()

    async def _load(self) -> None:
        try:
            report = await self.runtime.context_report()
        except (ClawbotError, OSError) as error:
            if not self.has_left:
                self.query_one("#report", Static).update(Content.styled(clean(f"{error}"), "$text-error"))
            return
        if not self.has_left:
            self.report = report
            self._show()

    def _show(self) -> None:
        keys = [Key("esc", "back", "screen.close")]
        if self.report is not None:
            width = max(40, min(WIDEST, self.size.width - MARGIN))
            lines = context_lines(self.report, width, self.clock.now(), detail=self.detail)
            self.query_one("#report", Static).update(Content("\n").join(lines))
            keys.insert(0, Key("d", "less" if self.detail else "detail", "screen.detail"))
            if self._written:
                keys.insert(1, Key("o", "open what was written", "screen.open_flush"))
        line = self.query_one(KeyLine)
        line.keys = tuple(keys)
        line.refresh()

    @property
    def _written(self) -> str:
        """Where the last flush wrote, as a target; empty when it wrote nothing."""
        flush = self.report.last_flush if self.report is not None else None
        return note_link(flush.path, flush.line) if flush is not None and flush.path else ""

    def on_resize(self, event: Resize) -> None:
        """The bar is as wide as the page."""
        self._show()

    def action_detail(self) -> None:
        """Show or hide the files, the tools and the sections."""
        self.detail = not self.detail
        self._show()

    def action_open_flush(self) -> None:
        """Open the note that the last flush wrote."""
        if self._written:
            self.dismiss(self._written)
