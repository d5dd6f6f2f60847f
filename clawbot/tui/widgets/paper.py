"""Paper for a stack of items: how its lines are drawn, which is done once for each, and what is copied from them."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from clawbot.tui.render.code import Lexers
from clawbot.tui.render.items import Page
from clawbot.tui.render.lines import Line, width_of
from clawbot.tui.render.sanitize import without_isolates
from clawbot.tui.render.stack import Stack
from clawbot.tui.widgets.palette import COMPONENTS, Palette

MEASURE = 120  # the widest page, in cells: longer lines are hard to read
RIGHT_MARGIN = 2


class Paper(ScrollView):
    """Draws the lines of its stack that are in view; what lies where is up to the widget built on it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.lexers = Lexers()
        self.stack = Stack(Page(80, self.lexers))
        self.palette = Palette(self)
        self._strips: LRUCache[tuple[Line, bool], Strip] = LRUCache(1024)

    @property
    def page_width(self) -> int:
        """The cells of a line."""
        return max(20, min(MEASURE, self.size.width - RIGHT_MARGIN))

    def _is_cursor(self, number: int) -> bool:
        """Whether the keys act on line `number`, which is then drawn reversed."""
        return False

    def notify_style_update(self) -> None:
        """The theme has changed: the lines stay, their colours go."""
        super().notify_style_update()
        self.palette.forget()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """The line of the page at row `y` of the widget."""
        number = self.scroll_offset.y + y
        line = self.stack.line(number)
        key = (line, self._is_cursor(number))
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(*key)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(number)) is not None:
            strip = self._select(strip, line, span)
        return strip.crop_extend(0, self.size.width, self.rich_style).apply_offsets(0, number)

    def _draw(self, line: Line, is_cursor: bool) -> Strip:
        segments = [Segment(span.text, self.palette.style(span)) for span in line.spans]
        if line.fill:
            space = self.page_width - sum(width_of(span.text) for span in line.spans)
            segments.append(Segment(" " * max(0, space), self.palette.named(line.fill)))
        strip = Strip(segments)
        return strip.apply_style(Style(reverse=True)) if is_cursor else strip

    def _select(self, strip: Strip, line: Line, span: tuple[int, int]) -> Strip:
        start, end = span
        text = line.text
        left = width_of(text[:start])
        right = width_of(text) if end == -1 else width_of(text[:end])
        before, inside, after = strip.divide([left, max(left, right), max(strip.cell_length, left, right)])
        style = self.screen.get_component_rich_style("screen--selection")
        marked = Strip([Segment(segment.text, (segment.style or Style()) + style) for segment in inside])
        return Strip.join([before, marked, after])

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw what is selected."""
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, without the margin at its left that all lines share."""
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self.stack.height - 1
        rows = []
        for number in range(first, min(last, self.stack.height - 1) + 1):
            text = self.stack.line(number).text
            start, end = selection.get_span(number) or (0, 0)
            rows.append(text[start : len(text) if end == -1 else end].rstrip())
        margin = min((len(row) - len(row.lstrip()) for row in rows[1:] if row), default=0)
        rows = [row.lstrip() if number == 0 else row[margin:] for number, row in enumerate(rows)]
        return without_isolates("\n".join(rows)), "\n"
