"""The gate: everything that leaves the model's context is offered to memory first, exactly once; a failing memory never
blocks the user.

Text leaves in five ways: compaction by threshold, after an overflow and by hand, a reset, and the end of the program.
All call `MemoryGate.offer`; a reset first lets hooks keep a note (`MemoryGate.keeping`), and the rest is offered after
the next session has begun (`ending.py`). Each offer is recorded in the transcript (`sessions/entries.py`) when it
begins, before each write and when it ends, so that after a crash the file itself shows whether memory took it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec
from msgspec import structs

from clawbot.agent.conversation import Conversation
from clawbot.agent.events import MemoryWritten, Scope, secrets_left_out, warning
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.offers import (
    MAX_FAILURES,
    FlushOutcome,
    OfferState,
    Span,
    after_entry,
    held_from,
    offers_of,
    unoffered_spans,
)
from clawbot.authors import Author, recording
from clawbot.context.detached import Detached
from clawbot.deadline import InterruptedTurnError
from clawbot.hooks.events import ContextFlush
from clawbot.sessions.entries import FINAL, OFFER, CompactionEntry, CustomEntry, Exit, MemoryWrite, Offer, Phase, Result
from clawbot.sessions.store import OpenSession
from clawbot.text.interface import N_, _
from clawbot.tools.append_only import BeforeWrite, is_on_disk
from clawbot.tools.folder import WorkspaceFolder

log = logging.getLogger(__name__)

FAILED_BEFORE = N_("It failed before.")
GOES_ON = N_("The conversation goes on, and its transcript is whole.")
COMPLETE = N_("Its transcript keeps every word.")


class FlushTarget(Protocol):
    """Accepts an offer: the silent turn."""

    @property
    def name(self) -> str:
        """Its name in the records."""
        ...

    @property
    def model(self) -> str:
        """The model used, empty for none."""
        ...

    async def take(self, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        """Save what matters in `copy`. Calls `before_write` before each write, on any thread; raises nothing."""
        ...


class MemoryGate:
    """The gate of one conversation. `on_saving` is called when an offer begins and ends; `hooks` get each result.
    `after_failure` is added to the notice when memory fails for good."""

    def __init__(
        self,
        conversation: Conversation,
        target: FlushTarget,
        hooks: SessionHooks,
        *,
        after_failure: str = GOES_ON,
    ) -> None:
        self._conversation = conversation
        self._hooks = hooks
        self._after_failure = after_failure
        self._target = target
        self.on_saving: Callable[[bool], None] | None = None
        self._session: OpenSession | None = None
        self._state = OfferState()
        self._reported = False
        self._last_error = ""

    @property
    def state(self) -> OfferState:
        """The state of the offers in the open session."""
        if self._session is not self._conversation.session:
            self._session = self._conversation.session
            self._state = offers_of(self._session.transcript.entries)
            self._reported = False
        return self._state

    @property
    def unoffered(self) -> list[Span]:
        """The parts of the context never offered, in order."""
        first = 1 if self._conversation.has_summary else 0
        return unoffered_spans(self.state, self._conversation.items, first)

    @property
    def first_unoffered(self) -> int:
        """The index of the first item of the context never offered."""
        return next((start for start, _ in self.unoffered), len(self._conversation.items))

    @property
    def has_unoffered(self) -> bool:
        """Whether part of the context was never offered."""
        return self.first_unoffered < len(self._conversation.items)

    async def offer(self, way: Exit, copies: Sequence[Detached], scope: Scope) -> None:
        """Offer consecutive `copies` until memory fails.

        A failure is reported once per cycle and never raised. Raises InterruptedTurnError if the user stops it, and
        SessionStoreError if nothing can be recorded: then nothing was offered either.
        """
        for copy in copies:
            if await self._offer(way, copy, scope) not in FINAL:
                break

    def keeping(self, name: str) -> Keeping:
        """The offer of everything not offered yet to the hooks of a reset, called `name` in the records."""
        return Keeping(self, self._conversation, name)

    async def let_go(self, way: Exit, stop: int, scope: Scope, why: str = "") -> None:
        """Record that the unoffered part before the index `stop` leaves anyway: because memory failed, or because of
        `why`. Raises SessionStoreError."""
        await self._conversation.save_rest()
        failed = self.state.failures > 0
        error = (self._last_error or FAILED_BEFORE) if failed else why
        outcome = FlushOutcome(result="abandoned" if failed else "skipped", error=error)
        for start, end in self.unoffered:
            if start >= stop:
                return
            ended = await self.end(self._begun(way, Detached((), start, min(end, stop))), outcome)
            if failed:
                self._report_failure(ended, scope)

    def rewound(self) -> None:
        """The conversation goes on from an earlier entry: its records are read again."""
        self._session = None

    def compacted(self, entry: CompactionEntry) -> None:
        """Start a new cycle with `entry`."""
        self._state = after_entry(self.state, entry)
        self._reported = False

    async def settle_crash(self, scope: Scope) -> None:
        """End an offer left open by a crash or a full disk, before another begins: text that it was about to write and
        that is in the file was taken, and the user is notified now."""
        state = self.state
        if state.open is None:
            return
        folder = WorkspaceFolder(self._hooks.deps.workspace)
        there = [write for write in state.open_writes if await asyncio.to_thread(is_on_disk, folder, write)]
        result: Result = "written" if there else "interrupted"
        ended = structs.replace(state.open, phase="end", result=result, writes=tuple(there), recovered=True)
        await self._record(structs.replace(ended, transcript_bytes=self._conversation.transcript_bytes))
        if ended.by == self._target.name:
            _report_writes(ended, scope)

    def _author(self, offer: Offer) -> Author:
        conversation = self._conversation
        return Author(offer.by, conversation.session_id, conversation.session.record.key, offer.last)

    async def _offer(self, way: Exit, copy: Detached, scope: Scope) -> Result:
        # The record names entries, so they must be written first.
        await self._conversation.save_rest()
        begun = self._begun(way, copy)
        await self._record(begun)
        self._report_saving(True)
        try:
            with recording(self._hooks.deps.memory.recorder, self._author(begun)):
                outcome = await self._target.take(copy, functools.partial(self.note_write, begun), scope)
        finally:
            self._report_saving(False)
        stopped = outcome.result == "interrupted"
        if stopped and outcome.writes:
            # Otherwise the same would be offered and written twice.
            outcome = structs.replace(outcome, result="written")
        ended = await self.end(begun, outcome)
        _report_writes(ended, scope)
        if ended.error:
            log.warning("memory did not take all that was offered (%s): %s", ended.exit, ended.error)
        if ended.result == "failed":
            self._last_error = ended.error
            if self.state.failures == MAX_FAILURES:
                self._report_failure(ended, scope)
        if stopped:
            raise InterruptedTurnError
        return ended.result

    def _begun(self, way: Exit, copy: Detached) -> Offer:
        begun = offer_to(self._target.name, way, self._conversation, (copy.start, copy.stop))
        return structs.replace(begun, model=self._target.model)

    async def end(self, begun: Offer, outcome: FlushOutcome) -> Offer:
        """Record the `outcome` of the offer `begun`, and report it. Raises SessionStoreError."""
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
        files = list(dict.fromkeys(write.path for write in ended.writes))
        record = {"exit": ended.exit, "by": ended.by, "result": ended.result, "error": ended.error}
        self._hooks.emit(ContextFlush, files=files, **record)
        return ended

    def _report_saving(self, saving: bool) -> None:
        if self.on_saving is not None:
            self.on_saving(saving)

    def _report_failure(self, ended: Offer, scope: Scope) -> None:
        """One notice per cycle: when memory is given up, or when text leaves without having been saved."""
        if not self._reported:
            self._reported = True
            text = _("Nothing could be saved to memory: {error}").format(error=_(ended.error))
            text = f"{text} {_(self._after_failure)}"
            scope.emit(warning(text))

    def note_write(self, begun: Offer, write: MemoryWrite) -> None:
        """Record that `write` is about to happen. Blocks; called on the writing thread."""
        self._append(_entry(begun, "write", (write,)))

    def note_begin(self, begun: Offer) -> None:
        """Record that the offer `begun` begins. Blocks."""
        self._append(_entry(begun, "begin", ()))

    async def _record(self, offer: Offer) -> None:
        await self._conversation.save_rest()
        await asyncio.to_thread(self._append, _entry(offer, offer.phase, offer.writes))

    def _append(self, entry: CustomEntry) -> None:
        stored = self._conversation.session.transcript.append(entry, sync=True)
        self._state = after_entry(self.state, stored)


class Keeping:
    """The offer to the hooks of a reset. It begins with their first write of a note and covers the entries quoted in
    that note; without any there is no offer."""

    def __init__(self, gate: MemoryGate, conversation: Conversation, name: str) -> None:
        self._gate = gate
        self._conversation = conversation
        self._name = name
        self._begun: Offer | None = None

    def write(self, write: MemoryWrite, held: Collection[str]) -> bool:
        """Record that a note quoting the entries `held` is about to be written; False if it covers nothing, and nothing
        was recorded. Blocks."""
        begun = self._of(held)
        if begun is None:
            return False
        if self._begun is None:
            self._gate.note_begin(begun)
        self._begun = begun
        self._gate.note_write(begun, write)
        return True

    async def end(self, outcome: FlushOutcome, held: Collection[str]) -> None:
        """Record the outcome. Raises SessionStoreError."""
        begun = self._begun or (self._of(held) if outcome.result == "written" else None)
        if begun is None and outcome.result == "failed":
            begun = self._complete()
        if begun is not None:
            await self._gate.end(begun, outcome)

    def _of(self, held: Collection[str]) -> Offer | None:
        span = self._span
        start = held_from(self._conversation.items, held, span) if span else 0
        if span is None or start == span[1]:
            return None
        ident = self._begun.offer if self._begun else ""
        return offer_to(self._name, "reset", self._conversation, (start, span[1]), ident)

    def _complete(self) -> Offer | None:
        return offer_to(self._name, "reset", self._conversation, self._span) if self._span else None

    @property
    def _span(self) -> Span | None:
        """The unoffered part at the end of the context; None if the end was offered."""
        last = next(reversed(self._gate.unoffered), None)
        return last if last is not None and last[1] == len(self._conversation.items) else None


def _report_writes(ended: Offer, scope: Scope) -> None:
    for write in ended.writes:
        scope.emit(MemoryWritten(path=write.path, line=write.line, end_line=write.end_line, bytes=write.size))
        if write.secrets:
            scope.emit(secrets_left_out(write))


def offer_to(name: str, way: Exit, conversation: Conversation, span: Span, ident: str = "") -> Offer:
    """The first record of an offer of `span` to `name`; `ident` is its id, by default a new one."""
    first, last = (conversation.items[at].entry_id for at in (span[0], span[1] - 1))
    return Offer(
        offer=ident or uuid.uuid4().hex[:8],
        phase="begin",
        exit=way,
        by=name,
        first=first,
        last=last,
        messages=span[1] - span[0],
    )


def _entry(offer: Offer, phase: Phase, writes: tuple[MemoryWrite, ...]) -> CustomEntry:
    record = structs.replace(offer, phase=phase, writes=writes)
    return CustomEntry(custom_type=OFFER, data=msgspec.to_builtins(record))
