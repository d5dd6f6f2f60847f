"""The transcript on the screen: a page that keeps the reader's position, links and folds.

Nothing in here is a mounted widget: a thousand turns cost as much to scroll as one. An item is rendered when it comes
into view; the heights of the others are guessed, and made exact in small slices of idle time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

from msgspec.structs import replace
from textual import work
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.widget import Widget

from clawbot.tui.render.items import FOLD, Item, Page, UserItem
from clawbot.tui.render.lines import StyledLine
from clawbot.tui.widgets.line_view import LineView, Pointed

KEPT_ITEMS = 600  # whose lines are kept in memory
SLICE = 0.008  # seconds of work between two checks of the keyboard
LINES_ABOVE = 3  # in view over a line that is pointed at
NEAR_TOP = 3  # lines from the top at which older turns are asked for
# Whether the end is followed, and the item at the top of the page with its top line.
Reading = tuple[bool, tuple[Item, int] | None]


class TranscriptView(LineView, can_focus=True):
    """Shows items; see the module."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Link above", show=False),
        Binding("down,j", "step(1)", "Link below", show=False),
        Binding("enter,space", "activate", "Open", show=False),
    ]

    @dataclass
    class Opened(Message):
        """A link was clicked or entered: a URL or `note:PATH:LINE`."""

        target: str

    class TopReached(Message):
        """The reader is at the beginning of what is loaded."""

    @dataclass
    class Moved(Message):
        """What the reader sees, or what is below it, has changed: so many new things are out of sight, and so many
        lines of one that began in sight."""

        unseen: int
        lines: int = 0

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.unseen = 0
        self._following = True
        self._cursor: tuple[Item, int] | None = None
        self.foot: Item | None = None
        self._newest: Item | None = None  # of those that are counted
        self._left = 0  # the height of the page when the reader left its end
        self._grown = 0  # lines that came since
        self._settling: asyncio.Task[None] | None = None
        self.on_change: Callable[[], None] = lambda: None  # called when items have come, gone or changed

    # What is shown

    def append(self, items: Iterable[Item], *, drop: int = 0) -> None:
        """Add `items` at the end, in place of the last `drop` ones."""
        added = list(items)
        with self._keeping_anchor():
            end = len(self.stack) - (self.foot is not None)
            self.stack.replace(end - drop, end, added)
        fresh = next((item for item in added if item.fresh), None)
        is_new = fresh is not None and fresh is not self._newest
        self._newest = fresh or self._newest
        if not self._following:
            self._report(self.unseen + is_new, max(0, self.stack.height - self._left))

    def show_foot(self, item: Item | None) -> None:
        """Keep `item`, or nothing, below all others."""
        with self._keeping_anchor():
            end = len(self.stack)
            self.stack.replace(end - (self.foot is not None), end, [item] if item else [])
            self.foot = item

    @property
    def last(self) -> Item | None:
        offset = len(self.stack) - 1 - (self.foot is not None)
        return self.stack.item(offset) if offset >= 0 else None

    def prepend(self, items: Iterable[Item], *, drop: int = 0) -> None:
        """Add older items at the beginning, in place of the first `drop` ones; what is on the screen does not move."""
        height = self.stack.height
        with self._keeping_anchor(after=drop):
            self.stack.replace(0, drop, items)
        self._left += self.stack.height - height

    def clear(self) -> None:
        self._cursor = self.foot = self.pointed = self.found_here = None
        self._following = True
        self._report(0)
        with self._keeping_anchor():
            self.stack.replace(0, len(self.stack), ())

    def update(self, item: Item) -> None:
        index = self.stack.index_of(item)
        if index is not None:
            with self._keeping_anchor():
                self.stack.changed(index)

    def repaint(self, item: Item) -> None:
        """Draw only the lines of `item`, of which a part moves, as long as they are as many as before."""
        index = self.stack.index_of(item)
        if index is None:
            return
        before = len(self.stack.lines(index))
        self.stack.changed(index)
        if len(self.stack.lines(index)) != before:
            self.update(item)
        else:
            top = self.stack.tops[index] - self.scroll_offset.y
            self.refresh(Region(0, top, self.size.width, before).intersection(self.size.region))

    def fold_all(self) -> None:
        """Unfold everything that can be; fold everything when all of it is unfolded."""
        foldable = [item for item in self.stack.items if item.can_unfold]
        unfolded = not all(item.unfolded for item in foldable)
        last = self._last_fold()
        for item in foldable:
            item.unfolded = unfolded
        with self._kept_in_view(last):
            self.stack.turn_page(self.stack.page)

    def _last_fold(self) -> Item | None:
        top = self.scroll_offset.y
        for number in range(top + self.size.height - 1, top - 1, -1):
            if _target(self.stack.line(number)) == FOLD:
                return self.stack.item(self.stack.at(number)[0])
        return None

    def show_reasoning(self, shown: bool) -> None:
        self._turn_page(replace(self.stack.page, show_reasoning=shown))

    def take_unfold_key(self, key: str) -> None:
        if key != self.stack.page.unfold_key:
            self._turn_page(replace(self.stack.page, unfold_key=key))

    # Where the reader is

    @property
    def is_read(self) -> bool:
        """Whether somebody reads above the end, or has selected something."""
        return not self._following or self.text_selection is not None

    @property
    def at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y

    def go_to_end(self) -> None:
        self._following = True
        self._scroll(self.max_scroll_y)
        self._report(0)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow only while the reader is at the end; fetch older turns near the top."""
        super().watch_scroll_y(old_value, new_value)
        if self._following and not self.at_end:
            self._left = self.stack.height
        # Who is at a match does not move, whatever comes.
        self._following = self.at_end and self.found_here is None
        if self._following:
            self._report(0)
        if new_value <= NEAR_TOP and new_value < old_value:
            self.post_message(self.TopReached())
        self._settle_visible()

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """Move a bar that appears to where the page was scrolled before: textual moves none that is hidden."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y

    def _report(self, unseen: int, grown: int = 0) -> None:
        if (unseen, grown) != (self.unseen, self._grown):
            self.unseen, self._grown = unseen, grown
            self.post_message(self.Moved(unseen, grown))

    @contextmanager
    def _keeping_anchor(self, after: int = 0) -> Iterator[None]:
        """Keep the reader's position: who reads at the end remains there, who reads above keeps the top line, or the
        first item `after` those that are dropped."""
        before = self._position(after)
        yield
        self._restore(*before)
        self._settle()

    @contextmanager
    def _kept_in_view(self, item: Item | None) -> Iterator[None]:
        """Keep the first line of `item`, folded or unfolded inside, in view, and as much below it as fits.
        Who reads at the end remains there if the end leaves that line in view."""
        following, anchor = self._following, self._anchor()
        yield
        if item is not None and following:
            self._restore(following, anchor)
            self._settle_visible()
            following = self._first_line(item) >= self.scroll_offset.y
        self._restore(following, anchor)
        if item is not None and not following:
            self._reveal(item)
        self._settle()

    def _settle(self) -> None:
        self._settle_visible()
        if self.is_attached and (self._settling is None or self._settling.done()):
            self._settling = asyncio.create_task(self._settle_rest())
        self.refresh()
        self.on_change()

    def _reveal(self, item: Item) -> None:
        index = self.stack.index_of(item)
        if index is None:
            return
        first = self._first_line(item)
        end = self.stack.tops[index] + len(self.stack.lines(index))
        line = min(first, max(self.scroll_offset.y, end - self.size.height))
        self.virtual_size = Size(max(1, self.size.width), self.stack.height)
        self._scroll(line)
        self._following = self.at_end

    def _first_line(self, item: Item) -> int:
        """Return the line of `item` that unfolds it."""
        index = self.stack.index_of(item)
        if index is None:
            return 0
        return self.stack.tops[index] + next((offset for offset, link in self._targets(index) if link == FOLD), 0)

    def _anchor(self, after: int = 0) -> tuple[Item, int] | None:
        if len(self.stack) <= after:
            return None
        index, offset = self.stack.at(self.scroll_offset.y)
        return self.stack.item(max(index, after)), offset if index >= after else 0

    def _position(self, after: int = 0) -> Reading:
        """Return where the reader is, as `_restore` needs it: who follows the end needs no anchor."""
        return self._following, None if self._following else self._anchor(after)

    def _restore(self, following: bool, anchor: tuple[Item, int] | None) -> None:
        self._take_height()
        if following:
            self._following = True
            self._scroll(self.max_scroll_y)
            self._following = True
        elif anchor:
            item, offset = anchor
            index = self.stack.index_of(item)
            if index is not None:
                offset = min(offset, max(0, len(self.stack.lines(index)) - 1))
                self._scroll(self.stack.tops[index] + offset)

    def _take_height(self) -> None:
        """Take the height of the stack. Below a bar that is there already it moves nothing else: Textual's layout of
        all widgets, which takes as long as a paint, is left out."""
        size = self.size
        height = self.stack.height
        if self.show_vertical_scrollbar and height > size.height and self.virtual_size.width == size.width:
            self.set_reactive(Widget.virtual_size, Size(size.width, height))
            self.vertical_scrollbar.window_virtual_size = height
        else:
            self.virtual_size = Size(max(1, size.width), height)

    def _scroll(self, line: float) -> None:
        # By force: whether there is a scroll bar is known only after the next layout.
        self.scroll_to(y=line, animate=False, force=True, immediate=True)

    def point_at(self, entry: str, query: str) -> bool:
        """Show what is stored as `entry` and mark it, with the words that `query` meant; False when it is not here."""
        first = next((item for item in self.stack.items if item.entry == entry), None)
        if first is not None:
            self.pointed = Pointed(entry, query)
            self._show_at_top(first)
        return first is not None

    def go_to_message(self, step: int) -> bool:
        """Put the user's message above (-1) or below (1) the first line in view at the top; False where there is
        none."""
        here = self.stack.at(self.scroll_offset.y + LINES_ABOVE)[0] if len(self.stack) else 0
        if step < 0:
            # A message of which the beginning is out of view is above.
            here += self.stack.tops[here] < self.scroll_offset.y if len(self.stack) else 0
            indexes = range(min(here, len(self.stack)) - 1, -1, -1)
        else:
            indexes = range(here + 1, len(self.stack))
        item = next((self.stack.item(at) for at in indexes if isinstance(self.stack.item(at), UserItem)), None)
        if item is not None:
            self._show_at_top(item)
        return item is not None

    def _show_at_top(self, item: Item) -> None:
        """Scroll a few times: what comes into view gets its true height, which moves the target."""
        self._following = False
        for _ in range(4):
            self._scroll(max(0, self.stack.tops[self.stack.index_of(item) or 0] - LINES_ABOVE))
            self._settle_visible()
        self._following = self.at_end
        self.refresh()

    def show_line(self, item: Item, line: int) -> None:
        """Bring the line of `item` (from 0) into view, and remain there; it moves as little as can be."""
        self._left = self.stack.height if self._following else self._left
        self._following = False
        for _ in range(4):
            number = self.stack.tops[self.stack.index_of(item) or 0] + line
            if not 0 <= number - self.scroll_offset.y < self.size.height:
                self._scroll(max(0, number - self.size.height // 3))
            self._settle_visible()
        self.refresh()

    @property
    def reading(self) -> Reading:
        """Where the reader is, so that he can `return_to` it."""
        return self._following, self._anchor()

    def return_to(self, reading: Reading) -> None:
        """Go back to a position; to the end, if that was followed."""
        self._restore(*reading)
        self._settle_visible()
        self._following = reading[0] or self.at_end
        self.refresh()

    # Layout

    def _on_resize(self, event: Resize) -> None:
        if self.stack.page.width != self.page_width:
            self._turn_page(replace(self.stack.page, width=self.page_width))
        elif self._following:
            self._scroll(self.max_scroll_y)

    def _turn_page(self, page: Page) -> None:
        with self._keeping_anchor():
            self.stack.turn_page(page)

    def _settle_visible(self) -> None:
        """Make the heights in view exact. That may bring other items into view, so it is repeated a few times."""
        if not self.size.height:
            return
        for _ in range(4):
            top = self.scroll_offset.y
            first, last = self.stack.at(top)[0], self.stack.at(top + self.size.height)[0]
            if not (wrong := self.stack.inexact(range(first, last + 1))):
                break
            before = self._position()
            for index in wrong:
                self.stack.lines(index)
            self._restore(*before)
        self.stack.forget(first, last, keep=KEPT_ITEMS)
        if self.lexers.wanted and self.is_attached:
            self._colour_code()

    async def _settle_rest(self) -> None:
        """Make all heights exact, from the end to the beginning, a few milliseconds at a time."""
        while self.is_attached and (wrong := self.stack.inexact(range(len(self.stack) - 1, -1, -1))):
            before, started = self._position(), perf_counter()
            for index in wrong:
                self.stack.lines(index)
                if perf_counter() - started > SLICE:
                    break
            self._restore(*before)
            await asyncio.sleep(0)

    @work(group="lexers", exclusive=True)
    async def _colour_code(self) -> None:
        if await asyncio.to_thread(self.lexers.load):
            self._turn_page(self.stack.page)

    # Links and folds, by mouse and by keys

    async def _on_click(self, event: Click) -> None:
        target = event.style.meta.get("target", "")
        if target and self.stack.height:
            event.stop()
            self._open(self.stack.item(self.stack.at(self.scroll_offset.y + event.y)[0]), target)

    def _open(self, item: Item, target: str) -> None:
        if target == FOLD:
            self.fold(item)
        else:
            self.post_message(self.Opened(target))

    def fold(self, item: Item) -> None:
        item.unfolded = not item.unfolded
        index = self.stack.index_of(item)
        with self._kept_in_view(item):
            if index is not None:
                self.stack.changed(index)

    def _targets(self, index: int) -> list[tuple[int, str]]:
        lines = enumerate(self.stack.lines(index))
        return [(offset, target) for offset, line in lines if (target := _target(line))]

    def enter(self) -> bool:
        """Put the cursor on a line in view that leads somewhere: where it was, else on the last one. False when there
        is none."""
        top, here = self.scroll_offset.y, self.cursor_line()
        return (here is not None and top <= here < top + self.size.height) or self._step(-1)

    def action_step(self, step: int) -> None:
        """Go to the next line that leads somewhere; where there is none, scroll."""
        if not self._step(step):
            self.scroll_relative(y=step, animate=False)

    def _step(self, step: int) -> bool:
        """Move the cursor; False when no other line in view leads anywhere."""
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height - 1
        here = self.cursor_line()
        if here is None or not top <= here <= bottom:
            here = bottom + 1 if step < 0 else top - 1
        for number in range(here + step, max(-1, top - 1) if step < 0 else bottom + 1, step):
            if _target(self.stack.line(number)):
                index, offset = self.stack.at(number)
                self._cursor = (self.stack.item(index), offset)
                self.refresh()
                return True
        return False

    def cursor_line(self) -> int | None:
        """Return the line of the cursor; None when there is none any more."""
        if self._cursor is None:
            return None
        item, offset = self._cursor
        index = self.stack.index_of(item)
        return None if index is None or offset >= len(self.stack.lines(index)) else self.stack.tops[index] + offset

    def action_activate(self) -> None:
        number = self.cursor_line()
        if self._cursor and number is not None and (target := _target(self.stack.line(number))):
            self._open(self._cursor[0], target)


def _target(line: StyledLine) -> str:
    return next((span.link for span in line.spans if span.link), "")
