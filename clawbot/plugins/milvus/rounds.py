"""Syncs of one agent's memory on this machine, one at a time: what `writer` plans, embedded and written in groups."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from clawbot.errors import ClawbotError
from clawbot.memory.backend import BackendContext
from clawbot.memory.documents.library import Library, Plan, groups
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.embedding_text import chunk_embedding_text
from clawbot.memory.store.errors import BusyIndexError
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.values import Progress, ReportProgress, SyncReport, VerifyReport
from clawbot.plugins.milvus.collections import Collections, MilvusError
from clawbot.plugins.milvus.connection import Connection, on_thread
from clawbot.plugins.milvus.passages import as_rows
from clawbot.plugins.milvus.writer import GROUP_BYTES, GROUP_FILES, ClaimWriter, Missing

log = logging.getLogger(__name__)

LOCK_SECONDS = 0.5
"""How long to wait for another process of this machine that writes."""

FLUSHED = 1_000
"""Passages of one sync after which Milvus Lite is made to index them: before that, it scans them one by one."""

END_SECONDS = 0.3
"""How long closing waits for a sync to stop at its next step."""

_CLOSED = "The memory was closed during a sync."


class Rounds:
    """Belongs to the event loop. `wrote` is called after something was written; `on_progress` while a sync runs, with
    None at its end."""

    def __init__(
        self, context: BackendContext, connection: Connection, library: Library, handle: EmbedderHandle
    ) -> None:
        self.wrote: Callable[[], None] = lambda: None
        self.on_progress: Callable[[Progress | None], None] = lambda _: None
        self._context = context
        self._connection = connection
        self._library = library
        self._handle = handle
        self._lock = WriterLock(context.paths.home / "memory" / f"milvus-{context.agent_id}")
        self._alone = asyncio.Lock()
        self._next: asyncio.Task[SyncReport] | None = None
        self._tasks: set[asyncio.Task[SyncReport]] = set()
        self._stop = threading.Event()
        self._contested: dict[int, float] = {}

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def request(self, *, force: bool = False, progress: ReportProgress | None = None) -> asyncio.Task[SyncReport]:
        """A sync that begins after this call, shared by all who ask before it begins. `force` writes everything again.

        The task raises ClawbotError; it must not be cancelled by one of several callers.
        """
        if not force and self._next is not None:
            return self._next
        task = asyncio.get_running_loop().create_task(self._round(force=force, progress=progress))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        if not force:
            self._next = task
        return task

    async def verify(self, *, fix: bool) -> VerifyReport:
        """See `ClaimWriter.verify`; with `fix`, what is missing is written again. Raises ClawbotError."""
        async with self._alone:
            try:
                writer = await self._writer()
                report, again = await on_thread(lambda: writer.verify(fix=fix))
                if fix and again:
                    await self._write(writer, Plan(changed=tuple(again)), force=True, progress=None)
            finally:
                self._lock.release()
        if not fix or not report.problems:
            return report
        await self.request()
        left = await self.verify(fix=False)
        return msgspec.structs.replace(report, clean=left.clean, checked=left.checked)

    async def close(self) -> None:
        """Stop at the next step; the next process goes on from there."""
        self._stop.set()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_SECONDS)

    def _over(self, task: asyncio.Task[SyncReport]) -> None:
        self._tasks.discard(task)
        if task is self._next:
            self._next = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the memory in Milvus could not be brought up to date: %s", error)

    async def _writer(self) -> ClaimWriter:
        """Return the writer, which no other process of this machine has. Raises ClawbotError."""
        collections = await self._connection.open()
        await on_thread(self._acquire)
        names = (self._context.agent_id, self._connection.owner)
        search, clock = self._context.agent.memory_search, self._context.clock
        return ClaimWriter(collections, self._library, search, names=names, clock=clock, contested=self._contested)

    def _acquire(self) -> None:
        """Blocks. Raises BusyIndexError, StoreError; MilvusError when nobody waits for it any more."""
        self._lock.acquire(LOCK_SECONDS)
        if self.stopped:
            self._lock.release()
            raise MilvusError(_CLOSED)

    async def _round(self, *, force: bool, progress: ReportProgress | None) -> SyncReport:
        async with self._alone:
            if not force:
                self._next = None
            started = self._context.clock.monotonic()
            try:
                report = await self._synced(force=force, progress=progress)
            except BusyIndexError:
                return SyncReport(busy=True)
            except ClawbotError as error:
                self._connection.failed(error)
                raise
            finally:
                self._lock.release()
                self.on_progress(None)
            return msgspec.structs.replace(report, seconds=self._context.clock.monotonic() - started)

    async def _synced(self, *, force: bool, progress: ReportProgress | None) -> SyncReport:
        writer = await self._writer()
        plan = await on_thread(writer.plan)
        if force:
            everything = await on_thread(self._library.list)
            plan = Plan(changed=everything.files, removed=plan.removed)
        return await self._write(writer, plan, force=force, progress=progress)

    async def _write(
        self, writer: ClaimWriter, plan: Plan, *, force: bool, progress: ReportProgress | None
    ) -> SyncReport:
        written = waiting = done = 0
        await on_thread(lambda: writer.collect(writer.unfinished()))
        await on_thread(lambda: writer.remove(plan.removed))
        for group in groups(plan.to_read, GROUP_BYTES, GROUP_FILES):
            if self._stop.is_set():
                raise MilvusError(_CLOSED)
            changes = await on_thread(partial(writer.read, group, again=force))
            written += await self._put(await on_thread(partial(writer.missing, changes, again=force)))
            waiting += await on_thread(partial(writer.settle, changes))
            done += len(group)
            self._report(Progress("vectors", done, len(plan.to_read), "files"), progress)
        await self._finish(writer, plan, written)
        return SyncReport(
            added=len(plan.added),
            changed=len(plan.changed),
            removed=len(plan.removed),
            unchanged=plan.unchanged,
            pieces_written=written,
            pieces_embedded=written if self._handle.embedder is not None else 0,
            pending_vectors=waiting,
            rebuilt=force,
            issues=self._library.issues,
        )

    async def _finish(self, writer: ClaimWriter, plan: Plan, written: int) -> None:
        if self._connection.database is not None and written >= FLUSHED:
            await on_thread((await self._connection.open()).flush)
        await on_thread(lambda: self._library.remember(writer.indexed))
        if not plan.is_empty:
            self.wrote()

    async def _put(self, missing: Sequence[Missing]) -> int:
        """Embed and write blocks; the number of their passages. Raises ClawbotError."""
        if not missing:
            return 0
        collections = await self._connection.open()
        vectors = await self._vectors([text for each in missing for text in self._texts(each)], collections)
        rows: list[Mapping[str, Any]] = []
        for each in missing:
            own = vectors[len(rows) : len(rows) + len(each.block.passages)]
            rows += as_rows(self._context.agent_id, each.source, each.block, own)
        await on_thread(lambda: collections.put_passages(rows))
        return len(rows)

    async def _vectors(self, texts: Sequence[str], collections: Collections) -> Sequence[Sequence[float]]:
        if not collections.has_vectors:
            return [(0.0, 1.0)] * len(texts)
        found = await self._handle.embed(texts, "document")
        if found.dimensions and found.dimensions != collections.dimensions:
            raise MilvusError(
                f"The vectors have {found.dimensions} numbers, and those in Milvus {collections.dimensions}.",
                hint="The model has changed under its name: set memory.milvus.collection to another name.",
            )
        return await on_thread(lambda: _as_lists(found.data, len(texts), collections.dimensions))

    def _texts(self, missing: Missing) -> list[str]:
        passages = [passage for block in missing.change.blocks for passage in block.passages]
        return [
            chunk_embedding_text(
                passage.text,
                passage.kind,
                passages[passage.heading].text if passage.heading is not None else "",
                remote=self._handle.remote,
            )
            for passage in missing.block.passages
        ]

    def _report(self, progress: Progress, listener: ReportProgress | None) -> None:
        if listener is not None:
            listener(progress)
        self.on_progress(progress)


def _as_lists(data: bytes, count: int, dimensions: int) -> Sequence[Sequence[float]]:
    """Return the rows of float32 `data`; zeros for texts without meaning."""
    # Deferred: numpy.
    from clawbot.memory.arrays import numpy

    np = numpy()
    rows = np.frombuffer(data, "<f4").reshape(count, -1) if data else np.zeros((count, dimensions), np.float32)
    found: Sequence[Sequence[float]] = rows.tolist()
    return found
