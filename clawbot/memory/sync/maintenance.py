"""Verifies an index against its files and repairs it; erases deleted text from its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexContext
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.documents.walking import FileState, is_hidden
from clawbot.memory.embeddings.protocol import Embedder
from clawbot.memory.store.chunk_table import MUTE
from clawbot.memory.store.database import fetch
from clawbot.memory.store.errors import DamagedIndexError, StoreErrors
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.records import ORDINAL_BITS, ChunkRecord, FileRecord, KnownFile, file_of, id_of
from clawbot.memory.store.replacement import (
    discard_building,
    discard_quarantined,
    examine_pages,
    open_trusted,
    quarantine,
    recover,
)
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
        try:
            report = _check(context, embedder, fix=fix)
        except ClawbotError:
            raise
        except Exception:
            # Unreadable data: examine the index for the reason.
            open_trusted(context.db).close()
            raise
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


def _check(context: IndexContext, embedder: Embedder | None, *, fix: bool) -> VerifyReport:
    writer = IndexWriter.open(context.db)
    try:
        known = writer.identity
        wanted = effective_identity(known, wanted_identity(context.settings, context.library, embedder))
        if known is None or needs_rebuild(known, wanted):
            return _one("The index was built with other settings, or by another version.", fixed=fix)
        listing = context.library.list()
        if any(is_hidden(path, listing.hidden) for path in writer.known()):
            # Otherwise their chunks would appear as those of deleted files.
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


MAX_LINES = 100
"""Further problems are counted, not listed."""


def verify(
    writer: IndexWriter, documents: Iterable[tuple[FileRecord, Sequence[ChunkRecord]]], *, fix: bool
) -> VerifyReport:
    """Compare the index with `documents`, which are all that it should contain. Blocks for seconds.

    Writes nothing without `fix`. With it the differences are repaired: chunks are rewritten, orphaned words and vectors
    removed, and chunks without their vector become pending. Raises DamagedIndexError for damage that only a rebuild can
    repair.
    """
    check = _Check(writer, fix=fix)
    check.database()
    check.files(documents)
    check.vectors()
    return check.report()


class _Check:
    def __init__(self, writer: IndexWriter, *, fix: bool) -> None:
        self._writer = writer
        self._fix = fix
        self._problems: list[str] = []
        self._keywords: set[int] = set()
        self._counts = Counts()

    def report(self) -> VerifyReport:
        problems = tuple(self._problems[:MAX_LINES])
        if (more := len(self._problems) - MAX_LINES) > 0:
            problems = (*problems, f"and {more:,} more")
        return VerifyReport(problems, problems if self._fix else (), self._counts, clean=self._fix or not problems)

    def database(self) -> None:
        """SQLite's own checks of pages and keyword index. Raises DamagedIndexError."""
        path, connection = self._writer.path, self._writer.connection
        with StoreErrors(path):
            examine_pages(connection, path)
            self._keywords = {one for (one,) in fetch(connection, "SELECT rowid FROM chunks_fts")}

    def files(self, documents: Iterable[tuple[FileRecord, Sequence[ChunkRecord]]]) -> None:
        """Compare each file with its chunks, and these with their words; then find orphans."""
        known = self._writer.known()
        files = total = 0
        with self._writer.transaction():
            for record, chunks in documents:
                files += 1
                total += len(chunks)
                self._file(record, chunks, known.pop(record.state.path, None))
            for path in known:
                self._problems.append(f"{path}: in the index, but no longer a file")
            if self._fix and known:
                self._writer.remove(known)
            self._orphans()
        self._counts = Counts(files, total, len(self._keywords), 0)

    def _file(self, record: FileRecord, chunks: Sequence[ChunkRecord], known: KnownFile | None) -> None:
        path = record.state.path
        if known is None:
            self._problems.append(f"{path}: not in the index")
        else:
            table = self._writer.chunks
            words = {id_of(known.id, ordinal) for ordinal in range(len(chunks))}
            if known.digest != record.digest:
                self._problems.append(f"{path}: changed since it was indexed")
            elif table.differs(table.stored(known.id), chunks):
                self._problems.append(f"{path}: its passages differ from the file")
            elif missing := len(words - self._keywords):
                self._problems.append(f"{path}: {missing:,} passages are missing from the keyword index")
            else:
                return
        if self._fix:
            self._writer.replace_file(record, chunks, rewrite=True)

    def _orphans(self) -> None:
        """Chunks without a file, and words without a chunk."""
        connection = self._writer.connection
        sql = "SELECT id FROM chunks WHERE id >> ? NOT IN (SELECT id FROM files)"
        lost = [one for (one,) in fetch(connection, sql, (ORDINAL_BITS,))]
        self._remove(lost, "passages of no file", "DELETE FROM chunks WHERE id = ?")
        sql = "SELECT rowid FROM chunks_fts EXCEPT SELECT id FROM chunks"
        lost = [one for (one,) in fetch(connection, sql)]
        self._remove(lost, "words of no passage", "DELETE FROM chunks_fts WHERE rowid = ?")

    def vectors(self) -> None:
        """Vectors without a chunk; then the counts of pending chunks."""
        connection, table = self._writer.connection, self._writer.vectors
        with self._writer.transaction():
            have: set[int] = set()
            if table is not None:
                have = set(table.ids())
                existing = {one for (one,) in fetch(connection, "SELECT id FROM chunks WHERE flags & ? = 0", (MUTE,))}
                self._remove(
                    sorted(have - existing), "vectors of no passage", "DELETE FROM chunks_vec WHERE chunk_id = ?"
                )
                have &= existing
            self._count_pending(have)
        self._counts = Counts(self._counts.files, self._counts.chunks, self._counts.keywords, len(have))

    def _count_pending(self, have: set[int]) -> None:
        connection = self._writer.connection
        vectors = Counter(map(file_of, have))
        wrong = [
            (chunks - mute - vectors[file_id], file_id)
            for file_id, chunks, mute, pending in fetch(connection, "SELECT id, chunks, mute, pending FROM files")
            if pending != chunks - mute - vectors[file_id]
        ]
        if wrong:
            self._problems.append(f"{len(wrong):,} files have wrong counts of passages without a vector")
        if wrong and self._fix:
            self._writer.note_change()
            connection.executemany("UPDATE files SET pending = ? WHERE id = ?", wrong)

    def _remove(self, ids: Sequence[int], what: str, sql: str) -> None:
        if not ids:
            return
        self._problems.append(f"{len(ids):,} {what}")
        if self._fix:
            self._writer.note_change()
            self._writer.connection.executemany(sql, [(one,) for one in ids])
