"""What the model is shown of the conversation, and how much of its window that takes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence

from msgspec import Struct

from clawbot.agent.conversation import Conversation
from clawbot.agent.prompting import Built, Prompting
from clawbot.agent.scope import Scope
from clawbot.agent.windows import Windows
from clawbot.clock import Clock, epoch_ms
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.budget import Budget, plan_budget
from clawbot.context.counting import TokenCounter
from clawbot.context.detached import Detached, detach
from clawbot.context.guard import Guard
from clawbot.context.privacy import privacy_of
from clawbot.context.pruning import Pruner, marker_of, state_from
from clawbot.context.weights import quick_size, weigh_message
from clawbot.context.window import Measure, Report, View, measure
from clawbot.llm.protocol import ChatRequest, ModelInfo
from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import AssistantMessage, ToolSpec, quotes_notes
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import CustomEntry
from clawbot.sessions.pairing import repair_pairs
from clawbot.tools.registry import Toolbox

# Of the window, for a request that would not fit: the last resort, when no compaction could make room.
_GUARDED = 0.95
# The share for a view that is to be cut nowhere but in results that are too large by themselves.
_ALL = 1_000.0


class Shown(Struct, frozen=True):
    """The context as the model is to see it. `items` are those of the conversation, one for one, after pruning, and
    `tokens` what each takes; `whole` and `whole_tokens` the same before pruning, for memory. `measure` is of `items`.
    `view` is what is sent, in whole pairs and `sent` tokens: less than `items` only where these would not fit."""

    built: Built
    items: list[ContextItem]
    tokens: list[int]
    whole: list[ContextItem]
    whole_tokens: list[int]
    view: View
    sent: int
    measure: Measure
    budget: Budget

    def request(self) -> ChatRequest:
        """The next call of the model."""
        return ChatRequest(
            system=self.built.prompt.text,
            messages=tuple(self.view.messages),
            tools=tuple(self.view.tools),
            stable_prefix=self.built.prompt.stable_prefix,
        )


class Viewing:
    """The view of one conversation. Counting and reading happen in threads; each message is counted once."""

    def __init__(
        self, conversation: Conversation, prompting: Prompting, tools: Toolbox, settings: AgentSettings, clock: Clock
    ) -> None:
        self._conversation = conversation
        self._prompting = prompting
        self._tools = tools
        self._settings = settings
        self._clock = clock
        self.counter = TokenCounter()
        self._counted_for = ""
        self._pruner = Pruner(settings.context_pruning)
        self._weights = TokenCounter(weigh_tokens)
        self._limit, self._limit_whole, self._guard = (Guard(self._weights.of) for _ in range(3))
        self._noted = self._pruner.state
        self._report: Report | None = None
        self.windows = Windows(settings.context_tokens)
        self._session = ""
        self._quick: tuple[tuple[str, int, int], tuple[int, bool]] | None = None
        self.weighed = 0  # tokens of prompt and tools, as far as they were weighed and not counted yet
        self.built: Built | None = None
        self.shown: Shown | None = None

    @property
    def toolbox(self) -> Toolbox:
        """The tools that this session has."""
        return self._tools.for_session(privacy_of(self._conversation.session.record.key))

    # -- the view -----------------------------------------------------------------------------------------------------

    async def build(self, model: ModelInfo, scope: Scope) -> None:
        """Read the workspace for the turn that begins. Raises InterruptedTurnError."""
        key, window = self._conversation.session.record.key, self.windows.of(model).tokens
        self.built = await scope.cancel.run(functools.partial(self._prompting.build, model, key, scope.emit, window))

    async def weigh(self, model: ModelInfo) -> None:
        """Weigh prompt and tools, for the figures before the first turn: the vocabulary that counting needs takes 70 MB
        and a third of a second, which nobody should spend before he says something."""
        key, window = self._conversation.session.record.key, self.windows.of(model).tokens
        built = await self._prompting.build(model, key, None, window)
        self.weighed = _weigh(built, built.inputs.tools if model.supports_tools else ())

    async def look(self, model: ModelInfo) -> Shown:
        """The context as it stands. The workspace is not read again within a turn."""
        window = self.windows.of(model).tokens
        if self.built is None:
            self.built = await self._prompting.build(model, self._conversation.session.record.key, None, window)
        self._enter(model)
        items = list(self._conversation.items)
        self.shown = await asyncio.to_thread(self._look, self.built, items, model, window)
        return self.shown

    def _look(self, built: Built, items: list[ContextItem], model: ModelInfo, window: int) -> Shown:
        tools = built.inputs.tools if model.supports_tools else ()
        weight = _weigh(built, tools)
        pruned = self._pruner.view(items, now_ms=epoch_ms(self._clock.now()), window=window)
        seen = self._limit.view(pruned, window=window, fixed=weight, share=_ALL)
        whole = seen if pruned == items else self._limit_whole.view(items, window=window, fixed=weight, share=_ALL)
        view = self._view(built, tools, seen)
        figures = measure(view, self.counter, self._report)
        sent = figures.counted
        if figures.used > window * _GUARDED:
            view, sent = self._guarded(seen, built, tools, figures, window)
        shown = Shown(
            built=built,
            items=seen,
            tokens=[self.counter.of(item.message) for item in seen],
            whole=whole,
            whole_tokens=[self.counter.of(item.message) for item in whole],
            view=view,
            sent=sent,
            measure=figures,
            budget=plan_budget(window, self._settings.compaction, fixed=figures.fixed),
        )
        present = [*view.messages, *(item.message for part in (items, seen, whole) for item in part)]
        self.counter.forget_except(present)
        self._weights.forget_except(present)
        return shown

    def _view(self, built: Built, tools: Sequence[ToolSpec], seen: Sequence[ContextItem]) -> View:
        """What a call with `seen` sends. Pairs are made whole on both sides of the last compaction: it parts none."""
        fresh = self._conversation.fresh_from
        older, newer = (repair_pairs([item.message for item in part]) for part in (seen[:fresh], seen[fresh:]))
        summary = self._conversation.has_summary
        return View(built.prompt, tools, (*older, *newer), summary, len(older), self._counted_for)

    def _guarded(
        self, seen: Sequence[ContextItem], built: Built, tools: Sequence[ToolSpec], figures: Measure, window: int
    ) -> tuple[View, int]:
        """A view that fits, and its tokens: old results go that memory may not have been offered yet, so nothing but
        this one request is made of it."""
        weight = _weigh(built, tools)
        weighed = weight + sum(self._weights.of(item.message) for item in seen)
        share = _GUARDED * weighed / figures.used
        view = self._view(built, tools, self._guard.view(seen, window=window, fixed=weight, share=share))
        return view, figures.fixed + sum(self.counter.of(message) for message in view.messages)

    def _enter(self, model: ModelInfo) -> None:
        """Forget what was known of another session or counted for another model."""
        if self._counted_for != model.ref:
            self._counted_for = model.ref
            self.counter = TokenCounter(ref=model.ref)
            self._report = None
        if self._session != self._conversation.session_id:
            self._session = self._conversation.session_id
            self._report = None
            state = state_from(self._conversation.session.transcript.entries)
            self._pruner, self._noted = Pruner(self._settings.context_pruning, state), state

    def answered(self, message: AssistantMessage) -> None:
        """The model answered what was shown last: its provider may have counted, and has it in its cache."""
        if message.broken:
            return
        self._pruner.touch(epoch_ms(self._clock.now()))
        if self.shown is not None and message.usage is not None and message.usage.prompt_tokens > 0:
            self._report = Report(message.usage.prompt_tokens, self.shown.sent)

    def pruning_to_note(self, model: ModelInfo) -> CustomEntry | None:
        """What a later start must know of the pruning, unless the transcript has it."""
        if self._settings.context_pruning.mode == "off" or self._pruner.state == self._noted:
            return None
        self._noted = self._pruner.state
        provider, _, name = model.ref.partition("/")
        return marker_of(self._noted, provider, name or provider)

    @property
    def pruned(self) -> int:
        """How many tool results are shortened or left out now."""
        return self._pruner.pruned

    def forget_figures(self) -> None:
        """What was counted is no figure for what comes next: another context, or another model."""
        self._report = None
        self.shown = None

    def forget_turn(self) -> None:
        """The next look reads the workspace anew."""
        self.built = None

    @property
    def was_used(self) -> bool:
        """Whether a turn was taken in this session since the program began."""
        return self._session == self._conversation.session_id

    def weight(self, start: int) -> int:
        """About how many tokens were said in the items from the index `start` on."""
        said = (item.message for item in self._conversation.items[start:] if not quotes_notes(item.message))
        return sum(map(weigh_message, said))

    @property
    def current(self) -> Shown | None:
        """What was shown last, unless that was another session."""
        return self.shown if self._session == self._conversation.session_id else None

    def size(self) -> tuple[int, bool]:
        """The tokens in use as far as they are known without counting, and whether that is the provider's figure."""
        if (shown := self.current) is not None:
            return shown.measure.used, shown.measure.exact
        key = (self._conversation.session_id, len(self._conversation.items), self.weighed)
        if self._quick is None or self._quick[0] != key:
            self._quick = (key, quick_size(self._conversation.messages, self._conversation.fresh_from, self.weighed))
        return self._quick[1]

    # -- copies for a silent turn -------------------------------------------------------------------------------------

    async def detached(self, shown: Shown, start: int, stop: int, allowed: int) -> list[Detached]:
        """Copies that offer the items from `start` to before `stop`, each of at most `allowed` tokens."""
        return await asyncio.to_thread(_detached, shown, start, stop, allowed)


def _detached(shown: Shown, start: int, stop: int, allowed: int) -> list[Detached]:
    copies = detach(shown.whole, shown.whole_tokens, start, stop, allowed=allowed)
    return [Detached(tuple(repair_pairs(copy.messages)), copy.start, copy.stop) for copy in copies]


def _weigh(built: Built, tools: Sequence[ToolSpec]) -> int:
    """About how many tokens the prompt and the tools take."""
    described = sum(len(str(tool.parameters)) + len(tool.description) for tool in tools)
    return weigh_tokens(built.prompt.text) + described // 4
