"""The layout of a tool's question: the subject, its risks, and the choices.

The subject is in a box with every character visible (`clawbot.text.visible`), wrapped so that it can be reassembled: a
row never ends with a space of the text, and the margin shows where a line begins. The rest can be scrolled to and is
counted. The choices are always shown, each with its key: as a list with a cursor, and in few rows side by side.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from rich.cells import chop_cells

from clawbot.agent.events import ApprovalRequested
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.patterns import lazy_re
from clawbot.text.visible import one_line, visible
from clawbot.tools.protocol import danger_of
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
WELL_ROWS = 6  # what the well gets before there is air, and more than a row for the details below it
AIR = 3  # blank rows: above the well, below it, above the keys
# Cells that a question needs: the longest sign fits into one row, next to the number of a line.
MIN_WIDTH = 26
MIN_ROWS = 3
TOO_SMALL = N_("The window is too small to see what is asked: nothing can be allowed here.")
DETAIL_ROWS = 3  # of each text below the well
KEY_GAP = 3
HEAD = 20  # cells that the first row keeps for who asks
SHORT_KEYS = 6  # a question of fewer rows shows its keys in a word each
DIFF_HEAD = 2  # lines that name the file
DIFF_STYLES = {"+": "added", "-": "removed", "@": "quiet"}

# White space goes with what follows it. A wide character is a unit by itself, with the marks on it.
_UNIT = lazy_re(f" *(?:⟦[^⟧]*⟧|[{WIDE}][^ -~⟦{WIDE}]*|[^ ⟦{WIDE}]+)| +$")


class PlanAsked(ApprovalRequested, frozen=True, tag="plan_asked"):
    """The question whether the plan of the last answer, shown above, is to be carried out; `command` is the message
    that accepts it. Its keys are digits: who begins to type writes what should change."""


class Seen(Struct, frozen=True):
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
        return max(0, self.total - self.top - self.room)


class Choice(Struct, frozen=True):
    """One answer: its key, what it does, and a short label."""

    key: str
    text: str
    brief: str


def choices_of(asked: ApprovalRequested) -> tuple[Choice, ...]:
    """Return the answers that `asked` has: a change of a file is not edited here, and not everything has a rule or is
    kept from the network."""
    if isinstance(asked, PlanAsked):
        return (
            Choice("1", _("accept, ask before each change"), _("ask first")),
            Choice("2", _("accept, change without asking"), _("change")),
            Choice("3", _("no: say what should change"), _("no")),
        )
    choices = [Choice("y", _("until you quit") if asked.asks else _("once"), _("once"))]
    if asked.network:
        choices.append(Choice("w", _("once, with network"), _("net")))
    if asked.pattern:
        choices.append(Choice("a", _always(asked), _("always")))
    choices.append(Choice("n", _("no"), _("no")))
    if not asked.diff and not asked.asks:
        choices.append(Choice("e", _("edit first"), _("edit")))
    return tuple(choices)


def view_of(asked: ApprovalRequested, width: int, height: int, seen: Seen, chosen: str = "") -> View:
    """Return `asked` in at most `height` rows of `width` cells, with the cursor on the choice `chosen`. If that is
    less than the minimum, nothing of it is shown."""
    if width < MIN_WIDTH or height < MIN_ROWS:
        refusal = [
            StyledSpan("3" if isinstance(asked, PlanAsked) else "n", "key"),
            *shown_spans(f" {_('no')} ", "label"),
        ]
        rows = wrap([*refusal, *shown_spans(_(TOO_SMALL), "urgent")], max(1, width))[: max(1, height)]
        return View(tuple(StyledLine(tuple(row)) for row in rows), 1, 0, 0)
    if isinstance(asked, PlanAsked):
        list_fits = height > len(choices_of(asked)) + 1
        keys = [BLANK, *_list(asked, width, chosen)] if list_fits else _keys(asked, width, chosen, short=True)
        return View((_head(asked, width, ("", ""), urgent=False), *keys), 1, 1, 0)
    well = rows_of(asked, width)
    keys = _choices(asked, width, height, chosen, min(len(well), WELL_ROWS))
    spare = height - 1 - len(keys)
    air, details = _details(asked, width, spare, min(len(well), WELL_ROWS))
    if not details:
        # Risks without room below the box are in it: nothing can be allowed before its end was shown.
        well += tuple(_paragraph(*_texts(asked)[0], width))
    room = max(1, min(len(well), spare - air - len(details)))
    top = max(0, min(seen.top, len(well) - room))
    below = len(well) - top - room
    unread = 0 if seen.all_seen else below
    if unread:  # as many rows, so that nothing jumps when the end is reached
        reading = (Choice("y", _("reads on, {n:,} below").format(n=unread), ""), Choice("n", _("no"), ""))
        keys = [*_row_up(reading, width, "", short=True), *[BLANK] * (len(keys) - 1)]
    gap = [BLANK] if air else []
    head = _head(asked, width, _count(asked, len(well), top, room), urgent=unread > 0)
    lines = [head, *gap, *well[top : top + room], *gap, *details, *gap, *keys]
    return View(tuple(lines), len(well), room, top)


@lru_cache(maxsize=4)
def rows_of(asked: ApprovalRequested, width: int) -> tuple[StyledLine, ...]:
    """Return the rows of the box: the command, or the diff of a file."""
    lines = visible(asked.diff or asked.command).split("\n")
    digits = len(str(len(lines)))
    found: list[StyledLine] = []
    for number, line in enumerate(lines, 1):
        if asked.diff:
            first, more = "  ", "⋯ "
            style = "quiet" if number <= DIFF_HEAD else DIFF_STYLES.get(line[:1], "")
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
            *full, row = chop_cells(unit, width) if cells > width else [unit]
            rows += full
            used = width_of(row)
        else:
            row += unit
            used += cells
    return [*rows, row]


def _count(asked: ApprovalRequested, total: int, top: int, room: int) -> tuple[str, str]:
    """Return `41 lines, 31 below`, and a short form; empty if everything is visible."""
    if room >= total:
        return "", ""
    lines = (asked.diff or asked.command).count("\n") + 1
    many = ngettext("{n:,} line", "{n:,} lines", lines).format(n=lines)
    above = [_("{n:,} above").format(n=top)] if top else []
    below = [_("{n:,} below").format(n=total - top - room)] if top + room < total else []
    parts = [many if lines == total else _("{lines} in {rows:,} rows").format(lines=many, rows=total), *above, *below]
    return ", ".join(parts), (below or above)[0]


def _head(asked: ApprovalRequested, width: int, counts: tuple[str, str], *, urgent: bool) -> StyledLine:
    spans = shown_spans(asked.asks or _who(asked), "question")
    count = counts[0] if width_of(counts[0]) + HEAD <= width else counts[1]
    if not count:
        return StyledLine(tuple(cut_spans(spans, width)))
    spans = cut_spans(spans, width - width_of(count) - 2)
    gap = " " * max(2, width - cells_of(spans) - width_of(count))
    return StyledLine((*spans, StyledSpan(gap), StyledSpan(count, "urgent" if urgent else "quiet")))


def _who(asked: ApprovalRequested) -> str:
    if asked.by:
        text = _("the sub-agent “{agent}” asks to run by {tool}")
        if asked.diff:
            text = _("the sub-agent “{agent}” asks to {change}")
    else:
        text = _("the model asks to {change}") if asked.diff else _("{tool} asks to run")
        text = _("Run this command?") if asked.tool == "shell" and not asked.diff else text
    return text.format(agent=one_line(asked.by), tool=one_line(asked.tool), change=one_line(asked.command))


def _details(asked: ApprovalRequested, width: int, spare: int, least: int) -> tuple[int, list[StyledLine]]:
    """Return the rows below the box (risks, and what the command can touch), and the number of blank rows. Of `spare`
    rows the box gets `least`: without room, blank rows are dropped first and the risks last, which are never cut."""
    hint, reach = (_paragraph(*text, width) for text in _texts(asked))
    for air, rows, box in ((AIR, DETAIL_ROWS, least), (0, DETAIL_ROWS, least), (0, 1, least), (0, 0, least), (0, 0, 1)):
        details = [*hint, *_at_most(reach, rows, width)]
        if air + len(details) <= spare - box:
            return air, details
    return 0, []


def _texts(asked: ApprovalRequested) -> tuple[tuple[str, str], tuple[str, str]]:
    hint = _("hint: {risks}").format(risks=_(", ").join(map(_, asked.risks))) if asked.risks else ""
    folder = _("in {folder}").format(folder=_short(asked.folder)) if asked.folder else ""
    reach = " · ".join(filter(None, (folder, asked.reach)))
    return (hint, "danger" if danger_of(asked.risks) == "grave" else "hint"), (reach, "quiet")


def _short(folder: str) -> str:
    """Return `folder`, the user's home written as ~."""
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if f"{folder}/".startswith(f"{home}/") else folder


