"""The keys and slash commands at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from clawbot.config.keys import KeyMap
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line
from clawbot.tui.keys import help_lines
from clawbot.tui.render.lines import code_spans
from clawbot.tui.screens.common import KeyHint, KeyLine, PageScreen

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi


class HelpScreen(PageScreen[None]):
    """Shows the keys, and the commands of the runtime below them."""

    CSS_PATH: ClassVar = ["../styles/page.tcss", "../styles/help.tcss"]

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__()
        self.runtime = runtime
        self.keys = tuple(help_lines(KeyMap(runtime.settings.tui.keys)))

    def compose(self) -> ComposeResult:
        commands = [(f"{command.name} {_(command.arguments)}", _(command.help)) for command in self.runtime.commands]
        with Vertical(id="frame") as frame:
            frame.border_title = _("Help")
            with VerticalScroll(id="page", can_focus=False, classes="body"):
                yield from self._column(_("Keys"), self.keys)
                yield from self._column(_("Commands"), commands)
            yield KeyLine(
                [KeyHint("↑ ↓", _("scroll"), "screen.scroll('page_down')"), KeyHint("esc", _("back"), "screen.close")]
            )

    def _column(self, title: str, lines: Iterable[tuple[str, str]]) -> ComposeResult:
        with Vertical(classes="column"):
            yield Static(title, classes="title")
            for term, meaning in lines:
                with Horizontal(classes="line"):
                    yield Static(clean_line(term), classes="term", markup=False)
                    parts = [
                        (each.text, "$text-accent" if each.style else "") for each in code_spans(clean_line(meaning))
                    ]
                    yield Static(Content.assemble(*parts), classes="meaning")
