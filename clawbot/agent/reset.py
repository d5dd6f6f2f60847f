"""Ends a session, by hand or by the clock, and starts the next: hooks keep it as a note, the gate records what that
note covers, and the transcript is archived.

The note is written before anything is archived, and nothing waits for a model: the note's name comes later, and text
not in the note is offered to memory after the next session has begun (`ended_talks.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from clawbot.agent.boundary import Keeping, MemoryGate
from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import ResetReason, Scope, SessionChanged, warning
from clawbot.agent.hooks import SessionHooks, SessionServices
from clawbot.agent.offers import KEEPER, FlushOutcome, kept_notes
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.hooks.events import CommandNew, CommandReset, SessionAutoReset, SessionEnd, SessionStart
from clawbot.sessions.entries import NOTE, CustomEntry, MemoryWrite
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.reset import Expiry, expiry, next_check
from clawbot.text.interface import N_, _

log = logging.getLogger(__name__)

_RETRY_SECONDS = 600.0  # backoff after a failed reset, usually caused by a full disk
_NOT_KEPT = N_("This conversation was not archived")


class Resets:
    """The ends of one conversation's sessions, while no turn runs. `leaves` says whether memory is to be offered the
    rest when the session has ended, and records what it is not to be offered; `ended` is called when a session has
    ended that left something."""

    def __init__(
        self,
        deps: AgentDeps,
        conversation: Conversation,
        gate: MemoryGate,
        hooks: SessionHooks,
        *,
        leaves: Callable[[Scope], Awaitable[bool]],
        ended: Callable[[], None],
    ) -> None:
        self._policy = deps.rules.reset
        self._clock = deps.clock
        self._conversation = conversation
        self._gate = gate
        self._hooks = hooks
        self._leaves = leaves
        self._ended = ended
        self._failed: tuple[str, float] | None = None

    async def reset(self, reason: ResetReason, text: str, scope: Scope) -> SessionChanged:
        """Start a fresh session under the same key. `text` is the user's first message in it.

        A hook that fails, hangs or is stopped never prevents the reset. Raises SessionStoreError; then the old session
        stays.
        """
        await self._conversation.save_rest()
        await self._keep(_Keeper(self._conversation, self._hooks, reason, text), scope)
        pending = await self._leaves(scope)
        changed = await self._rotate(reason, pending=pending)
        if pending:
            self._ended()
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

    async def expire(self, due: Expiry, scope: Scope) -> SessionChanged | None:
        """Start a fresh session because the current one has expired, and report it. An empty one just starts over:
        None. Raises SessionStoreError."""
        conversation = self._conversation
        if conversation.is_blank:
            await asyncio.to_thread(conversation.begin_anew)
            return None
        try:
            changed = await self.reset(due.reason, "", scope)
        except SessionStoreError:
            self._failed = conversation.session_id, self._clock.monotonic()
            raise
        scope.emit(changed)
        return changed

    async def _keep(self, keeper: _Keeper, scope: Scope) -> None:
        """Let the hooks keep the session, and record what their note covers."""
        try:
            await self._gate.settle_crash(scope)
            await keeper.run(self._gate.keeping(KEEPER), scope)
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


class _Keeper:
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
        last = hooks.last_run(KEEPER) if hooks.is_ready(KEEPER, topic) else None
        if stopped or last is None or last.topic != topic or last.status == "ok":
            return FlushOutcome("interrupted" if stopped else "nothing")
        return FlushOutcome("failed", error=f"{_(_NOT_KEPT)}: {last.error}")

    def _note_write(self, write: MemoryWrite) -> None:
        """Record a write that is not an offer, so that the note is known as ours. Blocks."""
        entry = CustomEntry(custom_type=NOTE, data={"digest": write.digest, "path": write.path})
        self._conversation.session.transcript.append(entry, sync=True)
