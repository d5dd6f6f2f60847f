"""One search from the request to the result: what was written before it, its vectors, the ranking, the notes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from clawbot.errors import ClawbotError
from clawbot.memory.embeddings.supply import Supply
from clawbot.memory.place import IndexPlace
from clawbot.memory.search.asking import Asked, Asker
from clawbot.memory.search.desk import Found, SearchDesk
from clawbot.memory.search.rerank import MAX_LINES, Reranker
from clawbot.memory.search.staleness import LateScanError, StaleScan
from clawbot.memory.status import search_mode
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError, StoreError
from clawbot.memory.sync.synchroniser import Synchroniser
from clawbot.memory.values import MAX_QUERIES, Fallback, Progress, SearchRequest, SearchResult

if TYPE_CHECKING:
    from clawbot.memory.search.ranking import Ranked

log = logging.getLogger(__name__)

WORTH_WAITING = 2_000
"""So many vectors come within the time that a search waits anyway; for more it does not wait."""

FEW_PENDING = 50
"""Up to so many pieces without a vector are not worth a note."""

LEAST_SCAN_SECONDS = 0.1
"""So long a look at the files may take even if a search is not to wait for writes: else each one would miss some."""

LATE_VECTOR = "The vector of the question did not come in time."
"""Why an answer is by words alone though the provider of vectors has not failed."""

OTHER_SIZE = (
    "The model gives vectors of another size than those in the index: `clawbot memory index --force` makes them anew."
)


class IndexUnavailableError(ClawbotError):
    """There is no way to search now."""


class Searcher:
    """Searches one index. Belongs to the event loop.

    `progress` is how far a sync is, set by the owner; None while none runs. `keeps_vectors` says that more searches
    are to be expected. `asker` brings the vectors of the questions.
    """

    def __init__(
        self, place: IndexPlace, supply: Supply, sync: Synchroniser, desk: SearchDesk, rerank: Reranker | None
    ) -> None:
        self.progress: Progress | None = None
        self.keeps_vectors = False
        self._place = place
        self._query = place.settings.query
        self._supply = supply
        self.asker = Asker(supply, self._query.timeout)
        self._sync = sync
        self._stale = StaleScan(place.library.is_stale, self._scan_over)
        self._desk = desk
        self._rerank = rerank if self._query.rerank == "model" else None

    async def search(self, request: SearchRequest) -> SearchResult:
        """The places that fit best; see `MemoryIndex.search`. Raises IndexUnavailableError."""
        clock = self._place.clock
        end = clock.monotonic() + self._query.timeout
        late, asked = await asyncio.gather(self._freshen(), self.asker.ask(request.queries[:MAX_QUERIES]))
        found = await self._find(request, asked, max(0.0, end - clock.monotonic()))
        ranked = await self._results(request, found)
        if self.keeps_vectors:
            self._desk.keep_vectors()
        # A process that has searched once may well search again.
        self.keeps_vectors = True
        with_vectors = found is not None and found.with_vectors
        return SearchResult(
            hits=ranked.hits if ranked else (),
            mode=search_mode(with_vectors=with_vectors, hybrid=self._query.hybrid.enabled),
            provider=self._supply.provider if with_vectors else "none",
            model=self._supply.model if with_vectors else "",
            fallback=None if with_vectors else self._fallback(asked, found),
            partial=ranked.partial if ranked else True,
            notes=(*(ranked.notes if ranked else ()), *self._notes(late=late)),
        )

    async def _freshen(self) -> bool:
        """Let what was written before be indexed; whether something of it is not within the time there is for that."""
        if not self._place.settings.sync.on_search:
            return False
        limit = self._query.wait_for_writes
        loop = asyncio.get_running_loop()
        end = loop.time() + limit
        try:
            if await self._stale.result(max(limit, LEAST_SCAN_SECONDS)) is False:
                return False
        except LateScanError:
            return True
        ticket = self._sync.request()
        await asyncio.wait([ticket.text], timeout=max(0.0, end - loop.time()))
        if not ticket.text.done():
            return True
        if not self._supply.remote and self._sync.pending <= WORTH_WAITING:
            # Vectors that are made here come in no time.
            await asyncio.wait([ticket.whole], timeout=max(0.0, end - loop.time()))
        return ticket.text.result() is not None or self._sync.busy

    def _scan_over(self) -> None:
        """Have indexed by and by what a search has not waited for."""
        self._sync.request()

    async def close(self) -> None:
        """Give up the vectors that are still on their way."""
        await self.asker.close()

    def _fallback(self, asked: Asked, found: Found | None) -> Fallback | None:
        """Why vectors had no part in a search, unless none are wanted."""
        reason = LATE_VECTOR if asked.late else OTHER_SIZE if found is not None and found.other_size else ""
        return self._supply.fallback or (Fallback(self._supply.provider, reason) if reason else None)

    async def _find(self, request: SearchRequest, asked: Asked, seconds: float) -> Found | None:
        """What the index has. Raises IndexUnavailableError."""
        exact = not self._sync.running
        try:
            try:
                return await self._desk.rank(request, asked, seconds, exact=exact)
            except (DamagedIndexError, MissingIndexError):
                # The sync builds another one, which may well be there in time.
                await asyncio.wait([self._sync.request().text], timeout=min(seconds, self._query.wait_for_writes))
                return await self._desk.rank(request, asked, seconds, exact=exact)
        except MissingIndexError as error:
            if self._sync.running or self._sync.error is None:
                return None
            raise _unavailable(self._sync.error) from error
        except StoreError as error:
            raise _unavailable(error) from error
        except Exception as error:
            log.exception("the memory index could not be searched")
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            raise IndexUnavailableError(f"The memory index could not be searched ({reason}).") from error

    async def _results(self, request: SearchRequest, found: Found | None) -> Ranked | None:
        if found is None:
            return None
        if self._rerank is None or not request.queries:
            return found.ranked
        texts = await asyncio.to_thread(found.ranking.texts, MAX_LINES)
        order = await self._rerank(request.queries[0], texts)
        return await asyncio.to_thread(found.ranking.results, order)

    def _notes(self, *, late: bool) -> Iterator[str]:
        sync, progress = self._sync, self.progress
        if sync.error is not None:
            yield f"The index could not be brought up to date: {sync.error}"
        elif sync.rebuilding:
            yield "The index is being built anew; until it is done, the old one answers."
        elif late:
            yield _late(progress, busy=sync.busy)
        if sync.pending > FEW_PENDING and self._supply.provider != "none":
            yield f"{sync.pending:,} pieces have no vector yet: they are found by their words alone."


def _late(progress: Progress | None, *, busy: bool) -> str:
    if busy:
        return "Another process is indexing: what was written last may be missing here."
    if progress is not None and progress.phase == "text" and progress.total > 1:
        seconds = f", {progress.seconds_left:.0f} s left" if progress.seconds_left is not None else ""
        return f"Indexing {progress.done:,} of {progress.total:,} files{seconds}: the others are missing here."
    return "What was written last is still being indexed, and may be missing here."


def _unavailable(error: ClawbotError) -> IndexUnavailableError:
    return IndexUnavailableError(error.message, hint=error.hint)
