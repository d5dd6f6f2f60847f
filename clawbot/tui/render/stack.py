"""The items of the transcript and where each one lies: exact heights for what was rendered, guesses for the rest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from clawbot.tui.render.items import Item, Page
from clawbot.tui.render.lines import BLANK, Line


class _Slot:
    """An item, its height, and its lines while they are in memory."""

    __slots__ = ("exact", "height", "item", "lines")

    def __init__(self, item: Item, width: int) -> None:
        self.item = item
        self.height = item.guess(width)
        self.exact = False
        self.lines: list[Line] | None = None


class Stack:
    """Items from top to bottom. Positions are in lines from 0; all of it is bookkeeping, nothing here draws."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._slots: list[_Slot] = []
        self._tops: list[int] | None = None
        self._held = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def items(self) -> list[Item]:
        """The items, from top to bottom."""
        return [slot.item for slot in self._slots]

    def item(self, index: int) -> Item:
        """The item at `index`."""
        return self._slots[index].item

    def index_of(self, item: Item) -> int | None:
        """Where `item` stands: searched from the end, where the changes are."""
        return next((n for n in range(len(self._slots) - 1, -1, -1) if self._slots[n].item is item), None)

    @property
    def height(self) -> int:
        """All lines."""
        return self._starts()[-1]

    def turn_page(self, page: Page) -> None:
        """Everything is laid out anew for `page`; until then the old heights serve as guesses."""
        self.page = page
        for slot in self._slots:
            slot.exact = False
            slot.lines = None
        self._held = 0

    def replace(self, start: int, end: int, items: Iterable[Item]) -> None:
        """Put `items` in the place of those from `start` to before `end`."""
        self._held -= sum(slot.lines is not None for slot in self._slots[start:end])
        self._slots[start:end] = [_Slot(item, self.page.width) for item in items]
        self._tops = None

    def changed(self, index: int) -> None:
        """The item at `index` looks different now."""
        slot = self._slots[index]
        self._held -= slot.lines is not None
        slot.exact, slot.lines = False, None

    def top(self, index: int) -> int:
        """The first line of the item at `index`."""
        return self._starts()[index]

    def at(self, line: int) -> tuple[int, int]:
        """The index of the item that `line` belongs to, and the place of the line in it."""
        starts = self._starts()
        index = max(0, min(bisect_right(starts, line) - 1, len(self._slots) - 1))
        # Items without lines share their start with the next one: take the one that holds the line.
        return index, line - starts[index]

    def line(self, number: int) -> Line:
        """The line at `number`; blank beyond the end."""
        if not 0 <= number < self.height:
            return BLANK
        index, place = self.at(number)
        lines = self.lines(index)
        return lines[place] if place < len(lines) else BLANK

    def lines(self, index: int) -> list[Line]:
        """The lines of the item at `index`, rendered if they are not in memory."""
        slot = self._slots[index]
        if slot.lines is None:
            slot.lines = slot.item.lines(self.page)
            self._held += 1
            slot.exact = True
            if len(slot.lines) != slot.height:
                slot.height = len(slot.lines)
                self._tops = None
        return slot.lines

    def inexact(self, order: Sequence[int] | range) -> Iterable[int]:
        """Those of the indexes in `order` whose height is still a guess."""
        return (index for index in order if index < len(self._slots) and not self._slots[index].exact)

    def forget(self, first: int, last: int, keep: int) -> None:
        """Let go of the lines of items outside of `first` to `last` when more than `keep` are in memory."""
        if self._held <= keep:
            return
        for index, slot in enumerate(self._slots):
            if slot.lines is not None and slot.exact and not first <= index <= last:
                slot.lines = None
                self._held -= 1

    def _starts(self) -> list[int]:
        if self._tops is None:
            self._tops = list(accumulate((slot.height for slot in self._slots), initial=0))
        return self._tops
