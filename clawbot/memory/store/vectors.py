"""The table `chunks_vec` in the format of each profile: codes of three bits per dimension for `lines`, an eleventh of
the size with nearly the same neighbours (overlap@200 .92), and exact float32 vectors for `classic`.

A fourth bit would raise that to .95 without changing the results of a combined search, but enlarge an index of short
lines by a tenth. A code consists of three bit planes, the highest first. The first plane holds the signs, so that SQL
can scan codes by the Hamming distance of their first third.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.memory.arrays import numpy
from clawbot.memory.store.database import as_json, fetch
from clawbot.memory.store.errors import StoreErrors
from clawbot.memory.store.records import ORDINAL_BITS, Identity, IdRange, id_of

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    from clawbot.memory.arrays import Floats, Levels


PLANES = 3
"""Bit planes of a code."""
_LEVELS = 1 << PLANES
# The optimal uniform quantizer step of a normal distribution at eight levels; anything from .5 to .62 works as well.
# The components of a unit vector have a mean square of 1/dimensions, so no scale has to be stored.
_STEP = 0.56
# Rows processed at a time, so that they fit in the CPU cache.
_BLOCK = 1024


def plane_bytes(dimensions: int) -> int:
    """Bytes of one bit plane, such as the signs."""
    return (dimensions + 7) // 8


def encode(rows: Floats) -> list[bytes]:
    """Return a code for each unit row `(n, d)`. Blocks: 0.7 seconds for a million."""
    np = numpy()
    found: list[bytes] = []
    scale = rows.shape[1] ** 0.5 / _STEP
    for first in range(0, len(rows), _BLOCK):
        levels = np.floor(rows[first : first + _BLOCK] * np.float32(scale)) + _LEVELS // 2
        levels = np.clip(levels, 0, _LEVELS - 1).astype(np.uint8)
        planes = [np.packbits((levels >> (PLANES - 1 - plane)) & 1, axis=1) for plane in range(PLANES)]
        found += [row.tobytes() for row in np.concatenate(planes, axis=1)]
    return found


def signs(row: Floats) -> bytes:
    """Return the first plane of the code of `row`, a float32 vector as bytes."""
    return bytes(numpy().packbits(row >= 0).tobytes())


def decode(codes: list[bytes], dimensions: int) -> Floats:
    """Approximate unit rows, float32 `(n, d)` (cosine .98 to the originals). Blocks: 0.4 seconds for a million."""
    packed = numpy().frombuffer(b"".join(codes), numpy().uint8).reshape(len(codes), PLANES * plane_bytes(dimensions))
    return unit_rows(*levels_of(packed, dimensions))


def levels_of(packed: NDArray[np.uint8], dimensions: int) -> tuple[Levels, Floats]:
    """Return the levels of codes `(n, b)`, int8 `(n, d)` from -7 to 7 in steps of two, and the lengths of these rows,
    float32 `(n,)`. A row divided by its length equals that of `decode`. Blocks: 0.3 seconds for a million."""
    np = numpy()
    width = plane_bytes(dimensions)
    out: Levels = np.empty((len(packed), dimensions), np.int8)
    lengths: Floats = np.empty(len(packed), np.float32)
    for first in range(0, len(packed), _BLOCK):
        block = packed[first : first + _BLOCK]
        joined = _spread()[0].take(block[:, :width])
        for plane in range(1, PLANES):
            joined |= _spread()[plane].take(block[:, plane * width : (plane + 1) * width])
        levels = joined.view(np.int8).reshape(len(block), 8 * width)[:, :dimensions]
        part = out[first : first + _BLOCK]
        np.multiply(levels, 2, out=part)
        part -= _LEVELS - 1
        figures = part.astype(np.float32)
        lengths[first : first + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", figures, figures))
    return out, lengths


def unit_rows(levels: Levels, lengths: Floats) -> Floats:
    """Return the unit rows `(n, d)` of `levels_of`."""
    rows: Floats = levels.astype(numpy().float32)
    rows /= lengths[:, None]
    return rows


@cache
def _spread() -> list[NDArray[np.uint64]]:
    """Return for each plane the contribution of each byte value to the levels of eight dimensions."""
    np = numpy()
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    shifted = [(bits << (PLANES - 1 - plane)).astype(np.uint8) for plane in range(PLANES)]
    return [np.ascontiguousarray(table).view(np.uint64).ravel() for table in shifted]


Stored = tuple[int, bytes]
"""The id of a chunk, and its vector as stored."""

# Candidates by signs whose codes are compared: they include nearly all of the first twenty, 85 % of the first 200.
_MIN_BY_SIGNS = 600
_MAX_OF_VEC0 = 4096

_BY_SIGNS = """
SELECT chunk_id, vec_distance_hamming(vec_bit(substr(vector, 1, ?1)), vec_bit(?2)) AS distance
FROM chunks_vec ORDER BY distance, chunk_id LIMIT ?3
"""
_BY_SIGNS_IN = """
SELECT chunk_id, vec_distance_hamming(vec_bit(substr(vector, 1, ?1)), vec_bit(?2)) AS distance
FROM chunks_vec WHERE chunk_id >> ?5 IN (SELECT value FROM json_each(?4)) ORDER BY distance, chunk_id LIMIT ?3
"""
_BY_COSINE = "SELECT chunk_id FROM chunks_vec WHERE vector MATCH ? AND k = ?"
_BY_COSINE_IN = """
SELECT chunk_id FROM chunks_vec WHERE vector MATCH ? AND k = ? AND chunk_id IN (
    SELECT rowid FROM chunks_vec_rowids WHERE rowid >> ? IN (SELECT value FROM json_each(?)))
