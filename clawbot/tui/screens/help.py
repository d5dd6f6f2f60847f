"""The keys and slash commands at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import Static

from clawbot.tui.render.sanitize import clean_line
from clawbot.tui.screens.page import PageScreen
from clawbot.tui.screens.parts import Key, KeyLine

if TYPE_CHECKING:
    from clawbot.runtime import Runtime

# What users of terminal agents expect of the keys of a conversation.
CHAT_KEYS = (
    ("enter", "send"),
    ("shift+enter, ctrl+j", "break the line"),
    ("↑ ↓", "what you wrote before"),
    ("tab", "complete a command, or a file after @"),
    ("esc", "stop the running turn"),
    ("alt+up", "take back what is queued"),
    ("ctrl+o", "unfold tool calls, notes and summaries"),
    ("ctrl+t", "show the reasoning"),
    ("ctrl+g", "write in your own editor"),
    ("ctrl+z", "undo; with nothing to undo, suspend"),
    ("ctrl+l", "choose a model"),
    ("ctrl+r", "choose an earlier conversation"),
    ("ctrl+f", "search the memory"),
    ("pageup, pagedown", "scroll"),
    ("ctrl+home, ctrl+end", "the start, the end"),
    ("shift+tab", "go through links and folds"),
    ("f1", "this page"),
    ("f2", "all actions, and the themes"),
    ("ctrl+c twice, ctrl+d", "leave"),
)


# Below this many columns the commands stand under the keys.
TWO_COLUMNS = 110


class HelpScreen(PageScreen[None]):
    """Shows `keys` (name, meaning) beside the commands of the runtime; below them where there is little room."""

    CSS_PATH: ClassVar = ["../styles/page.tcss", "../styles/help.tcss"]

    def __init__(self, runtime: Runtime, keys: Iterable[tuple[str, str]] = CHAT_KEYS) -> None:
        super().__init__()
        self.runtime = runtime
        self.keys = tuple(keys)

    def compose(self) -> ComposeResult:
        """Two columns, or one."""
        commands = [(f"{command.name} {command.arguments}", command.help) for command in self.runtime.commands]
        with VerticalScroll(id="page", can_focus=False), Horizontal(id="columns"):
            yield from self._column("Keys", self.keys)
            yield from self._column("Commands", commands)
        yield KeyLine([Key("↑ ↓", "scroll", "screen.scroll('page_down')"), Key("esc", "back", "screen.close")])

    def _column(self, title: str, lines: Iterable[tuple[str, str]]) -> ComposeResult:
        with Vertical(classes="column"):
            yield Static(title, classes="title")
            for term, meaning in lines:
                with Horizontal(classes="line"):
                    yield Static(clean_line(term), classes="term", markup=False)
                    yield Static(clean_line(meaning), classes="meaning", markup=False)

    def on_resize(self, event: Resize) -> None:
        """One column where there is little room."""
        self.set_class(event.size.width < TWO_COLUMNS, "-narrow")
