"""The list of completions above the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from clawbot.tui.completion import Choice
from clawbot.tui.render.lines import ellipsis, width_of
from clawbot.tui.render.sanitize import clean_line


class Completions(Widget):
    """Offers choices; hidden while there are none."""

    class Picked(Message):
        """A choice was clicked."""

        def __init__(self, choice: Choice) -> None:
            self.choice = choice
            super().__init__()

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
        for number, choice in enumerate(self.choices):
            name = clean_line(choice.text)
            text = f" {name}{' ' * (width - width_of(name))}   {choice.help}"
            style = "$accent bold" if number == self.place else "$foreground 60%"
            rows.append(Content.styled(ellipsis(text, self.size.width - 1), style))
        return Content("\n").join(rows)

    def on_click(self, event: Click) -> None:
        """Take the one under the pointer."""
        if 0 <= event.y < len(self.choices):
            self.post_message(self.Picked(self.choices[event.y]))
