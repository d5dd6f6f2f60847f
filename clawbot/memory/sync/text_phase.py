"""Writes the text of changed files into an index, in groups, so that a stop or a kill loses one group; and counts the
work and its rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.memory.documents.library import Library, Plan, groups
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.errors import TooManyChunksError
from clawbot.memory.store.records import FileRecord, KnownFile
from clawbot.memory.values import Issue, Progress

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings
    from clawbot.memory.store.writer import IndexWriter

GROUP_BYTES = 4 * 1024 * 1024
"""Text written in one transaction: afterwards it is searchable and safe."""
GROUP_FILES = 400


# An earlier rate is not meaningful.
_SOONEST_SECONDS = 0.2


class Pace:
    """The progress of a phase with `total` units; `weight` is their total cost, in the same measure as in `step`."""

    def __init__(
        self,
        phase: Literal["scan", "text", "vectors", "publish"],
        unit: Literal["files", "pieces"],
        clock: Clock,
        *,
        total: int,
        weight: float,
    ) -> None:
        self._phase = phase
        self._unit = unit
        self._clock = clock
        self._start = clock.monotonic()
        self._total = total
        self._weight = weight
        self._done = 0
        self._weight_done = 0.0

    def step(self, count: int, weight: float) -> Progress:
        """Return the progress after `count` more units with the cost `weight`."""
        self._done += count
        self._weight_done += weight
        # More units may appear.
        self._total = max(self._total, self._done)
        self._weight = max(self._weight, self._weight_done)
        elapsed = self._clock.monotonic() - self._start
        if elapsed < _SOONEST_SECONDS or not self._weight_done:
            return Progress(self._phase, self._done, self._total, self._unit)
        left = elapsed * (self._weight - self._weight_done) / self._weight_done
        return Progress(self._phase, self._done, self._total, self._unit, self._done / elapsed, left)


class SyncCounts(Struct):
    """The work done: files, and chunks written or embedded."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    pieces_written: int = 0
    pieces_embedded: int = 0


class TextPhase:
    """Updates the text of an index from the files, in groups."""

    def __init__(self, writer: IndexWriter, library: Library, settings: MemorySearchSettings, done: SyncCounts) -> None:
        self._writer = writer
        self._library = library
        self._settings = settings
        self._done = done

    def run(self, plan: Plan, step: Callable[[int, int], None], should_stop: Callable[[], bool]) -> bool:
        """Carry out `plan`; False if stopped, with the finished groups stored. Blocks.

        `step` is called with the files and bytes since its last call. Raises StoreError.
        """
        self._done.unchanged = plan.unchanged
        if plan.removed:
            with self._writer.transaction():
                self._done.removed += self._writer.remove(plan.removed)
        known = self._writer.known()
        for group in groups(plan.to_read, GROUP_BYTES, GROUP_FILES):
            with self._writer.transaction():
                for state in group:
                    if should_stop():
                        return False
                    self._take(state, known.get(state.path))
                    step(1, state.size)
        return True

    def _take(self, state: FileState, known: KnownFile | None) -> None:
        document = self._library.read(state)
        if document is None:
            # Deleted, or not text any more: remove it from the index.
            self._done.removed += self._writer.remove([state.path]) if known is not None else 0
        elif known is not None and known.digest == document.digest and known.source == state.source:
            self._writer.touch([document.state])
            self._done.unchanged += 1
        else:
            self._replace(state, document, is_new=known is None)

    def _replace(self, state: FileState, document: Document, *, is_new: bool) -> None:
        # Deferred: importing the chunker takes as long as a sync without changes.
        from clawbot.memory.chunking.document_chunks import chunks_of

        record = FileRecord(document.state, document.digest, document.date, document.days)
        chunks = chunks_of(document, self._settings)
        try:
            written = self._writer.replace_file(record, chunks)
        except TooManyChunksError as error:
            self._library.refuse(state, Issue(state.path, error.message))
            self._writer.remove([state.path])
            return
        self._done.pieces_written += written.written
        self._done.added += is_new
        self._done.changed += not is_new
