"""A compaction from its cut to its entry: what leaves is offered to memory, summarised, and stood for by the summary.

Whatever goes wrong before the entry is written leaves the history whole. Nothing is ever deleted from the transcript.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct, structs

from clawbot.agent.boundary import Boundary
from clawbot.agent.cancel import InterruptedTurnError
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import CompactionFinished, CompactionRunning, CompactionTrigger, ContextUsed
from clawbot.agent.hooking import Hooking
from clawbot.agent.scope import Scope
from clawbot.agent.summarising import SummaryError, SummaryJob, summarise
from clawbot.agent.viewing import Shown, Viewing
from clawbot.clock import Clock, epoch_ms
from clawbot.config.schema_context import CompactionSettings
from clawbot.context.budget import plan_budget
from clawbot.context.compaction import Cut, Situation, choose_cut, file_lists, is_inflated
from clawbot.context.cutting import head_and_tail
from clawbot.errors import ClawbotError
from clawbot.hooks.events import CompactAfter, CompactBefore
from clawbot.llm.protocol import ChatModel
from clawbot.llm.tokens import count_now
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.conversation import REQUEST
from clawbot.sessions.entries import CompactionEntry

log = logging.getLogger(__name__)

NOTHING = "There is nothing to compact yet."
ALREADY = "Nothing was said since the last compaction."
NO_GAIN = "The summary would take as much room as what it stands for."
_FLUSH_PROMPT_TOKENS = 600  # what a silent turn says beside the copy
_LEAST_COPY = 500  # tokens of a copy: less shows nothing
_REQUEST_SHARE = 4  # the part of the room for a conversation that the message which is being answered may take
_REQUEST_CHARS = 8_000


class CompactorParts(Struct, frozen=True):
    """What a compaction works with. `model` is the one that answers now; `open_model` opens the one of a reference;
    `figures` says how full the context is; `hooking` tells the hooks what happens."""

    conversation: Conversation
    viewing: Viewing
    boundary: Boundary
    settings: CompactionSettings
    clock: Clock
    model: Callable[[], ChatModel]
    open_model: Callable[[str], Awaitable[ChatModel]]
    figures: Callable[[], ContextUsed]
    hooking: Hooking


class Compactor:
    """The compactions of one conversation. They run while no turn does, or between two calls of one."""

    def __init__(self, parts: CompactorParts) -> None:
        self._parts = parts
        self._conversation = parts.conversation
        self._viewing = parts.viewing
        self._boundary = parts.boundary

    async def compact(
        self, trigger: CompactionTrigger, scope: Scope, *, focus: str = "", harder: int = 0
    ) -> CompactionFinished:
        """Compact and return how it went, which is emitted too unless there was nothing to do.

        `focus` is what the summary is to hold above all; `harder` grows from 1 with each round after an overflow.
        Raises InterruptedTurnError, with the history whole.
        """
        await self._conversation.save_rest()
        await self._boundary.settle_crash()
        shown = await self._viewing.look(self._parts.model().info)
        cut = choose_cut(self._situation(trigger, shown, harder))
        if cut is None:
            return CompactionFinished(trigger=trigger, status="failed", error=ALREADY if self._nothing_new else NOTHING)
        scope.emit(self._parts.figures())
        hooking = self._parts.hooking
        hooking.tell(hooking.make(CompactBefore, trigger=trigger, tokens=shown.measure.used))
        await self._offer(trigger, shown, cut, scope)
        finished = await self._summarise(trigger, shown, cut, focus, scope)
        await self._viewing.look(self._parts.model().info)
        scope.emit(self._parts.figures())
        return finished

    # -- what leaves --------------------------------------------------------------------------------------------------

    def _situation(self, trigger: CompactionTrigger, shown: Shown, harder: int) -> Situation:
        return Situation(
            trigger=trigger,
            items=shown.items,
            tokens=shown.tokens,
            first=self._first,
            offered=self._boundary.first_unoffered,
            nothing_new=self._nothing_new,
            harder=harder,
            measure=shown.measure,
            budget=shown.budget,
        )

    @property
    def _nothing_new(self) -> bool:
        """Whether nothing was said since the last compaction."""
        return self._conversation.has_summary and self._conversation.fresh_from == len(self._conversation.items)

    @property
    def _first(self) -> int:
        """The index of the first item that is no summary."""
        return 1 if self._conversation.has_summary else 0

    async def _offer(self, trigger: CompactionTrigger, shown: Shown, cut: Cut, scope: Scope) -> None:
        """Offer to memory what leaves and was never offered; with it what stays, when all of it fits into one copy."""
        start = self._boundary.first_unoffered
        if start >= cut.index:
            return
        allowed = self.allowed(shown, overflown=trigger == "overflow")
        copies = await self._viewing.detached(shown, start, self.answered_to(shown), allowed)
        if len(copies) != 1:
            copies = await self._viewing.detached(shown, start, cut.index, allowed)
        if self._parts.settings.memory_flush.enabled and not self._boundary.state.exhausted:
            await self._boundary.offer(trigger, copies, scope)

    def answered_to(self, shown: Shown) -> int:
        """Up to where the conversation can be offered: a message of the user that waits for its answer is not."""
        waits = bool(shown.items) and isinstance(shown.items[-1].message, UserMessage)
        return len(shown.items) - waits

    def allowed(self, shown: Shown, *, overflown: bool = False) -> int:
        """How many tokens of conversation a copy for a silent turn may have."""
        room = shown.budget.limit - shown.measure.fixed - _FLUSH_PROMPT_TOKENS
        if overflown:
            # Nobody knows how much too large the request was.
            room = min(room, (shown.measure.counted - shown.measure.fixed) // 2)
        return max(room, _LEAST_COPY)

    # -- what stands for it -------------------------------------------------------------------------------------------

    async def _summarise(
        self, trigger: CompactionTrigger, shown: Shown, cut: Cut, focus: str, scope: Scope
    ) -> CompactionFinished:
        def running(part: int, parts: int) -> None:
            scope.emit(CompactionRunning(trigger=trigger, part=part, parts=parts))

        try:
            summary = await self._ask(shown, cut, focus, scope, running)
            finished = await self._store(trigger, shown, cut, summary, scope)
        except InterruptedTurnError:
            self._tell(CompactionFinished(trigger=trigger, status="interrupted", error="It was stopped."), scope)
            raise
        except ClawbotError as error:
            log.warning("a compaction (%s) failed: %s", trigger, error)
            finished = CompactionFinished(trigger=trigger, status="failed", error=str(error))
        self._tell(finished, scope)
        return finished

    def _tell(self, finished: CompactionFinished, scope: Scope) -> None:
        """The user and the hooks hear how it went."""
        scope.emit(finished)
        hooking = self._parts.hooking
        event = hooking.make(
            CompactAfter,
            trigger=finished.trigger,
            status=finished.status,
            tokens_before=finished.tokens_before,
            tokens_after=finished.tokens_after,
            summary=finished.summary,
            error=finished.error,
        )
        hooking.tell(event)

    async def _ask(self, shown: Shown, cut: Cut, focus: str, scope: Scope, running: Callable[[int, int], None]) -> str:
        """The summary of what leaves. Raises SummaryError, ModelError."""
        settings = self._parts.settings
        before = self._conversation.last_compaction
        request = self._request(shown, cut)
        turn = cut.index if request is None else request
        job = SummaryJob(
            items=self._conversation.items[self._first : turn],
            split=self._conversation.items[turn : cut.index],
            previous=before.summary if before else "",
            details=before.details if before else None,
            focus=focus,
            window=shown.budget.window,
            budget=shown.budget,
            timeout=settings.timeout,
            preserve=settings.recent_turns_preserve,
            count=count_now,
            now_ms=epoch_ms(self._parts.clock.now()),
        )
        if settings.model is None:
            return await summarise(job, self._parts.model(), scope.cancel, running)
        model = await scope.cancel.run(functools.partial(self._parts.open_model, settings.model))
        try:
            window = self._viewing.windows.of(model.info).tokens
            shortest = min(job.budget.summary, plan_budget(window, settings).summary)
            job = structs.replace(job, window=window, budget=job.budget._replace(summary=shortest))
            return await summarise(job, model, scope.cancel, running)
        finally:
            await model.aclose()

    def _request(self, shown: Shown, cut: Cut) -> int | None:
        """The index of the message that is being answered, when the cut is in the middle of that turn."""
        items, turn = self._conversation.items, cut.split_turn
        if turn is None or any(isinstance(item.message, UserMessage) for item in items[turn + 1 :]):
            return None
        last = items[-1].message
        answered = isinstance(last, AssistantMessage) and not last.tool_calls
        return None if answered else turn

    def _carried(self, shown: Shown, cut: Cut) -> str:
        """The words of that message, which follow the summary: all of them if there is room."""
        turn = self._request(shown, cut)
        if turn is None:
            return ""
        text = self._conversation.items[turn].message.text
        room = (shown.budget.limit - shown.measure.fixed) // _REQUEST_SHARE
        fitting = len(text) if shown.tokens[turn] <= room else len(text) * room // shown.tokens[turn]
        return head_and_tail(text, min(fitting, _REQUEST_CHARS))

    async def _store(
        self, trigger: CompactionTrigger, shown: Shown, cut: Cut, summary: str, scope: Scope
    ) -> CompactionFinished:
        """Write the entry. Raises SummaryError when nothing is gained, SessionStoreError."""
        request = self._carried(shown, cut)
        size = await asyncio.to_thread(count_now, f"{summary}\n{request}")
        after = shown.measure.fixed + size + sum(shown.tokens[cut.index :])
        if trigger != "manual" and after >= shown.measure.counted and not is_inflated(shown.measure):
            raise SummaryError(NO_GAIN)
        # Only now is it certain that they leave: a memory that failed could have been asked again before.
        await self._boundary.let_go(trigger, cut.index, scope, "memory_flush.enabled is off")
        state, before = self._boundary.state, self._conversation.last_compaction
        gone = [item.message for item in self._conversation.items[self._first : cut.index]]
        files = file_lists(gone, before.details if before else None)
        entry = CompactionEntry(
            summary=summary,
            first_kept_entry_id=self._conversation.items[cut.index].entry_id,
            tokens_before=shown.measure.used,
            details={
                "trigger": trigger,
                "tokensAfter": after,
                "offeredTo": state.offered_to,
                "transcriptBytes": state.transcript_bytes,
                **({REQUEST: request} if request else {}),
                **files.as_details(),
            },
        )
        stored = await self._conversation.compact(entry)
        self._boundary.compacted(stored)
        self._viewing.forget_figures()
        return CompactionFinished(
            trigger=trigger,
            status="done",
            entry_id=stored.id,
            tokens_before=shown.measure.used,
            tokens_after=after,
            summary=summary,
        )