def _paragraph(text: str, style: str, width: int) -> list[StyledLine]:
    lines = wrap(shown_spans(visible(text, one_line=True, blanks=False), style), width) if text else []
    return [StyledLine(tuple(line)) for line in lines]


def _at_most(lines: list[StyledLine], rows: int, width: int) -> list[StyledLine]:
    """Return at most `rows` of `lines`; a cut is marked."""
    if len(lines) <= rows or not rows:
        return lines[:rows]
    rest = [span for line in lines[rows - 1 :] for span in (*line.spans, StyledSpan(" ", line.spans[-1].style))]
    return [*lines[: rows - 1], StyledLine(tuple(cut_spans(rest, width)))]


def _choices(asked: ApprovalRequested, width: int, height: int, chosen: str, least: int) -> list[StyledLine]:
    """Return the choices as a list where all else keeps its room and its air, else side by side."""
    rows = _list(asked, width, chosen)
    air, _ = _details(asked, width, height - 1 - len(rows), least)
    return rows if air else _keys(asked, width, chosen, short=height < SHORT_KEYS)


def _list(asked: ApprovalRequested, width: int, chosen: str) -> list[StyledLine]:
    rows = []
    for choice in choices_of(asked):
        cursor = StyledSpan("❯ " if choice.key == chosen else "  ", "key")
        rows.append(StyledLine(tuple(cut_spans([cursor, *_choice_spans(choice.key, choice.text, "", chosen)], width))))
    return rows


