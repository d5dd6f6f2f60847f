"""The items of the transcript and their positions, and how their lines are drawn in the theme's colours, selected
and copied."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.events import Click
from textual.geometry import Offset, Region
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from clawbot.text.sanitize import without_isolates
from clawbot.tui.render.finding import Found, Joined, Part, find_in, join, marks
from clawbot.tui.render.items import Item, Page, drawn
from clawbot.tui.render.lines import BLANK, StyledLine, StyledSpan, cells_of, width_of
from clawbot.tui.render.markdown_blocks import Lexers


class _Slot:
    """An item, its height, and its lines while they are in memory; while something is searched for, the text of all its
    lines (those that it hides when it is folded, too), and where it is found in them."""

    __slots__ = ("exact", "found", "height", "item", "lines", "text")

    def __init__(self, item: Item, width: int) -> None:
        self.item = item
        self.height = item.guess(width)
        self.text: Joined | None = None
        self.forget()

    def forget(self) -> None:
        """Drop the lines, drawn differently now; the old height serves as a guess."""
        self.exact = False
        self.lines: list[StyledLine] | None = None
        self.text = None
        self.found: tuple[Found, ...] | None = None


class Stack:
    """Items from top to bottom. Positions are in lines from 0; all of it is bookkeeping, nothing here draws."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._slots: list[_Slot] = []
        self._held = 0
        self._pattern: re.Pattern[str] | None = None

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def items(self) -> list[Item]:
        return [slot.item for slot in self._slots]

    def item(self, index: int) -> Item:
        return self._slots[index].item

    def index_of(self, item: Item) -> int | None:
        """Return the index of `item`: searched from the end, where the changes are."""
        for index in range(len(self._slots) - 1, -1, -1):
            if self._slots[index].item is item:
                return index
        return None

    @cached_property
    def tops(self) -> list[int]:
        """The first line of each item, and last of all the number of lines."""
        return list(accumulate([slot.height for slot in self._slots], initial=0))

    def _heights_changed(self) -> None:
        self.__dict__.pop("tops", None)

    @property
    def height(self) -> int:
        return self.tops[-1]

    def turn_page(self, page: Page) -> None:
        """Render everything again for `page`; until then the old heights serve as guesses."""
        self.page = page
        for slot in self._slots:
            slot.forget()
        self._held = 0

    def replace(self, start: int, end: int, items: Iterable[Item]) -> None:
        self._held -= sum(slot.lines is not None for slot in self._slots[start:end])
        self._slots[start:end] = [_Slot(item, self.page.width) for item in items]
        self._heights_changed()

    def changed(self, index: int) -> None:
        slot = self._slots[index]
        self._held -= slot.lines is not None
        slot.forget()

    def at(self, line: int) -> tuple[int, int]:
        """Return the index of the item that `line` belongs to, and the offset of the line in it."""
        index = max(0, min(bisect_right(self.tops, line) - 1, len(self._slots) - 1))
        # Items without lines share their start with the next one: take the one that holds the line.
        return index, line - self.tops[index]

    def line(self, number: int) -> StyledLine:
        """Return the line at `number`; blank beyond the end."""
        if not 0 <= number < self.height:
            return BLANK
        index, offset = self.at(number)
        lines = self.lines(index)
        return lines[offset] if offset < len(lines) else BLANK

    def rows(self, first: int, count: int) -> list[StyledLine]:
        """Return `count` lines from `first` on; blank ones beyond the end."""
        index, offset = self.at(first)
        found: list[StyledLine] = []
        while len(found) < count and index < len(self._slots):
            found += (self._slots[index].lines or self.lines(index))[offset:]
            index, offset = index + 1, 0
        return [*found[:count], *[BLANK] * (count - len(found))]

    def lines(self, index: int) -> list[StyledLine]:
        slot = self._slots[index]
        if slot.lines is None:
            slot.lines = drawn(slot.item, self.page)
            self._held += 1
            slot.exact = True
            if len(slot.lines) != slot.height:
                slot.height = len(slot.lines)
                self._heights_changed()
        return slot.lines

    def inexact(self, order: range) -> list[int]:
        """Return those of the indexes in `order` whose height is still a guess."""
        return [index for index in order if index < len(self._slots) and not self._slots[index].exact]

    def forget(self, first: int, last: int, keep: int) -> None:
        """Drop the lines of items outside of `first` to `last` when more than `keep` are in memory."""
        if self._held <= keep:
            return
        for index, slot in enumerate(self._slots):
            if slot.lines is not None and slot.exact and not first <= index <= last:
                slot.lines = None
                self._held -= 1

    # Searching

    def search(self, pattern: re.Pattern[str] | None) -> None:
        """Find `pattern` from now on; None drops all that was needed for it."""
        self._pattern = pattern
        for slot in self._slots:
            slot.found = None
            slot.text = slot.text if pattern else None

    def unsearched(self, order: Iterable[int]) -> Iterator[int]:
        """Return those of the indexes in `order` that `find` has not scanned."""
        return (index for index in order if index < len(self._slots) and self._slots[index].found is None)

    def find(self, index: int) -> tuple[Found, ...]:
        """Return the matches in the item at `index`, in the lines that it has when it is unfolded."""
        slot = self._slots[index]
        if slot.found is None:
            if slot.text is None:
                slot.text = join(self.lines_when(index, unfolded=True))
            slot.found = find_in(slot.text, self._pattern) if self._pattern else ()
        return slot.found

    @property
    def found(self) -> list[int]:
        """Return how many matches each item has, as far as they were scanned."""
        return [len(slot.found or ()) for slot in self._slots]

    def lines_when(self, index: int, *, unfolded: bool) -> list[StyledLine]:
        """Return the lines of the item at `index` as if it were `unfolded` or folded."""
        slot = self._slots[index]
        if slot.item.unfolded == unfolded or not slot.item.can_unfold:
            return slot.lines or drawn(slot.item, self.page)
        slot.item.unfolded = unfolded
        try:
            return drawn(slot.item, self.page)
        finally:
            slot.item.unfolded = not unfolded

    def marks(self, index: int, offset: int) -> list[tuple[int, Part]]:
        """Return the matches in the line at `offset` of the item at `index` as it is on the page: parts, each with
        the number of its match in the item."""
        slot = self._slots[index]
        if self._pattern is None or not slot.found:
            return []
        folded = slot.item.can_unfold and not slot.item.unfolded
        found = find_in(join(self.lines(index)), self._pattern) if folded else slot.found
        return [(number, part) for number, parts in enumerate(found) for part in parts if part.line == offset]


