"""Owns how good lines become results: neighbouring ones as one range, within a budget of characters and results."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from clawbot.config.schema_lines import LineWeights
from clawbot.memory.search.ranking import Budget
from clawbot.memory.store.records import ChunkRow


class Line(Struct, frozen=True):
    """A line to be returned: its chunk, the number of its section, and whether its neighbours belong to it."""

    row: ChunkRow
    section: int
    flowing: bool


class Range(Struct):
    """The chunks `first` to `last` (ids); `rank` is the place of its best line, `chars` what is shown of it if cut."""

    first: int
    last: int
    rank: int
    chars: int | None = None


class _Page(Struct):
    """Fills up with the lines it is given, best first. `lines` are all that may stand in a range, by id.

    A line that is too long for what is left gets all of that: the best line always, others with `cuts`, unless it is
    little.
    """

    lines: Mapping[int, Line]
    weights: LineWeights
    chars: int
    count: int
    cuts: bool
    taken: set[int]
    ranges: list[Range] = field(default_factory=list)
    spent: int = 0

    def add(self, line: Line, rank: int) -> bool:
        """Take `line` in, if there is room for it and for what lies between it and a range beside it."""
        alone = Range(line.row.id, self._end(line), rank)
        beside = [each for each in self.ranges if self._touches(each, line)]
        grown = alone
        if beside:
            grown = Range(
                min(alone.first, *(each.first for each in beside)),
                max(alone.last, *(each.last for each in beside)),
                rank,
            )
            if not self._may_grow(grown, beside):
                beside, grown = [], alone
        if not beside and len(self.ranges) >= self.count:
            return False
        size, room = self._size(grown) - sum(map(self._size, beside)), self.chars - self.spent
        if size > room:
            is_worth_it = rank == 0 or (self.cuts and room >= self.weights.range_chars)
            if beside or not is_worth_it:
                return False
            size = grown.chars = room
        self.spent += size
        self.taken.update(range(grown.first, grown.last + 1))
        if beside:
            grown.rank = min(each.rank for each in beside)
            self.ranges = [each for each in self.ranges if each not in beside]
        self.ranges.append(grown)
        return True

    def _end(self, line: Line) -> int:
        """The last chunk that comes with `line`: of a heading the one below it, since a heading alone says little."""
        below = self.lines.get(line.row.id + 1)
        is_with_it = line.row.kind == "heading" and below is not None and below.section == line.section
        return line.row.id + 1 if is_with_it and line.row.id + 1 not in self.taken else line.row.id

    def _touches(self, known: Range, line: Line) -> bool:
        reach = 1 + self.weights.gap
        ends = (self.lines[known.first], self.lines[known.last])
        near = known.first - reach <= line.row.id <= known.last + reach
        return near and all(each.flowing and each.section == line.section for each in (*ends, line))

    def _may_grow(self, grown: Range, parts: Sequence[Range]) -> bool:
        inside = range(grown.first, grown.last + 1)
        own = {number for each in parts for number in range(each.first, each.last + 1)}
        free = all(number in own or number not in self.taken for number in inside)
        return free and all(number in self.lines for number in inside) and self._size(grown) <= self.weights.range_chars

    def _size(self, each: Range) -> int:
        return sum(len(self.lines[number].row.text) + 1 for number in range(each.first, each.last + 1)) - 1


def build_ranges(ranked: Sequence[int], lines: Mapping[int, Line], budget: Budget, weights: LineWeights) -> list[Range]:
    """The ranges of the `ranked` line ids (best first), within the budget.

    The first page keeps to few places, so that these get the lines that belong to them; the second takes more. A
    range stands where its best line does. The best line is always there, cut if it is longer than all that may be
    said: shorter lines that say less must not take its place.
    """
    taken: set[int] = set()
    found: list[Range] = []
    rest = list(enumerate(ranked))
    chars, count = budget.chars or sys.maxsize, budget.results
    best = len(lines[ranked[0]].row.text) if ranked else 0
    pages = ((max(weights.first_chars, best), weights.first_ranges, False), (chars, count, True))
    for page_chars, page_count, cuts in pages:
        page = _Page(lines, weights, min(page_chars, chars), min(page_count, count), cuts, taken)
        rest = [(rank, number) for rank, number in rest if number not in taken and not page.add(lines[number], rank)]
        found += page.ranges
        chars -= page.spent
        count -= len(page.ranges)
    return sorted(found, key=lambda each: each.rank)
