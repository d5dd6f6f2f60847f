"""Writes the index: one connection on one thread, each change atomic. Also tracks which chunks wait for a vector, and
stores the vectors."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clawbot.memory.arrays import numpy
from clawbot.memory.documents.days import DayMark
from clawbot.memory.documents.walking import FileState
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.store.chunk_table import MUTE, Change, ChunkTable, VectorKey
from clawbot.memory.store.database import (
    ANY_FILE,
    empty_log,
    fetch,
    note_changes,
    open_for_writing,
    read_generation,
    read_identity,
    read_last_sync,
    set_meta,
    valid,
    write_identity,
)
from clawbot.memory.store.errors import StoreErrors, TooManyChunksError, WrongDimensionsError
from clawbot.memory.store.records import (
    FIRST_TRANSCRIPT,
    KINDS,
    MAX_CHUNKS,
    MAX_FILES,
    ChunkRecord,
    DayRun,
    FileRecord,
    Identity,
    KnownFile,
    PendingChunk,
    file_of,
    id_of,
)
from clawbot.memory.store.vectors import StoredEmbeddings, VectorTable, table_of
from clawbot.memory.values import Source

if TYPE_CHECKING:
    import apsw

    from clawbot.memory.arrays import Bools, Floats
    from clawbot.memory.store.reader import IndexReader


_FILES = "SELECT id, revision FROM files WHERE pending > 0 AND id >= ? ORDER BY id"
_CHUNKS = """
SELECT chunk.id, chunk.kind, chunk.text, coalesce(above.text, '')
FROM chunks AS chunk LEFT JOIN chunks AS above ON above.id = ?1 + chunk.heading
WHERE chunk.id >= ?1 AND chunk.id < ?2 AND chunk.flags & ?3 = 0 ORDER BY chunk.id
"""
_COUNT = "UPDATE files SET pending = pending - ?, mute = mute + ? WHERE id = ?"


def _waiting(connection: apsw.Connection, table: VectorTable, chunks: Sequence[PendingChunk]) -> list[int]:
    """Return the positions in `chunks` of those that still wait: unchanged file, no vector yet."""
    positions: list[int] = []
    revisions: dict[int, int | None] = {}
    have: set[int] = set()
    for position, chunk in enumerate(chunks):
        file_id = file_of(chunk.id)
        if file_id not in revisions:
            row = connection.execute("SELECT revision FROM files WHERE id = ?", (file_id,)).fetchone()
            revisions[file_id] = row[0] if row else None
            have |= table.ids_of_file(file_id)
        if revisions[file_id] == chunk.revision and chunk.id not in have:
            have.add(chunk.id)
            positions.append(position)
    return positions


def _unit(rows: Floats) -> tuple[Floats, Bools]:
    """`rows` `(n, d)` normalised, with non-finite components removed; and which rows are not zero `(n,)`."""
    np = numpy()
    clean = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.sqrt(np.einsum("ij,ij->i", clean, clean, dtype=np.float64))
    nonzero = lengths > 0
    lengths[~nonzero] = 1
    return (clean / lengths[:, None]).astype(np.float32), nonzero


_UPSERT = """
INSERT INTO files (id, path, source, size, mtime_ns, digest, day, days, chunks, pending, mute, chars, tokens,
    revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET source = excluded.source, size = excluded.size, mtime_ns = excluded.mtime_ns,
    digest = excluded.digest, day = excluded.day, days = excluded.days, chunks = excluded.chunks,
    pending = excluded.pending, mute = excluded.mute, chars = excluded.chars, tokens = excluded.tokens,
    revision = excluded.revision
"""


class IndexWriter:
    """The writer of an index. The caller holds the writer's lock; all methods block and raise StoreError.

    All changes happen inside `transaction`. `identity` is how it was built, None for a new one. For the modules of the
    store: the `connection`, the tables of `chunks` and `vectors` (None before the first vector).
    """

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self.path = path
        self.connection = connection
        self._errors = StoreErrors(path)
        # Other threads use the cache of embeddings, which must not enter a foreign transaction.
        self._lock = threading.RLock()
        self.chunks = ChunkTable(connection)
        self.identity: Identity | None = None
        self.vectors: VectorTable | None = None
        self._old: IndexReader | None = None
        self._known: dict[str, KnownFile] | None = None
        self._changed: set[int] = set()
        self._revision = 0
        self.cache = StoredEmbeddings(connection, path, self._lock)
        self._learn()

    @classmethod
    def open(cls, path: Path) -> IndexWriter:
        """Return the index at `path`, created if missing. Raises DamagedIndexError if it should be quarantined."""
        return cls(open_for_writing(path), path)

    def close(self) -> None:
        """Close the connection; idempotent."""
        with self._lock:
            self.cache.is_closed = True
            self.connection.close()

    def set_identity(self, identity: Identity) -> None:
        """Record how the index is built. The dimensions of its vectors are kept."""
        dimensions = self.identity.dimensions if self.identity else 0
        kept = msgspec.structs.replace(identity, dimensions=dimensions)
        if kept != self.identity:
            with self.transaction():
                self.note_change()
                self._note(kept)

    @property
    def last_sync(self) -> dt.datetime | None:
        """The time of the last complete sync."""
        with self._lock, self._errors:
            return read_last_sync(self.connection)

    def finish(self, now: dt.datetime) -> None:
        """Record a complete sync at `now`, and empty the log unless it is being read."""
        with self._lock, self._errors:
            set_meta(self.connection, "last_sync", now.astimezone(dt.UTC).isoformat())
            empty_log(self.connection)

    def scrub(self) -> bool:
        """Erase deleted text from the files: the keyword index, cached embeddings, free pages, the log. False if a
        reader prevents emptying the log."""
        with self._lock, self._errors:
            self.connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
            self.connection.execute("DELETE FROM embedding_cache")
            self.connection.execute("VACUUM")
            return empty_log(self.connection, patient=True)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is committed at the end, or rolled back on an exception."""
        with self._lock, self._errors:
            self.connection.execute("BEGIN IMMEDIATE")
            self._changed = set()
            self._revision = read_generation(self.connection) + 1
            try:
                yield
                self.chunks.drop_silent_speakers()
                if self._changed:
                    set_meta(self.connection, "generation", self._revision)
                    note_changes(self.connection, self._revision, self._changed)
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                self.chunks.forget()
                self._known = None
                self._learn()
                raise

    def known(self) -> dict[str, KnownFile]:
        """Return the files of the index by path. They are read once: nobody else writes."""
        with self._lock, self._errors:
            if self._known is None:
                rows = fetch(self.connection, "SELECT id, source, size, mtime_ns, digest, path FROM files")
                found = valid(list[KnownFile], rows, self.path)
                self._known = dict(zip([row[-1] for row in rows], found, strict=True))
            return dict(self._known)

    def expect(self, known: Mapping[str, KnownFile]) -> None:
        """Take `known` for the files of the index."""
        self._known = dict(known)

    @property
    def generation(self) -> int:
        with self._lock, self._errors:
            return read_generation(self.connection)

    def replace_file(self, record: FileRecord, chunks: Sequence[ChunkRecord], *, rewrite: bool = False) -> Change:
        """Make `chunks` those of the file, which is added if new.

        Equal leading chunks are kept (unless `rewrite`), and moved ones keep their vector. Raises TooManyChunksError.
        """
        state = record.state
        if len(chunks) >= MAX_CHUNKS:
            raise TooManyChunksError(f"{state.path} has more than {MAX_CHUNKS:,} passages and is not indexed.")
        self.note_change(())
        with self._errors:
            file_id = self._file_id(state.path)
            is_new = file_id is None
            if file_id is None:
                file_id = self._new_id(state.source)
            inherited = self._inherited(state.path) if is_new else {}
            change = self.chunks.replace(file_id, chunks, self.vectors, inherited, rewrite=rewrite)
            chars, tokens = _size([chunk.text for chunk in chunks])
            day = record.day.isoformat() if record.day else None
            runs = day_runs(record.marks, chunks)
            days = msgspec.json.encode(runs).decode() if runs else None
            described = (file_id, state.path, state.source, state.size, state.mtime_ns, record.digest, day, days)
            counted = (len(chunks), change.pending, change.mute, chars, tokens, self._revision)
            self.connection.execute(_UPSERT, (*described, *counted))
        self.note_change([file_id])
        if self._known is not None:
            known = KnownFile(file_id, state.source, state.size, state.mtime_ns, record.digest)
            self._known[state.path] = known
        return change

    def touch(self, states: Iterable[FileState]) -> None:
        """Record the new size and time of files with unchanged content."""
        self.note_change(())
        rows = [(state.size, state.mtime_ns, state.path) for state in states]
        with self._errors:
            self.connection.executemany("UPDATE files SET size = ?, mtime_ns = ? WHERE path = ?", rows)
        for size, mtime_ns, path in rows:
            if self._known is not None and path in self._known:
                self._known[path] = msgspec.structs.replace(self._known[path], size=size, mtime_ns=mtime_ns)

    def remove(self, paths: Iterable[str]) -> int:
        """Remove files; returns how many were known."""
        self.note_change(())
        removed = 0
        with self._errors:
            for path in paths:
                row = self.connection.execute("SELECT id, chunks FROM files WHERE path = ?", (path,)).fetchone()
                if row is None:
                    continue
                self.chunks.remove(row[0], row[1], self.vectors)
                self.connection.execute("DELETE FROM files WHERE id = ?", (row[0],))
                self.note_change([row[0]])
                if self._known is not None:
                    self._known.pop(path, None)
                removed += 1
        return removed

    def pending(self, after_id: int, limit: int) -> list[PendingChunk]:
        """Return chunks without a vector after the id `after_id` (0 for all), by id, at most `limit`."""
        found: list[PendingChunk] = []
        with self._lock, self._errors:
            for file_id, revision in self.connection.execute(_FILES, (file_of(after_id),)):
                have = self.vectors.ids_of_file(file_id) if self.vectors is not None else set()
                bounds = (id_of(file_id, 0), id_of(file_id + 1, 0), MUTE)
                for one, kind, text, above in self.connection.execute(_CHUNKS, bounds):
                    if one > after_id and one not in have:
                        found.append(PendingChunk(one, revision, KINDS[kind], text, above))
                if len(found) >= limit:
                    break
        return found[:limit]

    def pending_count(self) -> int:
        with self._lock, self._errors:
            sql = "SELECT coalesce(sum(pending), 0) FROM files WHERE pending > 0"
            return int(self.connection.execute(sql).get)

    def put_vectors(self, chunks: Sequence[PendingChunk], vectors: Vectors) -> int:
        """Store a vector for each of `chunks`; returns how many no longer wait.

        Chunks changed or removed since are skipped; a row of zeros means that there is nothing to embed. Raises
        WrongDimensionsError if the index has vectors of another size.
        """
        self.note_change(())
        np = numpy()
        with self._errors:
            table = self._table_for(vectors.dimensions)
            positions = _waiting(self.connection, table, chunks)
            rows, nonzero = _unit(np.frombuffer(vectors.data, "<f4").reshape(-1, vectors.dimensions)[positions])
            ids = [chunks[position].id for position in positions]
            spoken = np.flatnonzero(nonzero)
            table.insert(zip((ids[position] for position in spoken), table.pack(rows[spoken]), strict=True))
            silent = [(MUTE, ids[position]) for position in np.flatnonzero(~nonzero)]
            self.connection.executemany("UPDATE chunks SET flags = flags | ? WHERE id = ?", silent)
            stored = Counter(map(file_of, ids))
            mute = Counter(file_of(one) for _, one in silent)
            counts = [(count, mute[file_id], file_id) for file_id, count in stored.items()]
            self.connection.executemany(_COUNT, counts)
            self.note_change(stored)
        return len(ids)

    def inherit(self, old: IndexReader | None) -> None:
        """Reuse vectors of another index with the same identity for files that are new here.

        Its cached embeddings are copied at once.
        """
        self._old = None
        if old is None:
            return
        with old.snapshot():
            self.cache.adopt(old.cached_embeddings())
            ours, theirs = self.identity, old.identity
        if ours is not None and theirs is not None and ours.vector_part == theirs.vector_part:
            self._old = old

    def _inherited(self, path: str) -> Mapping[VectorKey, bytes | None]:
        if self._old is None:
            return {}
        found = self._old.vectors_by_key(path)
        if found:
            self._table_for(self._old.dimensions)
        return found

    def note_change(self, files: Iterable[int] = (ANY_FILE,)) -> None:
        """Record that this transaction changes what a search may find in `files`, by id. For the modules of the store.
        Raises RuntimeError outside a transaction."""
        if not self.connection.in_transaction:
            raise RuntimeError("the index is changed outside of a transaction")
        self._changed.update(files)

    def _file_id(self, path: str) -> int | None:
        row = self.connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
        return int(row[0]) if row else None

    def _new_id(self, source: Source) -> int:
        first, behind = (FIRST_TRANSCRIPT, MAX_FILES) if source == "sessions" else (1, FIRST_TRANSCRIPT)
        sql = "SELECT coalesce(max(id) + 1, ?1) FROM files WHERE id >= ?1 AND id < ?2"
        return int(self.connection.execute(sql, (first, behind)).get)

    def _table_for(self, dimensions: int) -> VectorTable:
        """Return the table of vectors, created with the first ones."""
        if self.identity is None:
            raise RuntimeError("vectors come before the identity of the index")
        if self.vectors is None:
            self.note_change()
            self._note(msgspec.structs.replace(self.identity, dimensions=dimensions))
        if self.vectors is None or self.identity.dimensions != dimensions:
            raise WrongDimensionsError(
                f"The vectors have {dimensions} dimensions, the index {self.path} has others.",
                hint="`clawbot memory index --force` rebuilds it.",
            )
        return self.vectors

    def _note(self, identity: Identity) -> None:
        """Store `identity`, and create the table of vectors once the dimensions are known."""
        had_table = self.vectors is not None
        write_identity(self.connection, identity)
        self._learn()
        if self.vectors is not None and not had_table:
            self.vectors.create()

    def _learn(self) -> None:
        with self._errors:
            self.identity = read_identity(self.connection)
            self.vectors = table_of(self.connection, self.identity)


def _size(texts: Sequence[str]) -> tuple[int, int]:
    """Return the characters of `texts`, and approximately their tokens in a model's context."""
    chars = sum(map(len, texts))
    wide = sum(len(text) - len(text.encode("ascii", "ignore")) for text in texts if not text.isascii())
    return chars, (chars - wide + 3) // 4 + wide


def day_runs(marks: Sequence[DayMark], chunks: Sequence[ChunkRecord]) -> list[DayRun]:
    """`marks` as ordinals of chunks. A chunk belongs to the days on which it begins and to those that begin
    inside it."""
    starts = [mark.line for mark in marks]
    runs: list[DayRun] = []
    for ordinal, chunk in enumerate(chunks if marks else ()):
        begun = bisect_right(starts, chunk.start_line) - 1
        of_chunk = marks[max(0, begun) : bisect_right(starts, chunk.end_line)]
        days = tuple(dict.fromkeys(day for mark in of_chunk for day in mark.days))
        if not runs or runs[-1].days != days:
            runs.append(DayRun(ordinal, days))
    return runs
