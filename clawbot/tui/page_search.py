"""The search in the page: scans what is loaded in small slices, then what is above it, keeps up with what streams in,
and leads the reader from match to match."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, chain
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Key
from textual.widgets import Static
from textual.widgets.text_area import Edit, EditResult

from clawbot.text.interface import N_, _
from clawbot.tui.render.finding import compile_query
from clawbot.tui.render.lines import width_of
from clawbot.tui.widgets.fields import Area, binding
from clawbot.tui.widgets.transcript import SLICE

if TYPE_CHECKING:
    from clawbot.tui.earlier import EarlierMessages
    from clawbot.tui.render.items import Item
    from clawbot.tui.widgets.transcript import Reading, TranscriptView


MIN_FIELD = 24  # cells that the text has before the keys are shown
STEPS = {"enter": 1, "down": 1, "shift+enter": -1, "up": -1}


class FindField(Area):
    """One line of text. `step` is called with 1 or -1 for a key that goes on, and whether it was Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.stop", "Close", show=False),
        # Here too, so that it wins against the keys that edit the text.
        binding("stop", "screen.stop", priority=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, soft_wrap=False, placeholder=_("find in the page"))
        self.cursor_blink = False  # a blinking cursor is a timer that never sleeps
        self.step: Callable[[int, bool], None] = lambda step, entered: None

    def edit(self, edit: Edit) -> EditResult:
        """Apply any change: pasted text remains on one line."""
        edit.text = " ".join(edit.text.splitlines())
        return super().edit(edit)

    async def take_key(self, event: Key) -> bool:
        if event.key not in ("tab", *STEPS):
            return await super().take_key(event)
        if event.key in STEPS:
            self.step(STEPS[event.key], event.key.endswith("enter"))
        return True


class FindBar(Horizontal):
    """Replaces the footer while the page is searched; `search` is called with each text."""

    field = getters.query_one(FindField)

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.search: Callable[[str], None] = lambda query: None
        self._shown = ""

    def compose(self) -> ComposeResult:
        yield Static("/", id="find-mark")
        field = FindField()
        field.changed = self._changed
        yield field
        yield Static(id="find-count", markup=False)

    def open(self) -> None:
        """Take the keys from now on; the first of them replaces the last query."""
        self.display = True
        self.field.select_all()
        # At once: the keys of a burst are meant for it.
        self.screen.set_focus(self.field)

    def show(self, count: str, keys: str) -> None:
        text = "   ".join(filter(None, (count, keys)))
        fits = self.screen.size.width - width_of(text) >= MIN_FIELD
        shown = text if fits else count
        if shown != self._shown:
            self._shown = shown
            self.query_one("#find-count", Static).update(shown)

    def _changed(self) -> None:
        if self.display:
            self.search(self.field.text)


SEARCH_KEYS = N_("enter next · ↑ previous · esc back to where you were")
ENTERED_KEYS = N_("enter next · ↑ previous · esc stays here")
REPORT_SECONDS = 0.1  # seconds between two counts during a scan
MAX_LOADED = 40  # parts of earlier messages that are read unasked, 50 messages each


