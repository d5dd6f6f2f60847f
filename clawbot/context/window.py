"""The model's window in tokens: its size, where that is known from, the marks that derive from it, what a call takes,
and when that is too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from clawbot.context.counting import MESSAGE_TOKENS, PRIMING_TOKENS, TokenCounter
from clawbot.context.prompt import SystemPrompt
from clawbot.llm.protocol import CAPPED, ModelInfo
from clawbot.messages import AssistantMessage, Message, ToolResultMessage, ToolSpec, Usage, quotes_notes

if TYPE_CHECKING:
    # The screen reads the names below before its first frame, which pydantic is not for.
    from clawbot.config.schema_context import CompactionSettings

DEFAULT_WINDOW = 128_000
"""Tokens, when nothing is known of the model."""
ASSUMED = "assumed: neither the model's data nor its server says"
# The most that a summary may take, in tokens: some 16,000 characters.
_SUMMARY = 4_000
_LEAST_SUMMARY = 200


class WindowBudget(NamedTuple):
    """The marks of a window, in tokens. `limit` is where compaction comes (the window without the `reserve`), `flush`
    where the silent turn comes before it (0: never); `keep_recent` stays word for word at a compaction, whose summary
    takes `summary` at most."""

    window: int
    reserve: int
    limit: int
    flush: int
    keep_recent: int
    summary: int


class Window(NamedTuple):
    """A window in tokens, where it is known from (a half sentence), and whether nobody knows it."""

    tokens: int
    source: str
    assumed: bool


def window_of(info: ModelInfo, cap: int | None) -> Window:
    """The window to work with: the model's, made smaller by `cap` (`context_tokens`) but never larger; where nobody
    knows it is the cap, else 128k."""
    if info.window is None:
        return Window(cap, CAPPED, False) if cap else Window(DEFAULT_WINDOW, ASSUMED, True)
    if cap and cap < info.window:
        return Window(cap, CAPPED, False)
    return Window(info.window, info.window_source, False)


def plan_budget(window: int, settings: CompactionSettings, fixed: int = 0) -> WindowBudget:
    """The marks of a window of `window` tokens, of which prompt and tools take `fixed`.

    Flush and compaction derive from one reserve, a quarter of the window at most, and the flush comes half of the way
    before the limit at the earliest: so it precedes compaction, and small windows work. What a
    compaction leaves is below the mark of the flush, or each would call for the next. The marks are there when
    compaction is switched off, too; callers decide what they do with them.
    """
    reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 4)
    limit = window - reserve
    room = max(0, limit - fixed)
    flush = settings.memory_flush
    summary = max(_LEAST_SUMMARY, min(_SUMMARY, room // 6))
    return WindowBudget(
        window=window,
        reserve=reserve,
        limit=limit,
        flush=limit - min(flush.soft_threshold_tokens, room // 2) if flush.enabled else 0,
        keep_recent=max(1, min(settings.keep_recent_tokens, room * 3 // 8 - summary)),
        summary=summary,
    )


BOOTSTRAP_SECTION = "project context"
"""The section of the system prompt that holds the workspace files."""
MOST_FAILURES = 3
"""After so many failed flushes in a cycle none is tried until the next one."""
# How far a tokenizer may be from ours. A report of less than the half is of a server that left out its cache.
_LEAST_RATIO, _MOST_RATIO = 0.5, 3.0
# An answer may be reported with this much more than its text has; what is beyond is reasoning, which goes nowhere.
_ANSWER_SLACK = 50


class Measure(NamedTuple):
    """What a call of the model takes, in tokens. The first seven are counted, and `counted` is their sum; `notes` are
    those that the session begins with. `used` is the best figure for the whole prompt. `exact`: it is what the provider
    reported, with nothing counted on top. `stale`: nothing was reported since the last compaction. `reported` is the
    prompt of the last call as its provider counted it (0 without a report)."""

    system: int
    bootstrap: int
    tools: int
    summary: int
    notes: int
    messages: int
    tool_results: int
    used: int
    exact: bool
    stale: bool
    reported: int

    @property
    def counted(self) -> int:
        """The sum of the parts."""
        return self.fixed + self.summary + self.notes + self.messages + self.tool_results

    @property
    def fixed(self) -> int:
        """What no compaction makes smaller."""
        return self.system + self.bootstrap + self.tools


class NextRequest(NamedTuple):
    """What the next call would send. `has_summary`: the first message is the summary of what was compacted.
    `fresh_from` is the index of the first message after the last compaction (0 without one): what older messages
    report is of a context that is no more. `model` (`provider/name`) is the one that answers:
    what another one reported counts by other tokens ("": any may)."""

    prompt: SystemPrompt
    tools: Sequence[ToolSpec]
    messages: Sequence[Message]
    has_summary: bool = False
    fresh_from: int = 0
    model: str = ""


class Report(NamedTuple):
    """What the provider said of the prompt of an earlier call, and what was counted for that same call."""

    prompt_tokens: int
    counted: int


def measure(request: NextRequest, counter: TokenCounter, report: Report | None = None) -> Measure:
    """What `request` takes. Blocks while `counter` meets something new.

    The figure starts from `report`, or without one from what its last good answer carries. What came
    since (or went, by pruning) is counted, and scaled by how the provider's tokens compare to ours.
    """
    counts = [counter.of(message) for message in request.messages]
    parts = _parts(request, counts, counter)
    newest_first = range(len(counts) - 1, request.fresh_from - 1, -1)
    stale = request.fresh_from > 0 and not any(_is_good(request.messages[index]) for index in newest_first)
    if report is None:
        good = (index for index in newest_first if _is_good(request.messages[index]))
        own = (index for index in good if _is_of(request.model, request.messages[index]))
        last = next((index for index in own if _prompt_tokens(request.messages[index])), None)
        if last is not None:
            report = Report(_prompt_tokens(request.messages[last]), parts.fixed + sum(counts[:last]))
    if stale or report is None or report.prompt_tokens < report.counted * _LEAST_RATIO:
        return parts._replace(used=parts.counted, stale=stale)
    answer = _reported_answer(request.messages, counts, report)
    since = parts.counted - report.counted
    if answer is not None:
        since -= counts[-1]
    ratio = min(report.prompt_tokens / report.counted, _MOST_RATIO) if report.counted else 1.0
    return parts._replace(
        used=max(0, report.prompt_tokens + (answer or 0) + round(since * ratio)),
        exact=since == 0,
        reported=report.prompt_tokens,
    )


def should_flush(measure: Measure, budget: WindowBudget, *, flushed: bool, failures: int) -> bool:
    """Whether memory is to be saved before the user's turn: once in a cycle (`flushed`: it was done), from the mark
    on, never by figures that are stale, and not after three failures."""
    if flushed or failures >= MOST_FAILURES or measure.stale or not budget.flush:
        return False
    return measure.used >= budget.flush


def should_flush_by_size(grown_bytes: int, force_bytes: int, failures: int) -> bool:
    """Whether the transcript grew by so much since the last flush that memory is to be saved in any case.
    `force_bytes` 0: never."""
    return 0 < force_bytes <= grown_bytes and failures < MOST_FAILURES


def should_compact(measure: Measure, budget: WindowBudget, *, running: bool = False) -> bool:
    """Whether the context is beyond its limit. Figures that are stale only count when nothing would fit at all: what a
    compaction left must not call for the next one. In the middle of a turn (`running`) half of
    the reserve may be used up first, since a turn that is cut in two loses its thread."""
    limit = budget.limit + budget.reserve // 2 if running else budget.limit
    return measure.used > (budget.window if measure.stale else limit)


def _parts(request: NextRequest, counts: Sequence[int], counter: TokenCounter) -> Measure:
    """What was counted, by its kind."""
    system = bootstrap = 0
    for number, section in enumerate(request.prompt.sections, start=1):
        # Sections are joined by an empty line, which tokenizers take together with what stands before it.
        last = number == len(request.prompt.sections)
        tokens = counter.text(section.text if last else f"{section.text}\n\n")
        if section.name == BOOTSTRAP_SECTION:
            bootstrap += tokens
        else:
            system += tokens
    first = 1 if request.has_summary and counts else 0
    pairs = list(zip(request.messages[first:], counts[first:], strict=True))
    results = sum(tokens for message, tokens in pairs if isinstance(message, ToolResultMessage))
    notes = sum(tokens for message, tokens in pairs if quotes_notes(message))
    return Measure(
        system=system + (MESSAGE_TOKENS if request.prompt.text.strip() else 0) + PRIMING_TOKENS,
        bootstrap=bootstrap,
        tools=sum(map(counter.tool, request.tools)),
        summary=sum(counts[:first]),
        notes=notes,
        messages=sum(counts[first:]) - results - notes,
        tool_results=results,
        used=0,
        exact=False,
        stale=False,
        reported=0,
    )


def _is_good(message: Message) -> bool:
    """Whether `message` is an answer that neither failed nor was cut off: others report nothing to rely on."""
    return isinstance(message, AssistantMessage) and not message.broken


def _is_of(model: str, message: Message) -> bool:
    """Whether `model` may have given the answer `message`; one that names nobody may be anybody's."""
    if not model or not isinstance(message, AssistantMessage) or not message.model:
        return True
    return message.model in (model, model.partition("/")[2]) or f"{message.provider}/{message.model}" == model


def _prompt_tokens(message: Message) -> int:
    """The prompt of the call that `message` answers, as its provider counted it; 0 when it did not."""
    usage = message.usage if isinstance(message, AssistantMessage) else None
    return max(0, usage.prompt_tokens) if usage else 0


def _reported_answer(messages: Sequence[Message], counts: Sequence[int], report: Report) -> int | None:
    """The tokens of the last message as its provider counted them, when that is the answer which `report` is of."""
    match messages[-1] if messages else None:
        case AssistantMessage(stop_reason="stop" | "length" | "toolUse", usage=Usage() as usage):
            same = usage.prompt_tokens == report.prompt_tokens
            return usage.output if same and 0 < usage.output <= counts[-1] * 1.5 + _ANSWER_SLACK else None
        case _:
            return None
