"""The cards of tool calls: the state and what is done in words, the end of a running command's output, the notes that
a search found, what changed in a file; unfolded also the arguments and the full output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, cast, get_args

from clawbot.agent.events import ModelChanged, ModelRetry, SubagentStep, ToolFinished, ToolStarted
from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean, clean_line, isolate
from clawbot.text.visible import visible
from clawbot.tui.render.call_titles import CardState, location_words, summary_words, title_words
from clawbot.tui.render.items import FOLD, TEXT_INDENT, Item, Page, indented, line_break, spread
from clawbot.tui.render.lines import (
    BLANK,
    StyledLine,
    StyledSpan,
    code_spans,
    cut_spans,
    duration,
    ellipsis,
    location_text,
    middle,
    note_link,
    plain_spans,
    shown_spans,
    width_of,
    wrap,
)

GLYPHS: dict[CardState, tuple[str, str]] = {
    "asking": ("●", "card-waits"),
    "running": ("●", "card-runs"),
    "done": ("✓", "card-done"),
    "failed": ("✕", "tool-error"),
    "declined": ("⊘", "card-waits"),
    "stopped": ("⊘", "card-waits"),
}


@dataclass
class SubagentCall:
    """One call of a sub-agent."""

    title: str
    state: CardState = "running"
    summary: str = ""


@dataclass
class SubagentRun:
    """What a sub-agent did so far; `now` is what it does besides calling tools."""

    calls: dict[str, SubagentCall] = field(default_factory=dict)
    count: int = 0
    tokens: int = 0
    now: str = ""

    def take(self, event: SubagentStep) -> None:
        self.count, self.tokens, self.now = event.calls, event.tokens, ""
        match event.step:
            case ToolStarted(call_id=call_id, title=title):
                self.calls[call_id] = SubagentCall(title)
            case ToolFinished(call_id=call_id) as done:
                state: CardState = "failed" if done.is_error else "done"
                if call_id in self.calls:
                    self.calls[call_id].state, self.calls[call_id].summary = state, done.summary
            case ModelRetry(reason=reason):
                self.now = reason
            case ModelChanged(model=model):
                self.now = model

    @classmethod
    def read(cls, details: Any) -> SubagentRun | None:
        """Return what is stored with a result; None if there is nothing of a sub-agent."""
        found = details.get("subagent") if isinstance(details, dict) else None
        if not isinstance(found, dict):
            return None
        rows = found.get("calls")
        calls = [_stored(row) for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict)]
        count, tokens = (value if isinstance(value := found.get(name), int) else 0 for name in ("count", "tokens"))
        return cls({str(at): call for at, call in enumerate(calls)}, count, tokens)

    def working(self, room: int) -> StyledLine:
        """Return what it does now, and how much it did, in `room` cells: the figures are never cut."""
        running = [call.title for call in self.calls.values() if call.state == "running"]
        now = clean_line(running[-1] if running else self.now) or _("thinking")
        figures = self.summary
        end = [StyledSpan(f" · {figures}", "tool")] if figures else []
        shown = cut_spans(shown_spans(now, "tool-text"), max(1, room - sum(width_of(span.text) for span in end)))
        return StyledLine((*shown, *end))

    @property
    def summary(self) -> str:
        calls = ngettext("{n:,} call", "{n:,} calls", self.count).format(n=self.count) if self.count else ""
        tokens = ngettext("{n:,} token", "{n:,} tokens", self.tokens).format(n=self.tokens) if self.tokens else ""
        return " · ".join(filter(None, (calls, tokens)))

    def lines(self, room: int) -> list[StyledLine]:
        rows = [_row(call, room) for call in self.calls.values()]
        if (more := self.count - len(self.calls)) > 0:
            left = ngettext("… {n:,} more call", "… {n:,} more calls", more).format(n=more)
            rows.append(StyledLine((StyledSpan(left, "tool"),)))
        return rows


def _stored(row: dict[str, Any]) -> SubagentCall:
    state = row.get("state")
    known = cast(CardState, state) if state in get_args(CardState) else "stopped"
    return SubagentCall(str(row.get("title", "")), known, str(row.get("summary", "")))


def _row(call: SubagentCall, room: int) -> StyledLine:
    sign, style = GLYPHS[call.state]
    end = clean_line(summary_words(call.summary))
    tail = [StyledSpan(f"  {end}", "tool-error" if call.state == "failed" else "tool")] if end else []
    title = cut_spans(shown_spans(clean_line(call.title), "tool-text"), max(1, room - 4 - width_of(end)))
    return StyledLine((StyledSpan(f"{sign} ", style), *title, *cut_spans(tail, max(1, room - 4))))


_HUNK = re.compile(r"@@ -(?P<old>\d{1,9})(?:,\d+)? \+(?P<new>\d{1,9})(?:,\d+)? @@")
_STYLES = {"+": "diff-added", "-": "diff-removed", " ": "diff-same"}


class DiffRow(NamedTuple):
    """A line of a diff: its number in the new file (in the old one for what went), `+`, `-` or a blank, and its text.
    The number 0 marks lines that are left out."""

    number: int
    sign: str
    text: str


def diff_rows(diff: str) -> Iterator[DiffRow]:
    """Yield the rows of a unified `diff`. The head, which names the file, is on the card already."""
    old = new = 0
    for row in diff.splitlines():
        if hunk := _HUNK.match(row):
            if new:
                yield DiffRow(0, " ", "")
            old, new = int(hunk["old"]), int(hunk["new"])
        elif new or old:
            sign = row[:1] if row[:1] in ("+", "-") else " "
            if row.startswith("\\"):  # that a file ends without a line break
                continue
            yield DiffRow(old if sign == "-" else new, sign, row[1:])
            old += sign != "+"
            new += sign != "-"


def diff_lines(diff: str, room: int, most: int) -> list[StyledLine]:
    """Return about the first `most` lines of `diff`, at most `room` cells wide."""
    rows = list(islice(diff_rows(clean(diff[: most * max(room, 80)]).expandtabs(4)), most))
    digits = max((len(str(row.number)) for row in rows), default=1)
    lines: list[StyledLine] = []
    for row in rows:
        if not row.number:
            lines.append(StyledLine((StyledSpan(f"{'⋮':>{digits}}", "tool"),)))
            continue
        style = _STYLES[row.sign]
        margin = StyledSpan(f"{row.number:>{digits}} ", "tool")
        text = wrap([StyledSpan(isolate(row.text), style)], max(8, room - digits - 3))
        for part in text:
            lines.append(
                StyledLine((margin, StyledSpan(f"{row.sign} ", style), *part), style if row.sign != " " else "")
            )
            margin = StyledSpan(" " * (digits + 1))
    return lines


OUTPUT_LINES = 200  # of an unfolded tool call; the transcript file holds the rest
HITS_SHOWN = 6  # of the notes that a search found, until the call is unfolded
CHANGES_SHOWN = 12  # lines of a change, until the call is unfolded
ERROR_LINES = 2  # of why a call failed
OWN_LINES = 12  # of what the user's own command printed, until the card is unfolded
TAIL_LINES = 5  # of what a running command has printed
TAIL_CHARS = 4000
MIN_LOCATION = 12  # cells of a path on the line of a call
INNER = TEXT_INDENT + 2  # where the text of a card begins
_RULE = StyledLine((StyledSpan("─" * 8, "rule"),))


@dataclass(frozen=True)
class NoteHit:
    """A hit in a note: `text` starts at `line`. Lines of other files (transcripts) can't be opened."""

    path: str
    line: int
    text: str
    label: str = ""  # speaker and time, in a conversation


