"""The items of the transcript: messages with their times, notices, dividers (tool calls: `cards`).

An item is a value with a few switches; `lines` is pure, so that the page can cache the result.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import astuple
from rich.cells import chop_cells

from clawbot.agent.events import Level
from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean, clean_line, isolate
from clawbot.tui.render.call_titles import summary_words
from clawbot.tui.render.lines import (
    BLANK,
    StyledLine,
    StyledSpan,
    cells_of,
    code_spans,
    ellipsis,
    note_link,
    plain_spans,
    width_of,
    wrap,
)
from clawbot.tui.render.markdown_blocks import Lexers, MarkdownBlock

FOLD = "fold:"
USER_CHARS = 8000  # of what the user sent, unfolded
PASTE_CHARS, PASTE_LINES = 2000, 25  # of the user's words; more are folded
END_CHARS, END_LINES = 400, 3  # shown of both ends of them then
USER_BAR = " ▌ "  # left of the user's words
USER_AIR = 60  # cells of a page from which on their ground is padded
TEXT_INDENT = 3
WAIT_SIGN = "●"
RULE_EDGES = 6  # cells of a rule around the text inside


class Page(Struct, frozen=True):
    """The context in which items render their lines."""

    width: int
    lexers: Lexers
    show_reasoning: bool = False
    unfold_key: str = "ctrl+o"


class Item(ABC):
    """One item of the transcript. `fresh` counts as new for a user who has scrolled up; `entry` is the id of its stored
    message, "" if unknown."""

    entry = ""
    fresh = False
    unfolded = False

    @property
    def can_unfold(self) -> bool:
        """Whether there is more of it than is shown when it is folded."""
        return False

    @abstractmethod
    def lines(self, page: Page) -> list[StyledLine]:
        """Return its lines, air above included, at most `page.width` wide."""

    def guess(self, width: int) -> int:
        """Return about how many lines it takes, without rendering it."""
        return 1


def spread(left: Sequence[StyledSpan], right: Sequence[StyledSpan], width: int) -> StyledLine:
    """Return `left` and `right` at both ends of one line; `right` is dropped if there is no room."""
    room = width - cells_of((*left, *right))
    if room < 1:
        return StyledLine(tuple(left))
    return StyledLine((*left, StyledSpan(" " * room), *right))


def ruled(spans: Sequence[StyledSpan], width: int) -> StyledLine:
    """Return `spans` inside a rule across the page; they leave `RULE_EDGES` cells to it."""
    rest = max(0, width - cells_of(spans) - 4)
    return StyledLine((StyledSpan(" ─ ", "rule"), *spans, StyledSpan(" " + "─" * rest, "rule")))


def indented(lines: Sequence[StyledLine], cells: int = TEXT_INDENT) -> list[StyledLine]:
    """Return `lines` moved to the right."""
    margin = StyledSpan(" " * cells)
    return [StyledLine((margin, *line.spans), line.fill) for line in lines]


@dataclass
class HeadItem(Item):
    """The air above a message, with the `time` at its right, "" if that was shown above. `entry_id` is the
    transcript entry of the user's words below; `by_user` is false above a reply."""

    time: str
    by_user: bool = False
    entry_id: str = ""
    fresh = True

    def lines(self, page: Page) -> list[StyledLine]:
        return [spread((), [StyledSpan(self.time, "time")], page.width) if self.time else BLANK]


