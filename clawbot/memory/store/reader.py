"""Reads the index for searches: one reader per thread, which sees one consistent state at a time."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clawbot.memory.arrays import numpy
from clawbot.memory.store.chunk_table import MUTE, ChunkTable, VectorKey, vectors_by_key
from clawbot.memory.store.database import (
    as_json,
    changed_files,
    fetch,
    file_mark,
    open_for_reading,
    read_generation,
    read_identity,
    read_last_sync,
    read_totals,
    valid,
)
from clawbot.memory.store.errors import (
    DamagedIndexError,
    InterruptedSearchError,
    MissingIndexError,
    StoreError,
    StoreErrors,
)
from clawbot.memory.store.locks import opening
from clawbot.memory.store.records import (
    EVERYWHERE,
    KINDS,
    ORDINAL_BITS,
    ChunkRow,
    FileRow,
    Identity,
    IdRange,
    LineRow,
    Totals,
)
from clawbot.memory.store.vectors import Stored, VectorTable, table_of
from clawbot.memory.values import Source

if TYPE_CHECKING:
    import apsw

    from clawbot.memory.arrays import Floats, Ids

_FILES = "SELECT id, path, source, day, chunks, days FROM files ORDER BY id"
_FILES_IN = """
SELECT id, path, source, day, chunks, days FROM files WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""
_MAX_ABSENT = 10_000
# As one JSON text they arrive in half the time of rows.
_POSTINGS = """
SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? AND rowid >= ? AND rowid < ? LIMIT ?
)
"""
_BEST = (
    "SELECT rowid, bm25(chunks_fts) AS score FROM chunks_fts WHERE chunks_fts MATCH ?1 ORDER BY score, rowid LIMIT ?2"
)
_BEST_IN = """
SELECT rowid, bm25(chunks_fts) AS score FROM chunks_fts
WHERE chunks_fts MATCH ?1 AND rowid >> ?3 IN (SELECT value FROM json_each(?4)) ORDER BY score, rowid LIMIT ?2
"""
# A view of the keyword index, of this connection alone.
_STEM_TABLE = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.stems USING fts5vocab(main, chunks_fts, 'row')"
_OCCURRENCE_TABLE = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.occurrences USING fts5vocab(main, chunks_fts, 'instance')"
_STEMS = """
SELECT term FROM temp.stems WHERE term >= ? AND term < ? AND length(term) >= ? AND term NOT GLOB '*[0-9]*'
ORDER BY doc DESC, term
"""
_STEMS_BETWEEN = "SELECT term FROM temp.{} WHERE term >= ? AND term < ? LIMIT ?"
# The heading above by its id, from its ordinal in the same file: 20 are ORDINAL_BITS.
_ROWS = """
SELECT id, start_line, end_line, kind, id >> 20 << 20 | heading, speaker, flags, text FROM chunks
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""
_COLUMNS = """
SELECT json_group_array(id), json_group_array(coalesce(heading, -1)), json_group_array(coalesce(speaker, -1)),
    json_group_array(kind), json_group_array(flags)
FROM (SELECT id, heading, speaker, kind, flags FROM chunks WHERE id >= ? AND id < ? ORDER BY id)
"""
_LINES = """
SELECT id, kind, id >> 20 << 20 | heading, speaker, flags FROM chunks
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""


