"""Where the side panel is: right of the conversation, from so many columns on, as long as the user wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from clawbot.text.interface import _

if TYPE_CHECKING:
    from textual.screen import Screen

    from clawbot.agent.events import Event
    from clawbot.api import RuntimeApi
    from clawbot.clock import Clock
    from clawbot.tui.screens.side_panel import SidePanel
    from clawbot.tui.turns import Turns
    from clawbot.tui.widgets.transcript import TranscriptView

FROM_COLUMNS = 150
PAGE_COLUMNS = 124  # columns of the conversation at most: its widest lines, their margin, the scroll bar
NARROWEST, WIDEST = 45, 61  # columns of the panel
PAGE_PARTS = "HeaderLine, TranscriptView, #bottom"


def margins(columns: int, panel: int) -> tuple[int, int]:
    """Return the empty columns left and right of the conversation, next to a panel of so many columns."""
    empty = max(0, columns - PAGE_COLUMNS - panel)
    return empty // 2, empty - empty // 2


def panel_width(columns: int) -> int:
    """Return how many of `columns` the panel gets; 0 where there is no room for it."""
    return max(NARROWEST, min(WIDEST, columns - PAGE_COLUMNS)) if columns >= FROM_COLUMNS else 0


class SideLayout:
    """The panel on `screen`, right of `page`. Below FROM_COLUMNS, or before a runtime is there, there is none."""

    def __init__(self, screen: Screen[Any], page: TranscriptView, turns: Turns, clock: Clock) -> None:
        self._screen = screen
        self._page = page
        self._turns = turns
        self._clock = clock
        self._runtime: RuntimeApi | None = None
        self._columns = 0
        self._margins = 0, 0  # left and right of the conversation
        self._wanted: bool | None = None  # by the user, since the start
        self.panel: SidePanel | None = None

    def connect(self, runtime: RuntimeApi) -> None:
        self._runtime = runtime
        if self.panel is not None:
            self.panel.connect(runtime)
        self._arrange()

    def fit(self, columns: int) -> None:
        self._columns = columns
        self._arrange()

    def _arrange(self) -> None:
        width = panel_width(self._columns) if self.is_wanted else 0
        if width and self.panel is None and self._runtime is not None:
            # What it shows comes in after the first paint, and on wide screens alone.
            from clawbot.tui.screens.side_panel import SidePanel

            self.panel = SidePanel(self._page, self._clock)
            self._screen.mount(self.panel)
            self.panel.connect(self._runtime)
        elif not width and self.panel is not None:
            self.panel.remove()
            self.panel = None
        left, right = margins(self._columns, width)
        if self.panel is not None:
            self.panel.styles.width = width
            self.panel.styles.margin = (0, right, 0, 0)
        if (left, right + width) != self._margins:
            self._margins = left, right + width
            for part in self._screen.query(PAGE_PARTS):
                part.styles.margin = (0, right + width, 0, left)
        # What is docked takes the full width, whatever its margins are.
        self._screen.query_one("#bottom").styles.width = max(1, self._columns - left - right - width)

    @property
    def is_wanted(self) -> bool:
        setting: Literal["auto", "off"] = self._runtime.settings.tui.panel if self._runtime is not None else "off"
        return setting == "auto" if self._wanted is None else self._wanted

    def toggle(self) -> str:
        """Show or hide the panel until the end; returns why there is none to show, if so."""
        if not panel_width(self._columns):
            return _("the side panel needs {columns} columns").format(columns=FROM_COLUMNS)
        self._wanted = not self.is_wanted
        self._arrange()
        return ""

    def take(self, event: Event) -> None:
        if self.panel is not None:
            self.panel.take(event, more=bool(self._turns.queued))

    def reloaded(self) -> None:
        if self.panel is not None:
            self.panel.reloaded()

    @property
    def has_focus(self) -> bool:
        return self.panel is not None and self.panel.has_focus

    def enter(self) -> bool:
        """Focus the panel; return False if there is nothing to open in it."""
        if self.panel is None or not self.panel.enter():
            return False
        self.panel.focus()
        return True