@dataclass
class UserItem(Item):
    """A user message as typed, with a bar and a ground of its own: no Markdown, but URLs become links. Of a long one,
    which was pasted, the beginning and the end are shown until it is unfolded."""

    text: str
    unfolded: bool = False

    @property
    def can_unfold(self) -> bool:
        """Whether it is too long to be read again on the page."""
        return len(self.text) > PASTE_CHARS or self.text.count("\n") > PASTE_LINES

    def lines(self, page: Page) -> list[StyledLine]:
        room = page.width - TEXT_INDENT
        lines = self._folded(room) if self.can_unfold and not self.unfolded else self._full(room)
        air: list[tuple[StyledSpan, ...]] = [()] if page.width >= USER_AIR else []
        bar = StyledSpan(USER_BAR, "user you")
        return [StyledLine((bar, *line), "user") for line in (*air, *lines, *air)]

    def _full(self, room: int) -> list[tuple[StyledSpan, ...]]:
        spans = list(plain_spans(clean(self.text[:USER_CHARS]).expandtabs(4), "user"))
        if len(self.text) > USER_CHARS:
            left = len(self.text) - USER_CHARS
            text = ngettext("… {n:,} more character was sent", "… {n:,} more characters were sent", left)
            spans.append(StyledSpan(f"\n{text.format(n=left)}", "user tool"))
        fold = [(StyledSpan(_("▾ folds"), "user tool", FOLD),)] if self.can_unfold else []
        return [*fold, *wrap(spans, room)]

    def _folded(self, room: int) -> list[tuple[StyledSpan, ...]]:
        """Return its ends: what the user wrote himself is before or behind what was pasted."""
        begin, end = (clean(part).expandtabs(4) for part in (self.text[:END_CHARS], self.text[-END_CHARS:]))
        first = wrap(list(plain_spans(begin.strip("\n"), "user")), room)[:END_LINES]
        last = wrap(list(plain_spans(end.strip("\n"), "user")), room)[-END_LINES:]
        rows = self.text.count("\n") + 1
        text = _("▸ … {lines:,} lines, {characters:,} characters") if rows > 1 else _("▸ … {characters:,} characters")
        size = text.format(lines=rows, characters=len(self.text))
        return [*first, (StyledSpan(ellipsis(size, room), "user tool", FOLD),), *last]

    def guess(self, width: int) -> int:
        if self.can_unfold and not self.unfolded:
            return 2 * END_LINES + 3
        shown = self.text[:USER_CHARS]
        return shown.count("\n") + len(shown) // max(1, width) + 3


@dataclass
class MarkdownItem(Item):
    """One block of Markdown. `first` follows its speaker without a blank line; `style` applies to everything (discarded
    text)."""

    block: MarkdownBlock
    first: bool = False
    style: str = ""

    def lines(self, page: Page) -> list[StyledLine]:
        lines = indented(self.block.lines(page.width - TEXT_INDENT, page.lexers))
        if self.style:
            lines = [StyledLine(tuple(span._replace(style=self.style) for span in line.spans)) for line in lines]
        if self.first or not self.block.gap:
            return lines
        return [*indented([StyledLine(self.block.indent.air)]), *lines]

    def guess(self, width: int) -> int:
        return 2


@dataclass
class ReasoningItem(Item):
    """The model's reasoning; shown on request."""

    text: str

    def lines(self, page: Page) -> list[StyledLine]:
        if not page.show_reasoning or not self.text.strip():
            return []
        spans = [StyledSpan(isolate(clean(self.text).strip().expandtabs(4)), "reasoning")]
        return [BLANK, *indented([StyledLine(line) for line in wrap(spans, page.width - TEXT_INDENT)])]


@dataclass
class NoticeItem(Item):
    """An event of no turn."""

    level: Level
    text: str
    path: str = ""
    line: int | None = None
    fresh = True

    def lines(self, page: Page) -> list[StyledLine]:
        """Return one quiet line; a warning or an error may take several."""
        mark = {"info": "·", "warning": "!", "error": "✕"}[self.level]
        link = note_link(self.path, self.line) if self.path else ""
        is_named = PurePosixPath(self.path).name in self.text
        spans = code_spans(line_break(clean(self.text)), f"notice-{self.level}", link if is_named else "")
        if link and not is_named:
            spans += [StyledSpan("  "), StyledSpan(self.path, "note", link)]
        lines = wrap(spans, page.width - TEXT_INDENT - 2)
        marks = [
            StyledSpan(f"   {mark} ", f"notice-{self.level}"),
            *[StyledSpan(" " * (TEXT_INDENT + 2))] * (len(lines) - 1),
        ]
        return [BLANK, *(StyledLine((mark, *line)) for mark, line in zip(marks, lines, strict=True))]


def line_break(text: str) -> str:
    """Return `text` without empty lines at its ends."""
    return text.strip("\n")


