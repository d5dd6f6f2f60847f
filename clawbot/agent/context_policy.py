"""Keeps the context within the model's window: when to flush, when to compact, and how to recover from an overflow.

The decisions are pure (`context/window.py`); memory is only reached through the gate (`boundary.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

from msgspec import Struct

from clawbot.agent.boundary import MemoryGate
from clawbot.agent.compaction import Compactor
from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import CompactionFinished, Scope, warning
from clawbot.agent.request_builder import PreparedRequest, RequestBuilder
from clawbot.context.detached import Detached
from clawbot.context.window import should_compact, should_flush, should_flush_by_size
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ContextOverflowError, ModelError
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import UserMessage
from clawbot.sessions.entries import Exit
from clawbot.sessions.text import is_spoken
from clawbot.text.interface import N_, _

log = logging.getLogger(__name__)
T = TypeVar("T")

SMALL_WINDOW = 3_000
"""Tokens of a window in which nothing but questions without a past fit."""
_MORE = {
    "ollama": "`OLLAMA_CONTEXT_LENGTH=8192 ollama serve`",
    "ollama_chat": "`OLLAMA_CONTEXT_LENGTH=8192 ollama serve`",
    "lm_studio": "`lms load MODEL --context-length 8192`",
    "hosted_vllm": "`vllm serve MODEL --max-model-len 8192`",
    "llamafile": "`llama-server -m MODEL.gguf -c 8192`",
}
TOO_LARGE_HINT = N_(
    "Nothing is lost. Shorten the message or put it into a file of the workspace, choose "
    "a model with a larger window (/model), or start afresh (/new); /context shows where "
    "the tokens go."
)
MIN_ROOM = 300  # tokens for a conversation below which there is none
_MUCH = 10  # after a compaction that did not help, the next one waits for this part of the window in new tokens
NEAR = 0.8  # of the limit: an empty answer to a larger prompt may mean that it did not fit
MAX_ROUNDS = 3  # after an overflow, each of which makes the request smaller


class _Compacted(Struct, frozen=True):
    """The last compaction by threshold: its session and model (`key`), and the first token count after it (None: not
    known yet)."""

    key: tuple[str, str]
    used: int | None = None


class ContextPolicy:
    """The policy of one conversation. Everything here runs while no other turn does."""

    def __init__(
        self,
        deps: AgentDeps,
        conversation: Conversation,
        requests: RequestBuilder,
        gate: MemoryGate,
        compactor: Compactor,
    ) -> None:
        self._deps = deps
        self._settings = deps.settings.compaction
        self._conversation = conversation
        self._requests = requests
        self._gate = gate
        self._compactor = compactor
        self._reported_no_room = ""
        self._compacted: _Compacted | None = None

    # -- around a turn ------------------------------------------------------------------------------------------------

    async def before_turn(self, scope: Scope) -> PreparedRequest:
        """Make room for the answer to the last message; returns the first request. Raises InterruptedTurnError."""
        await self._requests.read_workspace(scope)
        prepared = await self._requests.prepare()
        self._report_no_room(prepared, scope)
        await self._tolerated(scope, self._flush_if_due(prepared, scope))
        return await self._compacted_if_due(prepared, scope)

    async def _flush_if_due(self, prepared: PreparedRequest, scope: Scope) -> None:
        await self._gate.settle_crash(scope)
        if self._flush_is_due(prepared):
            stop = self._compactor.answered_to(prepared)
            try:
                await self._gate.offer("threshold", await self._copies(prepared, stop), scope)
            except InterruptedTurnError:
                # Esc skips the housekeeping; the turn continues.
                scope.go_on()

    async def _copies(self, prepared: PreparedRequest, stop: int) -> list[Detached]:
        """Copies of what was never offered to memory before the index `stop`."""
        allowed = self._compactor.allowed(prepared)
        return await self._requests.detached(prepared, self._gate.unoffered, stop, allowed)

    async def next_request(self, scope: Scope, prepared: PreparedRequest | None) -> ChatRequest:
        """The next model call: `prepared` if nothing was added since. Within a turn, room is made first. Raises
        InterruptedTurnError."""
        prepared = prepared or await self._requests.prepare()
        return (await self._compacted_if_due(prepared, scope, running=True)).request()

    async def after_turn(self, scope: Scope) -> None:
        """The answer is complete: compact now rather than while the user waits. Esc stops only that."""
        try:
            await self._compacted_if_due(await self._requests.prepare(), scope)
        except InterruptedTurnError:
            log.info("the compaction after a turn was stopped; the next turn sees to it")

    async def recover(self, scope: Scope, error: ModelError) -> bool:
        """The provider refused a request as too large, or answered nothing to a large one: learn the limit from the
        error, flush what fits, compact, and return whether the request is smaller now. Raises InterruptedTurnError."""
        refused, limit = self._requests.current, error.limit if isinstance(error, ContextOverflowError) else None
        fits = refused is None or refused.measure.used < NEAR * refused.budget.limit
        if scope.rounds == MAX_ROUNDS or (fits and not isinstance(error, ContextOverflowError)):
            return False
        scope.rounds += 1
        if self._requests.windows.learn(self._deps.model.chat.info, limit):
            # A smaller window also holds less of the workspace.
            await self._requests.read_workspace(scope)
        if self._settings.enabled:
            await self._tolerated(scope, self._compactor.compact("overflow", scope, harder=scope.rounds))
        after = await self._requests.prepare()
        return refused is not None and after.sent < refused.sent

    def explained(self, error: ContextOverflowError) -> ContextOverflowError:
        """Add to `error` what can be done, and where the tokens go unless bytes, for example, are what is too large."""
        request = self._requests.prepared
        if request is None or not request.tokens:
            return error
        if error.limit is None and 2 * request.measure.counted < request.budget.window:
            return ContextOverflowError(error.message, provider=error.provider, hint=_(TOO_LARGE_HINT))
        fixed, last = request.measure.fixed, request.tokens[-1]
        rest = max(0, request.measure.counted - fixed - last)
        text = _(
            "The context does not fit into the model's window of {window:,} tokens: prompt and tools "
            "take {fixed:,}, what was said before {rest:,}, the last message {last:,}. ({error})"
        ).format(window=request.budget.window, fixed=fixed, rest=rest, last=last, error=error.message)
        return ContextOverflowError(text, provider=error.provider, hint=_(TOO_LARGE_HINT), limit=error.limit)

    # -- by hand, and the ways out ------------------------------------------------------------------------------------

    async def compact(self, scope: Scope, focus: str) -> CompactionFinished:
        """Compact on request; `focus` is what the summary should cover above all."""
        finished = await self._compactor.compact("manual", scope, focus=focus)
        await self._requests.prepare()
        return finished

    async def offer_rest(self, way: Exit, scope: Scope) -> None:
        """Offer the rest to memory when the conversation is left. Raises InterruptedTurnError, SessionStoreError."""
        await self._gate.settle_crash(scope)
        if self._gate.has_unoffered:
            prepared = await self._requests.prepare()
            await self._gate.offer(way, await self._copies(prepared, len(prepared.items)), scope)

    async def leaves_some(self, scope: Scope) -> bool:
        """At a reset: whether the rest must be offered to memory after the session ended. What must not be offered is
        released, with a record of the reason. Raises SessionStoreError."""
        spans, flush, items = self._gate.unoffered, self._settings.memory_flush, self._conversation.items
        if not spans:
            return False
        if not flush.enabled:
            why = "memory_flush.enabled is off"
        elif not any(isinstance(item.message, UserMessage) and is_spoken(item.message) for item in items):
            why = "the user said nothing"
        elif flush.reset_min_tokens and self._requests.weight(spans) < flush.reset_min_tokens:
            why = "too little was said to ask a model about it"
        else:
            return True
        await self._gate.let_go("reset", len(items), scope, why)
        return False

    @property
    def will_offer_at_quit(self) -> bool:
        """Whether the program's end takes a moment because the conversation is offered to memory."""
        flush, spans = self._settings.memory_flush, self._gate.unoffered
        if not (flush.enabled and spans and self._requests.was_used) or self._gate.state.exhausted:
            return False
        return self._requests.weight(spans) >= flush.quit_min_tokens

    def _report_no_room(self, prepared: PreparedRequest, scope: Scope) -> None:
        """Report once per session that compaction can't reduce prompt and tools."""
        session, fixed = self._conversation.session_id, prepared.measure.fixed
        window, roomy = prepared.budget.window, prepared.budget.limit - fixed >= MIN_ROOM
        if self._reported_no_room == session or (roomy and window >= SMALL_WINDOW):
            return
        self._reported_no_room = session
        start = _MORE.get(self._deps.model.chat.info.ref.partition("/")[0], _MORE["llamafile"])
        text = _(
            "Prompt and tools take {fixed:,} of the window's {window:,} tokens: there is hardly room for a "
            "conversation. With a server of your own, start it with more ({start}). Else choose a model with a larger "
            "window (/model), or shorten the files of the workspace; /context detail shows which part is how large."
        ).format(fixed=fixed, window=window, start=start)
        scope.emit(warning(text))

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _flush_is_due(self, prepared: PreparedRequest) -> bool:
        flush, state = self._settings.memory_flush, self._gate.state
        if not flush.enabled:
            return False
        grown = self._conversation.transcript_bytes - state.transcript_bytes
        due = should_flush(
            prepared.measure, prepared.budget, flushed=state.flushed, failures=state.failures
        ) or should_flush_by_size(grown, flush.force_flush_transcript_bytes, state.failures)
        # Last, because it examines every message.
        return due and not state.exhausted and self._gate.first_unoffered < self._compactor.answered_to(prepared)

    async def _compacted_if_due(
        self, prepared: PreparedRequest, scope: Scope, *, running: bool = False
    ) -> PreparedRequest:
        """`prepared`, or the request after a compaction that it required. A failed compaction is not repeated within a
        submission. `running`: a turn would be split. Where the limit was exceeded right after the last compaction, the
        next one waits until much was added: some servers prepend a large prompt of their own."""
        measure, budget, last = prepared.measure, prepared.budget, self._compacted
        if last is not None and last.key != self._key:
            last = self._compacted = None
        elif last is not None and last.used is None and not measure.stale:
            last = self._compacted = _Compacted(last.key, measure.used)
        exceeded = last.used if last is not None and last.used is not None and last.used > budget.limit else None
        least = 0 if exceeded is None else exceeded + budget.window // _MUCH
        due = should_compact(measure, budget, running=running) and measure.used > least
        if not self._settings.enabled or scope.compaction_failed or not due:
            return prepared
        finished = await self._tolerated(scope, self._compactor.compact("threshold", scope))
        scope.compaction_failed = finished is None or finished.status != "done"
        if scope.compaction_failed:
            return prepared
        self._compacted = _Compacted(self._key)
        return await self._requests.prepare()

    @property
    def _key(self) -> tuple[str, str]:
        """The session and the model."""
        return self._conversation.session_id, self._deps.model.chat.info.ref

    async def _tolerated(self, scope: Scope, step: Awaitable[T]) -> T | None:
        """The result of `step`; None on failure (a full disk), which is reported and stops nothing."""
        try:
            return await step
        except ClawbotError as error:
            log.warning("the housekeeping of the context failed: %s", error)
            scope.emit(warning(str(error)))
            return None
