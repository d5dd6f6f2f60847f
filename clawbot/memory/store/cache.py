"""The table of cached embeddings: the vectors of remote models by the hash of the text."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.memory.arrays import numpy
from clawbot.memory.store.database import as_json, fetch
from clawbot.memory.store.errors import StoreErrors

if TYPE_CHECKING:
    import apsw

_FIND = """
SELECT digest, vector FROM embedding_cache
WHERE identity = ? AND digest IN (SELECT unhex(value) FROM json_each(?))
"""
_USE = """
UPDATE embedding_cache SET used = ? WHERE identity = ? AND digest IN (SELECT unhex(value) FROM json_each(?))
"""
_PRUNE = """
DELETE FROM embedding_cache WHERE rowid IN (
    SELECT rowid FROM embedding_cache ORDER BY used, rowid LIMIT max(0, (SELECT count(*) FROM embedding_cache) - ?))
"""


class StoredEmbeddings:
    """A `CacheTable` on the writer's connection: it waits for the writer's transaction and uses its own.

    Vectors are stored as float16, more precise than the models. After `is_closed` is set, reads find nothing and writes
    store nothing; the vectors of the caller remain valid.
    """

    def __init__(self, connection: apsw.Connection, path: Path, lock: threading.RLock) -> None:
        self.is_closed = False
        self._connection = connection
        self._path = path
        self._lock = lock

    def get_many(self, identity: str, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The cached rows (float32 bytes) by hash; marks them as used. Blocks. Raises StoreError."""
        wanted = as_json([one.hex() for one in hashes])
        with self._lock, StoreErrors(self._path):
            if self.is_closed:
                return {}
            found = fetch(self._connection, _FIND, (identity, wanted))
            if found:
                used = as_json([digest.hex() for digest, _ in found])
                self._connection.execute(_USE, (self._tick(), identity, used))
        return {digest: _converted(vector, "<f2", "<f4") for digest, vector in found}

    def put_many(self, identity: str, rows: Mapping[bytes, bytes]) -> None:
        """Store rows of float32 by hash. Blocks. Raises StoreError."""
        with self._lock, StoreErrors(self._path):
            if self.is_closed:
                return
            tick = self._tick()
            self._insert((identity, digest, _converted(row, "<f4", "<f2"), tick) for digest, row in rows.items())

    def prune(self, max_entries: int | None) -> int:
        """Evict the least recently used beyond `max_entries` (None: no limit); returns how many. Blocks."""
        if max_entries is None:
            return 0
        with self._lock, StoreErrors(self._path):
            self._connection.execute(_PRUNE, (max_entries,))
            return self._connection.changes()

    def adopt(self, rows: Iterable[tuple[str, bytes, bytes, int]]) -> None:
        """Copy the rows of another index as stored. Blocks. Raises StoreError."""
        with self._lock, StoreErrors(self._path):
            self._insert(rows)

    def _insert(self, rows: Iterable[tuple[str, bytes, bytes, int]]) -> None:
        # A savepoint: one transaction, possibly nested.
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO embedding_cache VALUES (?, ?, ?, ?)", rows)

    def _tick(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(used), 0) + 1 FROM embedding_cache").get)


def _converted(row: bytes, given: str, wanted: str) -> bytes:
    return bytes(numpy().frombuffer(row, given).astype(wanted).tobytes())
