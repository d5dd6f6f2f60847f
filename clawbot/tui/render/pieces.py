"""The pieces of rendered Markdown: each knows how it fills lines of a given width.

A piece is made once and wrapped as often as the width changes. `indent` is what stands before its lines (list
markers, quote bars): the first line gets `first`, the others `rest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from clawbot.tui.render.code import Lexers
from clawbot.tui.render.lines import Line, Span, slice_spans, width_of, wrap


@dataclass(frozen=True)
class Indent:
    """What stands left of a piece."""

    first: tuple[Span, ...] = ()
    rest: tuple[Span, ...] = ()
    air: tuple[Span, ...] = ()  # of the blank line above: the bar of a quote goes through

    @property
    def width(self) -> int:
        """Its cells."""
        return sum(width_of(span.text) for span in self.rest)

    def apply(self, lines: list[tuple[Span, ...]], fill: str = "") -> list[Line]:
        """`lines` behind the indent."""
        return [Line((*(self.rest if number else self.first), *line), fill) for number, line in enumerate(lines)]


class Piece(Protocol):
    """A paragraph, a heading, some lines of code, a table, a rule."""

    @property
    def gap(self) -> bool:
        """Whether a blank line stands before it."""
        ...

    @property
    def indent(self) -> Indent:
        """What stands left of it."""
        ...

    def lines(self, width: int, lexers: Lexers) -> list[Line]:
        """Its lines, at most `width` cells wide."""
        ...


@dataclass(frozen=True)
class Flow:
    """Running text: a paragraph, a heading, the text of a list item."""

    spans: tuple[Span, ...]
    indent: Indent = Indent()
    gap: bool = True

    def lines(self, width: int, lexers: Lexers) -> list[Line]:
        """The wrapped text."""
        return self.indent.apply(wrap(self.spans, max(8, width - self.indent.width)))


@dataclass(frozen=True)
class Code:
    """Lines of code on their own ground; `gap` is false when they go on from the piece before."""

    text: str
    language: str = ""
    indent: Indent = Indent()
    gap: bool = True

    def lines(self, width: int, lexers: Lexers) -> list[Line]:
        """The code, long lines folded."""
        room = max(8, width - self.indent.width - 2)
        spans = lexers.spans(self.text, self.language)
        ends = _line_ranges(self.text)
        lines: list[tuple[Span, ...]] = []
        for line in slice_spans(spans, ends):
            lines.extend((Span(" ", "code"), *folded) for folded in wrap(line, room))
        return self.indent.apply(lines, "code")


@dataclass(frozen=True)
class Rule:
    """A thematic break."""

    indent: Indent = Indent()
    gap: bool = True

    def lines(self, width: int, lexers: Lexers) -> list[Line]:
        """One quiet line."""
        return self.indent.apply([(Span("─" * max(4, width - self.indent.width), "rule"),)])


Cell = tuple[Span, ...]
BETWEEN = "  "  # two columns of a table


@dataclass(frozen=True)
class Table:
    """A table: the first row is the head. `aligns` holds `left`, `right` or `center` for each column.

    A part of a long table goes on without a head (`head` false), in the columns of the part above it (`columns`: their
    natural widths), unless a cell needs more.
    """

    rows: tuple[tuple[Cell, ...], ...]
    aligns: tuple[str, ...]
    indent: Indent = Indent()
    gap: bool = True
    head: bool = True
    columns: tuple[int, ...] = ()

    def lines(self, width: int, lexers: Lexers) -> list[Line]:
        """Head, rule and rows; columns shrink to fit, and cells wrap."""
        widths = self._widths(max(8, width - self.indent.width))
        lines: list[tuple[Span, ...]] = []
        for number, row in enumerate(self.rows):
            lines.extend(self._row(row, widths))
            if number == 0 and self.head:
                lines.append((Span(BETWEEN.join("─" * cells for cells in widths), "rule"),))
        return self.indent.apply(lines)

    def _widths(self, room: int) -> list[int]:
        """The cells of each column: its natural width where there is room, else the wide ones give way."""
        natural = self.natural()
        room = max(room - len(BETWEEN) * (len(natural) - 1), 3 * len(natural))
        if sum(natural) <= room:
            return list(natural)
        shares: dict[int, int] = {}
        waiting = sorted(range(len(natural)), key=natural.__getitem__)
        for place, column in enumerate(waiting):
            fair = (room - sum(shares.values())) // (len(waiting) - place)
            shares[column] = min(natural[column], fair)
        return [shares[column] for column in range(len(natural))]

    def natural(self) -> tuple[int, ...]:
        """The cells that each column would take."""
        least = self.columns or (1,) * len(self.aligns)
        return tuple(
            max(least[column], *(max(map(width_of, _text(row[column]).split("\n"))) for row in self.rows))
            for column in range(len(self.aligns))
        )

    def _row(self, row: tuple[Cell, ...], widths: list[int]) -> list[tuple[Span, ...]]:
        cells = [wrap(cell, cells) for cell, cells in zip(row, widths, strict=True)]
        lines = []
        for number in range(max(len(cell) for cell in cells)):
            line: list[Span] = []
            for column, cell in enumerate(cells):
                spans = cell[number] if number < len(cell) else ()
                space = widths[column] - width_of(_text(spans))
                left = {"right": space, "center": space // 2}.get(self.aligns[column], 0)
                line += [Span(" " * left), *spans, Span(" " * (space - left)), Span(BETWEEN)]
            lines.append(tuple(span for span in line[:-1] if span.text))
        return lines


def _text(spans: Cell) -> str:
    return "".join(span.text for span in spans)


def _line_ranges(text: str) -> list[tuple[int, int]]:
    ranges = []
    start = 0
    for line in text.split("\n"):
        ranges.append((start, start + len(line)))
        start += len(line) + 1
    return ranges
