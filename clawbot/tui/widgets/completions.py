"""The list above the prompt that offers completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from clawbot.text.sanitize import clean_line
from clawbot.tui.input import Choice
from clawbot.tui.render.lines import ellipsis, width_of


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

    def render(self) -> Content:
        """A line for each choice."""
        width = max((width_of(choice.text) for choice in self.choices), default=0)
        rows = []
        first = max(0, self.place + 1 - self.size.height)
        for number, choice in list(enumerate(self.choices))[first:]:
            name = clean_line(choice.text)
            text = f" {name}{' ' * (width - width_of(name))}   {choice.help}"
            style = "$accent bold" if number == self.place else "$foreground 70%"
            rows.append(Content.styled(ellipsis(text, self.size.width - 1), style))
        return Content("\n").join(rows)

    def on_click(self, event: Click) -> None:
        """Take the one under the pointer."""
        if 0 <= event.y < len(self.choices):
            self.post_message(self.Picked(self.choices[event.y]))
