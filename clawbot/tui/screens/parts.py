"""What the screens over the conversation share: quiet figures, the line of keys, a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Key as KeyPress
from textual.reactive import reactive
from textual.widgets import Static

from clawbot.tui.screens.over import OverScreen


def plural(number: int, noun: str) -> str:
    """`1 turn`, `14 turns`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def age(then: datetime, now: datetime) -> str:
    """How long ago `then` was, in few words; from a week on its date, in the zone of `now`."""
    seconds = (now - then).total_seconds()
    if seconds < 60:
        return "now"
    if seconds < 3_600:
        return f"{seconds // 60:.0f} min"
    local = then.astimezone(now.tzinfo)
    days = (now.date() - local.date()).days
    if days == 0 or seconds < 6 * 3_600:
        return f"{seconds // 3_600:.0f} h"
    if days < 7:
        return "yesterday" if days == 1 else f"{days} days"
    return f"{local.day} {local:%b}" if local.year == now.year else f"{local.day} {local:%b %Y}"


@dataclass(frozen=True)
class Key:
    """A key in the last line: how it is written, what it does, and the action a click on it runs."""

    name: str
    label: str
    action: str


class KeyLine(Static):
    """The one quiet line at the bottom: what the screen has to say, then its keys, each of which can be clicked."""

    DEFAULT_CSS = """
    KeyLine {
        height: 1;
        margin: 1 1 0 1;
        color: $text-muted;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        link-color: $text-muted;
        link-style: none;
        link-background: $background 0%;
        link-color-hover: $foreground;
        link-style-hover: none;
        link-background-hover: $foreground 10%;
    }
    """

    status: reactive[str] = reactive("")

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self.keys = tuple(keys)

    def render(self) -> Content:
        """The line as it stands."""
        parts = [
            Content.from_markup(f"[@click={key.action}]$text[/]", text=f"{key.name} {key.label}") for key in self.keys
        ]
        if self.status:
            parts.insert(0, Content.styled(self.status, "$foreground 80%"))
        return Content(" · ").join(parts)


class AskScreen(OverScreen[str]):
    """A question with a few answers, each a key; gives the key back. Escape gives back `escape`."""

    CSS_PATH = "../styles/ask.tcss"
    BINDINGS: ClassVar = [("escape", "answer('escape')", "Back")]

    def __init__(self, question: str, answers: Sequence[tuple[str, str]], back: str = "go on editing") -> None:
        super().__init__()
        self.question = question
        self.keys = [Key(key, label, f"screen.answer('{key}')") for key, label in answers]
        self.keys.append(Key("esc", back, "screen.answer('escape')"))
        self.answers = {key for key, _ in answers}

    def compose(self) -> ComposeResult:
        """The question, and its answers below it."""
        yield Static(Content(self.question), id="question")
        yield KeyLine(self.keys)

    def on_key(self, event: KeyPress) -> None:
        """Take the key of an answer."""
        if event.key in self.answers:
            event.stop()
            self.dismiss(event.key)

    def action_answer(self, key: str) -> None:
        """Give `key` back."""
        self.dismiss(key)
