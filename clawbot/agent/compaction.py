"""Runs a compaction from the cut to its entry: what leaves is offered to memory, summarised, and replaced by the
summary.

Any failure before the entry is written leaves the history unchanged. Nothing is ever deleted from the transcript.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec import structs

from clawbot.agent.boundary import MemoryGate
from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import (
    ALREADY_COMPACTED,
    NOTHING_TO_COMPACT,
    CompactionFinished,
    CompactionRunning,
    CompactionTrigger,
    Notice,
    Scope,
)
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.offers import kept_notes
from clawbot.agent.request_builder import PreparedRequest, RequestBuilder
from clawbot.agent.summary import JunkSummaryError, Progress, SummaryError, SummaryJob
from clawbot.clock import epoch_ms
from clawbot.context.compaction import Cut, Situation, file_lists, is_inflated
from clawbot.context.truncate import head_and_tail
from clawbot.context.window import copy_limit, plan_budget
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.hooks.events import CompactAfter, CompactBefore
from clawbot.llm.tokens import count_now
from clawbot.messages import OFFLINE, AssistantMessage, UserMessage
from clawbot.sessions.conversation import REQUEST, repair_pairs
from clawbot.sessions.entries import KEPT_NOTES, CompactionEntry
from clawbot.text.interface import N_, _
from clawbot.text.secrets import MARK, left_out

log = logging.getLogger(__name__)

NO_GAIN = N_("The summary would take as much room as what it stands for.")
_FLUSH_PROMPT_TOKENS = 600  # the prompts of a silent turn, besides the copy
_MIN_COPY = 500  # minimum tokens of a useful copy
_REQUEST_SHARE = 4  # the running request may take 1/n of the room for a conversation
_REQUEST_CHARS = 8_000


class Compactor:
    """The compactions of one conversation; `figures` returns the fill level of the context. They run between turns, or
    between two calls of one."""

    def __init__(
        self,
        deps: AgentDeps,
        conversation: Conversation,
        requests: RequestBuilder,
        gate: MemoryGate,
        hooks: SessionHooks,
    ) -> None:
        self._deps = deps
        self._settings = deps.settings.compaction
        self._conversation = conversation
        self._requests = requests
        self._gate = gate
        self._hooks = hooks

    async def compact(
        self, trigger: CompactionTrigger, scope: Scope, *, focus: str = "", harder: int = 0
    ) -> CompactionFinished:
        """Compact and return the result, which is also emitted unless there was nothing to do.

        `focus` is what the summary should cover above all; `harder` grows from 1 with each round after an overflow.
        Raises InterruptedTurnError, with the history unchanged.
        """
        await self._conversation.save_rest()
        await self._gate.settle_crash(scope)
        prepared = await self._requests.prepare()
        conversation = self._conversation
        nothing_new = conversation.has_summary and conversation.fresh_from == len(conversation.items)
        situation = Situation(
            trigger=trigger,
            items=prepared.items,
            tokens=prepared.tokens,
            first=self._first,
            offered=self._gate.first_unoffered,
            nothing_new=nothing_new,
            harder=harder,
            measure=prepared.measure,
            budget=prepared.budget,
        )
        cut = self._deps.rules.compaction.plan(situation)
        if cut is None:
            error = ALREADY_COMPACTED if nothing_new else NOTHING_TO_COMPACT
            return CompactionFinished(trigger=trigger, status="failed", error=error)
        scope.emit(self._requests.used())
        self._hooks.emit(CompactBefore, trigger=trigger, tokens=prepared.measure.used)
        await self._offer(trigger, prepared, cut, scope)
        finished = await self._summarise(trigger, prepared, cut, focus, scope)
        await self._requests.prepare()
        scope.emit(self._requests.used())
        return finished

    # -- what leaves --------------------------------------------------------------------------------------------------

    @property
    def _first(self) -> int:
        """The index of the first item after the summary."""
        return 1 if self._conversation.has_summary else 0

    async def _offer(self, trigger: CompactionTrigger, prepared: PreparedRequest, cut: Cut, scope: Scope) -> None:
        """Offer to memory what leaves and was never offered; together with the rest, if all fits into one copy."""
        spans = self._gate.unoffered
        if not spans or spans[0][0] >= cut.index:
            return
        allowed = self.allowed(prepared, overflown=trigger == "overflow")
        stop = self.answered_to(prepared)
        copies = await self._requests.detached(prepared, spans, stop, allowed)
        if len(copies) > sum(start < stop for start, _ in spans):
            copies = await self._requests.detached(prepared, spans, cut.index, allowed)
        if self._settings.memory_flush.enabled and not self._gate.state.exhausted:
            await self._gate.offer(trigger, copies, scope)

    def answered_to(self, prepared: PreparedRequest) -> int:
        """The end of what can be offered: excludes a user message still waiting for its answer."""
        waits = bool(prepared.items) and isinstance(prepared.items[-1].message, UserMessage)
        return len(prepared.items) - waits

    def allowed(self, prepared: PreparedRequest, *, overflown: bool = False) -> int:
        """Maximum tokens of conversation in a copy for a silent turn. A copy of all messages keeps the beginning
        that the provider has read, so it may reach into the reserve where the provider's own figures are known."""
        room = copy_limit(prepared.measure, prepared.budget) - prepared.measure.fixed - _FLUSH_PROMPT_TOKENS
        if overflown:
            # The size of the overflow is unknown.
            room = min(room, (prepared.measure.counted - prepared.measure.fixed) // 2)
        return max(room, _MIN_COPY)

    # -- the summary --------------------------------------------------------------------------------------------------

    async def _summarise(
        self, trigger: CompactionTrigger, prepared: PreparedRequest, cut: Cut, focus: str, scope: Scope
    ) -> CompactionFinished:
        def running(part: int, parts: int) -> None:
            scope.emit(CompactionRunning(trigger=trigger, part=part, parts=parts))

        before = self._conversation.last_compaction
        try:
            summary = await self._ask(trigger, prepared, cut, focus, scope=scope, running=running)
            finished = await self._store(trigger, prepared, cut, summary, scope)
        except InterruptedTurnError:
            self._report(CompactionFinished(trigger=trigger, status="interrupted", error=_("It was stopped.")), scope)
            raise
        except ClawbotError as error:
            log.warning("a compaction (%s) failed: %s", trigger, error)
            finished = CompactionFinished(trigger=trigger, status="failed", error=str(error))
        self._report(finished, scope)
        earlier = before.summary if before else ""
        if (count := finished.summary.count(MARK) - earlier.count(MARK)) > 0:
            scope.emit(Notice(level="info", text=_("{secrets} of the summary.").format(secrets=left_out(count))))
        return finished

    def _report(self, finished: CompactionFinished, scope: Scope) -> None:
        """Report the result to the user and the hooks."""
        scope.emit(finished)
        self._hooks.emit(
            CompactAfter,
            trigger=finished.trigger,
            status=finished.status,
            tokens_before=finished.tokens_before,
            tokens_after=finished.tokens_after,
            summary=finished.summary,
            error=finished.error,
        )

    async def _ask(
        self,
        trigger: CompactionTrigger,
        prepared: PreparedRequest,
        cut: Cut,
        focus: str,
        *,
        scope: Scope,
        running: Progress,
    ) -> str:
        """The summary of what leaves. Raises SummaryError, ModelError."""
        settings, job = self._settings, self._job(prepared, cut, focus)
        if trigger != "overflow" and settings.model is None and self._deps.model.chat.info.ref != OFFLINE:
            # After an overflow nobody knows what fits.
            gone = repair_pairs([item.message for item in prepared.items[: cut.index]])
            job = structs.replace(job, request=self._requests.request_of(gone))
        async with self._deps.model.borrow(settings.model, scope.cancel) as model:
            if settings.model is not None:
                window = self._requests.windows.of(model.info).tokens
                shortest = min(job.budget.summary, plan_budget(window, settings).summary)
                job = structs.replace(job, window=window, budget=job.budget._replace(summary=shortest))
            try:
                return await self._deps.rules.compaction.summarise(job, model, scope.cancel, running)
            except JunkSummaryError as error:
                junk = error
        scope.emit(
            Notice(level="info", text=_("{problem} It was made of extracts instead.").format(problem=junk.message))
        )
        job = structs.replace(job, request=None)
        async with self._deps.model.borrow(OFFLINE, scope.cancel) as offline:
            return await self._deps.rules.compaction.summarise(job, offline, scope.cancel, running)

    def _job(self, prepared: PreparedRequest, cut: Cut, focus: str) -> SummaryJob:
        before = self._conversation.last_compaction
        request = self._request(cut)
        turn = cut.index if request is None else request
        return SummaryJob(
            items=self._conversation.items[self._first : turn],
            split=self._conversation.items[turn : cut.index],
            previous=before.summary if before else "",
            details=before.details if before else None,
            focus=focus,
            window=prepared.budget.window,
            budget=prepared.budget,
            timeout=self._settings.timeout,
            preserve=self._settings.recent_turns_preserve,
            count=count_now,
            now_ms=epoch_ms(self._deps.clock.now()),
            sent=prepared.measure.beyond + prepared.measure.fixed + sum(prepared.tokens[: cut.index]),
        )

    def _request(self, cut: Cut) -> int | None:
        """The index of the message being answered, if the cut splits that turn."""
        items, turn = self._conversation.items, cut.split_turn
        if turn is None or any(isinstance(item.message, UserMessage) for item in items[turn + 1 :]):
            return None
        last = items[-1].message
        answered = isinstance(last, AssistantMessage) and not last.tool_calls
        return None if answered else turn

    def _carried(self, prepared: PreparedRequest, cut: Cut) -> str:
        """The text of that message, to be added to the summary: all of it if there is room."""
        turn = self._request(cut)
        if turn is None:
            return ""
        text = self._conversation.items[turn].message.text
        room = (prepared.budget.limit - prepared.measure.fixed) // _REQUEST_SHARE
        fitting = len(text) if prepared.tokens[turn] <= room else len(text) * room // prepared.tokens[turn]
        return head_and_tail(text, min(fitting, _REQUEST_CHARS))

    async def _store(
        self, trigger: CompactionTrigger, prepared: PreparedRequest, cut: Cut, summary: str, scope: Scope
    ) -> CompactionFinished:
        """Write the entry. Raises SummaryError if nothing is gained, SessionStoreError."""
        request = self._carried(prepared, cut)
        size = await asyncio.to_thread(count_now, f"{summary}\n{request}")
        after = prepared.measure.fixed + size + sum(prepared.tokens[cut.index :])
        if trigger != "manual" and after >= prepared.measure.counted and not is_inflated(prepared.measure):
            raise SummaryError(NO_GAIN)
        # Only now it is certain that they leave: until here a failed memory could have been tried again.
        await self._gate.let_go(trigger, cut.index, scope, "memory_flush.enabled is off")
        state, before = self._gate.state, self._conversation.last_compaction
        gone = [item.message for item in self._conversation.items[self._first : cut.index]]
        files = file_lists(gone, before.details if before else None)
        notes = kept_notes(self._conversation.session.transcript.entries)
        entry = CompactionEntry(
            summary=summary,
            first_kept_entry_id=self._conversation.items[cut.index].entry_id,
            tokens_before=prepared.measure.used,
            details={
                "trigger": trigger,
                "tokensAfter": after,
                "offeredTo": state.offered_to,
                "transcriptBytes": state.transcript_bytes,
                **({REQUEST: request} if request else {}),
                **({KEPT_NOTES: [{"digest": digest, "at": at} for digest, at in notes.items()]} if notes else {}),
                **files.as_details(),
            },
        )
        stored = await self._conversation.compact(entry)
        self._gate.compacted(stored)
        self._requests.forget_figures()
        return CompactionFinished(
            trigger=trigger,
            status="done",
            entry_id=stored.id,
            tokens_before=prepared.measure.used,
            tokens_after=after,
            summary=summary,
        )
