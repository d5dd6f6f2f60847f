"""The line in which the reader searches the page: what is looked for, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Key
from textual.widgets import Static
from textual.widgets.text_area import Edit, EditResult

from clawbot.text.interface import _
from clawbot.tui.keys import binding
from clawbot.tui.render.lines import width_of
from clawbot.tui.widgets.fields import Area

LEAST_FIELD = 24  # cells that the text has before the keys are told
STEPS = {"enter": 1, "down": 1, "shift+enter": -1, "up": -1}


class FindField(Area):
    """One line of text. `step` is called with 1 or -1 for a key that goes on, and whether it was Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.stop", "Close", show=False),
        # Here too, so that it wins against the keys that edit the text.
        binding("stop", "screen.stop", priority=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, soft_wrap=False, placeholder=_("find in the page"))
        self.cursor_blink = False  # a blinking cursor is a timer that never sleeps
        self.step: Callable[[int, bool], None] = lambda step, entered: None

    def edit(self, edit: Edit) -> EditResult:
        """Every change goes through here: what is pasted stays on one line."""
        edit.text = " ".join(edit.text.splitlines())
        return super().edit(edit)

    async def take_key(self, event: Key) -> bool:
        """Insert what was typed, or step to another match."""
        if event.key not in ("tab", *STEPS):
            return await super().take_key(event)
        if event.key in STEPS:
            self.step(STEPS[event.key], event.key.endswith("enter"))
        return True


class FindBar(Horizontal):
    """Stands in the place of the footer while the page is searched; `look_for` is called with each text."""

    field = getters.query_one(FindField)

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.look_for: Callable[[str], None] = lambda query: None
        self._shown = ""

    def compose(self) -> ComposeResult:
        """What is looked for, and what came of it."""
        yield Static("/", id="find-mark")
        field = FindField()
        field.changed = self._changed
        yield field
        yield Static(id="find-count", markup=False)

    def open(self) -> None:
        """Take the keys from now on; what was looked for last is replaced by the first of them."""
        self.display = True
        self.field.select_all()
        # At once: the keys of a burst are meant for it.
        self.screen.set_focus(self.field)

    def show(self, count: str, keys: str) -> None:
        """Say what came of it, and the keys where there is room."""
        told = "   ".join(filter(None, (count, keys)))
        fits = self.screen.size.width - width_of(told) >= LEAST_FIELD
        shown = told if fits else count
        if shown != self._shown:
            self._shown = shown
            self.query_one("#find-count", Static).update(shown)

    def _changed(self) -> None:
        if self.display:
            self.look_for(self.field.text)
