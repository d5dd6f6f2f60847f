"""Text fields that the app passes each key to directly, so that it takes effect before the next one is read."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Key
from textual.widgets import Input, TextArea


class _Keyed:
    """What the app asks of a field. No widget: Textual inherits styles from the first widget among the bases."""

    changed: Callable[[], None] | None = None  # called on each change of the text, before the next key

    def claims(self, key: str) -> bool:
        """Return whether `key` belongs to the field even if it is bound with priority."""
        return False

    def _report(self) -> None:
        if self.changed is not None:
            self.changed()


class Area(_Keyed, TextArea):
    """Several lines of text."""

    async def take_key(self, event: Key) -> bool:
        """Insert what was typed; return False for a key that is not text, whose binding is run next."""
        if not event.is_printable and event.key != "enter" and (event.key != "tab" or self.tab_behavior == "focus"):
            return False
        await self._on_key(event)
        return True

    def update_suggestion(self) -> None:
        """Called by Textual on each change."""
        self._report()


class Line(_Keyed, Input):
    """One line of text."""

    async def take_key(self, event: Key) -> bool:
        """Insert what was typed; return False for a key that is not text, whose binding is run next."""
        if not event.is_printable:
            return False
        await self._on_key(event)
        return True

    def watch_value(self) -> None:
        """Called by Textual on each change."""
        self._report()


TextField = Area | Line
