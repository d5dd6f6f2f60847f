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
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.reset import Expiry, ResetPolicy, expiry, next_look

_REST_SECONDS = 600.0  # after a reset that failed, mostly for want of disk space


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
        self._failed: tuple[str, float] | None = None

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
        try:
            changed = await self._parts.resetting.reset(due.reason, "", scope)
        except SessionStoreError:
            self._failed = conversation.session_id, self._parts.clock.monotonic()
            raise
        scope.emit(changed)
        return changed

    @property
    def rests(self) -> bool:
        """Whether the end of the session that is open failed a moment ago: a timer leaves it alone for a while, since
        the hooks run each time."""
        if self._failed is None or self._failed[0] != self._parts.conversation.session_id:
            return False
        return self._parts.clock.monotonic() - self._failed[1] < _REST_SECONDS
