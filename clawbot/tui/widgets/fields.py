"""Text fields that the app passes each key to directly, so that it takes effect before the next one is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from textual.events import Key
from textual.widget import Widget
from textual.widgets import Input, TextArea


class TextField(Widget):
    """A widget to type in. The second of two bases: Textual inherits styles from the first."""

    changed: Callable[[], None] | None = None  # called on each change of the text, before the next key

    def claims(self, key: str) -> bool:
        """Return whether `key` belongs to the field even if it is bound with priority."""
        return False

    async def take_key(self, event: Key) -> bool:
        """Insert what was typed; return False for a key that is not text, whose binding is run next."""
        if not event.is_printable:
            return False
        await self._on_key(event)
        return True

    def focus(self, scroll_visible: bool = True) -> Self:
        """Take the keys from now on; Textual would let those that are waiting go elsewhere."""
        if not self.is_mounted:
            return super().focus(scroll_visible)
        self.screen.set_focus(self, scroll_visible)
        return self

    def _report(self) -> None:
        if self.changed is not None:
            self.changed()


class Area(TextArea, TextField):
    """Several lines of text."""

    async def take_key(self, event: Key) -> bool:
        """Insert what was typed, and what Enter and Tab stand for."""
        if event.key == "enter" or (event.key == "tab" and self.tab_behavior == "indent"):
            await self._on_key(event)
            return True
        return await super().take_key(event)

    def update_suggestion(self) -> None:
        """Called by Textual on each change."""
        self._report()


class Line(Input, TextField):
    """One line of text."""

    def watch_value(self) -> None:
        """Called by Textual on each change."""
        self._report()
