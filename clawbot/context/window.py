"""The model's context window in tokens: its size and source, the marks derived from it, the size of a call, and when it
is too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from clawbot.context.counting import MESSAGE_TOKENS, PRIMING_TOKENS, Kept, TokenCounter
from clawbot.context.prompt import SystemPrompt
from clawbot.llm.protocol import CAPPED, ModelInfo
from clawbot.messages import OFFLINE, AssistantMessage, Message, ToolResultMessage, ToolSpec, Usage, quotes_notes
from clawbot.text.interface import N_

if TYPE_CHECKING:
    # The screen reads the names below before its first frame, which pydantic is not for.
    from clawbot.config.schema_agent import CompactionSettings

DEFAULT_WINDOW = 128_000
"""Tokens, if the model is unknown."""
ASSUMED = N_("assumed: neither the model's data nor its server says")
# The most that a summary may take, in tokens: some 16,000 characters.
_SUMMARY = 4_000
_MIN_SUMMARY = 200


class WindowBudget(NamedTuple):
    """The marks of a window, in tokens. Compaction starts at `limit` (the window without the `reserve`), the flush
    before it at `flush` (0: never). `keep_recent` tokens remain unchanged in a compaction, whose summary has at most
    `summary`."""

    window: int
    reserve: int
    limit: int
    flush: int
    keep_recent: int
    summary: int


class Window(NamedTuple):
    """A window in tokens, its source (a half sentence), and whether it is assumed."""

    tokens: int
    source: str
    assumed: bool


MIN_WINDOW = 2_000
"""Tokens. No model has a smaller window: a limit below it that an error names was misread."""
LEARNT = N_("from an error of the provider")


class Windows:
    """The windows, in tokens. `cap` is `context_tokens` of the settings."""

    def __init__(self, cap: int | None) -> None:
        self._cap = cap
        self._learnt: dict[str, int] = {}

    def of(self, model: ModelInfo) -> Window:
        """Return the window of `model`: its own, or less where the settings or an error limit it. An unknown one is
        that of the settings, else 128k."""
        if model.window is not None and not (self._cap and self._cap < model.window):
            known = Window(model.window, model.window_source, assumed=False)
        elif self._cap:
            known = Window(self._cap, CAPPED, assumed=False)
        else:
            known = Window(DEFAULT_WINDOW, ASSUMED, assumed=True)
        learnt = self._learnt.get(model.ref)
        return Window(learnt, LEARNT, assumed=False) if learnt and learnt < known.tokens else known

    def learn(self, model: ModelInfo, limit: int | None) -> bool:
        """Learn from the provider's refusal of a request that the window has `limit` tokens (None: unknown). Returns
        whether that is less than was known."""
        if limit is None or not MIN_WINDOW <= limit < self.of(model).tokens:
            return False
        self._learnt[model.ref] = limit
        return True


def plan_budget(window: int, settings: CompactionSettings, fixed: int = 0) -> WindowBudget:
    """Return the marks of a window of `window` tokens, of which prompt and tools take `fixed`.

    Flush and compaction share one reserve of at most a quarter of the window, and the flush starts halfway to the limit
    at the earliest: so it precedes compaction, also in small windows. What a compaction leaves is below the flush mark,
    or each would trigger the next. The marks exist even if compaction is off; callers decide.
    """
    reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 4)
    limit = window - reserve
    room = max(0, limit - fixed)
    flush = settings.memory_flush
    summary = max(_MIN_SUMMARY, min(_SUMMARY, room // 6))
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
MIN_NOTES = 1_500
"""Tokens of the reserve that a silent turn keeps for what it reads and writes, at least."""
MAX_FAILURES = 3
"""After this many failed flushes in a cycle, none is tried until the next."""
# The plausible ratio of a provider's count to ours. Less than half means that the server left out its cache.
_MIN_RATIO, _MAX_RATIO = 0.5, 3.0
# A reported answer may exceed its text by this; more is reasoning, which is not sent again.
_ANSWER_SLACK = 50


class Measure(NamedTuple):
    """What a call of the model takes, in tokens. The first seven are counted, and `counted` is their sum; `notes` are
    those that the session begins with. `used` is the best figure for all of it. `exact`: it is what the provider
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
        return sum(self[:7])

    @property
    def fixed(self) -> int:
        """The tokens that compaction can't reduce."""
        return self.system + self.bootstrap + self.tools

    @property
    def beyond(self) -> int:
        """The tokens that the provider counts more than we do."""
        return max(0, self.used - self.counted)


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
    """The provider's count of an earlier prompt, and our count of the same prompt."""

    prompt_tokens: int
    counted: int


