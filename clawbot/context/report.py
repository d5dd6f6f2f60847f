"""What `/context` knows: where the tokens of the window go, how that fits with what the provider counted, and both as
Markdown, for front ends without a page of their own for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

from msgspec import Struct

from clawbot.context.counting import TokenCounter
from clawbot.context.prefix import CacheUse
from clawbot.context.prompt import COMPACT_BELOW, PromptInputs, prompt_literal
from clawbot.context.startup import read_quoted
from clawbot.context.window import Measure, NextRequest, Window, WindowBudget
from clawbot.messages import quotes_notes
from clawbot.text.interface import N_, _, ngettext


class ContextPart(Struct, frozen=True, rename="camel"):
    """A share of the window. `name` is what the user reads; `key` one of system, bootstrap, tools, summary, notes,
    messages, toolResults, unaccounted, free, reserve."""

    key: str
    name: str
    tokens: int


class Tokens(Struct, frozen=True):
    """How many tokens a named thing takes."""

    name: str
    tokens: int


class Size(Struct, frozen=True):
    """How many characters a part of the prompt has."""

    name: str
    chars: int


class FileSize(Struct, frozen=True, rename="camel"):
    """How much of a workspace file is in the prompt, in characters."""

    name: str
    path: str
    missing: bool
    raw_chars: int
    injected_chars: int
    truncated: bool


class LastFlush(Struct, frozen=True, rename="camel"):
    """The last silent turn: when (ISO 8601), what came of it, and where it wrote (`path` empty: nowhere)."""

    at: str
    result: str
    path: str = ""
    line: int = 0
    end_line: int = 0
    bytes: int = 0


class ContextReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The window, in tokens. `parts` sum up to `window` unless the context is larger. `window_source` is where the
    window is known from, as a half sentence; `assumed` that nobody knows it. `unaccounted` is what the provider counted
    beyond the parts. `tools_left_out` names tools that a small window has no room for. `notes` are the files that the
    session begins with, as far as they are quoted. `flush_at` and `compact_at` are marks in the window, 0 when they
    never come."""

    model: str
    window: int
    window_source: str
    assumed: bool
    parts: tuple[ContextPart, ...]
    used: int
    exact: bool
    stale: bool
    reported: int
    unaccounted: int
    reserve: int
    flush_at: int
    compact_at: int
    compactions: int
    messages: int
    last_flush: LastFlush | None = None
    bootstrap_files: tuple[Tokens, ...] = ()
    notes: tuple[Tokens, ...] = ()
    tools: tuple[Tokens, ...] = ()
    tools_left_out: tuple[str, ...] = ()
    sections: tuple[Size, ...] = ()
    files: tuple[FileSize, ...] = ()
    pruned: int = 0
    cache: CacheUse | None = None


class ReportInputs(Struct, frozen=True, kw_only=True):
    """What a report is made of: `measure` and `budget` are those of `request`, whose prompt was built from `prompt`.
    `automatic`: compaction comes by itself; `pruned` is how many tool results the model is not shown."""

    request: NextRequest
    measure: Measure
    budget: WindowBudget
    window: Window
    prompt: PromptInputs
    automatic: bool = True
    compactions: int = 0
    last_flush: LastFlush | None = None
    pruned: int = 0
    cache: CacheUse | None = None


def build_report(given: ReportInputs, counter: TokenCounter) -> ContextReport:
    """Return the report. Blocks while `counter` meets something new.

    What the provider counted beyond the parts has a part of its own, so that their sum is what is in use.
    """
    request, measure, budget = given.request, given.measure, given.budget
    files = given.prompt.bootstrap.files
    quotes = sum(map(quotes_notes, request.messages))
    notes = (note for message in request.messages for note in read_quoted(message))
    return ContextReport(
        model=given.prompt.model,
        window=budget.window,
        window_source=given.window.source,
        assumed=given.window.assumed,
        parts=_parts(measure, budget),
        used=measure.used,
        exact=measure.exact,
        stale=measure.stale,
        reported=measure.reported,
        unaccounted=measure.used - measure.counted,
        reserve=budget.reserve,
        flush_at=budget.flush if given.automatic else 0,
        compact_at=budget.limit if given.automatic else 0,
        compactions=given.compactions,
        messages=len(request.messages) - (1 if request.has_summary else 0) - quotes,
        last_flush=given.last_flush,
        bootstrap_files=tuple(Tokens(file.name, counter.text(file.text)) for file in files if not file.missing),
        notes=tuple(Tokens(note.path, counter.text(note.text)) for note in notes),
        tools=tuple(Tokens(tool.name, counter.tool(tool)) for tool in request.tools),
        tools_left_out=given.prompt.left_out,
        sections=tuple(Size(section.name, len(section.text)) for section in request.prompt.sections),
        files=tuple(
            FileSize(file.name, str(file.path), file.missing, file.raw_chars, len(file.text), file.truncated)
            for file in files
        ),
        pruned=given.pruned,
        cache=given.cache,
    )


