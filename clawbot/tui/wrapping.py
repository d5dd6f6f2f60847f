"""Textual's text area wraps, and finds what is below the mouse, by code points; with this it does by characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual._cells import cell_width_to_column_index
from textual._wrap import compute_wrap_offsets
from textual.document import _wrapped_document

from clawbot.text.graphemes import edge, edges

_OF_WIDTH = ("\u200b", "a", "一")  # a single code point of so many cells


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
        """Apply `style` to whole characters."""
        super().stylize(style, start, end if end is None else edge(self.plain, end, after=True))
