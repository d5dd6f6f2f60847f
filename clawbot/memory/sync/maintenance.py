"""Verifies an index against its files and repairs it; erases deleted text from its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexContext
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.documents.walking import FileState, is_hidden
from clawbot.memory.embeddings.protocol import Embedder
from clawbot.memory.store.errors import DamagedIndexError
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.records import ChunkRecord, FileRecord
from clawbot.memory.store.replacement import discard_building, discard_quarantined, open_trusted, quarantine, recover
from clawbot.memory.store.verify import verify
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync.round import LOCK_SECONDS, effective_identity, needs_rebuild, wanted_identity
from clawbot.memory.values import Counts, VerifyReport

_NONE = Counts()


def check(context: IndexContext, embedder: Embedder | None, *, fix: bool) -> VerifyReport:
    """Compare files, chunks, words and vectors. Blocks. Raises BusyIndexError, StoreError.

    With `fix` differences are repaired; an index beyond repair is quarantined and counts as fixed, because the caller
    then syncs, which rebuilds it.
    """
    if not context.db.exists():
        return _one("There is no memory index yet.", fixed=fix)
    lock = WriterLock(context.db)
    lock.acquire(LOCK_SECONDS)
    try:
        was_sealed = lock.is_sealed()
        report = _examined(context, embedder, fix=fix)
        if was_sealed or report.clean:
            lock.seal()
        return report
    except DamagedIndexError as error:
        lock.break_seal()
        if fix:
            quarantine(context.db, error.reason, context.clock.now())
        return _one(error.message, fixed=fix)
    finally:
        lock.release()


def _examined(context: IndexContext, embedder: Embedder | None, *, fix: bool) -> VerifyReport:
    """`_check`; unreadable data is reported with its reason. Raises DamagedIndexError."""
    try:
        return _check(context, embedder, fix=fix)
    except ClawbotError:
        raise
    except Exception:
        open_trusted(context.db).close()
        raise


def _check(context: IndexContext, embedder: Embedder | None, *, fix: bool) -> VerifyReport:
    writer = IndexWriter.open(context.db)
    try:
        known = writer.identity
        wanted = effective_identity(known, wanted_identity(context.settings, context.library, embedder))
        if known is None or needs_rebuild(known, wanted):
            return _one("The index was built with other settings, or by another version.", fixed=fix)
        listing = context.library.list()
        if any(is_hidden(path, listing.hidden) for path in writer.known()):
            # Otherwise their chunks would look like those of deleted files.
            problems = tuple(f"{issue.path}: {issue.text}" for issue in context.library.hidden)
            return VerifyReport(problems, (), _NONE, clean=False)
        return verify(writer, _documents(context, listing.files), fix=fix)
    finally:
        writer.close()


def _documents(context: IndexContext, files: Sequence[FileState]) -> Iterator[tuple[FileRecord, Sequence[ChunkRecord]]]:
    for state in files:
        document = context.library.read(state)
        if document is not None:
            record = FileRecord(document.state, document.digest, document.date, document.days)
            yield record, chunks_of(document, context.settings)


def _one(problem: str, *, fixed: bool) -> VerifyReport:
    return VerifyReport((problem,), (problem,) if fixed else (), _NONE, clean=fixed)


SECONDS = 10.0
"""How long to wait for another writer."""


def scrub(context: IndexContext) -> bool:
    """Rewrite the index without free pages, remove quarantined and unfinished files, and empty the log. Blocks.

    False if a reader keeps the log: the next sync empties it. Raises BusyIndexError, StoreError.
    """
    if not context.db.parent.exists():
        return True
    lock = WriterLock(context.db)
    lock.acquire(SECONDS)
    try:
        recover(context.db)
        discard_building(context.db)
        discard_quarantined(context.db)
        if not context.db.exists():
            return True
        was_sealed = lock.is_sealed()
        writer = IndexWriter.open(context.db)
        try:
            clean = writer.scrub()
        finally:
            writer.close()
        if was_sealed:
            lock.seal()
        return clean
    finally:
        lock.release()