@dataclass
class ToolItem(Item):
    """A tool call: one quiet line that unfolds to arguments and output. `summary` and `milliseconds` (-1: unknown) are
    set at its end; while it runs, the `seconds` so far.

    The `hits` of a memory search are listed below and unfold to their text; the `excerpt` of a note, and `notes` on
    either, are shown when unfolded. They replace the output, which is meant for the model; for other tools `notes` is
    None. A command of the user shows the beginning of its output at once; it is `shared` with the model or not, which
    is None for calls of the model.
    """

    name: str
    title: str
    arguments: dict[str, Any] = field(default_factory=dict)
    output: str | None = None
    summary: str = ""
    state: CardState = "running"
    milliseconds: int = -1
    seconds: int = 0
    tail: str = ""  # of what it has printed so far
    lit: bool = True  # the sign of a running call pulses
    hits: tuple[NoteHit, ...] = ()
    excerpt: NoteHit | None = None
    notes: tuple[str, ...] | None = None
    location: NoteHit | None = None  # where it wrote
    subagent: SubagentRun | None = None  # what the sub-agent does that the call asked for
    diff: str = ""  # what it changed; replaces the arguments and the output
    shared: bool | None = None
    joined: bool = False  # another call is right above
    unfolded: bool = False

    @property
    def can_unfold(self) -> bool:
        return True

    def lines(self, page: Page) -> list[StyledLine]:
        """Return the line of the call, what is to be seen of it at once, and what is unfolded under it."""
        lines = [] if self.joined else [BLANK]
        lines.append(self._head(page.width))
        if self.diff:
            return lines + self._changes(page.width - INNER)
        shown = self.hits if self.unfolded else self.hits[:HITS_SHOWN]
        lines += self._capped([line for hit in shown for line in self._hit(hit, page)])
        if len(shown) < len(self.hits):
            left = len(self.hits) - len(shown)
            more = ngettext("… {n} more", "… {n} more", left).format(n=left)
            lines.append(StyledLine((StyledSpan("       "), StyledSpan(more, "tool", FOLD))))
        if self.state == "running":
            lines += self._printed(page.width - INNER)
        if self.subagent is not None and self.state in ("running", "asking"):
            lines += indented([self.subagent.working(page.width - INNER)], INNER)
        if self.unfolded:
            return lines + indented(self._capped(self._call(page.width - INNER - 2)), INNER)
        if self.state == "failed" and self.shared is None:
            return lines + indented(self._reason(page.width - INNER), INNER)
        if self.shared is not None and (self.output or "").strip():
            lines += indented(self._capped(self._output(page.width - INNER), OWN_LINES), INNER)
        return lines

    def _head(self, width: int) -> StyledLine:
        glyph, style = GLYPHS[self.state]
        right = clean_line(self._right())
        room = width - TEXT_INDENT - 2 - width_of(right) - 2
        end = "tool-error" if self.state == "failed" else "tool"
        head = [
            StyledSpan("   "),
            StyledSpan(f"{glyph} ", style if self.lit else "card-waits", FOLD),
            *self._title_spans(room),
        ]
        return spread(head, [StyledSpan(right, end)], width)

    def _title_spans(self, room: int) -> list[StyledSpan]:
        """Return what is done, in words. A path at its end keeps its own end, and the line in it."""
        title = title_words(self.name, self.title, self.arguments, self.state)
        named = self.location.path if self.location is not None else self.arguments.get("path")
        path = clean_line(named) if isinstance(named, str) else ""
        if not path or not title.endswith(path):
            return cut_spans(shown_spans(title, "tool", FOLD), room)
        does = StyledSpan(title.removesuffix(path), "tool", FOLD)
        room = max(MIN_LOCATION, room - width_of(does.text))
        if self.location is not None:
            return [does, _location_span(self.location, room)]
        return [does, *shown_spans(middle(path, room), "tool", FOLD)]

    def _right(self) -> str:
        if self.state == "running":
            return duration(self.seconds) if self.seconds else "…"
        if self.state == "asking":
            return _("waits for your answer")
        shown = summary_words(self.summary)
        if self.subagent is not None and self.state == "done":
            shown = self.subagent.summary
        took = took_words(self.milliseconds) if self.milliseconds >= 0 and self.state in ("done", "failed") else ""
        seen = "" if self.shared is None else _("shared") if self.shared else _("not shared")
        return " · ".join(filter(None, (shown, took, seen)))

    def _printed(self, room: int) -> list[StyledLine]:
        rows = [row for row in clean(self.tail).expandtabs(4).split("\n") if row.strip()][-TAIL_LINES:]
        spans = [StyledSpan(ellipsis(isolate(row), room), "tool-text") for row in rows]
        return indented([StyledLine((span,)) for span in spans], INNER)

    def printed(self, text: str) -> None:
        self.tail = (self.tail + text)[-TAIL_CHARS:]

    def _changes(self, room: int) -> list[StyledLine]:
        most = OUTPUT_LINES if self.unfolded else CHANGES_SHOWN
        lines = diff_lines(self.diff, room, most + 1)
        rows = self.diff.splitlines()
        heads = sum(row.startswith(("@@", "---", "+++")) for row in rows)
        return indented(self._capped(lines, most, len(rows) - heads), INNER)

    def _capped(self, lines: list[StyledLine], most: int = OUTPUT_LINES, of: int = 0) -> list[StyledLine]:
        """Return the first `most` of `lines`; `of` is how many there are where `lines` does not hold them all."""
        if len(lines) <= most:
            return lines
        left = max(of, len(lines)) - most
        text = ngettext("… {n:,} more line", "… {n:,} more lines", left).format(n=left)
        return [*lines[:most], StyledLine((StyledSpan(text, "tool", FOLD),))]

    def _hit(self, hit: NoteHit, page: Page) -> list[StyledLine]:
        location = _location_span(hit, page.width - TEXT_INDENT - 4)
        room = page.width - TEXT_INDENT - 4 - width_of(location.text) - 3
        rows = hit.text.replace("**", "").split("\n")
        text = clean_line("\n".join(row.lstrip().lstrip("-+*>#").strip() for row in rows))
        head = (StyledSpan("       "), location)
        if self.unfolded and ("\n" in hit.text.strip("\n") or width_of(text) > room):
            inner = TEXT_INDENT + 6
            spans = [StyledSpan(isolate(line_break(clean(hit.text)).expandtabs(4)), "tool-text")]
            return [StyledLine(head), *indented([StyledLine(line) for line in wrap(spans, page.width - inner)], inner)]
        shown = (StyledSpan("   "), StyledSpan(ellipsis(isolate(text), room), "tool")) if room > 1 else ()
        return [StyledLine((*head, *shown))]

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
        if self.subagent is not None and self.subagent.calls:
            lines += [_RULE, *self.subagent.lines(room)]
        if self.notes is not None:
            details = self._details(room)
        else:
            details = self._output(room) if self.output is not None and not self.hits else []
        return [*lines, _RULE, *details] if details else lines

    def _details(self, room: int) -> list[StyledLine]:
        """Return the excerpt under its location, each line with its number, and the notes."""
        lines = _numbered(self.excerpt, room) if self.excerpt is not None else []
        for note in self.notes or ():
            lines += [StyledLine(line) for line in wrap([StyledSpan(isolate(clean_line(_(note))), "tool")], room)]
        return lines

    def _reason(self, room: int) -> list[StyledLine]:
        """Return the first line of the error, or the last one that a command printed before it failed."""
        rows = [row for row in clean(self.output or "").splitlines() if row.strip(" []") not in ("", self.summary)]
        row = "" if not rows else rows[0] if self.summary in ("", "failed") else rows[-1]
        shown = (
            []
            if not row or row.startswith("[no output;")
            else wrap(code_spans(isolate(row.strip()), "tool-error"), room)
        )
        return [StyledLine(line) for line in shown[:ERROR_LINES]]

    def _output(self, room: int) -> list[StyledLine]:
        text = clean(self.output or "").expandtabs(4).rstrip("\n")
        # Only what can be shown is wrapped: an output may be megabytes long.
        text = text[: OUTPUT_LINES * max(room, 80)]
        style = "tool-error" if self.state == "failed" else "tool-text"
        spans = list(plain_spans(text or _("(no output)"), style))
        return [StyledLine(line) for line in wrap(spans, room)]