PREFIX = "transcript--"
NAMES = (
    "you", "user", "time", "strong", "em", "strike", "heading", "heading-1", "table-head", "link", "note", "marker",
    "quote", "quote-bar", "rule", "code", "code-inline", "code-comment", "code-string", "code-number", "code-keyword",
    "code-name", "code-deleted", "code-language", "tool", "tool-text", "tool-error", "card-waits",
    "card-runs", "card-done", "diff-added", "diff-removed", "diff-same",
    "reasoning", "divider", "note-quiet", "mark", "notice-info", "notice-warning", "notice-error", "discarded",
    "sign-odd", "sign-blank", "pointed", "found", "found-here",
)  # fmt: skip
MAX_STYLES = 512  # a link to a line of a note is a style of its own
COMPONENTS = {PREFIX + name for name in NAMES}


class Painted(Widget):
    """Draws spans in its component classes, laid over each other; their names begin with `prefix`."""

    prefix: ClassVar[str] = PREFIX

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._span_styles: dict[tuple[str, str], Style] = {}

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._span_styles.clear()

    def segments(self, spans: Iterable[StyledSpan], ground: str = "") -> list[Segment]:
        """Return `spans` in their colours, over those of the style `ground`; a target is where a click and the
        terminal's own links find it."""
        styles, found = self._span_styles, []
        for text, names, link in spans:
            key = (f"{ground} {names}" if ground else names, link)
            found.append(Segment(text, styles.get(key) or self._resolve(*key)))
        return found

    def named(self, names: str) -> Style:
        return self._span_styles.get((names, "")) or self._resolve(names, "")

    def _resolve(self, names: str, link: str) -> Style:
        _, _, ground, colour = self.colors
        flags = Style()
        for name in names.split():
            styles = self.get_component_styles(self.prefix + name)
            if styles.has_rule("background"):
                ground += styles.background
            if styles.has_rule("color"):
                colour = styles.color
            flags += styles.text_style
        style = Style(color=(ground + colour).rich_color, bgcolor=ground.rich_color) + flags
        if link:
            style += Style(link=link if "://" in link else None, meta={"target": link})
        if len(self._span_styles) >= MAX_STYLES:
            self._span_styles.clear()
        self._span_styles[names, link] = style
        return style


