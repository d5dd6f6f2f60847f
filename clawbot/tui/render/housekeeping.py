"""The quiet lines for clawbot's own work: memory writes, saved conversations, quoted notes, summarised turns.

Each is one line like a rule. Notes open, quotes and summaries unfold.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line, isolate
from clawbot.tui.render.items import FOLD, RULE_EDGES, TEXT_INDENT, DividerItem, Item, Page, indented, ruled
from clawbot.tui.render.lines import BLANK, StyledLine, StyledSpan, ellipsis, middle, note_link, short, width_of
from clawbot.tui.render.markdown_blocks import MarkdownBlock

NARROW = 40  # below so many cells only the path is shown
MIN_PATH = 12  # cells of a path next to other texts
KEPT = N_("kept: {path}")
BETWEEN = " · "
INNER = TEXT_INDENT + 2  # where an unfolded text begins


@dataclass
class MemoryItem(Item):
    """A memory write: `lines` lines from `line` (from 1) in the workspace file `path`."""

    path: str
    line: int
    count: int
    joined: bool = False  # another quiet line is right above

    def lines(self, page: Page) -> list[StyledLine]:
        template = _("memory: {path}")
        if page.width >= NARROW:
            template = ngettext("memory: {n:,} line to {path}", "memory: {n:,} lines to {path}", self.count)
        spans = _with_link(template, self.path, self.line, page.width - RULE_EDGES, n=self.count)
        return [*air(self.joined), ruled(spans, page.width)]


@dataclass
class KeptItem(Item):
    """The conversation `session_id` was saved as the note `path` in the workspace."""

    session_id: str
    path: str
    joined: bool = False

    def lines(self, page: Page) -> list[StyledLine]:
        spans = _with_link(_(KEPT), self.path, 1, page.width - RULE_EDGES)
        return [*air(self.joined), ruled(spans, page.width)]


@dataclass
class FoldedItem(Item):
    """A line that unfolds to a text, `blocks` of Markdown."""

    blocks: Sequence[MarkdownBlock]
    joined: bool = field(default=False, kw_only=True)
    unfolded: bool = field(default=False, kw_only=True)

    @property
    def can_unfold(self) -> bool:
        return True

    @abstractmethod
    def texts(self) -> list[str]:
        """Return the texts of the line, most important first."""

    def lines(self, page: Page) -> list[StyledLine]:
        line = ruled([StyledSpan(self._line(page.width - RULE_EDGES, page.unfold_key), "divider", FOLD)], page.width)
        lines = [*air(self.joined), line]
        return [*lines, *self._inside(page)] if self.unfolded else lines

    def _line(self, room: int, key: str) -> str:
        """Return what happened, the figures, the key; the last ones are dropped first if there is no room."""
        does = (_("{key} folds") if self.unfolded else _("{key} to read")).format(key=key)
        parts = [*self.texts(), *([does] if key else [])]
        while len(parts) > 1 and width_of(" · ".join(parts)) > room:
            parts.pop()
        return ellipsis(" · ".join(parts), room)

    def _inside(self, page: Page) -> list[StyledLine]:
        lines: list[StyledLine] = []
        for block in self.blocks:
            if block.gap or not lines:
                lines.append(StyledLine(block.indent.air))
            lines += block.lines(page.width - INNER, page.lexers)
        return indented([StyledLine(tuple(map(_quiet, line.spans)), line.fill) for line in lines], INNER)


@dataclass
class SummaryItem(FoldedItem):
    """A summary of the turns above: the tokens of the context `before` and `after` (0: unknown)."""

    before: int = 0
    after: int = 0

    def texts(self) -> list[str]:
        summarised = _("earlier turns summarised")
        if not self.before:
            return [summarised]
        figures = f"{short(self.before)} → {short(self.after)}" if self.after else short(self.before)
        return [summarised, _("{figures} tokens").format(figures=figures)]


@dataclass
class QuoteItem(FoldedItem):
    """A quote of notes at the start of the session: `files` of them (0: unknown), `characters` long. Or that of an
    `intent`."""

    files: int = 0
    characters: int = 0
    intent: str = ""

    def texts(self) -> list[str]:
        if self.intent:
            return [self.intent, _("/done ends it")]
        characters = ngettext("{n:,} character", "{n:,} characters", self.characters).format(n=self.characters)
        template = _("notes: {files}, {characters}") if self.files else _("notes: {characters}")
        return [template.format(files=_files(self.files), characters=characters)]


@dataclass
class SessionItem(QuoteItem):
    """Another session begins, because of `text`; the one before it is the note `path` ("": none), and its first words
    follow a quote of notes, if there are `blocks`."""

    text: str = ""
    path: str = ""

    @property
    def can_unfold(self) -> bool:
        return bool(self.blocks)

    def lines(self, page: Page) -> list[StyledLine]:
        """Return one line for all of it: the note opens, the rest unfolds the quote. What there is no room for goes."""
        room, fold = page.width - RULE_EDGES, FOLD if self.blocks else ""
        notes = _("notes: {files}").format(files=_files(self.files))
        files = f"{BETWEEN}{notes}" if self.blocks else ""
        spans = [StyledSpan(ellipsis(clean_line(self.text), room), "divider", fold)]
        kept = f"{BETWEEN}{_(KEPT)}"
        room -= width_of(spans[0].text)
        least = width_of(kept.format(path="")) + MIN_PATH
        if self.path and room >= least:
            files = files if room - width_of(files) >= least else ""
            spans += _with_link(kept, self.path, 1, room - width_of(files))
        elif room - width_of(kept.format(path="")) < width_of(files):
            files = ""
        spans += [StyledSpan(files, "divider", fold)] if files else []
        line = ruled(spans, page.width)
        return [*air(self.joined), line, *(self._inside(page) if self.unfolded else ())]


def _with_link(template: str, path: str, line: int, room: int, **values: object) -> list[StyledSpan]:
    """Return `template` in `room` cells; its `{path}` opens at `line`."""
    before, after = (part.format(**values) for part in template.split("{path}"))
    shown = isolate(middle(clean_line(path), room - width_of(before) - width_of(after)))
    spans = (
        StyledSpan(before, "divider"),
        StyledSpan(shown, "note-quiet", note_link(path, line)),
        StyledSpan(after, "divider"),
    )
    return [span for span in spans if span.text]


def _files(count: int) -> str:
    return ngettext("{n:,} file", "{n:,} files", count).format(n=count)


def memory_mark(last: Item | None, path: str, line: int, end_line: int) -> tuple[MemoryItem, bool]:
    """Return the item for a write to lines `line` to `end_line` of `path` below the item `last`, and whether it is new:
    an adjacent write extends the item above."""
    count = end_line - line + 1
    if isinstance(last, MemoryItem) and (last.path, last.line + last.count) == (path, line):
        last.count += count
        return last, False
    return MemoryItem(path, line, count, joined=is_quiet(last)), True


def is_quiet(item: Item | None) -> bool:
    """Return whether `item` is a rule-like line, which needs no blank line after it."""
    return isinstance(item, DividerItem | MemoryItem | KeptItem | FoldedItem)


def air(joined: bool) -> list[StyledLine]:
    """Return the blank line above, unless another quiet line precedes."""
    return [] if joined else [BLANK]


def _quiet(span: StyledSpan) -> StyledSpan:
    """Dim unfolded text."""
    return span._replace(style=f"tool-text {span.style}".rstrip())
