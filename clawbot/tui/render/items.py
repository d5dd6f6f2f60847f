"""The items of the transcript: speakers, text, tool calls, notices, dividers.

An item is a value with a few switches; `lines` is pure, so that the page can cache the result.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from clawbot.agent.events import Level
from clawbot.text.sanitize import clean, clean_line, isolate
from clawbot.text.visible import visible
from clawbot.tui.render.lines import (
    BLANK,
    StyledLine,
    StyledSpan,
    cells_of,
    cut_spans,
    ellipsis,
    note_link,
    plain_spans,
    shown_spans,
    width_of,
    wrap,
)
from clawbot.tui.render.markdown_blocks import Lexers, MarkdownBlock

FOLD = "fold:"
OUTPUT_LINES = 200  # of an unfolded tool call; the transcript file holds the rest
USER_CHARS = 8000  # of what the user sent: a pasted file is not read again on the page
HITS_SHOWN = 6  # of the notes that a search found, until the call is unfolded
DIFF_STYLES = {"+": "tool-added", "-": "tool-removed", "@": "tool"}  # by the first sign of a line
TEXT_INDENT = 3
RULE_EDGES = 6  # cells of a rule around the text inside


@dataclass(frozen=True)
class Page:
    """The context in which items render their lines."""

    width: int
    lexers: Lexers
    show_reasoning: bool = False


class Item(ABC):
    """One item of the transcript. `fresh` counts as new for a user who has scrolled up; `entry` is the id of its stored
    message, "" if unknown."""

    entry = ""
    fresh = False
    can_unfold = False
    unfolded = False

    @abstractmethod
    def lines(self, page: Page) -> list[StyledLine]:
        """Its lines, air above included, at most `page.width` wide."""

    def guess(self, width: int) -> int:
        """About how many lines it takes, without rendering it."""
        return 1


def spread(left: Sequence[StyledSpan], right: Sequence[StyledSpan], width: int) -> StyledLine:
    """`left` and `right` at both ends of one line; `right` is dropped if there is no room."""
    room = width - cells_of((*left, *right))
    if room < 1:
        return StyledLine(tuple(left))
    return StyledLine((*left, StyledSpan(" " * room), *right))


def ruled(spans: Sequence[StyledSpan], width: int) -> StyledLine:
    """`spans` inside a rule across the page; they leave `RULE_EDGES` cells to it."""
    rest = max(0, width - cells_of(spans) - 4)
    return StyledLine((StyledSpan(" ─ ", "rule"), *spans, StyledSpan(" " + "─" * rest, "rule")))


def indented(lines: Sequence[StyledLine], cells: int = TEXT_INDENT) -> list[StyledLine]:
    """`lines` moved to the right."""
    margin = StyledSpan(" " * cells)
    return [StyledLine((margin, *line.spans), line.fill) for line in lines]


@dataclass
class SpeakerItem(Item):
    """Speaker and time. `entry_id` is the transcript entry of the text below, if known."""

    name: str
    time: str
    style: str = "speaker"
    entry_id: str = ""
    fresh = True

    def lines(self, page: Page) -> list[StyledLine]:
        """The name left, the time right, air above."""
        return [
            BLANK,
            spread([StyledSpan("   "), StyledSpan(self.name, self.style)], [StyledSpan(self.time, "time")], page.width),
        ]


@dataclass
class UserItem(Item):
    """A user message as typed: no Markdown, but URLs become links."""

    text: str

    def lines(self, page: Page) -> list[StyledLine]:
        """The wrapped text."""
        spans = list(plain_spans(clean(self.text[:USER_CHARS]).expandtabs(4), "user"))
        if len(self.text) > USER_CHARS:
            spans.append(StyledSpan(f"\n… {len(self.text) - USER_CHARS:,} more characters were sent", "tool"))
        return indented([StyledLine(line) for line in wrap(spans, page.width - TEXT_INDENT)])

    def guess(self, width: int) -> int:
        """By characters."""
        shown = self.text[:USER_CHARS]
        return shown.count("\n") + len(shown) // max(1, width) + 1


@dataclass
class PieceItem(Item):
    """One block of Markdown. `first` follows its speaker without a blank line; `style` applies to everything (discarded
    text)."""

    piece: MarkdownBlock
    first: bool = False
    style: str = ""

    def lines(self, page: Page) -> list[StyledLine]:
        """The piece behind the margin."""
        lines = indented(self.piece.lines(page.width - TEXT_INDENT, page.lexers))
        if self.style:
            lines = [StyledLine(tuple(span._replace(style=self.style) for span in line.spans)) for line in lines]
        if self.first or not self.piece.gap:
            return lines
        return [*indented([StyledLine(self.piece.indent.air)]), *lines]

    def guess(self, width: int) -> int:
        """A piece is rarely long."""
        return 2


@dataclass
class ReasoningItem(Item):
    """The model's reasoning; shown on request."""

    text: str

    def lines(self, page: Page) -> list[StyledLine]:
        """Quiet text, or nothing."""
        if not page.show_reasoning or not self.text.strip():
            return []
        spans = [StyledSpan(isolate(clean(self.text).strip().expandtabs(4)), "reasoning")]
        return [BLANK, *indented([StyledLine(line) for line in wrap(spans, page.width - TEXT_INDENT)])]


