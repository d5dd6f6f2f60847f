"""Keeps the context within the model's window: when to flush, when to compact, and what follows an overflow.

The decisions are pure (`context/window.py`); memory is reached through the gate alone (`boundary.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Literal, TypeVar

from msgspec import Struct

from clawbot.agent.boundary import Boundary
from clawbot.agent.cancel import InterruptedTurnError
from clawbot.agent.compacting import Compactor, CompactorParts
from clawbot.agent.events import CompactionFinished, Notice
from clawbot.agent.scope import Scope
from clawbot.agent.viewing import Shown
from clawbot.context.window import should_compact, should_flush, should_flush_by_size
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ContextOverflowError
from clawbot.llm.protocol import ChatRequest
from clawbot.sessions.errors import SessionStoreError

log = logging.getLogger(__name__)
T = TypeVar("T")

LEAST_ROOM = 300  # tokens for a conversation below which there is none
_MUCH = 10  # the part of the window that has to come before another compaction is tried where the last did not help
MOST_ROUNDS = 3  # after an overflow, each of which makes the request smaller (reference sheet 7.1)


class _Settled(Struct, frozen=True):
    """The last compaction by threshold: in which `talk`, and the tokens in use at the first figure after it."""

    talk: tuple[str, str]
    used: int | None = None


class Upkeep:
    """The upkeep of one conversation. Everything here runs while no other turn does."""

    def __init__(self, parts: CompactorParts) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._viewing = parts.viewing
        self._boundary: Boundary = parts.boundary
        self._compactor = Compactor(parts)
        self._told_no_room = ""
        self._settled: _Settled | None = None

    # -- around a turn ------------------------------------------------------------------------------------------------

    async def before_turn(self, scope: Scope) -> None:
        """Make room for the answer to the message that was said last. Raises InterruptedTurnError."""
        await self._viewing.build(self._parts.model().info, scope)
        shown = await self._look()
        self._tell_no_room(shown, scope)
        await self._kept_going(scope, self._flush_if_due(shown, scope))
        await self._compact_if_due(shown, scope)

    async def _flush_if_due(self, shown: Shown, scope: Scope) -> None:
        await self._boundary.settle_crash()
        if self._flush_is_due(shown):
            stop = self._compactor.answered_to(shown)
            start, allowed = self._boundary.first_unoffered, self._compactor.allowed(shown)
            copies = await self._viewing.detached(shown, start, stop, allowed)
            try:
                await self._boundary.offer("threshold", copies, scope)
            except InterruptedTurnError:
                # Esc skips what nobody asked for; the answer comes.
                scope.go_on()

    async def next_request(self, scope: Scope) -> ChatRequest:
        """The next call of the model; in the middle of a turn, room is made for it first. Raises
        InterruptedTurnError."""
        shown = await self._look()
        if await self._compact_if_due(shown, scope, running=True):
            shown = await self._look()
        return shown.request()

    async def after_turn(self, scope: Scope) -> None:
        """The answer is complete: compact now rather than when the user waits. Esc stops that alone."""
        try:
            if await self._compact_if_due(await self._look(), scope):
                await self._look()
        except InterruptedTurnError:
            log.info("the compaction after a turn was stopped; the next turn sees to it")

    async def recover(self, scope: Scope, error: ContextOverflowError) -> bool:
        """The provider refused a request as too large: learn the limit that it names, flush with what fits, compact,
        and say whether the request is smaller now. Raises InterruptedTurnError."""
        if scope.rounds == MOST_ROUNDS:
            return False
        scope.rounds += 1
        refused = self._viewing.current
        if self._viewing.windows.learn(self._parts.model().info, error.limit):
            # Less of the workspace fits into a smaller window, too.
            await self._viewing.build(self._parts.model().info, scope)
        if self._settings.enabled:
            await self._kept_going(scope, self._compactor.compact("overflow", scope, harder=scope.rounds))
        after = await self._look()
        return refused is not None and after.sent < refused.sent

    # -- by hand, and the ways out ------------------------------------------------------------------------------------

    async def compact(self, scope: Scope, focus: str) -> CompactionFinished:
        """Compact because the user asks for it; `focus` says what the summary is to hold above all."""
        finished = await self._compactor.compact("manual", scope, focus=focus)
        await self._look()
        return finished

    async def leave(self, way: Literal["reset", "quit"], scope: Scope) -> None:
        """The conversation is left: offer what memory was not offered yet. Stopping it (Esc) stops that alone."""
        await self._boundary.settle_crash()
        if not self._boundary.has_unoffered:
            return
        shown = await self._look()
        why = "too little was said to ask a model about it"
        if self._is_worth_it(way):
            try:
                start, allowed = self._boundary.first_unoffered, self._compactor.allowed(shown)
                copies = await self._viewing.detached(shown, start, len(shown.items), allowed)
                await self._boundary.offer(way, copies, scope)
            except InterruptedTurnError:
                log.info("the saving to memory at the end of a conversation was stopped")
                why = "it was stopped"
                scope.go_on()
            except SessionStoreError as error:
                log.warning("what memory took at the end of a conversation could not be recorded: %s", error)
        if way == "reset":
            # A record that could not be written may be possible now: this transcript is not opened again.
            await self._boundary.settle_crash()
            await self._boundary.let_go(way, len(shown.items), scope, why)

    @property
    def will_offer_at_quit(self) -> bool:
        """Whether the end of the program takes a moment, because memory is offered what was said."""
        return self._viewing.was_used and self._boundary.has_unoffered and self._is_worth_it("quit")

    def _is_worth_it(self, way: Literal["reset", "quit"]) -> bool:
        flush = self._settings.memory_flush
        least = flush.reset_min_tokens if way == "reset" else flush.quit_min_tokens
        said = self._viewing.weight(self._boundary.first_unoffered)
        return flush.enabled and not self._boundary.state.exhausted and said >= least

    def _tell_no_room(self, shown: Shown, scope: Scope) -> None:
        """Once in a session: no compaction makes prompt and tools smaller."""
        session = self._parts.conversation.session_id
        if shown.budget.limit - shown.measure.fixed >= LEAST_ROOM or self._told_no_room == session:
            return
        self._told_no_room = session
        text = (
            f"Prompt and tools take {shown.measure.fixed:,} of the window's {shown.budget.window:,} tokens: there is "
            "hardly room for a conversation. Shorten the files of the workspace, or choose a model with a larger "
            "window (/model); /context detail shows which part is how large."
        )
        scope.emit(Notice(level="warning", text=text))

    # -- decisions ----------------------------------------------------------------------------------------------------

    async def _look(self) -> Shown:
        return await self._viewing.look(self._parts.model().info)

    def _flush_is_due(self, shown: Shown) -> bool:
        flush, state = self._settings.memory_flush, self._boundary.state
        if not flush.enabled or state.exhausted or self._boundary.first_unoffered >= self._compactor.answered_to(shown):
            return False
        grown = self._parts.conversation.transcript_bytes - state.transcript_bytes
        return should_flush(
            shown.measure, shown.budget, flushed=state.flushed, failures=state.failures
        ) or should_flush_by_size(grown, flush.force_flush_transcript_bytes, state.failures)

    async def _compact_if_due(self, shown: Shown, scope: Scope, *, running: bool = False) -> bool:
        """Whether there is another context now. What failed in a submission is not tried again in it. `running`: a
        turn would be cut in its middle."""
        due = self._compaction_is_due(shown, running=running)
        if not self._settings.enabled or scope.compaction_failed or not due:
            return False
        finished = await self._kept_going(scope, self._compactor.compact("threshold", scope))
        scope.compaction_failed = finished is None or finished.status != "done"
        if not scope.compaction_failed:
            self._settled = _Settled(self._talk)
        return not scope.compaction_failed

    def _compaction_is_due(self, shown: Shown, *, running: bool) -> bool:
        """Over the limit, unless it was still over it right after the last compaction: then no other helps before much
        has come since (a server that puts a large prompt of its own before ours)."""
        measure, budget, settled = shown.measure, shown.budget, self._settled
        if settled is not None and settled.talk != self._talk:
            self._settled = settled = None
        if settled is not None and settled.used is None and not measure.stale:
            self._settled = settled = _Settled(self._talk, measure.used)
        least = 0
        if settled is not None and settled.used is not None and settled.used > budget.limit:
            least = settled.used + budget.window // _MUCH
        return should_compact(measure, budget, running=running) and measure.used > least

    @property
    def _talk(self) -> tuple[str, str]:
        """Which session is held with which model."""
        return self._parts.conversation.session_id, self._parts.model().info.ref

    async def _kept_going(self, scope: Scope, step: Awaitable[T]) -> T | None:
        """What `step` gave; None when it failed (a full disk), which is told and stops nobody."""
        try:
            return await step
        except ClawbotError as error:
            log.warning("the housekeeping of the context failed: %s", error)
            scope.emit(Notice(level="warning", text=str(error)))
            return None