def _keys(asked: ApprovalRequested, width: int, chosen: str, *, short: bool) -> list[StyledLine]:
    choices = choices_of(asked)
    fits = {each.key: not short and cells_of(_choice_spans(each.key, each.text, "", "")) <= width for each in choices}
    choices = tuple(each if fits[each.key] else Choice(each.key, each.brief, each.brief) for each in choices)
    return _row_up(choices, width, chosen, short=short)


def _row_up(choices: tuple[Choice, ...], width: int, chosen: str, *, short: bool) -> list[StyledLine]:
    text = [cut_spans(_choice_spans(each.key, each.text, "chosen", chosen), width) for each in choices]
    cells = sum(map(cells_of, text))
    gap = KEY_GAP if not short or cells + KEY_GAP * (len(text) - 1) <= width else 1
    rows = [tuple(text[0])]
    for spans in text[1:]:
        if not short and cells_of(rows[-1]) + gap + cells_of(spans) > width:
            rows.append(tuple(spans))
        else:
            rows[-1] = (*rows[-1], StyledSpan(" " * gap), *spans)
    return [StyledLine(tuple(cut_spans(row, width))) for row in rows]


def _choice_spans(key: str, text: str, mark: str, chosen: str) -> list[StyledSpan]:
    """Return a key and what it does; the one that is `chosen` with the style `mark` added to its own."""
    also = f" {mark}" if mark and key == chosen else ""
    return [StyledSpan(key, f"key{also}"), *shown_spans(f" {text}", f"label{also}")]


def _always(asked: ApprovalRequested) -> str:
    if asked.pattern == asked.command:
        return _("yes, and this without asking until I quit")
    pattern = one_line(asked.pattern.replace("<reading>", "…"))
    return _("yes, “{pattern}” without asking until I quit").format(pattern=pattern)