@dataclass(frozen=True)
class NoteHit:
    """A hit in a note: `text` starts at `line`. Lines of other files (transcripts) can't be opened."""

    path: str
    line: int
    text: str


@dataclass
class ToolItem(Item):
    """A tool call: one quiet line that unfolds to arguments and output. `right` is the end of the line.

    The `hits` of a memory search are listed below and unfold to their text; the `excerpt` of a note, and `notes` on
    either, are shown when unfolded. They replace the output, which is meant for the model; for other tools `notes` is
    None.
    """

    name: str
    title: str
    arguments: dict[str, Any] = field(default_factory=dict)
    output: str | None = None
    right: str = "…"
    is_error: bool = False
    hits: tuple[NoteHit, ...] = ()
    excerpt: NoteHit | None = None
    notes: tuple[str, ...] | None = None
    diff: str = ""  # what it changed; stands for the arguments and the output
    joined: bool = False  # another call stands right above
    unfolded: bool = False
    can_unfold = True

    def lines(self, page: Page) -> list[StyledLine]:
        """The line of the call, and what is unfolded under it."""
        mark = "▾" if self.unfolded else "▸"
        style = "tool-error" if self.is_error else "tool"
        right = clean_line(self.right)
        room = page.width - TEXT_INDENT - 2 - width_of(right) - 2
        head = [
            StyledSpan("   "),
            StyledSpan(f"{mark} ", "tool-mark", FOLD),
            *cut_spans(shown_spans(self.title, style, FOLD), room),
        ]
        lines = [] if self.joined else [BLANK]
        lines.append(spread(head, [StyledSpan(right, style)], page.width))
        shown = self.hits if self.unfolded else self.hits[:HITS_SHOWN]
        lines += _capped([line for hit in shown for line in self._hit(hit, page)])
        if len(shown) < len(self.hits):
            lines.append(
                StyledLine((StyledSpan("       "), StyledSpan(f"… {len(self.hits) - len(shown)} more", "tool", FOLD)))
            )
        return lines + self._inside(page) if self.unfolded else lines

    def _hit(self, hit: NoteHit, page: Page) -> list[StyledLine]:
        place = _place(hit)
        room = page.width - TEXT_INDENT - 4 - width_of(place.text) - 3
        text = clean_line(hit.text)
        head = (StyledSpan("       "), place)
        if self.unfolded and ("\n" in hit.text.strip("\n") or width_of(text) > room):
            inner = TEXT_INDENT + 6
            spans = [StyledSpan(isolate(line_break(clean(hit.text)).expandtabs(4)), "tool-text")]
            return [StyledLine(head), *indented([StyledLine(line) for line in wrap(spans, page.width - inner)], inner)]
        return [StyledLine((*head, StyledSpan("   "), StyledSpan(ellipsis(isolate(text), room), "tool")))]

    def _inside(self, page: Page) -> list[StyledLine]:
        room = page.width - TEXT_INDENT - 4
        lines = self._changes(room) if self.diff else self._call(room)
        return indented(_capped(lines), TEXT_INDENT + 2)

    def _changes(self, room: int) -> list[StyledLine]:
        lines: list[StyledLine] = []
        for row in clean(self.diff[: OUTPUT_LINES * max(room, 80)]).expandtabs(4).splitlines():
            style = "tool-text" if row.startswith(("+++", "---")) else DIFF_STYLES.get(row[:1], "tool-text")
            lines += [StyledLine(line) for line in wrap([StyledSpan(row, style)], room)]
        return lines

    def _call(self, room: int) -> list[StyledLine]:
        lines: list[StyledLine] = []
        for key, value in self.arguments.items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            name = StyledSpan(f"{clean_line(key)}: ", "tool")
            if key == "command":  # as it was asked about
                spans = [name, *shown_spans(visible(shown), "tool-text", one_line=False)]
            else:
                spans = [name, StyledSpan(isolate(clean(shown).expandtabs(4)), "tool-text")]
            lines += [StyledLine(line) for line in wrap(spans, room)]
        if self.notes is not None:
            told = self._told(room)
        else:
            told = self._output(room) if self.output is not None and not self.hits else []
        return [*lines, StyledLine((StyledSpan("─" * 8, "rule"),)), *told] if told else lines

    def _told(self, room: int) -> list[StyledLine]:
        """The excerpt under its place, each line with its number, and the notes."""
        lines = _numbered(self.excerpt, room) if self.excerpt is not None else []
        for note in self.notes or ():
            lines += [StyledLine(line) for line in wrap([StyledSpan(isolate(clean_line(note)), "tool")], room)]
        return lines

    def _output(self, room: int) -> list[StyledLine]:
        text = clean(self.output or "").expandtabs(4).rstrip("\n")
        # Only what can be shown is wrapped: an output may be megabytes long.
        text = text[: OUTPUT_LINES * max(room, 80)]
        style = "tool-error" if self.is_error else "tool-text"
        spans = list(plain_spans(text or "(no output)", style))
        return [StyledLine(line) for line in wrap(spans, room)]


