"""The backend `milvus`: a `MemoryBackend` over Milvus. Its methods never block the event loop.

Each call to Milvus runs on a thread of its own that nobody has to wait for, with a time limit. Whatever fails there is
a ClawbotError, so that the builtin index can answer instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.indexing.opening import embedder_handle
from clawbot.memory.backend import BackendContext, FileBackend, IndexUnavailableError
from clawbot.memory.chunking.chunks import CHARS_PER_TOKEN
from clawbot.memory.documents.library import Library
from clawbot.memory.embeddings.cache import CurrentCache
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.protocol import FLOAT_BYTES
from clawbot.memory.search.protocols import reranked
from clawbot.memory.search.search_pool import QueryEmbedder, QueryVectors
from clawbot.memory.search.searcher import search_mode
from clawbot.memory.sync.watcher import SyncReminder
from clawbot.memory.values import (
    MAX_QUERIES,
    IndexStatus,
    Progress,
    ReportProgress,
    SearchRequest,
    SearchResult,
    Source,
    SourceCount,
    SyncReport,
    VerifyReport,
)
from clawbot.plugins.milvus.collections import Collections, MilvusError
from clawbot.plugins.milvus.connection import Connection, on_thread
from clawbot.plugins.milvus.passages import Version
from clawbot.plugins.milvus.rounds import Rounds

if TYPE_CHECKING:
    from clawbot.memory.search.engine import SearchEngine
    from clawbot.memory.search.protocols import Ranked, Ranking
    from clawbot.plugins.milvus.reader import KeptRows, Snapshot

log = logging.getLogger(__name__)

_LATE = "Recent changes may be missing: they are still being written."
_HINT = "Until it works again, the builtin index answers."


def open_milvus(context: BackendContext) -> MilvusBackend:
    """Implements `BackendFactory`."""
    return MilvusBackend(context, embedder_handle(context, CurrentCache()))


class MilvusDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """The `details` of this backend: where it is, its collection, and this machine's name in it."""

    uri: str
    collection: str
    owner: str
    agents: tuple[str, ...]
    files_of_others: int


