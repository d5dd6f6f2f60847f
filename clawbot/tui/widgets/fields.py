"""Text fields that the app passes each key to directly, so that it takes effect before the next one is read. The cursor
moves, and keys delete, by what a reader calls a character."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Self
from unicodedata import category

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual._cells import cell_width_to_column_index
from textual._wrap import compute_wrap_offsets
from textual.binding import Binding
from textual.document import _wrapped_document
from textual.events import Key, Paste
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.widgets.input import Selection
from textual.widgets.text_area import EditResult, Location

from clawbot.config.keys import BY_NAME
from clawbot.text.graphemes import edge, edges

_OF_WIDTH = ("\u200b", "a", "\u4e00")  # a single code point of so many cells


def _by_one(text: str) -> tuple[str, Sequence[int]]:
    """Return `text` with one code point, equally wide, for each character, and the edges of `text`."""
    found = edges(text)
    if len(found) == len(text) + 1:
        return text, found
    characters = [text[start:end] for start, end in pairwise(found)]
    return "".join(one if len(one) == 1 else _OF_WIDTH[min(2, cell_len(one))] for one in characters), found


def column_at(line: str, cells: int, tab_width: int) -> int:
    """Return the offset in `line` of the character that is `cells` from its start."""
    text, found = _by_one(line)
    return found[cell_width_to_column_index(text, cells, tab_width)]


def wrap_offsets(text: str, width: int, tab_size: int, **_: object) -> list[int]:
    """Return the offsets at which `text` is wrapped to `width` cells, none within a character."""
    by_one, found = _by_one(text)
    return [found[at] for at in compute_wrap_offsets(by_one, width, tab_size)]


vars(_wrapped_document).update(cell_width_to_column_index=column_at, compute_wrap_offsets=wrap_offsets)


class ShownLine(Text):
    """A line of a text field, whose cursor is as wide as the character it is on."""

    def stylize(self, style: str | Style, start: int = 0, end: int | None = None) -> None:
        super().stylize(style, start, end if end is None else edge(self.plain, end, after=True))


MODIFIED = ("alt+", "ctrl+", "super+", "hyper+", "meta+")


def binding(name: str, action: str, *, priority: bool = True) -> Binding:
    """Return the binding that runs `action` for the keys of the action `name`; the settings change them by its id."""
    entry = BY_NAME[name]
    return Binding(",".join(entry.keys), action, entry.meaning, show=False, priority=priority, id=name)


def typed_text(event: Key) -> str:
    """Return the text that `event` types: anything but control characters, whatever Python's tables know of it."""
    text = event.character or ""
    modified = event.key.startswith(MODIFIED) and text.isascii()
    return "" if modified or any(category(char) == "Cc" for char in text) else text


class TextField(Widget):
    """A widget to type in. The second of two bases: Textual inherits styles from the first."""

    has_modes = False  # Esc begins a mode in which keys are commands, so that Alt with a key is both in one read
    changed: Callable[[], None] = staticmethod(lambda: None)  # called on each change, before the next key

    def claims(self, key: str) -> bool:
        """Return whether `key` belongs to the field even if it is bound with priority."""
        return False

    @abstractmethod
    async def take_key(self, event: Key) -> bool:
        """Insert what was typed; return False for a key that is not text, whose binding is run next."""

    def focus(self, scroll_visible: bool = True) -> Self:
        """Take the keys from now on; Textual would let those that are waiting go elsewhere."""
        if not self.is_mounted:
            return super().focus(scroll_visible)
        self.screen.set_focus(self, scroll_visible)
        return self


class _Unsplit(str):
    """A text that Textual's document does not split at the separators of Unicode."""

    __slots__ = ()

    def splitlines(self, keepends: bool = False) -> list[str]:
        return [str(self)]


class Area(TextArea, TextField):
    """Several lines of text."""

    async def take_key(self, event: Key) -> bool:
        """Insert what was typed, and what Enter and Tab mean."""
        if text := typed_text(event):
            self._replace_via_keyboard(_Unsplit(text), *self.selection)
        elif event.key == "enter" or (event.key == "tab" and self.tab_behavior == "indent"):
            await self._on_key(event)
        else:
            return False
        return True

    def insert(
        self, text: str, location: Location | None = None, *, maintain_selection_offset: bool = True
    ) -> EditResult:
        if location is None:
            return self.replace(text, *self.selection, maintain_selection_offset=False)
        return super().insert(text, location, maintain_selection_offset=maintain_selection_offset)

    def update_suggestion(self) -> None:
        self.changed()

    def get_line(self, line_index: int) -> Text:
        return ShownLine(self.document.get_line(line_index), end="", no_wrap=True)

    def move_cursor(
        self, location: Location, select: bool = False, center: bool = False, record_width: bool = True
    ) -> None:
        """Move the cursor to `location`, or on past the character that it is within."""
        row, column = self.clamp_visitable(location)
        there = row, edge(self.document[row], column, after=(row, column) > self.cursor_location)
        super().move_cursor(there, select, center, record_width)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        (row, first), (last_row, last) = sorted((self.clamp_visitable(start), self.clamp_visitable(end)))
        last = edge(self.document[last_row], last, after=True)
        return super()._delete_via_keyboard((row, edge(self.document[row], first)), (last_row, last))


class Line(Input, TextField):
    """One line of text."""

    async def take_key(self, event: Key) -> bool:
        if text := typed_text(event):
            self.replace(text, *self.selection)
        return bool(text)

    def watch_value(self) -> None:
        self.changed()

    def validate_selection(self, selection: Selection) -> Selection:
        """Keep the cursor out of characters, where it goes on the way it came."""
        start, end = super().validate_selection(selection)
        there = edge(self.value, end, after=end > self.selection.end)
        return Selection(there if start == end else start, there)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace complete characters by `text`, as far as there is room for it."""
        start, end = sorted((start, end))
        text = text[: self.max_length - len(self.value) + end - start] if self.max_length else text
        super().replace(text, edge(self.value, start), edge(self.value, end, after=True) if end > start else start)

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.replace(" ".join(event.text.splitlines()), *self.selection)

    def _cell_offset_to_index(self, offset: int) -> int:
        return column_at(self.value, offset + self.scroll_offset.x, 1)
