"""A report on the context as Markdown, for front ends without a page of their own for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

from clawbot.context.prompt import FileSize, prompt_literal
from clawbot.context.report import ContextReport, LastFlush, certainty, coming, outcome

BAR_CELLS = 64
# The sign of each part in the bar: what no compaction makes smaller, the summary, the talk, what is left.
SIGNS = {
    "system": "█",
    "bootstrap": "█",
    "tools": "█",
    "summary": "▓",
    "notes": "▓",
    "messages": "▒",
    "toolResults": "▒",
    "unaccounted": "▒",
    "free": "░",
    "reserve": "·",
}
MARK = "┊"
_RARE = {"notes", "unaccounted"}
_NUMBERS = {"tokens", "share", "characters", "raw characters", "injected"}


def render_report(report: ContextReport, *, detail: bool = False, zone: tzinfo | None = None) -> str:
    """The report as Markdown: a stacked bar, the parts, what comes next; `detail` adds files, tools and sections.
    Times are those of `zone`, None: of this machine."""
    source = f" ({report.window_source})" if report.window_source else ""
    blocks = [
        f"**Context window** · {prompt_literal(report.model)} · {report.window:,} tokens{source}",
        f"```\n{_bar(report)}\n```",
        _table(("", "part", "tokens", "share"), _rows(report)),
        f"{report.used:,} of {report.window:,} tokens in use, {certainty(report)}.",
        " · ".join(_next(report, zone)),
    ]
    return "\n\n".join([*blocks, *(_details(report) if detail else ())])


def _rows(report: ContextReport) -> Iterator[Sequence[str]]:
    for part in report.parts:
        if part.tokens or part.key not in _RARE:
            tokens = f"{part.tokens:+,}" if part.key == "unaccounted" else f"{part.tokens:,}"
            yield SIGNS[part.key], part.name, tokens, f"{100 * part.tokens / report.window:.1f} %"


def _bar(report: ContextReport) -> str:
    """The parts from left to right, with the marks of flush and compaction where there is nothing yet."""
    shown = [part for part in report.parts if part.tokens > 0]
    whole = max(report.window, sum(part.tokens for part in shown))
    bar, seen = "", 0
    for part in shown:
        seen += part.tokens
        bar += SIGNS[part.key] * (round(seen * BAR_CELLS / whole) - len(bar))
    marks = {mark * BAR_CELLS // whole for mark in (report.flush_at, report.compact_at) if mark}
    empty = (SIGNS["free"], SIGNS["reserve"])
    return "".join(MARK if place in marks and sign in empty else sign for place, sign in enumerate(bar))


def _next(report: ContextReport, zone: tzinfo | None) -> Iterator[str]:
    yield coming(report)
    if report.last_flush is not None:
        yield _last_flush(report.last_flush, zone)
    yield f"compactions {report.compactions}"
    if report.pruned:
        yield f"old tool results left out: {report.pruned}"


def _last_flush(flush: LastFlush, zone: tzinfo | None) -> str:
    at = moment(flush.at, zone)
    if not flush.path:
        return f"last flush {at}, {outcome(flush)}"
    lines = flush.end_line - flush.line + 1
    place = prompt_literal(f"{flush.path}:{flush.line}")
    return f"last flush {at}, {lines} {'line' if lines == 1 else 'lines'} to {place}"


def moment(at: str, zone: tzinfo | None) -> str:
    """The date and the minute of `at` (ISO 8601) in `zone`, None: of this machine; what is no moment, in a
    damaged transcript, stays as it is."""
    try:
        return f"{datetime.fromisoformat(at).astimezone(zone):%Y-%m-%d %H:%M}"
    except ValueError:
        return prompt_literal(at)


def _details(report: ContextReport) -> Iterator[str]:
    tokens = {file.name: file.tokens for file in report.bootstrap_files}
    if report.files:
        rows = [(prompt_literal(file.name), *_sizes(file), f"{tokens.get(file.name, 0):,}") for file in report.files]
        yield _table(("file", "state", "raw characters", "injected", "tokens"), rows)
    if report.notes:
        quoted = ((prompt_literal(note.name), f"{note.tokens:,}") for note in report.notes)
        yield _table(("note at the start", "tokens"), quoted)
    if report.tools:
        biggest = sorted(report.tools, key=lambda tool: -tool.tokens)
        yield _table(("tool", "tokens"), ((prompt_literal(tool.name), f"{tool.tokens:,}") for tool in biggest))
    yield _table(("section", "characters"), ((size.name, f"{size.chars:,}") for size in report.sections))


def _sizes(file: FileSize) -> tuple[str, str, str]:
    state = "missing" if file.missing else "truncated" if file.truncated else "whole"
    return state, f"{file.raw_chars:,}", f"{file.injected_chars:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; columns whose name is a unit are numbers, to the right."""
    edges = ["--:" if name in _NUMBERS else "---" for name in head]
    return "\n".join(f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |" for row in (head, edges, *rows))