class PageSearch:
    """Searches `page`, and what `earlier` reads of what is above it, for the text in `bar`. `on_open` is called when
    the search was opened or closed."""

    def __init__(
        self, page: TranscriptView, bar: FindBar, earlier: EarlierMessages, on_open: Callable[[bool], None]
    ) -> None:
        bar.search, bar.field.step = self.search, self.step
        self._page = page
        self._bar = bar
        self._earlier = earlier
        self._on_open = on_open
        self.is_open = False
        self._begun: Reading = (True, None)  # where the reader was
        self._entered = False  # the reader has entered a match
        self._found_nothing = False  # what is loaded was scanned in vain
        self._left = 0  # parts that may be read unasked
        self._unfolded: Item | None = None  # by the search, for the match that the reader is at
        self._above: Item | None = None  # above the item of that match
        self._reported = 0.0  # when the line had the count
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin where the reader is; an open search takes the keys again."""
        if self.is_open:
            self._bar.open()
            return
        self.is_open = True
        self._begun = self._page.reading
        self._entered = False
        self._left = MAX_LOADED
        self._page.on_change = self._go_on
        self._on_open(True)
        self._bar.open()
        self.search(self._bar.field.text)

    def close(self, *, remain: bool = False) -> None:
        """Go back to where the reader was, or `remain` at the match; a match that was entered is where he remains."""
        if not self.is_open:
            return
        self.is_open = False
        self._page.on_change = lambda: None
        if self._task is not None:
            self._task.cancel()
        self._page.searched = False
        self._page.stack.search(None)
        here, self._page.found_here = self._page.found_here, None
        self._bar.display = False
        if here is None or not (remain or self._entered):
            self._fold_back()
            self._page.return_to(self._begun)
        else:
            self._page.return_to((False, self._page.reading[1]))
        self._unfolded = None
        self._on_open(False)

    def search(self, query: str) -> None:
        """Find `query` from now on, at first what is nearest to where the reader was: in view, below, above."""
        pattern = compile_query(query)
        self._found_nothing = False
        self._page.found_here = None
        self._page.searched = pattern is not None
        self._page.stack.search(pattern)
        self._page.refresh()
        if pattern is None:
            self._fold_back()
            self._page.return_to(self._begun)
            self._report()
        else:
            self._go_on()

    def step(self, step: int, entered: bool) -> None:
        """Go to the next match (1) or to the one before (-1), round and round; before the first one of what is loaded,
        more is read of what is above."""
        self._entered = self._entered or entered
        counts = self._page.stack.found
        total = sum(counts)
        if not total:
            return
        at = self._number(counts)
        if at + step < 0 and self._earlier.has_more:
            self._left = max(self._left, 1)
            self._go_on()
        to = (at + step) % total
        starts = list(accumulate(counts, initial=0))
        index = bisect_right(starts, to) - 1
        self._show(index, to - starts[index])
        self._report()

    def _number(self, counts: list[int]) -> int:
        """Return the number of the match that the reader is at, from 0; -1 for none."""
        here = self._page.found_here
        index = self._page.stack.index_of(here[0]) if here else None
        return -1 if here is None or index is None else sum(counts[:index]) + min(here[1], max(0, counts[index] - 1))

    def _show(self, index: int, which: int) -> None:
        page, stack, item = self._page, self._page.stack, self._page.stack.item(index)
        part = stack.find(index)[which][0]
        folded, full = (stack.lines_when(index, unfolded=unfolded) for unfolded in (False, True))
        hidden = folded[part.line : part.line + 1] != full[part.line : part.line + 1]
        if not (hidden and self._unfolded is item):
            self._fold_back()
        if hidden and not item.unfolded:
            page.fold(item)
            self._unfolded = item
        stack.find(index)
        page.found_here = (item, which)
        self._above = stack.item(index - 1) if index else None
        page.show_line(item, part.line)

    def _fold_back(self) -> None:
        if self._unfolded is not None and self._unfolded.unfolded:
            self._page.fold(self._unfolded)
        self._unfolded = None

    def _restore_position(self) -> None:
        """Follow streamed items that replace the ones before: the reader is where he was in them."""
        here, stack = self._page.found_here, self._page.stack
        if here is None or stack.index_of(here[0]) is not None:
            return
        above = stack.index_of(self._above) if self._above else None
        counts = stack.found
        order = range(above + 1, len(counts)) if above is not None else range(len(counts) - 1, -1, -1)
        index = next((index for index in order if counts[index]), None)
        self._page.found_here = None if index is None else (stack.item(index), min(here[1], counts[index] - 1))

    # Going through the page

    def _go_on(self) -> None:
        if self.is_open and self._page.searched and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._search())

    async def _search(self) -> None:
        while self.is_open:
            if self._slice():
                await asyncio.sleep(0)
            elif self._left and self._earlier.has_more:
                self._left -= 1
                await self._earlier.next_part()
            else:
                break
        if self.is_open and self._page.found_here is None and not self._found_nothing:
            self._found_nothing = True
            self._page.return_to(self._begun)

    def _slice(self) -> bool:
        """Scan some items, in the order in which the reader wants to see them; False if none is left."""
        started = perf_counter()
        stack = self._page.stack
        scanned, marked = False, False
        begun = (stack.index_of(self._begun[1][0]) if self._begun[1] else None) or 0
        for index in stack.unsearched(chain(range(begun, len(stack)), range(begun - 1, -1, -1))):
            scanned = True
            found = stack.find(index)
            marked = marked or bool(found)
            if found and self._page.found_here is None:
                self._show(index, 0 if index >= begun else len(found) - 1)
            if perf_counter() - started > SLICE:
                break
        self._restore_position()
        if marked:
            self._page.refresh()
        if not scanned or started - self._reported >= REPORT_SECONDS:
            self._reported = started
            self._report(done=not scanned)
        return scanned

    def _report(self, *, done: bool = True) -> None:
        """Show the number of the match and of all matches; `done`: what is loaded was scanned."""
        counts = self._page.stack.found
        total = sum(counts)
        more = "+" if self._earlier.has_more else ""
        if not self._page.searched:
            count = ""
        elif total:
            count = _("{at:,} of {total:,}{more}").format(at=self._number(counts) + 1, total=total, more=more)
        else:
            count = _("nothing found") if done and not (more and self._left) else _("searching")
        self._bar.show(count, _(ENTERED_KEYS) if self._entered else _(SEARCH_KEYS))