def took_words(milliseconds: int) -> str:
    """Return a duration in few characters: 12 ms, 3.4 s, 75 s."""
    if milliseconds < 1000:
        return _("{n} ms").format(n=milliseconds)
    if milliseconds < 10_000:
        return _("{seconds:.1f} s").format(seconds=milliseconds / 1000)
    return _("{seconds:.0f} s").format(seconds=milliseconds / 1000)


def take_details(item: ToolItem, details: Any) -> None:
    """Set what the call shows: what it changed in a file, as a unified diff, and where; the notes that a search
    brought back, or the lines of one; its remarks about them (None for other tools); whether the model sees what the
    user ran; and that the user declined."""
    found = details if isinstance(details, dict) else {}
    diff, results, notes = found.get("diff"), found.get("results"), found.get("notes")
    item.diff = diff if isinstance(diff, str) else ""
    item.subagent = SubagentRun.read(found) or item.subagent
    item.location = note_hit(found) if "line" in found else None
    hits = map(note_hit, results if isinstance(results, list) else ())
    item.hits = tuple(hit for hit in hits if hit is not None)
    item.excerpt = note_hit(found.get("excerpt"))
    item.notes = tuple(map(str, notes)) if isinstance(notes, list) else None
    shared = found.get("shared")
    item.shared = shared if isinstance(shared, bool) else None
    if found.get("declined") is True:
        item.state = "declined"


