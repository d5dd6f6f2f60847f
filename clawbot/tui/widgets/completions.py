"""The list above the prompt that offers completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line
from clawbot.tui.input import Choice
from clawbot.tui.render.lines import code_spans, width_of

ROWS = 8
COLUMN = 30  # cells for the names at most: a longer one takes from its own description
HELP = "$foreground 70%"


class Completions(Widget):
    """Offers choices; hidden while there are none."""

    @dataclass
    class Picked(Message):
        """A choice was clicked."""

        choice: Choice

    def __init__(self) -> None:
        super().__init__()
        self.choices: list[Choice] = []
        self.place = 0
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.choices)

    @property
    def choice(self) -> Choice:
        """The one that is marked."""
        return self.choices[self.place]

    def offer(self, choices: Sequence[Choice]) -> None:
        """Show `choices`, the first one marked; none closes the list."""
        if self.choices == list(choices):
            return
        self.choices = list(choices)
        self.place = 0
        self.display = bool(choices)
        self.refresh(layout=True)

    def move(self, step: int) -> None:
        """Mark the next one, or the one before."""
        self.place = (self.place + step) % len(self.choices)
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A row for each choice, up to a limit."""
        return min(len(self.choices), ROWS)

    def render(self) -> Content:
        """A line for each choice in view, and one that says how many there are beside them."""
        names = [f"{clean_line(choice.text)} {choice.arguments}".rstrip() for choice in self.choices]
        column = min(COLUMN, max(map(width_of, names), default=0))
        first, stop = self._view()
        rows = [self._row(number, names[number], column) for number in range(first, stop)]
        if below := len(self.choices) - stop:
            rows.append(Content.styled(_(" ↓ {below:,} more").format(below=below), HELP))
        elif first:
            rows.append(Content.styled(_(" ↑ {first:,} more").format(first=first), HELP))
        return Content("\n").join(rows)

    def _row(self, number: int, name: str, column: int) -> Content:
        choice = self.choices[number]
        style = "$accent bold" if number == self.place else "$foreground"
        gap = " " * (max(0, column - width_of(name)) + 3)
        parts = [(span.text, "$foreground 80%" if span.style else HELP) for span in code_spans(choice.help)]
        row = Content.assemble((f" {name}", style), gap if choice.help else "", *parts)
        return row.truncate(self.size.width - 1, ellipsis=True)

    def _view(self) -> tuple[int, int]:
        """The first choice in view, and the one behind the last: the marked one is among them."""
        height = self.size.height or ROWS
        if len(self.choices) <= height:
            return 0, len(self.choices)
        shown = max(1, height - 1)
        first = max(0, self.place + 1 - shown)
        return first, first + shown

    def on_click(self, event: Click) -> None:
        """Take the one under the pointer."""
        first, stop = self._view()
        if first <= first + event.y < stop:
            self.post_message(self.Picked(self.choices[first + event.y]))
