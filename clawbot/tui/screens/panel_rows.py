"""The rows of the side panel: the plan, the files that were changed, the notes that a session used, where the tokens of
the window go, the last sessions, and what each of them opens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from textual.content import Content

from clawbot.clock import age
from clawbot.config.keys import BY_NAME, KeyMap
from clawbot.context.report import ContextPart, ContextReport, coming
from clawbot.sessions.summary import SessionSummary
from clawbot.text.interface import N_, _
from clawbot.text.numbers import whole_number
from clawbot.text.sanitize import clean_line, isolate
from clawbot.tui.render.call_titles import is_note
from clawbot.tui.render.cards import NoteHit, ToolItem
from clawbot.tui.render.housekeeping import MemoryItem
from clawbot.tui.render.items import FOLD, Item, MarkdownItem
from clawbot.tui.render.lines import StyledSpan, ellipsis, location_text, middle, note_link, short, width_of
from clawbot.tui.render.markdown_blocks import Flow, MarkdownTable
from clawbot.tui.screens.context import FIXED, NO_STYLE, STYLES, bar
from clawbot.tui.widgets.status_line import Gauge

Use = Literal["found", "read", "written", "quoted"]
WORDS: dict[Use, str] = {"found": N_("found"), "read": N_("read"), "written": N_("written"), "quoted": N_("quoted")}
QUIET, TEXT = "$foreground 70%", "$foreground 85%"
# One accent, that of the conversation.
GREYS = {key: (sign, "$foreground 60%" if style == FIXED else style) for key, (sign, style) in STYLES.items()}
LEVELS = {"meter-warning": "$text-warning", "meter-error": "$text-error"}
SESSIONS_SHOWN = 5
BEST = 3  # of the hits of one search
HUNK = re.compile(r"@@ -\S+ \+(\d{1,9})\b")
START = {"models": "choose_model", "local_model": "run_local_model", "memory": "search_memory", "help": "help"}
STEP = re.compile(r"\s*(?:[-*+]|\d+[.)]) +(.+)")  # of a plan
STEPS_SHOWN = FILES_SHOWN = 8
FIGURES = "figures:"  # opens or folds the figures of the window
FEWEST_NOTES = 3  # that are shown where there is little room


class UsedNote(Struct, frozen=True):
    """A location in a note that the session used: `line` from 1, its `text`, and what for."""

    path: str
    line: int
    text: str
    use: Use


class ChangedFile(Struct, frozen=True):
    """A file that the session changed: `line` of the last change, from 1, and how many lines came and went in all."""

    path: str
    line: int
    added: int = 0
    removed: int = 0


class PanelRow(NamedTuple):
    """A row of the panel, and the target that it opens: "" where it is only to be read."""

    content: Content
    target: str = ""


# The notes


def used_notes(items: Iterable[Item]) -> list[UsedNote]:
    """Return the notes that `items`, oldest first, found, read, wrote or quoted: the last one first, each once."""
    found: dict[tuple[str, int], UsedNote] = {}
    for item in items:
        for used in _notes_of(item):
            note = _quoted(used, found) if used.use == "quoted" else used
            before = found.pop((note.path, note.line), None)
            # A search that finds again what was quoted adds nothing to it.
            keeps = before is not None and before.use != "found" and note.use == "found"
            found[note.path, note.line] = before if keeps and before is not None else note
    return list(reversed(found.values()))


def _notes_of(item: Item) -> Iterator[UsedNote]:
    """Return the hits of one search, the best one last."""
    match item:
        case ToolItem():
            best = [hit for hit in item.hits if hit.path.endswith(".md")][:BEST]
            yield from (_note(hit, "found") for hit in reversed(best))
            if item.excerpt is not None and item.excerpt.path.endswith(".md"):
                yield _note(item.excerpt, "read")
            yield from _touched(item)
        case MemoryItem():
            yield UsedNote(item.path, item.line, "", "written")
        case MarkdownItem():
            yield from (_linked(span.link) for span in _spans(item) if span.link.startswith("note:"))


def _touched(item: ToolItem) -> Iterator[UsedNote]:
    if item.state != "done":
        return
    path = item.arguments.get("path")
    if item.location is not None:
        yield _note(item.location, "written")
    elif isinstance(path, str) and is_note(path) and item.name in ("read", "write", "edit", "append"):
        yield _changed(path, item.diff) if item.diff else UsedNote(path, 1, "", "read")


def _changed(path: str, diff: str) -> UsedNote:
    """Return where the first change of a note begins, and its text now; headings are above what was meant."""
    line, first = 1, 0
    for row in diff.splitlines():
        if hunk := HUNK.match(row):
            line = int(hunk[1])
        elif row.startswith("+") and row[:3] != 3 * "+":
            if row[1:].strip() and not row.startswith("+#"):
                return UsedNote(path, line, row[1:], "written")
            first = first or line
            line += 1
        elif row.startswith("-") and row[:3] != 3 * "-":
            first = first or line
        elif row.startswith(" "):
            line += 1
    return UsedNote(path, max(1, first), "", "written")


def changed_files(items: Iterable[Item]) -> list[ChangedFile]:
    """Return the files that `items`, oldest first, changed, the last one first; notes are not among them."""
    found: dict[str, ChangedFile] = {}
    for item in items:
        path = item.arguments.get("path") if isinstance(item, ToolItem) and item.diff and item.state == "done" else None
        if isinstance(item, ToolItem) and isinstance(path, str) and not is_note(path):
            rows = [row[:1] for row in item.diff.splitlines() if row[:3] not in ("+" * 3, "-" * 3)]
            before = found.pop(path, ChangedFile(path, 1))
            added, removed = before.added + rows.count("+"), before.removed + rows.count("-")
            found[path] = ChangedFile(path, _changed(path, item.diff).line, added, removed)
    return list(reversed(found.values()))


def plan_steps(plan: str) -> list[str]:
    """Return the steps of a `plan` in Markdown: the entries of its lists."""
    return [
        clean_line(step[1]).replace("**", "").replace("`", "") for row in plan.splitlines() if (step := STEP.match(row))
    ]


def _note(hit: NoteHit, use: Use) -> UsedNote:
    return UsedNote(hit.path, hit.line, hit.text, use)


def _linked(target: str) -> UsedNote:
    path, _, line = target.removeprefix("note:").rpartition(":")
    return UsedNote(path, whole_number(line) or 1, "", "quoted")


def _spans(item: MarkdownItem) -> Iterator[StyledSpan]:
    match item.block:
        case Flow():
            yield from item.block.spans
        case MarkdownTable():
            yield from (span for row in item.block.rows for cell in row for span in cell)


def _quoted(note: UsedNote, found: dict[tuple[str, int], UsedNote]) -> UsedNote:
    """Return the location that an answer names, with the words of the passage around it, which it replaces."""
    for key, other in reversed(found.items()):
        rows = other.text.split("\n")
        if other.path == note.path and 0 <= note.line - other.line < len(rows):
            del found[key]
            return replace(note, text=rows[note.line - other.line])
    return note


# The rows


class PanelState(Struct, frozen=True):
    """All that the panel shows; `report` is None before the window was checked, `unfolded` shows all notes, `figures`
    where the tokens of the window go. As long as there are no messages, `keys` to begin with replace the notes and
    the window."""

    notes: Sequence[UsedNote] = ()
    gauge: Gauge = Gauge()
    report: ContextReport | None = None
    sessions: Sequence[SessionSummary] = ()
    unfolded: bool = False
    keys: KeyMap | None = None
    figures: bool = False
    plan: Sequence[str] = ()
    files: Sequence[ChangedFile] = ()


def panel_rows(state: PanelState, width: int, height: int, now: datetime) -> list[PanelRow]:
    """Return rows of at most `width` cells: as many notes as leave room for the rest in `height`, or all unfolded."""
    sessions = list(_sessions(state.sessions, width, now))
    if state.keys is not None:
        return [*_start(state.keys, width), PanelRow(Content()), *sessions]
    work = [list(_plan(state.plan, width)), list(_files(state.files, width))]
    others = [list(_context(state, width)), sessions]
    taken = sum(len(part) + 1 for part in (*work, *others) if part)
    notes = list(_notes(state, width, max(2 * FEWEST_NOTES, height - taken - 2)))
    parts = [part for part in (*work, notes, *others) if part]
    return [row for part in parts for row in (*part, PanelRow(Content()))][:-1]


def _plan(steps: Sequence[str], width: int) -> Iterator[PanelRow]:
    if steps:
        yield _heading(_("Plan"), Content.styled(f"{len(steps)}", QUIET), width)
    for number, step in enumerate(steps[:STEPS_SHOWN], 1):
        yield PanelRow(Content.styled(isolate(ellipsis(f"{number}. {step}", width)), TEXT))
    yield from _more(len(steps) - STEPS_SHOWN)


def _files(files: Sequence[ChangedFile], width: int) -> Iterator[PanelRow]:
    if files:
        yield _heading(_("Changed files"), Content.styled(f"{len(files)}", QUIET), width)
    for file in files[:FILES_SHOWN]:
        lines = f"+{file.added} -{file.removed}"
        path = middle(clean_line(file.path), width - width_of(lines) - 1)
        yield PanelRow(_between((path, "$text-accent"), (lines, QUIET), width), note_link(file.path, file.line))
    yield from _more(len(files) - FILES_SHOWN)


def _more(count: int, target: str = "") -> Iterator[PanelRow]:
    if count > 0:
        yield PanelRow(Content.styled(_("… {count} more").format(count=count), QUIET), target)


def _heading(title: str, right: Content, width: int) -> PanelRow:
    name = ellipsis(title, max(4, width - right.cell_length - 1))
    space = " " * max(1, width - width_of(name) - right.cell_length)
    return PanelRow(Content.assemble((name, "bold"), space, right))


def _between(left: tuple[str, str], right: tuple[str, str], width: int) -> Content:
    shown = ellipsis(left[0], max(2, width - width_of(right[0]) - 1))
    space = " " * max(1, width - width_of(shown) - width_of(right[0]))
    return Content.assemble((isolate(shown), left[1]), space, right)


def _notes(state: PanelState, width: int, room: int) -> Iterator[PanelRow]:
    count = Content.styled(f"{len(state.notes)}" if state.notes else _("none yet"), QUIET)
    yield _heading(_("Notes in this conversation"), count, width)
    shown = state.notes if state.unfolded else state.notes[: _fitting(state.notes, room)]
    for note in shown:
        target, word = note_link(note.path, note.line), _(WORDS[note.use])
        location = location_text(clean_line(note.path), note.line, width - width_of(word) - 1)
        yield PanelRow(_between((location, "$text-accent"), (word, QUIET), width), target)
        if first := _first_line(note.text):
            yield PanelRow(Content.styled(f"  {isolate(ellipsis(first, width - 2))}", QUIET), target)
    yield from _more(len(state.notes) - len(shown), FOLD)


def _start(keys: KeyMap, width: int) -> Iterator[PanelRow]:
    for name, action in START.items():
        key, meaning = keys.first(name), _(BY_NAME[name].meaning)
        yield PanelRow(_between((key, "$text-accent"), (meaning, QUIET), width), f"run:{action}")


def _fitting(notes: Sequence[UsedNote], room: int) -> int:
    """Return how many of `notes` have their rows in `room`; one row is for those that have not."""
    used = 0
    for number, note in enumerate(notes):
        used += 2 if _first_line(note.text) else 1
        if used > room or (used == room and number + 1 < len(notes)):
            return number
    return len(notes)


def _first_line(text: str) -> str:
    return next(
        (row for line in text.split("\n") if (row := clean_line(line).lstrip("-+*>#").replace("**", "").strip())), ""
    )


def _context(state: PanelState, width: int) -> Iterator[PanelRow]:
    gauge, report = state.gauge, state.report
    about = "" if gauge.exact else "~"
    share = f"{about}{round(100 * gauge.tokens / gauge.window)}% · " if gauge.window else ""
    of = f"/{short(gauge.window)}" if gauge.window else ""
    figures = Content.styled(f"{share}{short(gauge.tokens)}{of}", LEVELS.get(gauge.level, QUIET))
    sign = "▾" if state.figures else "▸"
    yield _heading(f"{sign} {_('Context')}", figures, width)._replace(target=FIGURES)
    if report is None:
        return
    if state.figures:
        yield from (PanelRow(line) for line in bar(report, width, GREYS) if line.plain)
        yield from (PanelRow(_part(part, width)) for part in report.parts if part.tokens > 0)
    yield PanelRow(Content.styled(ellipsis(coming(report), width), QUIET), "run:show_context")


def _part(part: ContextPart, width: int) -> Content:
    figure = f"{part.tokens:,}"
    name = _between((clean_line(_(part.name)), TEXT), (figure, QUIET), width - 2)
    return Content.assemble(GREYS.get(part.key, NO_STYLE), " ", name)


def _sessions(sessions: Sequence[SessionSummary], width: int, now: datetime) -> Iterator[PanelRow]:
    if sessions:
        yield _heading(_("Last conversations"), Content(), width)
    for each in sessions[:SESSIONS_SHOWN]:
        title = clean_line(each.title) or _("(nothing said)")
        yield PanelRow(_between((title, TEXT), (age(each.updated_at, now), QUIET), width), f"session:{each.session_id}")
