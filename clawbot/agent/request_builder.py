"""The next request to the model: the system prompt with the workspace read fresh, what is sent of the conversation, and
how much of the window that takes; the window is what is known of it, or less where errors of providers taught so."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Sequence

from msgspec import Struct, structs

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import ContextUsed, Emit, Notice, Scope
from clawbot.agent.prompt_builder import Built, PromptBuilder
from clawbot.clock import epoch_ms
from clawbot.context.counting import Kept, QuickSize, TokenCounter, quick_size, weigh_message
from clawbot.context.detached import Detached, Pictures, detach
from clawbot.context.prefix import CacheUse, CacheWatch, SentRequest
from clawbot.context.privacy import privacy_of
from clawbot.context.prompt import SystemPrompt
from clawbot.context.pruning import Guard, Pruner, marker_of, state_from
from clawbot.context.report import ContextReport, LastFlush, ReportInputs, build_report
from clawbot.context.startup import StartupQuote, startup_quote
from clawbot.context.window import (
    Measure,
    NextRequest,
    Report,
    Tally,
    Window,
    WindowBudget,
    Windows,
    plan_budget,
    reported_prompt,
)
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.tokens import count_now, estimate_tokens, weigh_tokens
from clawbot.messages import (
    OFFLINE,
    AssistantMessage,
    BashExecutionMessage,
    Message,
    ToolSpec,
    UserMessage,
    quotes_notes,
)
from clawbot.sessions.conversation import ContextItem, Pairing, repair_pairs, without_forgotten
from clawbot.sessions.entries import CustomEntry
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.store import OpenSession
from clawbot.tools.registry import Toolbox
from clawbot.tools.seen import Views

# Of the window, for a request that would not fit: the last resort, when no compaction could make room.
_GUARDED = 0.95
# The share of the window up to which tokens may be estimated: a text has at most 3.5 times its estimate, and no mark
# is below 3/8 of the window.
_FEW = 0.1
# How many times the messages of the context may be known before those that left are searched.
_GONE = 4
_SHORT_PROMPT = 700  # tokens
_MIN_ANSWER = 256  # tokens
# The share for a view that is to be cut nowhere but in results that are too large by themselves.
_ALL = 1_000.0


class PreparedRequest(Struct, frozen=True):
    """The next request, and what it takes. `items` are those of the conversation, one for one, after pruning, and
    `tokens` what each takes; `full` and `full_tokens` the same before pruning, for memory. `measure` is of `items`.
    `view` is what is sent, in complete pairs and `sent` tokens: less than `items` only where these would not fit."""

    built: Built
    items: list[ContextItem]
    tokens: list[int]
    full: list[ContextItem]
    full_tokens: list[int]
    view: NextRequest
    sent: int
    measure: Measure
    budget: WindowBudget

    def request(self) -> ChatRequest:
        """The next call of the model."""
        return _request(self.built, self.view.tools, self.view.messages)


def _request(built: Built, tools: Sequence[ToolSpec], messages: Sequence[Message]) -> ChatRequest:
    """A call that begins as all calls with `built` do."""
    return ChatRequest(
        system=built.prompt.text,
        messages=tuple(messages),
        tools=tuple(tools),
        stable_prefix=built.prompt.stable_prefix,
        zone=built.inputs.now.tzinfo,
    )


class RequestBuilder:
    """The requests of one conversation to the model that answers now. Counting and reading happen in threads; each
    message is counted once, as long as the conversation only grows. `prompts` makes the system prompt."""

    def __init__(self, deps: AgentDeps, conversation: Conversation, prompts: PromptBuilder) -> None:
        self._deps = deps
        self._conversation = conversation
        self._prompts = prompts
        self._settings = settings = deps.settings
        self._counted_for = ""
        self._estimates = False
        self._count_with(TokenCounter())
        self._preparing = threading.Lock()
        self._pictures = Pictures()
        self._older, self._newer = Pairing(), Pairing()
        self._pruner = Pruner(settings.context_pruning)
        self._weights = TokenCounter(weigh_tokens)
        self._limit, self._limit_full, self._guard = (Guard(self._weights.of) for _ in range(3))
        self._recorded = self._pruner.state
        self._cache = CacheWatch()
        self._report: Report | None = None
        self.windows = Windows(settings.context_tokens)
        self._session: OpenSession | None = None
        self._quick: tuple[tuple[str, int], QuickSize] | None = None
        self.weighed = 0  # tokens of prompt and tools, as far as they were weighed and not counted yet
        self.built: Built | None = None
        self.prepared: PreparedRequest | None = None

    def _count_with(self, counter: TokenCounter) -> None:
        self.counter = counter
        self._tally = Tally(counter)
        self._tokens, self._full_tokens = Kept(counter.of), Kept(counter.of)

    @property
    def toolbox(self) -> Toolbox:
        """The tools that this session has."""
        return self._deps.tools.for_session(privacy_of(self._conversation.session.record.key))

    # -- the request ---------------------------------------------------------------------------------------------------

    @property
    def window(self) -> Window:
        """That of the model that answers now."""
        return self.windows.of(self._deps.model.chat.info)

    async def read_workspace(self, scope: Scope) -> None:
        """Build the system prompt of the turn that begins. Raises InterruptedTurnError."""
        conversation = self._conversation
        if text := self._pictures.left_out(conversation.session_id, conversation.items, self._deps.model.chat.info):
            scope.emit(Notice(level="info", text=text))
        self.built = await scope.cancel.run(functools.partial(self._build, scope.emit))

    async def _build(self, report: Emit | None = None) -> Built:
        items = reversed(self._conversation.items)
        query = next((item.message.text for item in items if isinstance(item.message, UserMessage)), "")
        return await self._prompts.build(self._conversation.session.record.key, report, self.window.tokens, query)

    async def weigh(self) -> None:
        """Weigh prompt and tools, for the figures before the first turn: the vocabulary that counting needs takes 70 MB
        and a third of a second, which nobody should spend before the first message."""
        built = await self._build()
        self.weighed = _weigh(built.prompt, self._tools_of(built))

    async def build_with(self, messages: Sequence[Message]) -> ChatRequest:
        """A call that begins as the next turn will, and sends `messages`."""
        built = await self._build()
        return _request(built, self._tools_of(built), messages)

    async def startup_quote(self) -> StartupQuote | None:
        """Return the quote of the newest notes, before the first words of a session; None where it has begun."""
        conversation, deps = self._conversation, self._deps
        began = [item for item in conversation.items if not isinstance(item.message, BashExecutionMessage)]
        if began or not privacy_of(conversation.session.record.key).startup_notes:
            return None
        workspace, settings = deps.workspace, deps.settings.startup_context
        # Of a small window a tenth, in English.
        most = min(settings.max_chars, self.window.tokens * 2 // 5)
        settings = settings.model_copy(update={"max_chars": most})
        return await asyncio.to_thread(startup_quote, workspace, deps.clock.now(), settings)

    async def ahead(self) -> ChatRequest:
        """The next request up to the message of the user, for an answer of one token."""
        quote = await self.startup_quote()
        quoted = [UserMessage(quote.text)] if quote is not None and quote.text else []
        # Templates want a message of the user at the end.
        now = UserMessage(".", timestamp=epoch_ms(self._deps.clock.now()))
        request = await self.build_with([*self._conversation.messages, *quoted, now])
        return structs.replace(request, purpose="ahead", max_tokens=1)

    async def prepare(self) -> PreparedRequest:
        """Return the request for the current context. The workspace is not read again within a turn."""
        if self.built is None:
            self.built = await self._build()
        self._enter(self._deps.model.chat.info.ref)
        items = self._pictures.shown(self._conversation.items, self._deps.model.chat.info)
        fresh = self._conversation.fresh_from
        self.prepared = await asyncio.to_thread(self._prepare, self.built, items, fresh, self.window.tokens)
        return self.prepared

    def request_of(self, messages: Sequence[Message]) -> ChatRequest:
        """A call that begins as the session's next one does, and sends `messages`."""
        if self.built is None:
            return ChatRequest(system="", messages=tuple(messages))
        return _request(self.built, self._tools_of(self.built), messages)

    def answer_room(self, messages: Sequence[Message]) -> int | None:
        """The most tokens of an answer to a short prompt behind `messages`, where these reach into the reserve: some
        servers refuse what could exceed the window. None where they don't. Blocks."""
        if (last := self.current) is None:
            return None
        taken = last.measure.fixed + last.measure.beyond + sum(map(self.counter.of, messages)) + _SHORT_PROMPT
        return max(_MIN_ANSWER, (last.budget.window - taken) * 2 // 3) if taken > last.budget.limit else None

    def question(self, text: str) -> ChatRequest | None:
        """The request that asks `text` behind what each request of the session begins with, prompt and tools; None
        where no turn was taken, or that would leave little room."""
        request = self.request_of([UserMessage(text)])
        most = self.window.tokens * 3 // 4
        if self.built is None or _weigh(self.built.prompt, request.tools) + weigh_tokens(text) > most:
            return None
        return structs.replace(request, purpose="slug")

    def _tools_of(self, built: Built) -> Sequence[ToolSpec]:
        return built.inputs.tools if self._deps.model.chat.info.supports_tools else ()

    def _prepare(self, built: Built, items: list[ContextItem], fresh: int, window: int) -> PreparedRequest:
        with self._preparing:
            tools = self._tools_of(built)
            weight = _weigh(built.prompt, tools)
            pruned = items
            if self._settings.context_pruning.mode != "off":
                pruned = self._pruner.view(items, now_ms=epoch_ms(self._deps.clock.now()), window=window)
            seen = self._limit.view(pruned, window=window, fixed=weight, share=_ALL)
            full = seen if pruned == items else self._limit_full.view(items, window=window, fixed=weight, share=_ALL)
            messages = [item.message for item in seen]
            older = self._older.of(messages[:fresh]) if fresh else []
            newer = self._newer.of(messages[fresh:])
            view = NextRequest(built.prompt, tools, [*older, *newer], bool(older), len(older), self._counted_for)
            figures = self._tally.measure(view, self._report)
            if self._estimates and figures.used > window * _FEW:
                self._estimates, self._report = False, None
                self._count_with(TokenCounter(count_now, self._counted_for))
                figures = self._tally.measure(view)
            sent = figures.counted
            if figures.used > window * _GUARDED:
                view, sent = self._guarded(view, seen, fresh, figures, window)
            tokens = self._tokens.of(messages)
            self._forget_gone(view.messages, items, seen, full)
            return PreparedRequest(
                built=built,
                items=seen,
                tokens=tokens,
                full=full,
                full_tokens=tokens if full is seen else self._full_tokens.of([item.message for item in full]),
                view=view,
                sent=sent,
                measure=figures,
                budget=plan_budget(window, self._settings.compaction, fixed=figures.fixed),
            )

    def _forget_gone(self, sent: Sequence[Message], *parts: Sequence[ContextItem]) -> None:
        """Drop what is known of messages that are in none of `parts`, once they are many: finding them takes a
        scan of all."""
        most = _GONE * max(map(len, parts))
        for counter in (self.counter, self._weights):
            counter.forget_except(itertools.chain(sent, (item.message for part in parts for item in part)), most)

    def _guarded(
        self, view: NextRequest, seen: Sequence[ContextItem], fresh: int, figures: Measure, window: int
    ) -> tuple[NextRequest, int]:
        """A view that fits, and its tokens: old results go that memory may not have been offered yet, so nothing but
        this one request is made of it."""
        weight = _weigh(view.prompt, view.tools)
        weighed = weight + sum(self._weights.of(item.message) for item in seen)
        share = _GUARDED * weighed / figures.used
        messages = [item.message for item in self._guard.view(seen, window=window, fixed=weight, share=share)]
        older, newer = repair_pairs(messages[:fresh]), repair_pairs(messages[fresh:])
        view = view._replace(messages=[*older, *newer], has_summary=bool(older), fresh_from=len(older))
        return view, figures.fixed + sum(map(self.counter.of, view.messages))

    def _enter(self, model: str) -> None:
        """Forget what was known of another session or counted for another model."""
        if self._counted_for != model:
            self._counted_for = model
            self._estimates = self._deps.front.estimates
            self._count_with(TokenCounter(estimate_tokens if self._estimates else count_now, model))
            self._report = None
        if self._session is not self._conversation.session:
            self._session = self._conversation.session
            self._report = None
            state = state_from(self._session.transcript.entries)
            self._pruner, self._recorded = Pruner(self._settings.context_pruning, state), state

    def answered(self, message: AssistantMessage) -> None:
        """The model answered the last request: its provider may have counted, and has it in its cache."""
        if message.broken:
            return
        now = self._deps.clock.now()
        self._pruner.touch(epoch_ms(now))
        if self.prepared is not None:
            self._cache.answered(self._sent(self.prepared), message.usage, now.isoformat())
        if self.prepared is not None and (counted := reported_prompt(message)):
            self._report = Report(counted, self.prepared.sent)

    def _sent(self, prepared: PreparedRequest) -> SentRequest:
        inputs, record = prepared.built.inputs, self._conversation.session.record
        return SentRequest(
            request=prepared.request(),
            model=self._counted_for,
            session=record.session_id,
            compactions=record.compaction_count,
            files=inputs.bootstrap,
            day=f"{inputs.now:%Y-%m-%d}",
        )

    @property
    def cache(self) -> CacheUse | None:
        """How much of the last prompt the provider had read before, and what broke that last; None before it did, and
        for the offline model, which has none."""
        return None if self._deps.model.chat.info.ref == OFFLINE else self._cache.use

    def pruning_record(self) -> CustomEntry | None:
        """What a later start must know of the pruning, unless the transcript has it: it counts as written then."""
        if self._settings.context_pruning.mode == "off" or self._pruner.state == self._recorded:
            return None
        self._recorded = self._pruner.state
        provider, _, name = self._deps.model.chat.info.ref.partition("/")
        return marker_of(self._recorded, provider, name or provider)

    @property
    def pruned(self) -> int:
        """How many tool results are shortened or left out now."""
        return self._pruner.pruned

    def forget_figures(self) -> None:
        """What was counted is no figure for what comes next: another context, or another model."""
        self._report = None
        self.prepared = None

    def forget_session(self) -> None:
        """The session goes on from an earlier entry: what was counted and pruned in it is read again."""
        self._session = None
        self.forget_figures()

    def forget_turn(self) -> None:
        """The next request is made from the workspace read again."""
        self.built = None

    @property
    def was_used(self) -> bool:
        """Whether a turn was taken in this session since the program began."""
        return self._session is self._conversation.session

    def weight(self, spans: Sequence[tuple[int, int]]) -> int:
        """About how many tokens the items of `spans` have, each from the first index to before the second."""
        items = (item.message for start, stop in spans for item in self._conversation.items[start:stop])
        return sum(weigh_message(message) for message in items if not quotes_notes(message))

    def views(self) -> Views:
        """What the model that answered the last request has seen of files."""
        last, messages = self.prepared, self._conversation.messages
        if last is None:
            return Views()
        files = last.built.inputs.bootstrap.files
        prompt = [(file.name, file.digest, file.text) for file in files if file.digest and not file.truncated]
        return Views(last.view.messages, messages[len(last.items) :], prompt)

    @property
    def current(self) -> PreparedRequest | None:
        """The last request, unless that was of another session."""
        return self.prepared if self._session is self._conversation.session else None

    def used(self) -> ContextUsed:
        """How full the context is, as far as that is known without counting."""
        last, cost = self.current, self._conversation.cost
        tokens, exact = (last.measure.used, last.measure.exact) if last is not None else self.estimate()
        return ContextUsed(tokens=tokens, window=self.window.tokens, exact=exact, cost=cost)

    def estimate(self) -> tuple[int, bool]:
        """The tokens in use before a request was prepared, and whether that is the provider's figure."""
        key = (self._conversation.session_id, len(self._conversation.items))
        if self._quick is None or self._quick[0] != key:
            self._quick = (key, quick_size(self._conversation.messages, self._conversation.fresh_from))
        size = self._quick[1]
        return size.tokens + (0 if size.reported else self.weighed), size.exact

    def report(self, flush: LastFlush | None) -> ContextReport:
        """The report on the prepared request; `flush` is the last one. Blocks: tools and files are counted one by one.
        Raises ValueError where none was prepared."""
        if (prepared := self.prepared) is None:
            raise ValueError("no request was prepared")
        inputs = ReportInputs(
            request=prepared.view,
            measure=prepared.measure,
            budget=prepared.budget,
            window=self.window,
            prompt=prepared.built.inputs,
            automatic=self._settings.compaction.enabled,
            compactions=self._conversation.session.record.compaction_count,
            last_flush=flush,
            pruned=self.pruned,
            cache=self.cache,
        )
        return build_report(inputs, self.counter)

    # -- copies for a silent turn -------------------------------------------------------------------------------------

    async def detached(
        self, prepared: PreparedRequest, spans: Sequence[tuple[int, int]], stop: int, allowed: int
    ) -> list[Detached]:
        """Copies that offer the items of `spans` before `stop`, in their order, each of at most `allowed` tokens. They
        hold what is offered complete, and what precedes it as the model has it in its cache."""
        path, tokens = self._conversation.session.transcript.path, list(prepared.tokens)
        shown = list(prepared.items)
        for start, end in spans:
            shown[start:end], tokens[start:end] = prepared.full[start:end], prepared.full_tokens[start:end]

        def copied() -> list[Detached]:
            # Read again: another process may have forgotten something since the session was opened.
            items = without_forgotten(shown, read_forgotten(path.parent), path.name)
            return [
                Detached(tuple(repair_pairs(copy.messages)), copy.start, copy.stop)
                for start, end in spans
                for copy in detach(items, tokens, start, min(end, stop), allowed=allowed)
            ]

        return await asyncio.to_thread(copied)


def _weigh(prompt: SystemPrompt, tools: Sequence[ToolSpec]) -> int:
    """About how many tokens the prompt and the tools take."""
    described = sum([len(str(tool.parameters)) + len(tool.description) for tool in tools])
    return weigh_tokens(prompt.text) + described // 4
