"""Writes the index: one connection on one thread, each change whole or not at all."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clawbot.memory.documents.walking import FileState
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.store.cache import StoredEmbeddings
from clawbot.memory.store.database import empty_log, open_for_writing, set_meta
from clawbot.memory.store.errors import StoreErrors, TooManyPiecesError, WrongDimensionsError
from clawbot.memory.store.facts import read_generation, read_identity, read_last_sync, table_of, write_identity
from clawbot.memory.store.identity import Identity
from clawbot.memory.store.pending import pending_chunks, put_vectors
from clawbot.memory.store.pieces_table import Meaning, PieceTable
from clawbot.memory.store.records import MAX_PIECES, FileRecord, KnownFile, PendingChunk, Piece, Written
from clawbot.memory.store.vectors import VectorTable

if TYPE_CHECKING:
    import apsw

    from clawbot.memory.store.reader import IndexReader

_UPSERT = """
INSERT INTO files (id, path, source, size, mtime_ns, digest, day, chunks, pending, mute, chars, tokens, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET source = excluded.source, size = excluded.size, mtime_ns = excluded.mtime_ns,
    digest = excluded.digest, day = excluded.day, chunks = excluded.chunks, pending = excluded.pending,
    mute = excluded.mute, chars = excluded.chars, tokens = excluded.tokens, revision = excluded.revision
"""


class IndexWriter:
    """The one that writes an index. Its caller holds the writer's lock; all methods block and raise StoreError.

    Everything that changes the index is called inside of `transaction`.
    """

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._errors = StoreErrors(path)
        # The cache of embeddings is asked from other threads, and must not end up in somebody else's transaction.
        self._lock = threading.RLock()
        self._pieces = PieceTable(connection)
        self._identity: Identity | None = None
        self._table: VectorTable | None = None
        self._old: IndexReader | None = None
        self._changed = False
        self._revision = 0
        self.cache = StoredEmbeddings(connection, path, self._lock)
        self._learn()

    @classmethod
    def open(cls, path: Path) -> IndexWriter:
        """The index at `path`, made when it is not there. Raises DamagedIndexError for what is to be set aside."""
        return cls(open_for_writing(path), path)

    def close(self) -> None:
        """Close the connection. Twice does no harm."""
        with self._lock:
            self.cache.is_closed = True
            self._connection.close()

    @property
    def connection(self) -> apsw.Connection:
        """For the modules of the store."""
        return self._connection

    @property
    def pieces(self) -> PieceTable:
        """For the modules of the store."""
        return self._pieces

    @property
    def vectors(self) -> VectorTable | None:
        """The table of vectors, None before the first one came. For the modules of the store."""
        return self._table

    @property
    def identity(self) -> Identity | None:
        """What the index was built with; None for a new one."""
        return self._identity

    def set_identity(self, identity: Identity) -> None:
        """Note what the index is built with. The dimensions of its vectors stay what they are."""
        dimensions = self._identity.dimensions if self._identity else 0
        kept = msgspec.structs.replace(identity, dimensions=dimensions)
        if kept != self._identity:
            with self.transaction():
                self.note_change()
                self._note(kept)

    @property
    def last_sync(self) -> dt.datetime | None:
        """When the last complete sync was."""
        with self._lock, self._errors:
            return read_last_sync(self._connection)

    def finish(self, now: dt.datetime) -> None:
        """Note that everything was looked at, at `now`, and empty the log unless somebody reads from it."""
        with self._lock, self._errors:
            set_meta(self._connection, "last_sync", now.astimezone(dt.UTC).isoformat())
            empty_log(self._connection)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is stored when it ends, or nothing when it raises. Readers see it then."""
        with self._lock, self._errors:
            self._connection.execute("BEGIN IMMEDIATE")
            self._changed = False
            self._revision = read_generation(self._connection) + 1
            try:
                yield
                self._pieces.drop_silent_speakers()
                if self._changed:
                    set_meta(self._connection, "generation", self._revision)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._pieces.forget()
                self._learn()
                raise

    def known(self) -> dict[str, KnownFile]:
        """The files of the index by their path."""
        sql = "SELECT path, id, source, size, mtime_ns, digest FROM files"
        with self._lock, self._errors:
            return {path: KnownFile(*values) for path, *values in self._connection.execute(sql)}

    def replace_file(self, record: FileRecord, pieces: Sequence[Piece], *, anew: bool = False) -> Written:
        """Make `pieces` those of the file, which is added when it is new.

        Leading pieces that are the same stay as they are (unless `anew`), and those that were there in another place
        keep their vector. Raises TooManyPiecesError.
        """
        state = record.state
        if len(pieces) >= MAX_PIECES:
            raise TooManyPiecesError(f"{state.path} has more than {MAX_PIECES:,} pieces and is not indexed.")
        self.note_change()
        with self._errors:
            file_id = self._file_id(state.path)
            is_new = file_id is None
            if file_id is None:
                file_id = int(self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM files").get)
            inherited = self._inherited(state.path) if is_new else {}
            change = self._pieces.replace(file_id, pieces, self._table, inherited, anew=anew)
            chars, tokens = _size([piece.text for piece in pieces])
            day = record.day.isoformat() if record.day else None
            described = (file_id, state.path, state.source, state.size, state.mtime_ns, record.digest, day)
            counted = (len(pieces), change.pending, change.mute, chars, tokens, self._revision)
            self._connection.execute(_UPSERT, (*described, *counted))
        return Written(change.written, change.kept, change.carried)

    def touch(self, states: Iterable[FileState]) -> None:
        """Note the new size and time of files whose content is the same."""
        self.note_change(content=False)
        rows = [(state.size, state.mtime_ns, state.path) for state in states]
        with self._errors:
            self._connection.executemany("UPDATE files SET size = ?, mtime_ns = ? WHERE path = ?", rows)

    def remove(self, paths: Iterable[str]) -> int:
        """Forget files; returns how many were known."""
        self.note_change()
        removed = 0
        with self._errors:
            for path in paths:
                row = self._connection.execute("SELECT id, chunks FROM files WHERE path = ?", (path,)).fetchone()
                if row is None:
                    continue
                self._pieces.remove(row[0], row[1], self._table)
                self._connection.execute("DELETE FROM files WHERE id = ?", (row[0],))
                removed += 1
        return removed

    def pending(self, after_id: int, limit: int) -> list[PendingChunk]:
        """Pieces behind `after_id` (0 for all) that have no vector, by their id; about `limit` at most."""
        with self._lock, self._errors:
            return pending_chunks(self._connection, self._table, after_id, limit)

    def pending_count(self) -> int:
        """How many pieces have no vector."""
        with self._lock, self._errors:
            return int(self._connection.execute("SELECT coalesce(sum(pending), 0) FROM files").get)

    def put_vectors(self, chunks: Sequence[PendingChunk], vectors: Vectors) -> int:
        """Store a vector for each of `chunks`; returns how many pieces no longer wait.

        Pieces that changed or went since they were pending are left out; a row of zeros says that there is nothing
        to embed. Raises WrongDimensionsError when the index holds vectors of another size.
        """
        self.note_change()
        with self._errors:
            return put_vectors(self._connection, self._table_for(vectors.dimensions), chunks, vectors)

    def inherit(self, old: IndexReader | None) -> None:
        """Take vectors for files that are new here from another index, while it has any of the same identity.

        The embeddings that it keeps are taken over at once.
        """
        self._old = None
        if old is None:
            return
        with old.snapshot():
            self.cache.adopt(old.cached_embeddings())
            ours, theirs = self.identity, old.identity
        if ours is not None and theirs is not None and ours.vector_part == theirs.vector_part:
            self._old = old

    def _inherited(self, path: str) -> Mapping[Meaning, bytes | None]:
        if self._old is None:
            return {}
        found = self._old.meanings(path)
        if found:
            self._table_for(self._old.dimensions)
        return found

    def note_change(self, *, content: bool = True) -> None:
        """Note that this transaction changes what a search may find. For the modules of the store."""
        if not self._connection.in_transaction:
            raise RuntimeError("the index is changed outside of a transaction")
        self._changed |= content

    def _file_id(self, path: str) -> int | None:
        row = self._connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
        return int(row[0]) if row else None

    def _table_for(self, dimensions: int) -> VectorTable:
        """The table of vectors, made when these are the first."""
        if self._identity is None:
            raise RuntimeError("vectors come before the identity of the index")
        if self._table is None:
            self._note(msgspec.structs.replace(self._identity, dimensions=dimensions))
        if self._table is None or self._identity.dimensions != dimensions:
            raise WrongDimensionsError(
                f"The vectors have {dimensions} dimensions, the index {self.path} has others.",
                hint="`clawbot memory index --force` builds it anew.",
            )
        return self._table

    def _note(self, identity: Identity) -> None:
        """Store `identity`, and make the table of vectors when it has got dimensions."""
        had_table = self._table is not None
        write_identity(self._connection, identity)
        self._learn()
        if self._table is not None and not had_table:
            self._table.create()

    def _learn(self) -> None:
        with self._errors:
            self._identity = read_identity(self._connection)
            self._table = table_of(self._connection, self._identity)


def _size(texts: Sequence[str]) -> tuple[int, int]:
    """How many characters `texts` have, and about how many tokens they take in a model's context."""
    chars = sum(map(len, texts))
    wide = sum(len(text) - len(text.encode("ascii", "ignore")) for text in texts if not text.isascii())
    return chars, (chars - wide + 3) // 4 + wide
