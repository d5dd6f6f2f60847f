"""Decides whether a backend is asked or the builtin index in its place. Pure: a value and its transitions."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from clawbot.memory.values import Fallback

FIRST_PAUSE = 60.0
"""Seconds until a failed backend is probed again; doubled after each failure."""

LONGEST_PAUSE = 3_600.0
"""Seconds."""


class Standing(Struct, frozen=True, kw_only=True):
    """How the backend `name` stands.

    `attempt` numbers its instances from 1: a failed one is closed and never asked again. `trusted`: calls go to the
    instance `attempt`; otherwise the builtin index answers. `failure` is why, and since when it has not answered a
    call; `failures` counts in a row. `seen` are the open conversations.
    """

    name: str
    attempt: int = 1
    trusted: bool = True
    failures: int = 0
    failure: Fallback | None = None
    seen: frozenset[str] = frozenset()

    @property
    def pause(self) -> float:
        """Seconds from the last failure to the next probe."""
        return min(FIRST_PAUSE * 2.0 ** min(max(self.failures - 1, 0), 16), LONGEST_PAUSE)

    def met(self, conversations: frozenset[str]) -> Standing:
        """`conversations` are open now: a new one tries the backend anew."""
        if conversations <= self.seen:
            return self
        return replace(self, seen=conversations, trusted=True)

    def failed(self, attempt: int, reason: str, now: datetime) -> Standing:
        """The instance `attempt` failed; the same value if that is a former one, which another call has reported."""
        if attempt != self.attempt:
            return self
        since = now.replace(microsecond=0) if self.failure is None else self.failure.since
        return replace(
            self,
            attempt=attempt + 1,
            trusted=False,
            failures=self.failures + 1,
            failure=Fallback(self.name, reason, since),
        )

    def answered(self, attempt: int) -> Standing:
        """The instance `attempt` answered; the same value if that is a former one, or nothing changes."""
        if attempt != self.attempt or (self.trusted and self.failure is None):
            return self
        return replace(self, trusted=True, failures=0, failure=None)
