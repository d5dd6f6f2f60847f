"""The layout of a tool's question: the subject, its risks, and the keys.

The subject is in a box with every character visible (`clawbot.text.visible`), wrapped so that it can be reassembled: a
row never ends with a space of the text, and the margin shows where a line begins. The rest can be scrolled to and is
counted. The keys are always shown.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from rich.cells import chop_cells

from clawbot.agent.events import ApprovalRequested
from clawbot.text.patterns import lazy_re
from clawbot.text.visible import one_line, visible
from clawbot.tui.render.lines import (
    BLANK,
    WIDE,
    StyledLine,
    StyledSpan,
    cells_of,
    cut_spans,
    shown_spans,
    width_of,
    wrap,
)

WELL = "well"  # the style of the ground under what is asked about
WELL_ROWS = 6  # what the well gets before there is air, and more than a row for what is told below it
AIR = 3  # blank rows: above the well, below it, above the keys
# Cells that a question needs: the longest sign stands in one row, beside the number of a line.
LEAST_WIDTH = 26
LEAST_ROWS = 3
TOO_SMALL = "The window is too small to see what is asked: nothing can be allowed here."
HINT_AT = 3  # rows that the well and the hint share at least
TOLD_ROWS = 3  # of each text below the well
KEY_GAP = 3
HEAD = 20  # cells that the first row keeps for who asks
SHORT_KEYS = 6  # a question of fewer rows says its keys in a word each
DIFF_HEAD = 2  # lines that name the file
DIFF_STYLES = {"+": "added", "-": "removed", "@": "quiet"}

# White space goes with what follows it. A wide character stands for itself, with the marks on it.
_UNIT = lazy_re(f" *(?:⟦[^⟧]*⟧|[{WIDE}][^ -~⟦{WIDE}]*|[^ ⟦{WIDE}]+)| +$")


class Looked(Struct, frozen=True):
    """How far the user has read: the first visible row of the box, and whether its end was shown."""

    top: int = 0
    all_seen: bool = False


class View(Struct, frozen=True):
    """A rendered question. The box has `total` rows, of which `room` are visible from `top` on."""

    lines: tuple[StyledLine, ...]
    total: int
    room: int
    top: int

    @property
    def below(self) -> int:
        """The number of rows of the box below the view."""
        return max(0, self.total - self.top - self.room)


def lay_out(asked: ApprovalRequested, width: int, height: int, looked: Looked) -> View:
    """`asked` in at most `height` rows of `width` cells. If that is less than the minimum, nothing of it is shown."""
    if width < LEAST_WIDTH or height < LEAST_ROWS:
        refusal = [StyledSpan("n", "key"), *shown_spans(" no ", "label")]
        rows = wrap([*refusal, *shown_spans(TOO_SMALL, "urgent")], max(1, width))[: max(1, height)]
        return View(tuple(StyledLine(tuple(row)) for row in rows), 1, 0, 0)
    well = rows_of(asked, width)
    short = height < SHORT_KEYS
    keys = _keys(asked, width, short=short)
    spare = height - 1 - len(keys)
    air, told = _told(asked, width, spare, min(len(well), WELL_ROWS))
    room = max(1, min(len(well), spare - air - len(told)))
    top = max(0, min(looked.top, len(well) - room))
    below = len(well) - top - room
    unread = 0 if looked.all_seen else below
    if unread:  # as many rows, so that nothing jumps when the end is reached
        keys = [*_keys(asked, width, short=short, unread=unread), *[BLANK] * (len(keys) - 1)]
    gap = [BLANK] if air else []
    head = _head(asked, width, _count(asked, len(well), top, room), urgent=unread > 0)
    lines = [head, *gap, *well[top : top + room], *gap, *told, *gap, *keys]
    return View(tuple(lines), len(well), room, top)


@lru_cache(maxsize=4)
def rows_of(asked: ApprovalRequested, width: int) -> tuple[StyledLine, ...]:
    """The rows of the box: the command, or the diff of a file."""
    lines = visible(asked.diff or asked.command).split("\n")
    digits = len(str(len(lines)))
    found: list[StyledLine] = []
    for number, line in enumerate(lines, 1):
        if asked.diff:
            first, more, style = "  ", "⋯ ", _diff_style(line, number)
        else:
            mark = "  " if asked.asks else "$ "
            first, more, style = f"{number:>{digits}} " if len(lines) > 1 else mark, " " * (digits + 1), ""
        for row in fold(line, width - len(first) - 2):
            found.append(StyledLine((StyledSpan(f" {first}", "gutter"), *shown_spans(row, style)), WELL))
            first = more
    return tuple(found)


def fold(shown: str, width: int) -> list[str]:
    """Wrap `shown`, one line, into rows of at most `width` cells that concatenate to the line. Rows break before
    whitespace, so that missing whitespace at the end is impossible."""
    rows: list[str] = []
    row, used = "", 0
    for unit in _UNIT.findall(shown):
        cells = width_of(unit)
        if used + cells > width:
            rows += [row] if row else []
            *whole, row = chop_cells(unit, width) if cells > width else [unit]
            rows += whole
            used = width_of(row)
        else:
            row += unit
            used += cells
    return [*rows, row]


def _diff_style(line: str, number: int) -> str:
    return "quiet" if number <= DIFF_HEAD else DIFF_STYLES.get(line[:1], "")


def _count(asked: ApprovalRequested, total: int, top: int, room: int) -> tuple[str, str]:
    """`41 lines, 31 below`, and a short form; empty if everything is visible."""
    if room >= total:
        return "", ""
    lines = (asked.diff or asked.command).count("\n") + 1
    many = f"{lines:,} lines" if lines > 1 else "1 line"
    above = [f"{top:,} above"] if top else []
    below = [f"{total - top - room:,} below"] if top + room < total else []
    parts = [many if lines == total else f"{many} in {total:,} rows", *above, *below]
    return ", ".join(parts), (below or above)[0]


def _head(asked: ApprovalRequested, width: int, counts: tuple[str, str], *, urgent: bool) -> StyledLine:
    what = f"the model asks to {one_line(asked.command)}" if asked.diff else f"{one_line(asked.tool)} asks to run"
    if asked.by:
        who = f"the sub-agent “{one_line(asked.by)}”"
        what = f"{who} asks to {one_line(asked.command)}" if asked.diff else f"{who} asks to run by {asked.tool}"
    spans = shown_spans(asked.asks or what, "question")
    count = counts[0] if width_of(counts[0]) + HEAD <= width else counts[1]
    if not count:
        return StyledLine(tuple(cut_spans(spans, width)))
    spans = cut_spans(spans, width - width_of(count) - 2)
    gap = " " * max(2, width - cells_of(spans) - width_of(count))
    return StyledLine((*spans, StyledSpan(gap), StyledSpan(count, "urgent" if urgent else "quiet")))


def _told(asked: ApprovalRequested, width: int, spare: int, least: int) -> tuple[int, list[StyledLine]]:
    """The rows below the box (risks, and what the command can touch), and the number of blank rows. Of `spare` rows the
    box gets `least`: without room, blank rows are dropped first and the risks last."""
    hint = f"hint: {', '.join(asked.risks)}" if asked.risks else ""
    reach = " · ".join(part for part in (asked.folder and f"in {asked.folder}", asked.reach) if part)
    texts = [(hint, "hint"), (reach, "quiet")]
    for air, rows in ((AIR, TOLD_ROWS), (0, TOLD_ROWS), (0, 1)):
        told = [line for text, style in texts for line in _paragraph(text, style, width, rows)]
        if air + len(told) <= spare - least:
            return air, told
    return 0, told[:1] if hint and spare >= HINT_AT else []


def _paragraph(text: str, style: str, width: int, rows: int) -> list[StyledLine]:
    """`text` in at most so many rows; a cut is seen."""
    if not text:
        return []
    lines = wrap(shown_spans(visible(text, one_line=True, blanks=False), style), width)
    if len(lines) > rows:
        rest = [span for line in lines[rows - 1 :] for span in (*line, StyledSpan(" ", style))]
        lines = [*lines[: rows - 1], tuple(cut_spans(rest, width))]
    return [StyledLine(tuple(line)) for line in lines]


def _keys(asked: ApprovalRequested, width: int, *, short: bool, unread: int = 0) -> list[StyledLine]:
    """The valid keys: before the end was read, only a refusal. One row for those, and for `short`."""
    once = "until you quit" if asked.asks and not short else "once"
    pairs = [("y", f"reads on, {unread:,} below")] if unread else [("y", once)]
    if asked.network and not unread:
        pairs.append(("w", "network" if short else "once, with network"))
    if asked.pattern and not unread:
        pairs.append(("a", "always" if short else f"always {_pattern(asked)}"))
    pairs.append(("n", "no"))
    if not asked.diff and not asked.asks and not unread:
        pairs.append(("e", "edit" if short else "edit first"))
    said = [cut_spans([StyledSpan(key, "key"), *shown_spans(f" {text}", "label")], width) for key, text in pairs]
    cells = sum(map(cells_of, said))
    gap = KEY_GAP if not short or cells + KEY_GAP * (len(said) - 1) <= width else 1
    rows = [tuple(said[0])]
    for spans in said[1:]:
        if not short and cells_of(rows[-1]) + gap + cells_of(spans) > width:
            rows.append(tuple(spans))
        else:
            rows[-1] = (*rows[-1], StyledSpan(" " * gap), *spans)
    return [StyledLine(tuple(cut_spans(row, width))) for row in rows]


def _pattern(asked: ApprovalRequested) -> str:
    """What "always" allows; not repeated if the rule is the command itself."""
    return "this very command" if asked.pattern == asked.command else one_line(asked.pattern)
