"""The agents of a running server: the services of each and its open conversations, which are closed when they are idle.
The routes (`chat.py`, `tools.py`) ask here for a conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

from msgspec import structs

from clawbot.clock import Clock
from clawbot.config.schema import ServeSettings
from clawbot.errors import ClawbotError
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.services import SharedServices
from clawbot.sessions.names import key_for

log = logging.getLogger(__name__)

FRESH = "api"
"""What the name of a conversation begins with that a client did not name."""


INSTRUCTIONS = ContextVar("INSTRUCTIONS", default="")
"""What the client of the running request asks for. The tasks of its turn inherit it, and no other turn."""


class BusyError(ClawbotError):
    """All conversations that may be open are answering."""


class Room:
    """An open conversation. `users` counts its active users, `idle_since` is when the last one left."""

    def __init__(self, runtime: Runtime, now: float) -> None:
        self.runtime = runtime
        self.users = 0
        self.idle_since = now

    @property
    def key(self) -> str:
        return self.runtime.agent.conversation.session.record.key


class Agents:
    """All agents of one server. `options` are those of the command line; `first` are the services that were opened with
    them. Belongs to one event loop."""

    def __init__(self, options: RuntimeOptions, first: SharedServices, settings: ServeSettings, clock: Clock) -> None:
        approved = frozenset(settings.tools.approve)
        self._options = structs.replace(
            options, approvals=False, mentions=False, approved=approved, watch=True, warm=True, client=INSTRUCTIONS.get
        )
        self._settings = settings
        self._clock = clock
        self._first = first
        self._services: dict[str, asyncio.Task[SharedServices]] = {}
        self._rooms: dict[str, Room] = {}
        self._doors: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._opening = 0
        self._resting: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def ids(self) -> list[str]:
        """The ids of all agents, the default one first."""
        own = self._first.agent_id
        return [own, *(each for each in self._first.loaded.settings.agent_ids if each != own)]

    @property
    def open_sessions(self) -> int:
        return len(self._rooms)

    async def services(self, agent_id: str) -> SharedServices:
        """What the conversations of `agent_id` share, opened at the first call. Raises ConfigError for an unknown
        agent, and other ClawbotErrors."""
        self._first.loaded.settings.agent(agent_id)
        task = self._services.get(agent_id)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._services[agent_id] = asyncio.create_task(self._open_services(agent_id))
        return await asyncio.shield(task)

    async def _open_services(self, agent_id: str) -> SharedServices:
        services = self._first
        if agent_id != services.agent_id:
            # The model and workspace given on the command line apply to its own agent only.
            options = structs.replace(self._options, agent=agent_id, model=None, workspace=None)
            services = await asyncio.to_thread(SharedServices, options)
        await services.start()
        return services

    @asynccontextmanager
    async def session(self, agent_id: str, name: str | None) -> AsyncIterator[Room]:
        """The conversation `name` of `agent_id`, or a new one; it remains open for a while after the context.

        Raises SessionLockedError, SessionStoreError for a wrong name, BusyError, and other ClawbotErrors.
        """
        services = await self.services(agent_id)
        room = await self._enter(services, key_for(agent_id, name) if name is not None else None)
        try:
            yield room
        finally:
            room.users -= 1
            room.idle_since = self._clock.monotonic()
            self._check_later(self._settings.idle)

    async def _enter(self, services: SharedServices, key: str | None) -> Room:
        if key is None:
            room = await self._open(services, None)
            room.users += 1
            return room
        # Whoever asks for a conversation that is being opened or closed waits for that.
        async with self._door(key):
            room = self._rooms.get(key) or await self._open(services, key)
            room.users += 1
            return room

    def _door(self, key: str) -> asyncio.Lock:
        """Return the lock of one conversation, the same as long as anybody has it."""
        return self._doors.setdefault(key, asyncio.Lock())

    async def _open(self, services: SharedServices, key: str | None) -> Room:
        await self._make_room()
        self._opening += 1
        try:
            # A client asks for titles itself, where it wants them.
            options = structs.replace(self._options, titles=False, agent=services.agent_id)
            runtime = await Runtime.open(structs.replace(options, session=key or FRESH, new=key is None), services)
            runtime.agent.fixed = True
        finally:
            self._opening -= 1
        room = Room(runtime, self._clock.monotonic())
        self._rooms[room.key] = room
        return room

    async def _make_room(self) -> None:
        """Close what has been idle longest if no more conversations may be open. Raises BusyError."""
        while len(self._rooms) + self._opening >= self._settings.sessions:
            # A door that is locked has somebody behind it, who may be waiting for ours.
            resting = [room for room in self._rooms.values() if not (room.users or self._door(room.key).locked())]
            if not resting:
                raise BusyError(f"{self._settings.sessions} conversations are answering (serve.sessions).")
            await self._close_room(min(resting, key=lambda room: room.idle_since))

    def _check_later(self, seconds: float) -> None:
        if self._resting is None:
            self._resting = asyncio.get_running_loop().call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close what has been idle long enough."""
        self._resting = None
        now, idle = self._clock.monotonic(), self._settings.idle
        for room in self._rooms.values():
            if not room.users and now - room.idle_since >= idle:
                self._spawn(self._close_room(room))
        if rest := [room.idle_since + idle - now for room in self._rooms.values() if not room.users]:
            self._check_later(max(1.0, min(rest)))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_room(self, room: Room) -> None:
        """Close `room` unless somebody has come back."""
        async with self._door(room.key):
            if not room.users and self._rooms.get(room.key) is room:
                del self._rooms[room.key]
                await _quietly(room.runtime.close)

    def interrupt(self) -> None:
        for room in self._rooms.values():
            room.runtime.agent.interrupt()

    async def close(self) -> None:
        """Close all conversations, which saves them to memory as at the end of a chat, then what they shared."""
        if self._resting is not None:
            self._resting.cancel()
        rooms, self._rooms = list(self._rooms.values()), {}
        await asyncio.gather(*self._closing, *(_quietly(room.runtime.close) for room in rooms))
        opened = [task.result() for task in self._services.values() if task.done() and task.exception() is None]
        others = [services for services in opened if services is not self._first]
        await asyncio.gather(*(_quietly(services.close) for services in (self._first, *others)))


async def _quietly(close: Callable[[], Awaitable[None]]) -> None:
    """Close one of several: a failure is logged, and the others are closed too."""
    try:
        await close()
    except ClawbotError as error:
        log.warning("a conversation did not close well: %s", error)
    except Exception:
        log.exception("a conversation did not close well")
