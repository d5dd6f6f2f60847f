"""Writes the text of changed files into an index, group by group, so that a stop or a kill costs one group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from clawbot.memory.chunking.pieces import pieces_of
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.errors import TooManyPiecesError
from clawbot.memory.store.records import FileRecord, KnownFile
from clawbot.memory.sync.done import Done
from clawbot.memory.sync.plan import Plan
from clawbot.memory.values import Issue

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings
    from clawbot.memory.store.writer import IndexWriter

GROUP_BYTES = 1024 * 1024
"""Text that is written in one transaction: what was written is found from then on, and survives a kill."""
GROUP_FILES = 100


class TextPhase:
    """Brings the text of an index up to date with the files, group by group."""

    def __init__(self, writer: IndexWriter, library: Library, settings: MemorySearchSettings, done: Done) -> None:
        self._writer = writer
        self._library = library
        self._settings = settings
        self._done = done

    def run(self, plan: Plan, step: Callable[[int, int], None], should_stop: Callable[[], bool]) -> bool:
        """Carry out `plan`; False when it was stopped half way, with what was done until then stored. Blocks.

        `step` is called with the files and bytes that were done since the last time. Raises StoreError.
        """
        self._done.unchanged = plan.unchanged
        if plan.removed:
            with self._writer.transaction():
                self._done.removed += self._writer.remove(plan.removed)
        known = self._writer.known()
        for group in _groups(plan.to_read):
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
            # It went away, or is no text any more: what the index has of it is no longer true.
            self._done.removed += self._writer.remove([state.path]) if known is not None else 0
        elif known is not None and known.digest == document.digest and known.source == state.source:
            self._writer.touch([document.state])
            self._done.unchanged += 1
        else:
            self._replace(state, document, is_new=known is None)

    def _replace(self, state: FileState, document: Document, *, is_new: bool) -> None:
        record = FileRecord(document.state, document.digest, document.date)
        pieces = pieces_of(document, self._settings)
        try:
            written = self._writer.replace_file(record, pieces)
        except TooManyPiecesError as error:
            self._library.refuse(state, Issue(state.path, error.message))
            self._writer.remove([state.path])
            return
        self._done.pieces += written.written
        self._done.added += is_new
        self._done.changed += not is_new


def _groups(states: Sequence[FileState]) -> Iterator[list[FileState]]:
    group: list[FileState] = []
    size = 0
    for state in states:
        group.append(state)
        size += state.size
        if size >= GROUP_BYTES or len(group) >= GROUP_FILES:
            yield group
            group, size = [], 0
    if group:
        yield group
