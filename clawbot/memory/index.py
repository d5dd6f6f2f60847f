"""The memory index for its users: search, read, sync, status, verify. Nothing here makes the event loop wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from clawbot.errors import ClawbotError
from clawbot.memory.embeddings.protocol import EmbeddingError
from clawbot.memory.embeddings.supply import Supply
from clawbot.memory.excerpt import read_excerpt, read_whole
from clawbot.memory.place import IndexPlace
from clawbot.memory.search.desk import SearchDesk
from clawbot.memory.search.rerank import Reranker
from clawbot.memory.search.searcher import IndexUnavailableError, Searcher
from clawbot.memory.status import Holdings, Scan, describe
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError
from clawbot.memory.sync.synchroniser import Synchroniser
from clawbot.memory.sync.watcher import Watcher
from clawbot.memory.values import (
    Excerpt,
    IndexStatus,
    Issue,
    Probe,
    Progress,
    SearchRequest,
    SearchResult,
    SyncReport,
    VerifyReport,
)

log = logging.getLogger(__name__)

MINUTE = 60.0
"""Seconds."""

MOST_NOTES = 3
"""Places that could not be looked at, which a search names; the status has all."""

__all__ = ["IndexUnavailableError", "MemoryIndex"]


class MemoryIndex:
    """The memory index of one agent. Belongs to one event loop, apart from `changed`.

    `on_progress` is called on the loop while files are indexed, with None when that is over, and whenever `generation`
    has grown.
    """

    def __init__(
        self, place: IndexPlace, supply: Supply, *, long_lived: bool = False, rerank: Reranker | None = None
    ) -> None:
        """The index at `place`, with vectors from `supply`. Opens nothing yet.

        `long_lived` says that more than one search is to be expected. `rerank` is used where the settings ask for it.
        """
        self.on_progress: Callable[[Progress | None], None] | None = None
        self._place = place
        self._supply = supply
        self._sync = Synchroniser(place, supply)
        self._sync.on_progress = self._progressed
        self._desk = SearchDesk(place)
        self._searcher = Searcher(place, supply, self._sync, self._desk, rerank)
        self._searcher.keeps_vectors = long_lived
        self._searcher.asker.on_arrival = self._vector_arrived
        self._arrivals = 0
        self._watcher: Watcher | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def generation(self) -> int:
        """Grows when the same search may find something else than before: the index has changed, whoever wrote it, or
        the vector of a question that did not come in time is there now."""
        return self._sync.generation + self._arrivals

    async def search(self, request: SearchRequest) -> SearchResult:
        """The places that fit best. Any text is a query; one that says nothing has no results.

        Waits for what was written before it, for `query.wait_for_writes`, and answers with a note when that was not
        enough; after `query.timeout` with what it has. Raises IndexUnavailableError when there is no way to search.
        """
        if self._closed:
            raise IndexUnavailableError("The memory index is closed.")
        result = await self._searcher.search(request)
        notes = tuple(_hidden_notes(self._place.library.hidden))
        return msgspec.structs.replace(result, notes=(*result.notes, *notes)) if notes else result

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a memory file as they are on disk; `found` is False for a file that is not there.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """
        return await asyncio.to_thread(read_excerpt, self._place.documents, path, from_line, lines)

    async def text(self, path: str) -> str:
        """The whole text of a memory file as it is on disk; empty for one that is not there.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """
        return await asyncio.to_thread(read_whole, self._place.documents, path)

    async def sync(self, *, force: bool = False, progress: Callable[[Progress], None] | None = None) -> SyncReport:
        """Bring the index up to date with the files as they are now, with their vectors; `force` builds it anew.

        Searches go on meanwhile. Raises ClawbotError when it can't be written, or was closed before.
        """
        result = await self._sync.request(force=force, progress=progress).whole
        if isinstance(result, ClawbotError):
            raise result
        return result

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """What the index holds and how well it is; `deep` also asks the provider of vectors for one word."""
        await self._supply.open()
        issues: tuple[Issue, ...] = ()
        holdings = Holdings()
        try:
            holdings = await self._desk.read(Holdings.of)
        except MissingIndexError:
            pass  # not built yet: there is nothing in it
        except DamagedIndexError as error:
            issues = (Issue(str(self._place.db), str(error)),)
        scan = await self._desk.off_loop(lambda: Scan.of(self._place))
        probe = await self._probe() if deep else None
        found = describe(self._place, self._supply, holdings, scan)
        return msgspec.structs.replace(
            found,
            busy=self._sync.busy,
            embedding_probe=probe,
            issues=(*issues, *self._own_issues(), *found.issues),
        )

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Compare the files with the pieces, these with their words and vectors; `fix` repairs only the difference.

        Raises ClawbotError when the index can't be read or, with `fix`, written.
        """
        # Deferred: what only this command needs.
        from clawbot.memory.sync.checking import check

        embedder = await self._supply.open()
        report = await self._sync.between_rounds(lambda: check(self._place, embedder, fix=fix))
        if fix and report.fixed:
            await self.sync()
        return report

    def start(self) -> None:
        """Follow the files from now on, and bring the index up to date in the background. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        sync = self._place.settings.sync
        if sync.watch and self._watcher is None:
            self._watcher = Watcher(self._place.library.sources, sync.watch_debounce_ms / 1000, self._request)
            self._starting = self._loop.create_task(self._watcher.start())
        if sync.on_session_start:
            self._request()
        self._plan_interval()

    def changed(self) -> None:
        """Say that something was written. From any thread; before `start` and after `close` it does nothing."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._request)

    async def close(self) -> None:
        """End what runs, within a second; the next process goes on from there.

        Never fails: nothing is lost with an index, so that a part that does not end well is a matter for the log.
        """
        self._closed = True
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            if self._starting is not None:
                await asyncio.wait([self._starting])
            await _ended(self._watcher.stop())
        await asyncio.gather(_ended(self._sync.close()), _ended(self._searcher.close()))
        await _ended(self._desk.close())
        await _ended(self._supply.aclose())

    def _request(self) -> None:
        if self._loop is not None:
            self._sync.request()

    def _plan_interval(self) -> None:
        minutes = self._place.settings.sync.interval_minutes
        if minutes and self._loop is not None:
            self._timer = self._loop.call_later(MINUTE * minutes, self._interval_over)

    def _interval_over(self) -> None:
        self._request()
        self._plan_interval()

    def _progressed(self, progress: Progress | None) -> None:
        self._searcher.progress = progress
        if self.on_progress is not None:
            self.on_progress(progress)

    def _vector_arrived(self) -> None:
        self._arrivals += 1
        self._progressed(self._searcher.progress)

    def _own_issues(self) -> tuple[Issue, ...]:
        """What is wrong with the index itself, or with following its files."""
        found = [Issue(str(self._place.db), str(self._sync.error))] if self._sync.error else []
        if self._watcher is not None and self._watcher.problem:
            found.append(Issue(str(self._place.workspace), self._watcher.problem))
        return tuple(found)

    async def _probe(self) -> Probe:
        started = self._place.clock.monotonic()
        try:
            await self._supply.embed(["memory"], "query")
        except EmbeddingError as error:
            return Probe(ok=False, error=str(error), seconds=self._place.clock.monotonic() - started)
        return Probe(ok=True, seconds=self._place.clock.monotonic() - started)


async def _ended(end: Awaitable[None]) -> None:
    try:
        await end
    except Exception:
        log.exception("a part of the memory index did not end well")


def _hidden_notes(issues: Sequence[Issue]) -> Iterator[str]:
    for issue in issues[:MOST_NOTES]:
        yield f"{issue.path} could not be looked at ({issue.text}): it is found as it was last."
    if len(issues) > MOST_NOTES:
        yield f"{len(issues) - MOST_NOTES:,} more places could not be looked at."