class IndexReader:
    """Reads an index. For one thread at a time, except `interrupt`; all methods block and raise StoreError.

    Read related data inside `snapshot`: chunk ids change their meaning with the index.
    """

    def __init__(self, path: Path) -> None:
        """Open the index at `path`: 2 ms. Raises MissingIndexError, DamagedIndexError."""
        self.path = path
        self._errors = StoreErrors(path)
        self._connection, self._mark = _opened(path)
        self._stopped = False
        self._generation = -1
        self._identity: Identity | None = None
        self._table: VectorTable | None = None
        self._files: dict[int, FileRow] = {}
        self._files_at: int | None = None
        self._speakers: dict[int, str] | None = None
        self._has_vocabulary = False
        self._absent: set[tuple[str, int, int]] = set()

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._connection.close()

    def interrupt(self) -> None:
        """Stop work inside a snapshot, which then raises InterruptedSearchError. Callable from any thread."""
        self._stopped = True
        # A connection closed at this moment, because its file was replaced, is not running anything.
        with contextlib.suppress(StoreError), self._errors:
            self._connection.interrupt()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside, the index does not change. Reopens the file first if it was replaced. Raises
        InterruptedSearchError."""
        if self._connection.in_transaction:
            if self._stopped:
                raise InterruptedSearchError("The search was stopped.")
            yield
            return
        self._stopped = False
        self._renew()
        try:
            with self._errors:
                self._connection.execute("BEGIN")
                self._refresh()
                yield
        except StoreError as error:
            # FTS5 reports another error when interrupted while opening its tables.
            if self._stopped and not isinstance(error, InterruptedSearchError):
                raise InterruptedSearchError("The search was stopped.") from error
            raise
        finally:
            self._end()

    @property
    def generation(self) -> int:
        """A number that changes with everything that a search may find, also after a rebuild."""
        with self.snapshot():
            return self._generation

    @property
    def identity(self) -> Identity | None:
        """How the index was built; None before its first sync."""
        with self.snapshot():
            return self._identity

    @property
    def dimensions(self) -> int:
        """The size of the vectors; 0 without any."""
        identity = self.identity
        return identity.dimensions if identity else 0

    @property
    def last_sync(self) -> dt.datetime | None:
        """The time of the last complete sync."""
        with self.snapshot():
            return read_last_sync(self._connection)

    def totals(self) -> dict[Source, Totals]:
        with self.snapshot():
            return read_totals(self._connection)

    def cache_count(self) -> int:
        with self.snapshot():
            return int(self._connection.execute("SELECT count(*) FROM embedding_cache").get)

    def files(self) -> Mapping[int, FileRow]:
        with self.snapshot():
            if self._files_at != self._generation:
                changed = changed_files(self._connection, self._files_at, self._generation)
                if changed is None:
                    self._files = {row[0]: self._file(row) for row in self._connection.execute(_FILES)}
                else:
                    self._files = self._with_files(changed)
                self._files_at = self._generation
            return self._files

    def _with_files(self, changed: Collection[int]) -> dict[int, FileRow]:
        """Return a copy of the files with current ones of `changed`. Rankings keep the one they began with."""
        found = {row[0]: self._file(row) for row in fetch(self._connection, _FILES_IN, (as_json(changed),))}
        files = self._files | found
        for one in changed:
            if one not in found:
                files.pop(one, None)
        is_new = not found.keys() <= self._files.keys()
        return dict(sorted(files.items())) if is_new else files

    def changed_since(self, generation: int) -> set[int] | None:
        """Return the files that changed after the earlier `generation`, the removed ones included; None if that is
        unknown."""
        with self.snapshot():
            return changed_files(self._connection, generation, self._generation)

    def _file(self, row: Sequence[Any]) -> FileRow:
        *plain, days = row
        try:
            runs = msgspec.json.decode(days) if days else ()
        except msgspec.DecodeError as error:
            raise DamagedIndexError(self.path, f"holds what can't be ({error})") from error
        return valid(FileRow, (*plain, runs), self.path)

    def speakers(self) -> Mapping[int, str]:
        """Return the speakers of dialogue, by the number used in chunks."""
        with self.snapshot():
            if self._speakers is None:
                self._speakers = dict(self._connection.execute("SELECT id, name FROM speakers"))
            return self._speakers

    def postings(self, match: str, limit: int, id_range: IdRange = EVERYWHERE) -> Ids:
        """Return the first `limit` chunks in `id_range`, by id, that match the FTS5 expression `match`: `(n,)`."""
        np = numpy()
        with self.snapshot():
            asked = match, *id_range
            found = "[]" if asked in self._absent else fetch(self._connection, _POSTINGS, (*asked, limit))[0][0]
        if found == "[]" and len(self._absent) < _MAX_ABSENT:
            # Most words of the thesaurus are in no note, and are asked for again and again.
            self._absent.add(asked)
        # Without a list of Python's integers: a third of the time, a quarter of the memory.
        ids: Ids = np.fromstring(found[1:-1], np.int64, sep=",") if found != "[]" else np.zeros(0, np.int64)
        return ids

    def frequency(self, match: str, found: int) -> int:
        """`found`: all postings are here."""
        return found

    def stems(self, shortest: int, beginning: str) -> list[str]:
        """Return the stems of the keyword index without digits, at least `shortest` long and with this `beginning`, the
        most frequent first: 50 ms for a letter in a million chunks."""
        with self.snapshot():
            self._open_vocabulary()
            asked = beginning, f"{beginning}\U0010ffff", shortest
            return [stem for (stem,) in self._connection.execute(_STEMS, asked)]

    def stems_between(self, first: str, end: str, limit: int) -> list[str]:
        """Return the first `limit` stems of the keyword index, in order, from `first` on and before `end`: 20 µs for
        one; for more their occurrences are counted."""
        with self.snapshot():
            self._open_vocabulary()
            table = "stems" if limit > 1 else "occurrences"
            return [stem for (stem,) in self._connection.execute(_STEMS_BETWEEN.format(table), (first, end, limit))]

    def _open_vocabulary(self) -> None:
        if not self._has_vocabulary:
            self._connection.execute(_STEM_TABLE)
            self._connection.execute(_OCCURRENCE_TABLE)
            self._has_vocabulary = True

    def best_keywords(self, match: str, limit: int, file_ids: Collection[int] | None = None) -> list[tuple[int, float]]:
        """Return the `limit` best matches of `match` (only in `file_ids`, if given) with bm25: lower is better."""
        with self.snapshot():
            if file_ids is None:
                return fetch(self._connection, _BEST, (match, limit))
            asked = (match, limit, ORDINAL_BITS, as_json(file_ids))
            return fetch(self._connection, _BEST_IN, asked)

    def nearest(self, vector: bytes, limit: int, file_ids: Collection[int] | None = None) -> list[tuple[int, float]]:
        """Return the `limit` chunks (only in `file_ids`, if given) nearest to a unit vector of float32 bytes, with
        their cosine, best first.

        Empty for a vector of another size than the index. In the profile `lines` only the best few hundred by sign bits
        are compared exactly, so the end of a long result is approximate.
        """
        np = numpy()
        with self.snapshot():
            query = np.frombuffer(vector, "<f4")
            if self._table is None or self._identity is None or len(query) != self._identity.dimensions:
                return []
            ids, rows = self._unpacked(self._table.select(self._table.nearest(query, limit, file_ids)))
        cosines = rows @ query
        order = np.lexsort((ids, -cosines))[:limit]
        return list(zip(ids[order].tolist(), cosines[order].tolist(), strict=True))

    def rows(self, ids: Collection[int]) -> list[ChunkRow]:
        with self.snapshot():
            found = fetch(self._connection, _ROWS, (as_json(ids),))
        return [
            ChunkRow(number, start, end, KINDS[kind], above, speaker, flags & ~MUTE, text)
            for number, start, end, kind, above, speaker, flags, text in found
        ]

    def lines(self, ids: Collection[int]) -> list[LineRow]:
        """Return the existing chunks in `ids`, by id, without their text: half the time of `rows`."""
        with self.snapshot():
            found = fetch(self._connection, _LINES, (as_json(ids),))
        return [
            LineRow(number, KINDS[kind], above, speaker, flags & ~MUTE) for number, kind, above, speaker, flags in found
        ]

    def vectors(self, ids: Collection[int]) -> tuple[Ids, Floats]:
        """Return the ids in `ids` that have a vector, ascending `(m,)`, and their unit vectors, float32 `(m, d)`."""
        with self.snapshot():
            return self._unpacked(self._table.select(ids) if self._table else [])

    def all_vectors(self, id_range: IdRange = EVERYWHERE) -> tuple[Ids, Floats]:
        """Return the ids in `id_range` with a vector, ascending `(n,)`, and their unit vectors, float32 `(n, d)`."""
        with self.snapshot():
            return self._unpacked(self._table.between(id_range) if self._table else [])

    def codes(self, id_range: IdRange) -> list[Stored] | None:
        """Return the codes of the chunks in `id_range` with a vector, by id; None if vectors are stored exactly."""
        with self.snapshot():
            if self._identity is not None and self._identity.profile == "classic":
                return None
            return self._table.between(id_range) if self._table is not None else []

    def columns(self, id_range: IdRange) -> tuple[list[int], ...]:
        """Return the chunks in `id_range`, by id, as lists: ids, ordinals of their headings (-1 without one), speakers
        (-1), numbers of their kinds, flags. A tenth of the time of `lines`."""
        with self.snapshot():
            [found] = fetch(self._connection, _COLUMNS, id_range)
        ids, headings, speakers, kinds, flags = (msgspec.json.decode(each, type=list[int]) for each in found)
        return ids, headings, speakers, kinds, [each & ~MUTE for each in flags]

    def vectors_by_key(self, path: str) -> dict[VectorKey, bytes | None]:
        """Return the stored vectors of a file by what determines them. For `IndexWriter.inherit`."""
        with self.snapshot():
            row = self._connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
            if row is None or self._table is None:
                return {}
            return vectors_by_key(
                row[0], ChunkTable(self._connection).stored(row[0]), dict(self._table.of_file(row[0]))
            )

    def cached_embeddings(self) -> Iterator[tuple[str, bytes, bytes, int]]:
        """Yield the stored rows of cached embeddings. For `IndexWriter.inherit`."""
        yield from self._connection.execute("SELECT identity, digest, vector, used FROM embedding_cache")

    def _end(self) -> None:
        # A late interrupt may stop this statement, and the snapshot would never end.
        while self._connection.in_transaction:
            with contextlib.suppress(InterruptedSearchError), self._errors:
                self._connection.execute("COMMIT")

    def _renew(self) -> None:
        if file_mark(self.path) == self._mark:
            return
        replacement, self._mark = _opened(self.path)
        self._connection.close()
        self._connection = replacement
        # A reopened file may have the same generation, and tables belong to a connection.
        self._generation, self._files_at, self._has_vocabulary = -1, None, False

    def _refresh(self) -> None:
        """Drop caches of another generation."""
        generation = read_generation(self._connection)
        if generation == self._generation:
            return
        self._generation = generation
        self._speakers, self._absent = None, set()
        self._identity = read_identity(self._connection)
        self._table = table_of(self._connection, self._identity)

    def _unpacked(self, stored: list[Stored]) -> tuple[Ids, Floats]:
        np = numpy()
        ids: Ids = np.fromiter((one for one, _ in stored), np.int64, len(stored))
        if self._table is None or not stored:
            return ids, np.zeros((0, self.dimensions), np.float32)
        return ids, self._table.unpack([vector for _, vector in stored])


def _opened(path: Path) -> tuple[apsw.Connection, tuple[int, ...]]:
    """Return a connection and the mark of its file. Raises MissingIndexError, DamagedIndexError."""
    if not path.exists():
        raise MissingIndexError(f"There is no memory index at {path} yet.", hint="`clawbot memory index` builds it.")
    with opening(path):
        return open_for_reading(path), file_mark(path)