class Tally:
    """Measures the requests of a conversation that grows: of each only what was added is counted. `counter` counts
    what it meets first, which blocks."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counts = Kept(counter.of)
        self._kinds = Kept(_kind_of)
        self._fixed: tuple[SystemPrompt, Sequence[ToolSpec], Measure] | None = None

    def measure(self, request: NextRequest, report: Report | None = None) -> Measure:
        """Return the size of `request`.

        It starts from `report`, or else from the count in the last good answer. What was added (or pruned) since is
        counted and scaled by the ratio of the provider's tokens to ours.
        """
        counts, kinds = self._counts.of(request.messages), self._kinds.of(request.messages)
        parts = self._parts(request, counts, kinds)
        fresh = [at for at in range(request.fresh_from, len(kinds)) if kinds[at] == "answer"]
        stale = request.fresh_from > 0 and not fresh
        for index in reversed(fresh) if report is None else ():
            prompt_tokens = reported_prompt(request.messages[index])
            if prompt_tokens and _is_of(request.model, request.messages[index]):
                report = Report(prompt_tokens, parts.fixed + sum(counts[:index]))
                break
        return _against(report, parts, request.messages, counts, stale=stale)

    def _parts(self, request: NextRequest, counts: Sequence[int], kinds: Sequence[str]) -> Measure:
        """What was counted, by its kind."""
        first = 1 if request.has_summary and counts else 0
        results = sum([counts[at] for at in range(first, len(kinds)) if kinds[at] == "result"])
        notes = sum([counts[at] for at in range(first, len(kinds)) if kinds[at] == "notes"])
        if self._fixed is None or self._fixed[:2] != (request.prompt, request.tools):
            self._fixed = (request.prompt, request.tools, _fixed_parts(request, self._counter))
        return self._fixed[2]._replace(
            summary=sum(counts[:first]),
            notes=notes,
            messages=sum(counts[first:]) - results - notes,
            tool_results=results,
        )


def measure(request: NextRequest, counter: TokenCounter, report: Report | None = None) -> Measure:
    """Return the size of one `request` (see `Tally`)."""
    return Tally(counter).measure(request, report)


def _against(
    report: Report | None, parts: Measure, messages: Sequence[Message], counts: Sequence[int], *, stale: bool
) -> Measure:
    """Return `parts` with the best figure for the sum, given the provider's `report` of an earlier request."""
    if stale or report is None or report.prompt_tokens < report.counted * _MIN_RATIO:
        return parts._replace(used=parts.counted, stale=stale)
    answer = _reported_answer(messages, counts, report)
    since = parts.counted - report.counted
    if answer is not None:
        since -= counts[-1]
    ratio = min(report.prompt_tokens / report.counted, _MAX_RATIO) if report.counted else 1.0
    return parts._replace(
        used=max(0, report.prompt_tokens + (answer or 0) + round(since * ratio)),
        exact=since == 0,
        reported=report.prompt_tokens,
    )


def should_flush(measure: Measure, budget: WindowBudget, *, flushed: bool, failures: int) -> bool:
    """Whether to flush before the user's turn: once per cycle (`flushed`), from the mark on, never with stale figures,
    and not after three failures."""
    if flushed or failures >= MAX_FAILURES or measure.stale or not budget.flush:
        return False
    return measure.used >= budget.flush


def should_flush_by_size(grown_bytes: int, force_bytes: int, failures: int) -> bool:
    """Return whether the transcript has grown by enough since the last flush to force one. `force_bytes` 0: never."""
    return 0 < force_bytes <= grown_bytes and failures < MAX_FAILURES


def should_compact(measure: Measure, budget: WindowBudget, *, running: bool = False) -> bool:
    """Whether the context exceeds its limit. Stale figures only count if nothing would fit at all: what a compaction
    left must not trigger the next. During a turn (`running`) half of the reserve may be used, since a split turn loses
    its thread."""
    limit = budget.limit + budget.reserve // 2 if running else budget.limit
    return measure.used > (budget.window if measure.stale else limit)


def copy_limit(measure: Measure, budget: WindowBudget) -> int:
    """Where the prompt of a silent turn ends at the latest, by our count: at the limit, or within the reserve where the
    provider's own figures are known. It keeps a quarter of the reserve for its answers."""
    kept = max(budget.reserve // 4, min(budget.reserve, MIN_NOTES))
    return max(budget.limit, budget.window - kept - measure.beyond if measure.reported else 0)


def _fixed_parts(request: NextRequest, counter: TokenCounter) -> Measure:
    """What prompt and tools take."""
    system = bootstrap = 0
    for number, section in enumerate(request.prompt.sections, start=1):
        # Sections are joined by an empty line, which tokenizers take together with what is before it.
        last = number == len(request.prompt.sections)
        tokens = counter.text(section.text if last else f"{section.text}\n\n")
        if section.name == BOOTSTRAP_SECTION:
            bootstrap += tokens
        else:
            system += tokens
    return Measure(
        system=system + (MESSAGE_TOKENS if request.prompt.text.strip() else 0) + PRIMING_TOKENS,
        bootstrap=bootstrap,
        tools=sum(map(counter.tool, request.tools)),
        summary=0,
        notes=0,
        messages=0,
        tool_results=0,
        used=0,
        exact=False,
        stale=False,
        reported=0,
    )


def _kind_of(message: Message) -> Literal["answer", "result", "notes", ""]:
    """Return whether `message` is a complete answer (others report unreliable counts), a result, or quotes notes."""
    if isinstance(message, AssistantMessage):
        return "" if message.broken else "answer"
    return "result" if isinstance(message, ToolResultMessage) else "notes" if quotes_notes(message) else ""


def _is_of(model: str, message: Message) -> bool:
    """Return whether `model` may have given the answer `message`; an answer without a name may be from any."""
    if not model or not isinstance(message, AssistantMessage) or not message.model:
        return True
    return message.model in (model, model.partition("/")[2]) or f"{message.provider}/{message.model}" == model


def reported_prompt(message: Message) -> int:
    """The provider's count of the prompt that `message` answers; 0 if unknown. The offline model only weighs it, which
    reports less than what is counted here."""
    if not isinstance(message, AssistantMessage) or message.provider == OFFLINE or message.usage is None:
        return 0
    return max(0, message.usage.prompt_tokens)


def _reported_answer(messages: Sequence[Message], counts: Sequence[int], report: Report) -> int | None:
    """Return the provider's count of the last message, if that is the answer of `report`."""
    match messages[-1] if messages else None:
        case AssistantMessage(stop_reason="stop" | "length" | "toolUse", usage=Usage() as usage):
            same = usage.prompt_tokens == report.prompt_tokens
            return usage.output if same and 0 < usage.output <= counts[-1] * 1.5 + _ANSWER_SLACK else None
        case _:
            return None
