"""Hands events to hooks: in order, each with its time limit, and whatever a hook does stays its own problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, TypeVar

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.events import HookEvent
from clawbot.hooks.handle import Services

E = TypeVar("E", bound=HookEvent)
Status = Literal["ok", "failed", "timeout", "exited", "cancelled"]


class LastRun(Struct, frozen=True):
    """How a hook did at its last event. `error` is one line for the user, "" when all was well."""

    topic: str
    status: Status
    error: str
    duration_ms: int
    at: datetime


class Dispatcher:
    """The hooks of one program. `find` blocks and is called in a thread; `timeout` is in seconds."""

    def __init__(self, find: Callable[[], list[FoundHook]], clock: Clock, *, timeout: float) -> None:
        self._find = find
        self._clock = clock
        self._timeout = timeout
        self.hooks: tuple[FoundHook, ...] = ()
        self.results: Mapping[str, LastRun] = {}
        self.on_failure: Callable[[str, LastRun], None] | None = None

    async def load(self) -> None:
        """Find the hooks (again)."""
        raise NotImplementedError

    def wants(self, topic: str) -> bool:
        """Whether any hook that may run is subscribed to `topic`."""
        return any(hook.ready and hook.manifest.wants(topic) for hook in self.hooks)

    async def run(self, event: E, services: Services) -> E:
        """Let the hooks handle `event`, one after the other, and return it as they left it."""
        raise NotImplementedError

    def notify(self, event: HookEvent, services: Services) -> None:
        """Hand `event` to the hooks in the background, in the order of these calls."""
        raise NotImplementedError

    async def settled(self) -> None:
        """Wait until all events are handled and all later work is done."""
        raise NotImplementedError

    async def close(self, seconds: float) -> None:
        """Wait `seconds` for events and later work, then end what runs."""
        raise NotImplementedError