@dataclass
class DividerItem(Item):
    """A line across the page: the session changed, another model answers."""

    text: str

    def lines(self, page: Page) -> list[StyledLine]:
        return [
            BLANK,
            ruled([StyledSpan(ellipsis(clean_line(self.text), page.width - RULE_EDGES), "divider")], page.width),
        ]


@dataclass
class MarkItem(Item):
    """A remark on the reply above: interrupted, or cut off at the length limit."""

    text: str
    style: str = "mark"

    def lines(self, page: Page) -> list[StyledLine]:
        return indented(
            [StyledLine(line) for line in wrap([StyledSpan(clean(self.text), self.style)], page.width - TEXT_INDENT)]
        )


@dataclass
class WaitItem(Item):
    """The last line of a turn that runs: what the machine does, and in `figures` for how long. It remains without a
    sign, `over`, until the next turn. The sign pulses: `lit` or not."""

    text: str
    figures: str = ""
    over: bool = False
    lit: bool = True

    def lines(self, page: Page) -> list[StyledLine]:
        sign = StyledSpan(f"{WAIT_SIGN} ", "card-runs" if self.lit else "card-waits")
        text = ellipsis(clean_line(self.text), max(10, page.width - TEXT_INDENT - 2 - width_of(self.figures)))
        spans = [StyledSpan(text, "tool-text"), StyledSpan(self.figures, "tool")]
        return [BLANK, *indented([StyledLine(tuple(spans) if self.over else (sign, *spans))])]

    def guess(self, width: int) -> int:
        return 2


MAX_CHARS = 20_000  # of an item that is shown as plain text

log = logging.getLogger(__name__)
T = TypeVar("T")


def attempt(make: Callable[[], T], instead: Callable[[str], T]) -> T:
    """Return what `make` returns. If it raises, log the error and return `instead` of the line that reports it."""
    try:
        return make()
    except Exception as error:
        log.exception("A part of the page is shown as plain text")
        reason = clean_line(str(error), 200) or type(error).__name__
        return instead(_("Shown as plain text, since it could not be drawn: {error}").format(error=reason))


def drawn(item: Item, page: Page) -> list[StyledLine]:
    """Return the lines of `item`; its text and the error if it can't be drawn."""
    return attempt(lambda: item.lines(page), lambda report: _plain(item, report, page.width))


def _plain(item: Item, report: str, width: int) -> list[StyledLine]:
    text = clean("\n".join(_texts(item))[:MAX_CHARS])
    rows = [part for row in text.split("\n") for part in chop_cells(row, width)]
    return [StyledLine((StyledSpan(row, style),)) for row, style in [*((row, "") for row in rows), (report, "mark")]]


def _texts(value: object) -> Iterator[str]:
    match value:
        case StyledSpan():
            yield value.text
        case str():
            yield value
        case tuple() | list():
            for part in value:
                yield from _texts(part)
        case Struct():
            yield from _texts(astuple(value))
        case Item() if is_dataclass(value):
            yield from _texts([getattr(value, field.name) for field in fields(value) if field.name != "style"])


APART = "  "


@dataclass
class ChipsItem(Item):
    """The names of what is attached, each in a field of its own, as many in a line as there is room for."""

    names: tuple[str, ...]

    def lines(self, page: Page) -> list[StyledLine]:
        room = page.width - TEXT_INDENT
        rows: list[list[StyledSpan]] = [[]]
        used = 0
        for name in self.names:
            chip = f" @{ellipsis(isolate(clean_line(_display_name(name))), max(1, room - 3))} "
            width = width_of(chip)
            if rows[-1] and used + len(APART) + width > room:
                rows.append([])
                used = 0
            if rows[-1]:
                rows[-1].append(StyledSpan(APART))
                used += len(APART)
            rows[-1].append(StyledSpan(chip, "code-inline"))
            used += width
        return indented([StyledLine(tuple(row)) for row in rows])


def _display_name(name: str) -> str:
    """Return a name with how much of it is attached (`a.md · 12 lines`)."""
    file, between, size = name.rpartition(" · ")
    return f"{file}{between}{summary_words(size)}"


def chips(names: Sequence[str]) -> list[Item]:
    """Return the item for `names`, if there are any."""
    return [ChipsItem(tuple(names))] if names else []
