"""A screen that is one page to read: it scrolls with the keys of a pager, and leaves."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding
from textual.screen import ScreenResultType

from clawbot.tui.screens.over import OverScreen


class PageScreen(OverScreen[ScreenResultType]):
    """Scrolls the widget `#page`, which each such screen composes, and gives None when it is closed. Its look is
    `page.tcss`, which a screen names before its own sheet: Textual does not inherit `CSS_PATH`."""

    BINDINGS: ClassVar = [
        Binding("escape,q,enter", "close", "Back"),
        Binding("up,k", "scroll('scroll_up')", "Up", show=False),
        Binding("down,j", "scroll('scroll_down')", "Down", show=False),
        Binding("pageup", "scroll('page_up')", "Page up", show=False),
        Binding("pagedown,space", "scroll('page_down')", "Page down", show=False),
        Binding("home,g", "scroll('scroll_home')", "Top", show=False),
        Binding("end,G", "scroll('scroll_end')", "End", show=False),
    ]

    async def action_scroll(self, how: str) -> None:
        """Move the page."""
        await self.query_one("#page").run_action(how)

    def action_close(self) -> None:
        """Go back to the conversation."""
        self.dismiss(None)
