"""The gate: whatever leaves the model's context is offered to memory first, exactly once, and never waits for it in
vain.

Five ways lead out: compaction by threshold, after an overflow and by hand, a reset, and the end of the program. All
call `Boundary.offer`. Each offer is recorded in the transcript (`sessions/audit.py`) when it begins, before each write
and when it ends, so that after a crash the file itself tells whether memory took it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import structs

from clawbot.agent.cancel import InterruptedTurnError
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import MemoryWritten, Notice
from clawbot.agent.flush import FlushOutcome, verify_write
from clawbot.agent.offers import MOST_FAILURES, OfferState, after_entry, offers_of, unoffered_from
from clawbot.agent.scope import Scope
from clawbot.context.detached import Detached
from clawbot.sessions.audit import FINAL, OFFER, Exit, MemoryWrite, Offer, Phase, Result
from clawbot.sessions.entries import CompactionEntry, CustomEntry

log = logging.getLogger(__name__)

FAILED_BEFORE = "It failed before."
BeforeWrite = Callable[[MemoryWrite], None]


class Memory(Protocol):
    """What takes an offer: the silent turn, or a hook."""

    @property
    def name(self) -> str:
        """How the records call it."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked, empty for none."""
        ...

    async def take(self, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        """Keep what matters of `copy`. Calls `before_write` before each write, in any thread; raises nothing."""
        ...


class Boundary:
    """The gate of one conversation. `saving` is told when memory begins to take an offer, and when it ends; `ended`
    what came of each."""

    def __init__(
        self,
        conversation: Conversation,
        memory: Memory,
        workspace: Path,
        saving: Callable[[bool], None],
        ended: Callable[[Offer], None],
    ) -> None:
        self._conversation = conversation
        self._saving = saving
        self._ended = ended
        self._memory = memory
        self._workspace = workspace
        self._session = ""
        self._state = OfferState()
        self._told = False
        self._last_error = ""

    @property
    def state(self) -> OfferState:
        """Where the offers stand in the session that is open."""
        if self._session != self._conversation.session_id:
            self._session = self._conversation.session_id
            self._state = offers_of(self._conversation.session.transcript.entries)
            self._told = False
        return self._state

    @property
    def first_unoffered(self) -> int:
        """The index of the first item of the context that was never offered."""
        first = 1 if self._conversation.has_summary else 0
        return unoffered_from(self.state, self._conversation.items, first)

    @property
    def has_unoffered(self) -> bool:
        """Whether something in the context was never offered."""
        return self.first_unoffered < len(self._conversation.items)

    async def offer(self, way: Exit, copies: Sequence[Detached], scope: Scope, *, by: Memory | None = None) -> None:
        """Offer `copies`, which follow each other, as long as memory (or another one, `by`) takes them.

        A failing memory is told once in a cycle and never raised. Raises InterruptedTurnError when the user stops it,
        and SessionStoreError when nothing can be recorded: then nothing was offered either.
        """
        for copy in copies:
            if await self._offer(way, copy, scope, by or self._memory) not in FINAL:
                break

    async def let_go(self, way: Exit, stop: int, scope: Scope, why: str = "") -> None:
        """Record that what was not offered yet, up to before the index `stop`, leaves nevertheless: because memory
        failed, or because of `why`. Raises SessionStoreError."""
        await self._conversation.save_rest()
        start = self.first_unoffered
        if start >= stop:
            return
        failed = self.state.failures > 0
        error = (self._last_error or FAILED_BEFORE) if failed else why
        outcome = FlushOutcome(result="abandoned" if failed else "skipped", error=error)
        ended = await self._end(self._begun(way, Detached((), start, stop), self._memory), outcome)
        if failed:
            self._tell_failure(ended, scope)

    def compacted(self, entry: CompactionEntry) -> None:
        """A new cycle begins with `entry`."""
        self._state = after_entry(self.state, entry)
        self._told = False

    async def settle_crash(self) -> None:
        """End an offer that a crash or a full disk left open, before another begins: what it was about to write and is
        in the file was taken."""
        state = self.state
        if state.open is None:
            return
        there = [write for write in state.open_writes if await asyncio.to_thread(verify_write, self._workspace, write)]
        result: Result = "written" if there else "interrupted"
        ended = structs.replace(state.open, phase="end", result=result, writes=tuple(there), recovered=True)
        await self._record(structs.replace(ended, transcript_bytes=self._conversation.transcript_bytes))

    async def _offer(self, way: Exit, copy: Detached, scope: Scope, memory: Memory) -> Result:
        # The record names entries, which what could not be written yet does not have.
        await self._conversation.save_rest()
        begun = self._begun(way, copy, memory)
        await self._record(begun)
        self._saving(True)
        try:
            outcome = await memory.take(copy, functools.partial(self._note_write, begun), scope)
        finally:
            self._saving(False)
        stopped = outcome.result == "interrupted"
        if stopped and outcome.writes:
            # Offered again, the same would be written twice.
            outcome = structs.replace(outcome, result="written")
        ended = await self._end(begun, outcome)
        for write in ended.writes if memory is self._memory else ():
            scope.emit(MemoryWritten(path=write.path, line=write.line, end_line=write.end_line, bytes=write.size))
        if ended.error:
            log.warning("memory did not take all that was offered (%s): %s", ended.exit, ended.error)
        if ended.result == "failed":
            self._last_error = ended.error
            if self.state.failures == MOST_FAILURES:
                self._tell_failure(ended, scope)
        if stopped:
            raise InterruptedTurnError
        return ended.result

    def _begun(self, way: Exit, copy: Detached, memory: Memory) -> Offer:
        items = self._conversation.items
        return Offer(
            offer=uuid.uuid4().hex[:8],
            phase="begin",
            exit=way,
            by=memory.name,
            first=items[copy.start].entry_id,
            last=items[copy.stop - 1].entry_id,
            messages=copy.stop - copy.start,
            model=memory.model,
        )

    async def _end(self, begun: Offer, outcome: FlushOutcome) -> Offer:
        ended = structs.replace(
            begun,
            phase="end",
            result=outcome.result,
            writes=outcome.writes,
            reply=outcome.reply,
            error=outcome.error,
            tokens=outcome.tokens,
            transcript_bytes=self._conversation.transcript_bytes,
        )
        await self._record(ended)
        if ended.result in ("written", "nothing"):
            self._conversation.offered()
        self._ended(ended)
        return ended

    def _tell_failure(self, ended: Offer, scope: Scope) -> None:
        """One notice in a cycle: when it is given up, or when words leave without having been kept."""
        if not self._told:
            self._told = True
            lost = "The conversation goes on, and its transcript is whole."
            scope.emit(Notice(level="warning", text=f"Nothing could be saved to memory: {ended.error} {lost}"))

    def _note_write(self, begun: Offer, write: MemoryWrite) -> None:
        """Record that `write` is about to happen. Blocks; called from the thread that writes."""
        self._append(_entry(begun, "write", (write,)))

    async def _record(self, offer: Offer) -> None:
        await self._conversation.save_rest()
        await asyncio.to_thread(self._append, _entry(offer, offer.phase, offer.writes))

    def _append(self, entry: CustomEntry) -> None:
        stored = self._conversation.session.transcript.append(entry, sync=True)
        self._state = after_entry(self.state, stored)


def _entry(offer: Offer, phase: Phase, writes: tuple[MemoryWrite, ...]) -> CustomEntry:
    record = structs.replace(offer, phase=phase, writes=writes)
    return CustomEntry(custom_type=OFFER, data=msgspec.to_builtins(record))