class MilvusBackend(FileBackend):
    """The memory of one agent in Milvus, over `connection`."""

    def __init__(self, context: BackendContext, handle: EmbedderHandle) -> None:
        """The memory of `context`, with vectors from `handle`. Opens nothing yet."""
        super().__init__(context.documents)
        self._context = context
        self._search = context.agent.memory_search
        self._library = Library(context.sources)
        self._handle = handle
        self._queries = QueryEmbedder(handle, self._search.query.timeout, patient=not context.long_lived)
        self._rerank = context.rerank if self._search.query.rerank != "off" else None
        self.connection = Connection(context, self._library, handle)
        self._agents = (context.agent_id, *context.memory.milvus.agents.get(context.agent_id, ()))
        self._rounds = Rounds(context, self.connection, self._library, handle)
        self._rounds.wrote = self._has_written
        self._rounds.on_progress = self._progressed
        self._snapshot: Snapshot | None = None
        self._snapshot_at = 0.0
        self._wrote = True
        self._kept: KeptRows | None = None
        self._engine: SearchEngine | None = None
        self._generation = 0
        self._reminder = SyncReminder(self._library.sources, self._search.sync, self._rounds.request)

    @property
    def generation(self) -> int:
        """Grows with every sync that changed something, and with every change of others that a search met."""
        return self._generation

    @property
    def location(self) -> Path | None:
        """The database of Milvus Lite; None for a server."""
        return self.connection.database

    @property
    def built(self) -> bool:
        """Whether Milvus Lite has its folder; of a server it is assumed."""
        return self.location is None or self.location.exists()

    @property
    def problem(self) -> str:
        """The last failure, or why there are no vectors."""
        fallback = self._handle.fallback
        return self.connection.problem or (f"words only: {fallback.reason}" if fallback is not None else "")

    async def probe(self, *, deep: bool = True) -> str:
        """Return `deep` connects, and makes what is missing there. Raises ClawbotError."""
        await self._handle.open()
        if deep:
            await self.connection.open()
        return self.connection.problem

    async def search(self, request: SearchRequest, building: ReportProgress | None = None) -> SearchResult:
        """See `MemoryBackend`. Waits up to `query.wait_for_writes` for own changes, in a one-shot command for as long
        as the search may take. Raises IndexUnavailableError."""
        if self._rounds.stopped:
            raise IndexUnavailableError("The memory is closed.")
        try:
            asking = self._queries.ask(request.queries[:MAX_QUERIES])
            late, asked = await asyncio.gather(self._freshen(building), asking)
            collections = await self.connection.open()
            async with deadline(self._search.query.timeout):
                ranked = await self._ranked(collections, request, asked)
        except TimeoutError as error:
            raise self._failed("Milvus did not answer in time.") from error
        except ClawbotError as error:
            raise self._failed(error.message, error.hint) from error
        self.connection.problem = ""
        with_vectors = collections.has_vectors and any(asked.vectors)
        return SearchResult(
            hits=ranked.hits,
            mode=search_mode(with_vectors=with_vectors, hybrid=self._search.query.hybrid.enabled),
            provider=self._handle.provider if with_vectors else "none",
            model=self._handle.model if with_vectors else "",
            fallback=None if with_vectors else self._handle.fallback,
            partial=late or ranked.partial,
            warnings=(*ranked.warnings, *((_LATE,) if late else ())),
            evidence=ranked.evidence if ranked.hits else "weak",
        )

    async def sync(self, *, force: bool = False, progress: ReportProgress | None = None) -> SyncReport:
        """See `MemoryBackend`. `force` writes everything of this machine again. Raises ClawbotError."""
        if self._rounds.stopped:
            raise MilvusError("The memory is closed.")
        return await asyncio.shield(self._rounds.request(force=force, progress=progress))

    async def status(self, *, deep: bool = False) -> IndexStatus:
        collections = await self.connection.open()
        snapshot = await on_thread(lambda: self._current(collections))
        found = await on_thread(lambda: self._described(collections, snapshot))
        problem = await self._rerank.problem() if self._rerank is not None else ""
        return msgspec.structs.replace(found, rerank_problem=problem)

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """See `MemoryBackend`. Counts the passages of this agent on all machines. Raises ClawbotError."""
        return await self._rounds.verify(fix=fix)

    async def scrub(self) -> bool:
        """Delete what no file needs; Milvus erases it from its disks when it next compacts. Raises ClawbotError."""
        report = await self.sync()
        return not report.busy and not report.pending_vectors

    def start(self) -> None:
        """Start watching the files and syncing in the background. Needs a running loop."""
        self._reminder.start()

    async def close(self) -> None:
        for part in (self._reminder.stop, self._rounds.close, self._queries.close, self.connection.close):
            try:
                await part()
            except Exception:
                log.exception("a part of the memory in Milvus did not end well")
        await self._handle.aclose()

    def _failed(self, message: str, hint: str = "") -> IndexUnavailableError:
        """Record a failure, so that the next call connects again."""
        error = IndexUnavailableError(message, hint=hint or _HINT)
        self.connection.failed(error)
        self._snapshot = None
        return error

    async def _freshen(self, building: ReportProgress | None) -> bool:
        """Wait for own changes to be written; whether some are still missing after the time limit."""
        if not self._search.sync.on_search or await on_thread(self._library.is_stale) is False:
            return False
        syncing = self._rounds.request(progress=building)
        query = self._search.query
        # A one-shot command has nothing else to do, and the next one would start from here again.
        patience = query.wait_for_writes if self._context.long_lived else query.timeout / 2
        await asyncio.wait([syncing], timeout=None if building is not None and not self.built else patience)
        return not syncing.done() or syncing.result().busy

    async def _ranked(self, collections: Collections, request: SearchRequest, asked: QueryVectors) -> Ranked:
        """Return the results, ordered by a model if the settings ask for it. Raises MilvusError."""
        ranking = await on_thread(lambda: self._rank(collections, request, asked))
        if self._rerank is not None and request.queries:
            ranked = await reranked(self._rerank, request.queries, ranking)
            return await on_thread(lambda: self._there(ranked))
        return await on_thread(lambda: self._there(ranking.results()))

    def _there(self, found: Ranked) -> Ranked:
        """Return `found` without files of this machine that were deleted since. Blocks."""
        holdings = self._snapshot.holdings.values() if self._snapshot is not None else ()
        own = {each.claim.path for each in holdings if each.claim.owner == self.connection.owner}
        gone = self._library.gone([hit for hit in found.hits if hit.path in own])
        return msgspec.structs.replace(found, hits=tuple(hit for hit in found.hits if hit.path not in gone))

    def _rank(self, collections: Collections, request: SearchRequest, asked: QueryVectors) -> Ranking:
        """Blocks. Raises MilvusError."""
        # Deferred: with numpy a third of a command's time.
        from clawbot.memory.search.engine import Search, SearchEngine
        from clawbot.plugins.milvus.reader import KeptRows, PassageReader

        strong, self._wrote = self._wrote, False
        snapshot = self._current(collections)
        self._kept = self._kept or KeptRows()
        self._engine = self._engine or SearchEngine()
        vectors = asked.vectors if collections.has_vectors else (None,) * len(asked.vectors)
        size = FLOAT_BYTES * collections.dimensions
        usable = tuple(each if each is not None and len(each) == size else None for each in vectors)
        today = self._context.clock.now().date()
        reader = PassageReader(collections, snapshot, self._agents, self._kept, strong=strong)
        reader.prepare(request, usable, self._search, today)
        search = Search(
            reader, request, usable, self._search, today, candidates=reader.candidates, offline=asked.offline
        )
        return self._engine.rank(search, self._library.describe)

    def _current(self, collections: Collections) -> Snapshot:
        """Return the files of all machines, not older than the setting allows. Blocks. Raises MilvusError."""
        from clawbot.plugins.milvus.reader import Snapshot

        now, before = self._context.clock.monotonic(), self._snapshot
        if before is not None and now - self._snapshot_at <= self.connection.settings.staleness:
            return before
        found = Snapshot(collections.claims(self._agents, strong=before is None), self.connection.owner)
        self._snapshot, self._snapshot_at = found, now
        if before is not None and before.files != found.files:
            self._generation += 1
        return found

    def _has_written(self) -> None:
        self._wrote, self._snapshot = True, None
        self._generation += 1

    def _progressed(self, progress: Progress | None) -> None:
        if self.on_progress is not None:
            self.on_progress(progress)

    def _is_stale(self, snapshot: Snapshot) -> bool | None:
        """Return whether files have certainly changed since the last sync, by any process of this machine. Blocks."""
        if self._library.is_stale() is None:
            mine = (each.claim for each in snapshot.holdings.values() if each.claim.owner == self.connection.owner)
            self._library.remember({claim.path: claim.version for claim in mine if claim.version is not None})
        return self._library.is_stale(surely=True)

    def _described(self, collections: Collections, snapshot: Snapshot) -> IndexStatus:
        """Blocks."""
        connection, handle = self.connection, self._handle
        listed = [state.source for state in self._library.list().files]
        mine = [each.claim for each in snapshot.holdings.values() if each.claim.owner == connection.owner]
        versions = [claim.version for claim in mine if claim.version is not None]
        chunks = sum(file.chunks for file in snapshot.files.values())
        changed = max((claim.at for claim in mine), default=None)
        details = MilvusDetails(
            uri=connection.settings.uri,
            collection=collections.passages_name,
            owner=connection.owner,
            agents=self._agents,
            files_of_others=len(snapshot.files) - len(mine),
        )
        return IndexStatus(
            provider=handle.provider,
            requested_provider=handle.requested,
            model=handle.model,
            remote=handle.remote,
            address=handle.address,
            mode=search_mode(with_vectors=collections.has_vectors, hybrid=self._search.query.hybrid.enabled),
            files=len(mine),
            total_files=len(listed),
            chunks=chunks,
            vectors=chunks if collections.has_vectors else 0,
            tokens=sum(version.chars for version in versions) // CHARS_PER_TOKEN,
            text_bytes=sum(version.size for version in versions),
            disk_bytes=_disk_bytes(self.location),
            workspace_dir=str(self._context.agent.workspace),
            identity=collections.passages_name,
            dirty=self._is_stale(snapshot) is not False,
            last_sync=dt.datetime.fromtimestamp(changed / 1000, dt.UTC) if changed is not None else None,
            sources=self._library.names,
            source_counts=tuple(_counted(name, versions, listed) for name in self._library.names),
            fallback=handle.fallback,
            issues=self._library.issues,
            details=msgspec.to_builtins(details),
        )


def _counted(name: Source, versions: Sequence[Version], listed: Sequence[Source]) -> SourceCount:
    own = [version for version in versions if version.source == name]
    return SourceCount(name, len(own), sum(each == name for each in listed), sum(each.chunks for each in own))


def _disk_bytes(folder: Path | None) -> int:
    """The size of the database, whose files may vanish. Blocks."""
    total = 0
    for file in folder.rglob("*") if folder is not None else ():
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total