def _parts(measure: Measure, budget: WindowBudget) -> tuple[ContextPart, ...]:
    free = max(0, budget.limit - measure.used)
    return (
        ContextPart("system", N_("system prompt"), measure.system),
        ContextPart("bootstrap", N_("bootstrap files"), measure.bootstrap),
        ContextPart("tools", N_("tools"), measure.tools),
        ContextPart("summary", N_("summary"), measure.summary),
        ContextPart("notes", N_("notes at the start"), measure.notes),
        ContextPart("messages", N_("messages"), measure.messages),
        ContextPart("toolResults", N_("tool results"), measure.tool_results),
        ContextPart("unaccounted", N_("other, by the provider's count"), measure.used - measure.counted),
        ContextPart("free", N_("free"), free),
        ContextPart("reserve", N_("reserve"), max(0, budget.window - measure.used - free)),
    )


def certainty(report: ContextReport) -> str:
    """How far `used` can be trusted, as a half sentence."""
    if report.exact:
        return _("as the provider counted it")
    if report.stale:
        return _("counted here since the compaction")
    return _("the provider's count, and what came since") if report.reported else _("counted here")


def coming(report: ContextReport) -> str:
    """What happens next to the window, and in how many tokens."""
    if report.flush_at > report.used:
        return _("next: flush in {n:,} tokens").format(n=report.flush_at - report.used)
    if report.compact_at > report.used:
        return _("next: compaction in {n:,} tokens").format(n=report.compact_at - report.used)
    if report.compact_at:
        return _("next: compaction, with the next message")
    return _("no compaction comes by itself")


def outcome(flush: LastFlush) -> str:
    """What came of a flush that wrote nothing; what is no result, in a damaged transcript, remains as it is."""
    return _(_OUTCOMES[flush.result]) if flush.result in _OUTCOMES else flush.result


_OUTCOMES = {
    "": N_("not finished"),
    "nothing": N_("nothing to write"),
    "skipped": N_("not asked, too little was said"),
    "failed": N_("failed"),
    "abandoned": N_("failed, and the conversation went on"),
    "interrupted": N_("stopped"),
}


BAR_CELLS = 64
# The sign of each part in the bar: what no compaction makes smaller, the summary, the messages, what is left.
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
_NUMBERS = {N_("tokens"), N_("share"), N_("characters"), N_("raw characters"), N_("injected")}


def render_report(report: ContextReport, *, detail: bool = False, zone: tzinfo | None = None) -> str:
    """The report as Markdown: a stacked bar, the parts, what comes next; `detail` adds files, tools and sections.
    Times are those of `zone`, None: of this machine."""
    window = ngettext("{n:,} token", "{n:,} tokens", report.window).format(n=report.window)
    if report.window_source:
        window = _("{window} ({source})").format(window=window, source=_(report.window_source))
    blocks = [
        f"**{_('Context window')}** · {prompt_literal(report.model)} · {window}",
        f"```\n{_bar(report)}\n```",
        _table(("", N_("part"), "tokens", "share"), _rows(report)),
        _("{used:,} of {window:,} tokens in use, {certainty}.").format(
            used=report.used, window=report.window, certainty=certainty(report)
        ),
        " · ".join(_next(report, zone)),
        *([cache_line(report.cache, zone)] if report.cache else ()),
        *([left_out_line(report)] if report.tools_left_out else ()),
    ]
    return "\n\n".join([*blocks, *(_details(report) if detail else ())])


