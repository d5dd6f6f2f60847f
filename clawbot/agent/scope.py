"""What the housekeeping of one submission works with: who hears of it, and the wish to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from clawbot.agent.cancel import Cancellation
from clawbot.agent.events import Event

Emit = Callable[[Event], None]
Origin = Literal["user", "schedule"]


@dataclass
class Scope:
    """One submission, or one end of the program. `rounds` counts how often its context was made smaller because a
    request did not fit; `compaction_failed` says that one failed in it, which is not tried again by itself. `origin` is
    `user` or `schedule`: what a job says keeps no session alive and ends none (reference sheet 4.2)."""

    emit: Emit
    cancel: Cancellation
    rounds: int = 0
    compaction_failed: bool = False
    origin: Origin = "user"

    def go_on(self) -> None:
        """What was stopped was not all of it: what comes next may be stopped by itself."""
        self.cancel = Cancellation()


def silent_scope() -> Scope:
    """For what happens while nobody reads events."""
    return Scope(_unheard, Cancellation())


def _unheard(_event: Event) -> None:
    """Nobody reads it."""
