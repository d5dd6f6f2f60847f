"""Ends a session by the clock: at the next message when nobody looked before, or when a timer asks (reference sheet
4.2)."""

from __future__ import annotations

import asyncio
from datetime import datetime

from msgspec import Struct

from clawbot.agent.conversation import Conversation
from clawbot.agent.events import SessionChanged
from clawbot.agent.resetting import Resetting
from clawbot.agent.scope import Scope
from clawbot.clock import Clock
from clawbot.sessions.reset import Expiry, ResetPolicy, expiry, next_look


class ExpiringParts(Struct, frozen=True):
    """What it works with. `policy` says when a session is over."""

    conversation: Conversation
    resetting: Resetting
    policy: ResetPolicy
    clock: Clock


class Expiring:
    """The end of one conversation's sessions by the clock. Called while no turn runs."""

    def __init__(self, parts: ExpiringParts) -> None:
        self._parts = parts

    @property
    def due(self) -> Expiry | None:
        """Why the session that is open is over now; None while it is not."""
        record, now = self._parts.conversation.session.record, self._parts.clock.now()
        return expiry(self._parts.policy, now, started_ms=record.began_at, last_ms=record.last_interaction_at)

    @property
    def next_look(self) -> datetime | None:
        """When it may be over next; None for never."""
        record, now = self._parts.conversation.session.record, self._parts.clock.now()
        return next_look(self._parts.policy, now, started_ms=record.began_at, last_ms=record.last_interaction_at)

    async def expire(self, scope: Scope) -> SessionChanged | None:
        """Begin a fresh session if the present one is over, and tell of it. One in which nothing was said just begins
        anew. Raises SessionStoreError."""
        due = self.due
        if due is None:
            return None
        conversation = self._parts.conversation
        if conversation.is_blank:
            await asyncio.to_thread(conversation.begin_anew)
            return None
        changed = await self._parts.resetting.reset(due.reason, "", scope)
        scope.emit(changed)
        return changed