def _rows(report: ContextReport) -> Iterator[Sequence[str]]:
    for part in report.parts:
        if part.tokens or part.key not in _RARE:
            tokens = f"{part.tokens:+,}" if part.key == "unaccounted" else f"{part.tokens:,}"
            yield SIGNS[part.key], _(part.name), tokens, f"{100 * part.tokens / report.window:.1f} %"


def _bar(report: ContextReport) -> str:
    """Return the parts from left to right, with the marks of flush and compaction where there is nothing yet."""
    shown = [part for part in report.parts if part.tokens > 0]
    total = max(report.window, sum(part.tokens for part in shown))
    bar, seen = "", 0
    for part in shown:
        seen += part.tokens
        bar += SIGNS[part.key] * (round(seen * BAR_CELLS / total) - len(bar))
    marks = {mark * BAR_CELLS // total for mark in (report.flush_at, report.compact_at) if mark}
    empty = (SIGNS["free"], SIGNS["reserve"])
    return "".join(MARK if cell in marks and sign in empty else sign for cell, sign in enumerate(bar))


def _next(report: ContextReport, zone: tzinfo | None) -> Iterator[str]:
    yield coming(report)
    if report.last_flush is not None:
        yield _last_flush(report.last_flush, zone)
    yield _("compactions {n}").format(n=report.compactions)
    if report.pruned:
        yield _("old tool results left out: {n}").format(n=report.pruned)


def cache_line(use: CacheUse, zone: tzinfo | None) -> str:
    """How much of the last prompt the provider had read before, and what broke that last."""
    text = _("prompt cache: {share} %").format(share=100 * use.cached // max(1, use.prompt))
    if not use.broken_by:
        return text
    broken = _("broken last {time} by {cause}").format(time=moment(use.broken_at, zone), cause=use.broken_by)
    return f"{text} · {broken}"


def left_out_line(report: ContextReport) -> str:
    """Which tools a small window has no room for."""
    text = _("Tools left out in a window below {n:,} tokens: {tools}")
    return text.format(n=COMPACT_BELOW, tools=", ".join(report.tools_left_out))


def _last_flush(flush: LastFlush, zone: tzinfo | None) -> str:
    at = moment(flush.at, zone)
    if not flush.path:
        return _("last flush {time}, {outcome}").format(time=at, outcome=outcome(flush))
    lines = flush.end_line - flush.line + 1
    location = prompt_literal(f"{flush.path}:{flush.line}")
    text = ngettext("last flush {time}, {n} line to {place}", "last flush {time}, {n} lines to {place}", lines)
    return text.format(time=at, n=lines, place=location)


def moment(at: str, zone: tzinfo | None) -> str:
    """Return the date and the minute of `at` (ISO 8601) in `zone`, None: of this machine; what is no moment, in a
    damaged transcript, remains as it is."""
    try:
        return f"{datetime.fromisoformat(at).astimezone(zone):%Y-%m-%d %H:%M}"
    except ValueError:
        return prompt_literal(at)


def _details(report: ContextReport) -> Iterator[str]:
    tokens = {file.name: file.tokens for file in report.bootstrap_files}
    if report.files:
        rows = [(prompt_literal(file.name), *_sizes(file), f"{tokens.get(file.name, 0):,}") for file in report.files]
        yield _table((N_("file"), N_("state"), "raw characters", "injected", "tokens"), rows)
    if report.notes:
        quoted = ((prompt_literal(note.name), f"{note.tokens:,}") for note in report.notes)
        yield _table((N_("note at the start"), "tokens"), quoted)
    if report.tools:
        biggest = sorted(report.tools, key=lambda tool: -tool.tokens)
        yield _table((N_("tool"), "tokens"), ((prompt_literal(tool.name), f"{tool.tokens:,}") for tool in biggest))
    yield _table((N_("section"), "characters"), ((size.name, f"{size.chars:,}") for size in report.sections))


def _sizes(file: FileSize) -> tuple[str, str, str]:
    state = _("missing") if file.missing else _("truncated") if file.truncated else _("whole")
    return state, f"{file.raw_chars:,}", f"{file.injected_chars:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table under translated heads; columns whose name is a unit are numbers, to the right."""
    edges = ["--:" if name in _NUMBERS else "---" for name in head]
    heads = [_(name) for name in head]
    return "\n".join(f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |" for row in (heads, edges, *rows))