def note_hit(found: Any) -> NoteHit | None:
    """Return a location in a note as a tool names it, or None."""
    if not isinstance(found, dict) or not isinstance(found.get("path"), str):
        return None
    line = found.get("startLine", found.get("line", 1))
    text = str(found.get("snippet", found.get("text", "")))
    label = location_words(found) if "said" in found else ""
    return NoteHit(found["path"], line if isinstance(line, int) else 1, text, label)


def _numbered(location: NoteHit, room: int) -> list[StyledLine]:
    rows = clean(location.text).expandtabs(4).split("\n")
    lines = [StyledLine((_location_span(location, room),))]
    digits = len(str(location.line + len(rows) - 1))
    for number, row in enumerate(rows[:OUTPUT_LINES], location.line):
        margin = StyledSpan(f"{number:>{digits}}  ", "tool")
        for line in wrap([StyledSpan(isolate(row), "tool-text")], room - digits - 2):
            lines.append(StyledLine((margin, *line)))
            margin = StyledSpan(" " * (digits + 2))
    return lines


def _location_span(hit: NoteHit, room: int) -> StyledSpan:
    """Return where it is, in at most `room` cells: a link that opens the note there."""
    if hit.label:
        return StyledSpan(ellipsis(hit.label, room), "tool")
    link = note_link(hit.path, hit.line) if hit.path.endswith(".md") else ""
    return StyledSpan(location_text(clean_line(hit.path), hit.line, room), "note" if link else "tool", link)
