"""How sessions end, by hand or by the clock, and what is done for those that ended.

A reset archives the session: hooks keep it as a note, the gate records what that note covers, then the next session
begins. The note is written before anything is archived, and nothing waits for a model: the note's name comes later.

What no note holds and no flush took is offered to memory afterwards, in the background, from the transcripts on disk.
The same goes for a session that the end of the program left before memory had taken it, until somebody resumes it.

| state of a session | known by | what comes next |
|---|---|---|
| open | it has the key, or was resumed | the gate of its conversation (`boundary.py`) |
| pending | `memory_pending` in the index, `pending` in an end mark | it is borrowed, and a crash settled |
| being offered | its lock, and an offer that has begun | the offer ends: written, nothing, failed, interrupted |
| left for later | as pending: it failed, was stopped, or is open elsewhere | after a pause, or at the next start |
| given up | a last offer `abandoned`, after `MAX_TRIES` failures | nothing |
| done | all entries are in offers that are final | the mark in the index goes |

Only the records in the transcript decide what is left to offer. The index states which transcripts to check, so that a
start reads none of the others: after a kill it may name one too many, never one too few.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import datetime

from clawbot.agent.boundary import Keeping
from clawbot.agent.conversation import Conversation, notices_of
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Emit, Event, MemoryWritten, Notice, ResetReason, Scope, SessionChanged, warning
from clawbot.agent.hooks import SessionHooks, SessionServices
from clawbot.agent.offers import MAX_FAILURES, MAX_TRIES, NOTE_HOOK, FlushOutcome, kept_notes
from clawbot.agent.turn_runner import TurnRunner
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.hooks.events import CommandNew, CommandReset, SessionAutoReset, SessionEnd, SessionStart
from clawbot.sessions.entries import NOTE, CustomEntry, Exit, MemoryWrite
from clawbot.sessions.errors import SessionLockedError, SessionStoreError
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.reset import Expiry, expiry, next_check
from clawbot.text.interface import N_, _, ngettext

log = logging.getLogger(__name__)


_RETRY_SECONDS = 600.0  # backoff after a failed reset, usually caused by a full disk
_NOT_KEPT = N_("This conversation was not archived")


class Resets:
    """The ends of one conversation's sessions, while no turn runs; `ended` is woken when a session has ended that left
    something."""

    def __init__(
        self,
        deps: AgentDeps,
        conversation: Conversation,
        turns: TurnRunner,
        hooks: SessionHooks,
        ended: EndedSessions,
    ) -> None:
        self._policy = deps.rules.reset
        self._clock = deps.clock
        self._conversation = conversation
        self._turns = turns
        self._hooks = hooks
        self._ended = ended
        self._failed: tuple[str, float] | None = None

    async def reset(self, reason: ResetReason, text: str, scope: Scope) -> SessionChanged:
        """Start a fresh session under the same key. `text` is the user's first message in it.

        A hook that fails, hangs or is stopped never prevents the reset. Raises SessionStoreError; then the old session
        remains.
        """
        await self._conversation.save_rest()
        await self._keep(_EndingHooks(self._conversation, self._hooks, reason, text), scope)
        pending = await self._turns.leaves_some(scope)
        changed = await self._rotate(reason, pending=pending)
        if pending:
            self._ended.wake()
        return changed

    @property
    def due(self) -> Expiry | None:
        """Why the open session has expired; None if it has not."""
        record, now = self._conversation.session.record, self._clock.now()
        return expiry(self._policy, now, started_ms=record.began_at, last_ms=record.last_interaction_at)

    @property
    def next_check(self) -> datetime | None:
        """When it may expire next; None for never."""
        record, now = self._conversation.session.record, self._clock.now()
        return next_check(self._policy, now, started_ms=record.began_at, last_ms=record.last_interaction_at)

    @property
    def backs_off(self) -> bool:
        """Whether ending the open session failed recently: back off, because the hooks would run each time."""
        if self._failed is None or self._failed[0] != self._conversation.session_id:
            return False
        return self._clock.monotonic() - self._failed[1] < _RETRY_SECONDS

    async def expire_if_due(self, scope: Scope) -> list[Notice]:
        """Start a fresh session if the current one has expired, and report it; returns the problems of opening the
        next. An empty one just starts over. Raises SessionStoreError."""
        due, conversation = self.due, self._conversation
        if due is None:
            return []
        if conversation.is_blank:
            await asyncio.to_thread(conversation.restart)
            return []
        try:
            changed = await self.reset(due.reason, "", scope)
        except SessionStoreError:
            self._failed = conversation.session_id, self._clock.monotonic()
            raise
        scope.emit(changed)
        return notices_of(conversation.session)

    async def _keep(self, hooks: _EndingHooks, scope: Scope) -> None:
        """Let the hooks keep the session, and record what their note covers."""
        try:
            await self._turns.gate.settle_crash(scope)
            await hooks.run(self._turns.gate.keeping(NOTE_HOOK), scope)
        except ClawbotError as error:
            log.warning("what became of the note of a session could not be recorded: %s", error)
            scope.emit(warning(_("The conversation's note could not be recorded: {error}").format(error=error)))

    async def _rotate(self, reason: ResetReason, *, pending: bool) -> SessionChanged:
        old = self._conversation.session
        changed = await self._conversation.rotate(reason, pending=pending)
        ended = {"session_id": old.record.session_id, "session_key": old.record.key}
        self._hooks.emit(SessionEnd, reason=reason, transcript=str(old.transcript.path), **ended)
        self._hooks.emit(SessionStart, reason=reason, previous_id=old.record.session_id)
        return changed


class _EndingHooks:
    """The hooks of one reset, which run once."""

    def __init__(self, conversation: Conversation, hooks: SessionHooks, reason: ResetReason, text: str) -> None:
        self._conversation = conversation
        self._hooks = hooks
        match reason:
            case "/new":
                self._event: CommandNew | CommandReset | SessionAutoReset = hooks.event(CommandNew, text=text)
            case "/reset":
                self._event = hooks.event(CommandReset, text=text)
            case _:
                self._event = hooks.event(SessionAutoReset, reason=reason)

    async def run(self, keeping: Keeping, scope: Scope) -> None:
        """Run the hooks; the text in their note is what they took of the offer `keeping`. Stopping the hooks stops only
        them. Raises SessionStoreError."""

        def before_write(write: MemoryWrite) -> None:
            if not keeping.write(write, services.held):
                self._note_write(write)

        ours = kept_notes(self._conversation.session.transcript.entries)
        services = SessionServices(self._hooks, self._event, before_write, ours)
        stopped = False
        try:
            await self._hooks.ask(self._event, scope, services)
        except InterruptedTurnError:
            log.info("the hooks of a reset were stopped")
            stopped = True
            scope.go_on()
        finally:
            services.stop_recording()
        await keeping.end(self._outcome(services, stopped=stopped), services.held)

    def _outcome(self, services: SessionServices, *, stopped: bool) -> FlushOutcome:
        if services.kept is not None:
            return FlushOutcome("written", (services.kept.write,) if services.kept.write else ())
        hooks, topic = self._hooks, self._event.topic
        last = hooks.last_run(NOTE_HOOK) if hooks.is_ready(NOTE_HOOK, topic) else None
        if stopped or last is None or last.topic != topic or last.status == "ok":
            return FlushOutcome("interrupted" if stopped else "nothing")
        return FlushOutcome("failed", error=f"{_(_NOT_KEPT)}: {last.error}")

    def _note_write(self, write: MemoryWrite) -> None:
        """Record a write that is not an offer, so that the note is known as ours. Blocks."""
        entry = CustomEntry(custom_type=NOTE, data={"digest": write.digest, "path": write.path})
        self._conversation.session.transcript.append(entry, sync=True)


_PAUSE_SECONDS = 600.0  # before it is tried again: a model that failed, a session that is open elsewhere


class EndedSessions:
    """The sessions of one agent that ended and are pending. `notify` shows the user an event. All calls belong on the
    event loop."""

    def __init__(self, deps: AgentDeps, notify: Emit) -> None:
        self._deps = deps
        self._store = deps.store
        self._clock = deps.clock
        self._notify = notify
        self._task: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._cancel = Cancellation()
        self._current = ""
        self._woken = False
        self._held_back = 0
        self._barred: set[str] = set()
        self._failures: dict[str, int] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a session is being offered now, or is about to be."""
        return self._task is not None and not self._task.done()

    def wake(self) -> None:
        """Find pending sessions, and offer them. Nobody waits for it."""
        self._woken = True
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if not (self._held_back or self.is_busy):
            self._cancel = Cancellation()
            self._task = asyncio.create_task(self._run(), name="ended sessions")
            self._task.add_done_callback(self._scan_done)

    def _scan_done(self, _task: asyncio.Task[None]) -> None:
        """Something may have ended while the last scan was being stopped."""
        if self._woken and not self._held_back:
            self.wake()

    async def settled(self) -> None:
        """Wait until nothing is being offered."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    @contextlib.asynccontextmanager
    async def without(self, session_id: str = "") -> AsyncIterator[None]:
        """Keep away from the session while the context lasts; without an id from all of them. What is being offered
        of it is stopped, and goes on later."""
        self._barred.add(session_id)
        self._held_back += not session_id
        try:
            if not session_id or self._current == session_id:
                self.stop()
                await self.settled()
            yield
        finally:
            self._barred.discard(session_id)
            self._held_back -= not session_id
            self.wake()

    def stop(self) -> bool:
        """Stop what is being offered; a later scan goes on with it. False when nothing is."""
        self._cancel.request()
        return self.is_busy

    async def close(self, patience: float) -> None:
        """Wait at most `patience` seconds for what is being offered, and stop. The next start goes on with the rest."""
        self._held_back += 1
        if self._again is not None:
            self._again.cancel()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=patience)
            self.stop()
            await self.settled()

    async def _run(self) -> None:
        while self._woken and not self._cancel.requested:
            self._woken = False
            try:
                records = await asyncio.to_thread(self._store.pending)
            except ClawbotError as error:
                log.warning("ended sessions can't be searched: %s", error)
                return
            # What is no longer pending was offered, forgotten or resumed, and begins again when it ends again.
            pending = {each.session_id for each in records}
            self._failures = {one: count for one, count in self._failures.items() if one in pending}
            for record in records:
                if self._cancel.requested:
                    return
                failures = self._failures.get(record.session_id, 0)
                if record.session_id not in self._barred and failures < MAX_FAILURES:
                    await self._take(record)

    async def _take(self, record: SessionRecord) -> None:
        """Offer what is left of the session of `record`, if nobody else holds it."""
        self._current = record.session_id
        try:
            await self._offer(record)
        except SessionLockedError:
            # It is open elsewhere, or another program sees to it.
            self._later()
        except SessionStoreError as error:
            log.warning("what was offered of a session that ended could not be recorded: %s", error)
            self._later()
        except Exception as error:
            log.exception("what a session left could not be offered to memory")
            self._failed(record.session_id, f"{type(error).__name__} (see the log for details).")
        finally:
            self._current = ""

    async def _offer(self, record: SessionRecord) -> None:
        """Raises SessionStoreError, SessionLockedError."""
        store = self._store
        if not await asyncio.to_thread(store.path_of(record).exists):
            await asyncio.to_thread(store.offered, record)
            return
        conversation = Conversation(store, await asyncio.to_thread(store.borrow, record), self._clock)
        try:
            if await self._offer_rest(conversation):
                await asyncio.to_thread(store.offered, conversation.session.record)
        finally:
            await conversation.close()

    async def _offer_rest(self, conversation: Conversation) -> bool:
        """Offer what is left; whether nothing is any more."""
        hooks = SessionHooks(self._deps, conversation, self._notify)
        runner = TurnRunner(self._deps, conversation, hooks, ended=True)
        events: list[Event] = []
        scope = Scope(events.append, self._cancel)
        way: Exit = "reset" if conversation.session.record.ended_reason else "quit"
        try:
            await runner.policy.offer_rest(way, scope)
            error = self._error_of(runner)
            if runner.gate.has_unoffered and runner.gate.state.tries >= MAX_TRIES:
                await runner.gate.let_go(way, len(conversation.items), scope)
                error = ""
        except InterruptedTurnError:
            error = ""
        except ClawbotError as failure:
            error = str(failure)
        self._report(events)
        if error:
            self._failed(conversation.session_id, error)
        return not runner.gate.has_unoffered

    @staticmethod
    def _error_of(runner: TurnRunner) -> str:
        last = runner.gate.state.last
        return last.error if runner.gate.has_unoffered and last is not None else ""

    def _report(self, events: list[Event]) -> None:
        """One line for all that was written, and what else the user is to know."""
        writes = [event for event in events if isinstance(event, MemoryWritten)]
        if writes:
            lines = sum(write.end_line - write.line + 1 for write in writes)
            text = ngettext(
                "memory: {n} line from the conversation before", "memory: {n} lines from the conversation before", lines
            )
            text = text.format(n=lines)
            self._notify(Notice(level="info", text=text, path=writes[0].path, line=writes[0].line))
        for event in events:
            if isinstance(event, Notice):
                self._notify(event)

    def _failed(self, session_id: str, error: str) -> None:
        """Try again later, and report that once."""
        log.warning("memory was not offered what an ended session left: %s", error)
        if session_id not in self._failures:
            text = _("The conversation before is not in memory yet: {error} It is tried again, also at the next start.")
            text = text.format(error=error)
            self._notify(warning(text))
        self._failures[session_id] = self._failures.get(session_id, 0) + 1
        self._later()

    def _later(self) -> None:
        if self._again is None and not self._held_back:
            self._again = asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self.wake)
