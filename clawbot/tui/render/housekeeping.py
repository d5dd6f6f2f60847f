"""The quiet lines of what clawbot does by itself: that memory was written, that earlier turns were summarised.

Each is one line in the manner of a rule. A note opens where it was written, a summary unfolds below its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clawbot.tui.meter import short
from clawbot.tui.render.inline import note_link
from clawbot.tui.render.items import FOLD, RULE_EDGES, TEXT_INDENT, DividerItem, Item, Page, indented, ruled
from clawbot.tui.render.lines import BLANK, Line, Span, ellipsis, middle, width_of
from clawbot.tui.render.pieces import Piece
from clawbot.tui.render.sanitize import clean_line, isolate

NARROW = 40  # below so many cells only the place is told
SUMMARISED = "earlier turns summarised"
INNER = TEXT_INDENT + 2  # where an unfolded summary stands


@dataclass
class MemoryItem(Item):
    """Memory was written: so many `lines` from `line` (from 1) on in `path`, a file of the workspace."""

    path: str
    line: int
    count: int
    joined: bool = False  # another quiet line stands right above

    def lines(self, page: Page) -> list[Line]:
        """One line; the place opens."""
        count = f"{self.count:,} line{'s' if self.count != 1 else ''} to " if page.width >= NARROW else ""
        said = f"memory: {count}"
        place = isolate(middle(clean_line(self.path), page.width - RULE_EDGES - len(said)))
        spans = [Span(said, "divider"), Span(place, "note-quiet", note_link(self.path, self.line))]
        return [*air(self.joined), ruled(spans, page.width)]


@dataclass
class SummaryItem(Item):
    """A summary stands for the turns above: how many tokens the context had `before` and has `after` (0: unknown), and
    the summary as `pieces` of Markdown."""

    pieces: Sequence[Piece]
    before: int = 0
    after: int = 0
    joined: bool = False
    unfolded: bool = False
    can_unfold = True

    def lines(self, page: Page) -> list[Line]:
        """The line, and the summary under it when it is unfolded."""
        line = ruled([Span(self._said(page.width - RULE_EDGES), "divider", FOLD)], page.width)
        lines = [*air(self.joined), line]
        return [*lines, *self._inside(page)] if self.unfolded else lines

    def _said(self, room: int) -> str:
        """What happened, the figures, the key; the last ones go first where there is no room."""
        parts = [SUMMARISED, self._figures(), "ctrl+o folds" if self.unfolded else "ctrl+o to read"]
        parts = [part for part in parts if part]
        while len(parts) > 1 and width_of(" · ".join(parts)) > room:
            parts.pop()
        return ellipsis(" · ".join(parts), room)

    def _figures(self) -> str:
        if not self.before:
            return ""
        return f"{short(self.before)} → {short(self.after)} tokens" if self.after else f"{short(self.before)} tokens"

    def _inside(self, page: Page) -> list[Line]:
        lines: list[Line] = []
        for piece in self.pieces:
            if piece.gap or not lines:
                lines.append(Line(piece.indent.air))
            lines += piece.lines(page.width - INNER, page.lexers)
        return indented([Line(tuple(map(_quiet, line.spans)), line.fill) for line in lines], INNER)


def memory_mark(last: Item | None, path: str, line: int, end_line: int) -> tuple[MemoryItem, bool]:
    """The mark for lines `line` to `end_line` of `path` below the item `last`, and whether it is a new one: what
    follows on what the mark above tells of is told there."""
    count = end_line - line + 1
    if isinstance(last, MemoryItem) and (last.path, last.line + last.count) == (path, line):
        last.count += count
        return last, False
    return MemoryItem(path, line, count, joined=is_quiet(last)), True


def is_quiet(item: Item | None) -> bool:
    """Whether `item` is a line across the page, below which another one needs no air."""
    return isinstance(item, DividerItem | MemoryItem | SummaryItem)


def air(joined: bool) -> list[Line]:
    """The blank line above, unless another quiet line stands there."""
    return [] if joined else [BLANK]


def _quiet(span: Span) -> Span:
    """The summary is read beside the talk: dimmer than what is said in it."""
    return span._replace(style=f"tool-text {span.style}".rstrip())
