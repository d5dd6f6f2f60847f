"""Opens the indexes that a command of `clawbot memory` is about, and closes them whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, Self, TypeVar

from msgspec import Struct

from clawbot.clock import SystemClock
from clawbot.config.env import load_env
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema import Settings
from clawbot.errors import ClawbotError
from clawbot.indexing import open_index
from clawbot.logs import setup_logging
from clawbot.memory.index import MemoryIndex
from clawbot.memory.values import IndexStatus, Progress, SyncReport

T = TypeVar("T")


class Found(Struct, Generic[T], frozen=True):
    """What came of one agent's index: a value, or why not. Neither: its memory search is switched off."""

    agent_id: str
    value: T | None = None
    error: ClawbotError | None = None


class Place:
    """The settings, the state folder and the clock of a command."""

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self.settings = settings
        self.paths = paths
        self.clock = SystemClock()

    @classmethod
    def find(cls) -> Self:
        """Load the settings and the keys, and send the log to its file. Raises ConfigError. Blocks."""
        paths = Paths(find_home())
        load_env(paths)
        settings = load_settings(paths).settings
        logging = settings.logging
        setup_logging(paths.log_file, logging.level, logging.max_bytes, logging.backups)
        return cls(settings, paths)

    def agents(self, agent_id: str | None) -> list[str]:
        """`agent_id` alone, or all agents. Raises ConfigError for an unknown one."""
        if agent_id is None:
            return self.settings.agent_ids
        self.settings.agent(agent_id)
        return [agent_id]

    @contextlib.asynccontextmanager
    async def opened(self, agent_id: str, *, long_lived: bool = False) -> AsyncIterator[MemoryIndex | None]:
        """The agent's index; None when it is switched off. Raises ClawbotError."""
        index = open_index(self.settings, agent_id, self.paths, self.clock, long_lived=long_lived)
        try:
            yield index
        finally:
            if index is not None:
                await index.close()

    async def each(self, agent_id: str | None, work: Callable[[str, MemoryIndex], Awaitable[T]]) -> list[Found[T]]:
        """What `work` returns for one agent or for all, one after another; an agent that fails holds up no other."""
        found: list[Found[T]] = []
        for name in self.agents(agent_id):
            try:
                async with self.opened(name) as index:
                    found.append(Found(name, None if index is None else await work(name, index)))
            except ClawbotError as error:
                found.append(Found(name, error=error))
        return found


class Watching:
    """Indexes that follow their files until the caller is cancelled."""

    def __init__(self, place: Place, tell: Callable[[str, SyncReport | IndexStatus], None]) -> None:
        self._place = place
        self._tell = tell

    async def run(
        self,
        agent_id: str | None,
        sync: Callable[[str, MemoryIndex], Awaitable[SyncReport]],
    ) -> None:
        """Bring one agent's index or all up to date by `sync`, tell the reports, then the state after each change.

        Ends at once when no index is switched on. Raises ClawbotError.
        """
        async with contextlib.AsyncExitStack() as stack:
            indexes: list[tuple[str, MemoryIndex]] = []
            for name in self._place.agents(agent_id):
                index = await stack.enter_async_context(self._place.opened(name, long_lived=True))
                if index is not None:
                    self._tell(name, await sync(name, index))
                    indexes.append((name, index))
            await asyncio.gather(*(self._follow(name, index) for name, index in indexes))

    async def _follow(self, name: str, index: MemoryIndex) -> None:
        loop = asyncio.get_running_loop()
        idle = asyncio.Event()

        def on_progress(progress: Progress | None) -> None:
            if progress is None:
                loop.call_soon_threadsafe(idle.set)

        before = await index.status()
        index.on_progress = on_progress
        index.start()
        while True:
            await idle.wait()
            idle.clear()
            now = await index.status()
            if _gist(now) != _gist(before):
                self._tell(name, now)
                before = now


def _gist(status: IndexStatus) -> tuple[object, ...]:
    return status.last_sync, status.files, status.chunks, status.vectors, status.text_bytes, status.issues