"""


class VectorTable:
    """`chunks_vec` of one connection, for vectors of `dimensions`: codes in a plain table, searched by sqlite-vec's
    Hamming distance of their signs. vec0 is five times slower to fill and to query, and larger.

    Everything blocks. Ids are those of chunks. `Stored` vectors are in the profile's format: `pack` converts unit rows
    `(n, d)` to it, and `unpack` back.
    """

    _ids = "SELECT chunk_id FROM chunks_vec ORDER BY 1"
    _ids_between = "SELECT chunk_id FROM chunks_vec WHERE chunk_id >= ? AND chunk_id < ?"

    def __init__(self, connection: apsw.Connection, dimensions: int) -> None:
        self._connection = connection
        self._dimensions = dimensions

    def create(self) -> None:
        self._connection.execute("CREATE TABLE chunks_vec (chunk_id INTEGER PRIMARY KEY, vector BLOB NOT NULL)")

    def pack(self, rows: Floats) -> list[bytes]:
        return encode(rows)

    def unpack(self, stored: list[bytes]) -> Floats:
        return decode(stored, self._dimensions)

    def select(self, ids: Collection[int]) -> list[Stored]:
        """Return the vectors of the given chunks, by id, if they have one."""
        sql = "SELECT chunk_id, vector FROM chunks_vec WHERE chunk_id IN (SELECT value FROM json_each(?)) ORDER BY 1"
        return fetch(self._connection, sql, (as_json(ids),))

    def between(self, id_range: IdRange) -> list[Stored]:
        """Return the vectors of the chunks in `id_range`, by id."""
        sql = "SELECT chunk_id, vector FROM chunks_vec WHERE chunk_id >= ? AND chunk_id < ? ORDER BY 1"
        return fetch(self._connection, sql, id_range)

    def nearest(self, query: Floats, limit: int, file_ids: Collection[int] | None) -> list[int]:
        """Candidate chunks for `query` `(d,)`, at least `limit` if there are as many; only in `file_ids`, if given."""
        asked = (plane_bytes(self._dimensions), signs(query), max(3 * limit, _MIN_BY_SIGNS))
        if file_ids is None:
            return [one for one, _ in fetch(self._connection, _BY_SIGNS, asked)]
        asked_in = (*asked, as_json(file_ids), ORDINAL_BITS)
        return [one for one, _ in fetch(self._connection, _BY_SIGNS_IN, asked_in)]

    def insert(self, rows: Iterable[Stored]) -> None:
        """Store vectors for chunks without one."""
        self._connection.executemany("INSERT INTO chunks_vec (chunk_id, vector) VALUES (?, ?)", rows)

    def delete(self, ids: Iterable[int]) -> None:
        self._connection.executemany("DELETE FROM chunks_vec WHERE chunk_id = ?", [(one,) for one in ids])

    def of_file(self, file_id: int) -> list[Stored]:
        """Return the vectors of a file's chunks, by id."""
        return self.between(_chunks_of(file_id))

    def ids_of_file(self, file_id: int) -> set[int]:
        """Return the chunks of a file that have a vector."""
        return {one for (one,) in fetch(self._connection, self._ids_between, _chunks_of(file_id))}

    def ids(self) -> list[int]:
        """Return the chunks that have a vector, in order."""
        return [one for (one,) in fetch(self._connection, self._ids)]


def _chunks_of(file_id: int) -> IdRange:
    return id_of(file_id, 0), id_of(file_id + 1, 0)


def table_of(connection: apsw.Connection, identity: Identity | None) -> VectorTable | None:
    """Return the vectors of an index with `identity`; None before the first one."""
    if identity is None or not identity.dimensions:
        return None
    return (ExactTable if identity.profile == "classic" else VectorTable)(connection, identity.dimensions)


class ExactTable(VectorTable):
    """Exact vectors in sqlite-vec's vec0. Ranges use its own table of keys and don't scan the vectors."""

    _ids = "SELECT rowid FROM chunks_vec_rowids ORDER BY 1"
    _ids_between = "SELECT rowid FROM chunks_vec_rowids WHERE rowid >= ? AND rowid < ?"

    def create(self) -> None:
        self._connection.execute(
            "CREATE VIRTUAL TABLE chunks_vec USING vec0("
            f"chunk_id INTEGER PRIMARY KEY, vector float[{self._dimensions}] distance_metric=cosine)"
        )

    def pack(self, rows: Floats) -> list[bytes]:
        return [row.tobytes() for row in rows.astype("<f4")]

    def unpack(self, stored: list[bytes]) -> Floats:
        rows: Floats = numpy().frombuffer(b"".join(stored), "<f4").reshape(-1, self._dimensions)
        return rows

    def select(self, ids: Collection[int]) -> list[Stored]:
        sql = "SELECT vector FROM chunks_vec WHERE chunk_id = ?"
        return [(one, vector) for one in sorted(ids) for (vector,) in fetch(self._connection, sql, (one,))]

    def between(self, id_range: IdRange) -> list[Stored]:
        return self.select([one for (one,) in fetch(self._connection, self._ids_between, id_range)])

    def nearest(self, query: Floats, limit: int, file_ids: Collection[int] | None) -> list[int]:
        """By cosine, exactly."""
        asked = (query.tobytes(), min(limit, _MAX_OF_VEC0))
        if file_ids is None:
            return [one for (one,) in fetch(self._connection, _BY_COSINE, asked)]
        asked_in = (*asked, ORDINAL_BITS, as_json(file_ids))
        return [one for (one,) in fetch(self._connection, _BY_COSINE_IN, asked_in)]


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
        """Return the cached rows (float32 bytes) by hash; marks them as used. Blocks. Raises StoreError."""
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
