"""What `/context` knows: where the tokens of the window go, and how that fits with what the provider counted."""

from __future__ import annotations

from msgspec import Struct

from clawbot.context.budget import Budget, Window
from clawbot.context.counting import TokenCounter
from clawbot.context.prompt import FileSize, PromptInputs, Size, prompt_report
from clawbot.context.window import Measure, View
from clawbot.llm.offline.quoted import read_quoted
from clawbot.messages import quotes_notes


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


class LastFlush(Struct, frozen=True, rename="camel"):
    """The last silent turn: when (ISO 8601), what came of it, and where it wrote (`path` empty: nowhere)."""

    at: str
    result: str
    path: str = ""
    line: int = 0
    end_line: int = 0
    bytes: int = 0


class ContextReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The window, in tokens. `parts` sum up to `window` unless the context is larger. `window_source` says where the
    window is known from, as a half sentence; `assumed` that nobody knows it. `unaccounted` is what the provider counted
    beyond the parts. `notes` are the files that the session begins with, as far as they are quoted. `flush_at` and
    `compact_at` are marks in the window, 0 when they never come."""

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
    sections: tuple[Size, ...] = ()
    files: tuple[FileSize, ...] = ()
    pruned: int = 0


class ReportInputs(Struct, frozen=True, kw_only=True):
    """What a report is made of: `measure` and `budget` are those of `view`, whose prompt was built from `prompt`.
    `automatic`: compaction comes by itself; `pruned` is how many tool results the model is not shown."""

    view: View
    measure: Measure
    budget: Budget
    window: Window
    prompt: PromptInputs
    automatic: bool = True
    compactions: int = 0
    last_flush: LastFlush | None = None
    pruned: int = 0


def build_report(given: ReportInputs, counter: TokenCounter) -> ContextReport:
    """The report. Blocks while `counter` meets something new.

    What the provider counted beyond the parts has a part of its own, so that their sum is what is in use.
    """
    view, measure, budget = given.view, given.measure, given.budget
    sizes = prompt_report(given.prompt, view.prompt)
    files = (file for file in given.prompt.bootstrap.files if not file.missing)
    quotes = sum(map(quotes_notes, view.messages))
    notes = (note for message in view.messages for note in read_quoted(message))
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
        messages=len(view.messages) - (1 if view.has_summary else 0) - quotes,
        last_flush=given.last_flush,
        bootstrap_files=tuple(Tokens(file.name, counter.text(file.text)) for file in files),
        notes=tuple(Tokens(note.path, counter.text(note.text)) for note in notes),
        tools=tuple(Tokens(tool.name, counter.tool(tool)) for tool in view.tools),
        sections=sizes.sections,
        files=sizes.files,
        pruned=given.pruned,
    )


def _parts(measure: Measure, budget: Budget) -> tuple[ContextPart, ...]:
    free = max(0, budget.limit - measure.used)
    return (
        ContextPart("system", "system prompt", measure.system),
        ContextPart("bootstrap", "bootstrap files", measure.bootstrap),
        ContextPart("tools", "tools", measure.tools),
        ContextPart("summary", "summary", measure.summary),
        ContextPart("notes", "notes at the start", measure.notes),
        ContextPart("messages", "messages", measure.messages),
        ContextPart("toolResults", "tool results", measure.tool_results),
        ContextPart("unaccounted", "unaccounted", measure.used - measure.counted),
        ContextPart("free", "free", free),
        ContextPart("reserve", "reserve", max(0, budget.window - measure.used - free)),
    )


def certainty(report: ContextReport) -> str:
    """How far `used` can be trusted, as a half sentence."""
    if report.exact:
        return "as the provider counted it"
    if report.stale:
        return "counted here since the compaction"
    return "the provider's count, and what came since" if report.reported else "counted here"


def coming(report: ContextReport) -> str:
    """What happens next to the window, and in how many tokens."""
    if report.flush_at > report.used:
        return f"next: flush in {report.flush_at - report.used:,} tokens"
    if report.compact_at > report.used:
        return f"next: compaction in {report.compact_at - report.used:,} tokens"
    return "next: compaction, with the next message" if report.compact_at else "no compaction comes by itself"


def outcome(flush: LastFlush) -> str:
    """What came of a flush that wrote nothing; what is no result, in a damaged transcript, stays as it is."""
    return _OUTCOMES.get(flush.result, flush.result)


_OUTCOMES = {
    "": "not finished",
    "nothing": "nothing to write",
    "skipped": "not asked, too little was said",
    "failed": "failed",
    "abandoned": "failed, and the conversation went on",
    "interrupted": "stopped",
}