def _numbered(place: NoteHit, room: int) -> list[StyledLine]:
    rows = clean(place.text).expandtabs(4).split("\n")
    lines = [StyledLine((_place(place),))]
    digits = len(str(place.line + len(rows) - 1))
    for number, row in enumerate(rows[:OUTPUT_LINES], place.line):
        margin = StyledSpan(f"{number:>{digits}}  ", "tool")
        for line in wrap([StyledSpan(isolate(row), "tool-text")], room - digits - 2):
            lines.append(StyledLine((margin, *line)))
            margin = StyledSpan(" " * (digits + 2))
    return lines


def _place(hit: NoteHit) -> StyledSpan:
    """Where it is: a link that opens the note there."""
    link = note_link(hit.path, hit.line) if hit.path.endswith(".md") else ""
    return StyledSpan(f"{clean_line(hit.path)}:{hit.line}", "note" if link else "tool", link)


def _capped(lines: list[StyledLine]) -> list[StyledLine]:
    more = len(lines) - OUTPUT_LINES
    if more <= 0:
        return lines
    return [*lines[:OUTPUT_LINES], StyledLine((StyledSpan(f"… {more:,} more lines", "tool"),))]


@dataclass
class NoticeItem(Item):
    """An event beside the conversation."""

    level: Level
    text: str
    path: str = ""
    line: int | None = None
    fresh = True

    def lines(self, page: Page) -> list[StyledLine]:
        """One quiet line; a warning or an error may take several."""
        mark = {"info": "·", "warning": "!", "error": "✕"}[self.level]
        spans = [StyledSpan(line_break(clean(self.text)), f"notice-{self.level}")]
        if self.path and PurePosixPath(self.path).name not in self.text:
            spans += [StyledSpan("  "), StyledSpan(self.path, "note", note_link(self.path, self.line))]
        elif self.path:
            spans = [StyledSpan(spans[0].text, spans[0].style, note_link(self.path, self.line))]
        lines = wrap(spans, page.width - TEXT_INDENT - 2)
        marks = [
            StyledSpan(f"   {mark} ", f"notice-{self.level}"),
            *[StyledSpan(" " * (TEXT_INDENT + 2))] * (len(lines) - 1),
        ]
        return [BLANK, *(StyledLine((mark, *line)) for mark, line in zip(marks, lines, strict=True))]


def line_break(text: str) -> str:
    """`text` without empty lines at its ends."""
    return text.strip("\n")


@dataclass
class DividerItem(Item):
    """A line across the page: the session changed, another model answers."""

    text: str

    def lines(self, page: Page) -> list[StyledLine]:
        """The text inside a rule."""
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
        """One quiet line right under the text."""
        return indented(
            [StyledLine(line) for line in wrap([StyledSpan(clean(self.text), self.style)], page.width - TEXT_INDENT)]
        )
