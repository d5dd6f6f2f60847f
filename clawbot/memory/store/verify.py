"""Verifies an index: the database itself, files against chunks, chunks against words, chunks against vectors; and
repairs differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.memory.store.chunk_table import MUTE
from clawbot.memory.store.database import fetch, read_generation, read_identity, read_last_sync
from clawbot.memory.store.errors import DamagedIndexError, StoreErrors
from clawbot.memory.store.records import KINDS, ORDINAL_BITS, ChunkRecord, FileRecord, KnownFile, file_of, id_of
from clawbot.memory.store.vectors import table_of
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.values import Counts, VerifyReport

if TYPE_CHECKING:
    import apsw


_SAID_MOST = 3

_BOUNDS = {"bits": ORDINAL_BITS, "last_kind": len(KINDS) - 1}
_CONTRADICTIONS = {
    "files have wrong counts of their pieces": """
        SELECT count(*) FROM files
        LEFT JOIN (SELECT id >> :bits AS file, count(*) AS found FROM chunks GROUP BY file) ON file = files.id
        WHERE chunks != coalesce(found, 0)""",
    "pieces belong to no file": "SELECT count(*) FROM chunks WHERE id >> :bits NOT IN (SELECT id FROM files)",
    "pieces are of no kind": "SELECT count(*) FROM chunks WHERE kind NOT BETWEEN 0 AND :last_kind",
    "pieces have no words": "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT rowid FROM chunks_fts)",
    "words belong to no piece": "SELECT count(*) FROM chunks_fts WHERE rowid NOT IN (SELECT id FROM chunks)",
    "pieces have an unknown speaker": """
        SELECT count(*) FROM chunks WHERE speaker NOT NULL AND speaker NOT IN (SELECT id FROM speakers)""",
}


def examine_pages(connection: apsw.Connection, path: Path) -> None:
    """SQLite's own checks of all pages, tables and the keyword index. Blocks.

    Raises DamagedIndexError, StoreError.
    """
    with StoreErrors(path):
        said = [str(line) for (line,) in fetch(connection, f"PRAGMA integrity_check({_SAID_MOST})")]
        if said != ["ok"]:
            raise DamagedIndexError(path, f"is damaged ({'; '.join(said)})")


def examine(connection: apsw.Connection, path: Path) -> None:
    """All checks that need no files: 0.3 seconds for 100,000 chunks. Blocks.

    Raises DamagedIndexError, StoreError.
    """
    examine_pages(connection, path)
    with StoreErrors(path):
        for what, sql in _CONTRADICTIONS.items():
            count = int(connection.execute(sql, _BOUNDS).get)
            if count:
                raise DamagedIndexError(path, f"contradicts itself ({count:,} {what})")
        read_generation(connection)
        read_last_sync(connection)
        table = table_of(connection, read_identity(connection))
        if table is not None:
            _examine_vectors(connection, path, set(table.ids()))


def _examine_vectors(connection: apsw.Connection, path: Path, vectors: set[int]) -> None:
    chunks = {one for (one,) in fetch(connection, "SELECT id FROM chunks")}
    waiting = int(connection.execute("SELECT coalesce(sum(chunks - pending - mute), 0) FROM files").get)
    if not vectors <= chunks or waiting != len(vectors):
        raise DamagedIndexError(path, "is inconsistent (its vectors don't match its pieces)")


MOST_LINES = 100
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
        self._fixed: list[str] = []
        self._keywords: set[int] = set()
        self._counts = Counts()

    def report(self) -> VerifyReport:
        """The problems and repairs."""
        clean = len(self._fixed) == len(self._problems)
        return VerifyReport(_shortened(self._problems), _shortened(self._fixed), self._counts, clean)

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
                self._found(f"{path}: in the index, but no longer a file", fixed=self._fix)
            if self._fix and known:
                self._writer.remove(known)
            self._orphans()
        self._counts = Counts(files, total, len(self._keywords), 0)

    def _file(self, record: FileRecord, chunks: Sequence[ChunkRecord], known: KnownFile | None) -> None:
        path = record.state.path
        if known is None:
            self._found(f"{path}: not in the index", fixed=self._fix)
        else:
            table = self._writer.chunks
            words = {id_of(known.id, ordinal) for ordinal in range(len(chunks))}
            if known.digest != record.digest:
                self._found(f"{path}: changed since it was indexed", fixed=self._fix)
            elif table.differs(table.stored(known.id), chunks):
                self._found(f"{path}: its pieces differ from the file", fixed=self._fix)
            elif missing := len(words - self._keywords):
                self._found(f"{path}: {missing:,} pieces are missing from the keyword index", fixed=self._fix)
            else:
                return
        if self._fix:
            self._writer.replace_file(record, chunks, anew=True)

    def _orphans(self) -> None:
        """Chunks without a file, and words without a chunk."""
        connection = self._writer.connection
        sql = "SELECT id FROM chunks WHERE id >> ? NOT IN (SELECT id FROM files)"
        lost = [one for (one,) in fetch(connection, sql, (ORDINAL_BITS,))]
        self._remove(lost, "pieces of no file", "DELETE FROM chunks WHERE id = ?")
        sql = "SELECT rowid FROM chunks_fts EXCEPT SELECT id FROM chunks"
        lost = [one for (one,) in fetch(connection, sql)]
        self._remove(lost, "words of no piece", "DELETE FROM chunks_fts WHERE rowid = ?")

    def vectors(self) -> None:
        """Vectors without a chunk; then the counts of pending chunks."""
        connection, table = self._writer.connection, self._writer.vectors
        with self._writer.transaction():
            have: set[int] = set()
            if table is not None:
                have = set(table.ids())
                there = {one for (one,) in fetch(connection, "SELECT id FROM chunks WHERE flags & ? = 0", (MUTE,))}
                self._remove(sorted(have - there), "vectors of no piece", "DELETE FROM chunks_vec WHERE chunk_id = ?")
                have &= there
            self._count_pending(have)
        self._counts = Counts(self._counts.files, self._counts.chunks, self._counts.keywords, len(have))

    def _count_pending(self, have: set[int]) -> None:
        connection = self._writer.connection
        vectors: dict[int, int] = {}
        for one in have:
            vectors[file_of(one)] = vectors.get(file_of(one), 0) + 1
        wrong = [
            (chunks - mute - vectors.get(file_id, 0), file_id)
            for file_id, chunks, mute, pending in fetch(connection, "SELECT id, chunks, mute, pending FROM files")
            if pending != chunks - mute - vectors.get(file_id, 0)
        ]
        if wrong:
            self._found(f"{len(wrong):,} files have wrong counts of pieces without a vector", fixed=self._fix)
        if wrong and self._fix:
            self._writer.note_change()
            connection.executemany("UPDATE files SET pending = ? WHERE id = ?", wrong)

    def _remove(self, ids: Sequence[int], what: str, sql: str) -> None:
        if not ids:
            return
        self._found(f"{len(ids):,} {what}", fixed=self._fix)
        if self._fix:
            self._writer.note_change()
            self._writer.connection.executemany(sql, [(one,) for one in ids])

    def _found(self, problem: str, *, fixed: bool) -> None:
        self._problems.append(problem)
        if fixed:
            self._fixed.append(problem)


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    return (*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES:,} more")