_CHROME = frozenset(("time", "rule", "divider", "you", "user you", "quote-bar"))  # styles of what is not copied
_WORD = re.compile(r"\w(?:[\w./:@~%+-]*\w)?|\S")
MEASURE = 120  # the widest page, in cells: longer lines are hard to read
RIGHT_MARGIN = 2
BAR = "▌"  # left of what is pointed at, in the margin
MAX_STRIPS = 128  # drawn lines that are kept in memory, two screens of them: the collector scans each in its parts


class Pointed(NamedTuple):
    """What the reader was led to: the items that are stored as `entry`, and in them the words that `query` meant."""

    entry: str
    query: str


class LineView(Painted, ScrollView):
    """Draws the lines of its stack that are in view; their positions are up to the widget built on it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.lexers = Lexers()
        self.stack = Stack(Page(80, self.lexers))
        self.pointed: Pointed | None = None
        self.searched = False  # what is found is marked
        self.found_here: tuple[Item, int] | None = None  # an item, and the number of a match in it
        self._rows: list[StyledLine] = []  # in view, at the last paint
        self._top = 0  # the first of them
        self._cursor_row: int | None = None
        self._strips: LRUCache[tuple[StyledLine, bool, int], Strip] = LRUCache(MAX_STRIPS)

    @property
    def page_width(self) -> int:
        return max(20, min(MEASURE, self.size.width - RIGHT_MARGIN))

    def cursor_line(self) -> int | None:
        """Return the line that the keys act on, which is drawn reversed while they do."""
        return None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines in `crop`. A line that was drawn before is the same strip, and with it Textual has its text
        for the terminal; its cache for widgets with borders would copy the strip."""
        self._top, size = self.scroll_offset.y, self.size
        self._rows = self.stack.rows(self._top, size.height)
        cursor = self.cursor_line() if self.has_focus else None
        self._cursor_row = None if cursor is None else cursor - self._top
        strips = [self._strip(y) for y in crop.line_range]
        ground = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, ground) for strip in strips]
        whole = crop.column_span == (0, size.width)
        return strips if whole else [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """Return a line in view, each segment with its offset on the page: Textual asks for it when it selects."""
        return self._strip(y).apply_offsets(0, self._top + y)

    def _strip(self, y: int) -> Strip:
        line, is_cursor = self._rows[y], y == self._cursor_row
        if self.pointed is not None or self.searched or self.text_selection is not None:
            return self._fit(self._marked(self._draw(line, is_cursor), line, self._top + y))
        key = (line, is_cursor, self.size.width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._fit(self._draw(line, is_cursor))
        return strip

    def _fit(self, strip: Strip) -> Strip:
        return strip.crop_extend(0, self.size.width, self.rich_style)

    def _marked(self, strip: Strip, line: StyledLine, number: int) -> Strip:
        """Set off what the reader was led to, has found and has selected."""
        if self.pointed is not None and self.stack.item(self.stack.at(number)[0]).entry == self.pointed.entry:
            strip = self._point(strip, line, self.pointed.query)
        if self.searched and number < self.stack.height:
            strip = self._mark(strip, line, number)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(number)) is not None:
            strip = self._select(strip, line, span)
        return strip

    def _draw(self, line: StyledLine, is_cursor: bool) -> Strip:
        segments = self.segments(line.spans)
        if line.fill:
            space = self.page_width - cells_of(line.spans)
            segments.append(Segment(" " * max(0, space), self.named(line.fill)))
        strip = Strip(segments)
        return strip.apply_style(Style(reverse=True)) if is_cursor else strip

    def _point(self, strip: Strip, line: StyledLine, query: str) -> Strip:
        """Draw a bar at the left, and set off the words that were meant."""
        text = line.text
        if not text.strip():
            return strip
        pointed = self.named("pointed")
        cells = [0, *itertools.chain.from_iterable(marks(query, text)), len(text)]
        parts = list(strip.divide([width_of(text[:end]) for end in cells[1:]]))
        parts[1::2] = [_styled(part, pointed) for part in parts[1::2]]
        return Strip.join([Strip([Segment(BAR, pointed)]), Strip.join(parts).crop(1)])

    def _mark(self, strip: Strip, line: StyledLine, number: int) -> Strip:
        """Set off what the search has found, and more so the match where the reader is."""
        index, offset = self.stack.at(number)
        for which, part in self.stack.marks(index, offset):
            here = self.found_here == (self.stack.item(index), which)
            left, right = (width_of(line.text[:end]) for end in (part.start, part.end))
            before, inside, after = strip.divide([left, right, max(strip.cell_length, right)])
            strip = Strip.join([before, _styled(inside, self.named("found-here" if here else "found")), after])
        return strip

    def _select(self, strip: Strip, line: StyledLine, span: tuple[int, int]) -> Strip:
        start, end = span
        text = line.text
        left = width_of(text[:start])
        right = width_of(text) if end == -1 else width_of(text[:end])
        before, inside, after = strip.divide([left, max(left, right), max(strip.cell_length, left, right)])
        # Only the ground: the colour of the style is that of the ground, on which nothing could be read.
        style = Style(bgcolor=self.screen.get_component_rich_style("screen--selection").bgcolor)
        return Strip.join([before, _styled(inside, style), after])

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without the margin at its left that all lines share."""
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self.stack.height - 1
        rows: list[str] = []
        was_chrome = False
        for number in range(first, min(last, self.stack.height - 1) + 1):
            spans = self.stack.line(number).spans
            text = "".join(" " * len(span.text) if span.style in _CHROME else span.text for span in spans)
            start, end = selection.get_span(number) or (0, 0)
            is_chrome = not text.strip() and any(span.text.strip() for span in spans)
            if text.strip() or rows[-1:] != [""] or not (is_chrome or was_chrome):
                rows.append(text[start : len(text) if end == -1 else end].rstrip())
            was_chrome = is_chrome
        margin = min((len(row) - len(row.lstrip()) for row in rows[1:] if row), default=0)
        rows = [row.lstrip() if number == 0 else row[margin:] for number, row in enumerate(rows)]
        return without_isolates("\n".join(rows)).strip("\n"), "\n"

    async def _on_click(self, event: Click) -> None:
        """Select the word at the second click and the paragraph at the third, not all of the page."""
        number = self.scroll_offset.y + event.y
        if event.chain < 2 or number >= self.stack.height:
            return
        event.prevent_default()
        index, _offset = self.stack.at(number)
        first = last = number
        text = self.stack.line(number).text
        words = (found.span() for found in _WORD.finditer(text) if width_of(text[: found.end()]) > event.x)
        start, end = next(words, (0, 0))
        if event.chain > 2:
            first, last = self.stack.tops[index], self.stack.tops[index] + len(self.stack.lines(index)) - 1
            start, end = 0, len(self.stack.line(last).text)
        self.screen.selections = {self: Selection(Offset(start, first), Offset(end, last))}


def _styled(strip: Strip, style: Style) -> Strip:
    """Return `strip` with `style` over what it has."""
    return Strip([Segment(segment.text, (segment.style or Style()) + style) for segment in strip])
