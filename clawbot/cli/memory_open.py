"""Opens, searches and watches the indexes for the commands, and shows the progress of a sync."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TextIO, TypeVar

from msgspec import Struct

from clawbot.cli import memory_output as output
from clawbot.cli.output import answer, draw, fail, write_line
from clawbot.clock import Clock, SystemClock
from clawbot.config.env import load_env
from clawbot.config.paths import Paths, find_home
from clawbot.config.snapshot import quick_settings
from clawbot.errors import ClawbotError
from clawbot.indexing import open_index
from clawbot.logs import setup_logging
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import EVERY_SOURCE, IndexStatus, Progress, SearchRequest, SearchResult, Source, SyncReport

if TYPE_CHECKING:
    from clawbot.config.schema import Settings

T = TypeVar("T")

OFF = "Memory search is switched off (memory_search.enabled)."


class AgentResult(Struct, Generic[T], frozen=True):
    """The result of one agent's index: a value, or an error. Neither: its memory search is off."""

    agent_id: str
    value: T | None = None
    error: ClawbotError | None = None


class Place:
    """The settings, state folder and clock of a command."""

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self.settings = settings
        self.paths = paths
        self.clock = SystemClock()

    @classmethod
    def find(cls, config_file: Path | None = None) -> Self:
        """Load the settings (of `config_file` instead of the user's) and the keys, and set up the log file.

        Raises ConfigError. Blocks.
        """
        paths = Paths(find_home())
        load_env(paths)
        settings = quick_settings(paths, config_file=config_file)
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
    async def opened(self, agent_id: str, *, long_lived: bool = False) -> AsyncIterator[MemoryBackend | None]:
        """The agent's index; None if it is off. Raises ClawbotError."""
        index = open_index(self.settings, agent_id, self.paths, self.clock, long_lived=long_lived)
        try:
            yield index
        finally:
            if index is not None:
                await index.close()

    async def each(
        self, agent_id: str | None, work: Callable[[str, MemoryBackend], Awaitable[T]]
    ) -> list[AgentResult[T]]:
        """The results of `work` for one agent or all, one after another; a failing agent does not stop the others."""
        found: list[AgentResult[T]] = []
        for name in self.agents(agent_id):
            try:
                async with self.opened(name) as index:
                    found.append(AgentResult(name, None if index is None else await work(name, index)))
            except ClawbotError as error:
                found.append(AgentResult(name, error=error))
        return found


async def watch(
    place: Place,
    agent_id: str | None,
    sync: Callable[[str, MemoryBackend], Awaitable[SyncReport]],
    report: Callable[[str, SyncReport | IndexStatus], None],
) -> None:
    """Synchronise one agent's index or all, then follow their files until cancelled.

    `report` gets the results of `sync`, then the state after each change. Returns at once if no index is enabled.
    Raises ClawbotError.
    """
    async with contextlib.AsyncExitStack() as stack:
        indexes: list[tuple[str, MemoryBackend]] = []
        for name in place.agents(agent_id):
            index = await stack.enter_async_context(place.opened(name, long_lived=True))
            if index is not None:
                report(name, await sync(name, index))
                indexes.append((name, index))
        await asyncio.gather(*(_follow(name, index, report) for name, index in indexes))


async def _follow(name: str, index: MemoryBackend, report: Callable[[str, IndexStatus], None]) -> None:
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
            report(name, now)
            before = now


def _gist(status: IndexStatus) -> tuple[object, ...]:
    return status.last_sync, status.files, status.chunks, status.vectors, status.text_bytes, status.issues


def search_and_print(
    query: tuple[str, ...],
    agent_id: str,
    file: Path | None,
    *,
    as_json: bool,
    only: Source | None = None,
    **bounds: Any,
) -> None:
    """Search an agent's memory and print the results; `only` limits it to one source."""
    text = " ".join(query)
    if not text.strip():
        fail("The query is empty.")
    place = Place.find(file)
    if only is not None and only not in place.settings.agent(agent_id).memory_search.sources:
        fail("Conversations are not indexed: put `sessions` among memory_search.sources.")
    request = SearchRequest(queries=(text,), sources=EVERY_SOURCE if only is None else (only,), **bounds)

    async def search(_: str, index: MemoryBackend) -> SearchResult:
        with progress_line(place.clock, shown=not as_json and sys.stderr.isatty()) as show:
            return await index.search(request, show)

    [found] = asyncio.run(place.each(agent_id, search))
    if found.error is not None:
        raise found.error
    if found.value is None:
        fail(OFF)
    text = "\n".join(output.hit_lines(found.value)).rstrip("\n")
    answer(as_json, output.search_data(found.value), [text], output.search_remarks(found.value))


BAR = 24  # characters of the progress bar, if there is room
REDRAW = 0.1  # seconds between two updates
NAMES = {"scan": "listing", "text": "reading", "vectors": "embedding", "publish": "publishing"}


class ProgressLine:
    """Shows the progress of a sync on `stream` and removes it at the end. A context manager."""

    def __init__(self, stream: TextIO, clock: Clock, *, name: str = "") -> None:
        self._stream = stream
        self._clock = clock
        self._name = f"{name}: " if name else ""
        self._live = stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._drawn: float | None = None
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        if not self._live:
            if progress.phase != self._phase and progress.total:
                write_line(self._stream, f"{self._name}{NAMES[progress.phase]}: {progress.total:,} {progress.unit}")
                self._phase = progress.phase
            return
        now = self._clock.monotonic()
        if self._drawn is not None and now - self._drawn < REDRAW and progress.phase == self._phase:
            return
        self._drawn, self._phase = now, progress.phase
        width = shutil.get_terminal_size().columns - 1
        is_unicode = (self._stream.encoding or "").lower().replace("-", "") == "utf8"
        line = self._name + describe(progress, width - len(self._name), fancy=is_unicode)
        draw(self._stream, line[:width])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._drawn is not None:
            draw(self._stream)


def progress_line(
    clock: Clock, name: str = "", *, shown: bool
) -> contextlib.AbstractContextManager[Callable[[Progress], None] | None]:
    """A progress line on stderr, or None unless `shown`."""
    return ProgressLine(sys.stderr, clock, name=name) if shown else contextlib.nullcontext()


def describe(progress: Progress, width: int, *, fancy: bool) -> str:
    """`embedding  ━━━━━━━━────  420/1,000 pieces  85/s  6 s left`; in ASCII unless `fancy`.

    The bar is dropped first if `width` columns are not enough.
    """
    figures = [f"{progress.done:,}/{progress.total:,} {progress.unit}"]
    if progress.rate > 0:
        figures.append(f"{progress.rate:,.0f}/s")
    if progress.seconds_left is not None:
        figures.append(f"{_duration(progress.seconds_left)} left")
    name, rest = f"{NAMES[progress.phase]:<10}", "  ".join(figures)
    room = max(min(BAR, width - len(name) - len(rest) - 3), 0)
    share = min(progress.done / progress.total, 1.0) if progress.total else 0.0
    full, empty = ("━", "─") if fancy else ("#", "-")
    done = round(share * room)
    return f"{name} {full * done}{empty * (room - done)}  {rest}"


def _duration(seconds: float) -> str:
    whole = max(round(seconds), 0)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
