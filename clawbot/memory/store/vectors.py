"""The table `chunks_vec` in the form of each profile: codes of three bits for `lines`, exact vectors for `classic`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from clawbot.memory.arrays import numpy
from clawbot.memory.store.codes import decode, encode, plane_bytes, signs
from clawbot.memory.store.database import fetch
from clawbot.memory.store.identity import Profile
from clawbot.memory.store.records import ORDINAL_BITS, piece_id

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

Stored = tuple[int, bytes]
"""The id of a piece, and its vector as it is stored."""

# Of so many by signs the codes are looked at: nearly all of the first twenty, 85 % of the first 200.
_FEWEST_BY_SIGNS = 600
_MOST_OF_VEC0 = 4096

_INSERT = "INSERT INTO chunks_vec (chunk_id, vector) VALUES (?, ?)"
_DELETE = "DELETE FROM chunks_vec WHERE chunk_id = ?"
_BY_SIGNS = """
SELECT chunk_id, vec_distance_hamming(vec_bit(substr(vector, 1, ?1)), vec_bit(?2)) AS distance
FROM chunks_vec ORDER BY distance, chunk_id LIMIT ?3
"""
_BY_SIGNS_IN = """
SELECT chunk_id, vec_distance_hamming(vec_bit(substr(vector, 1, ?1)), vec_bit(?2)) AS distance
FROM chunks_vec WHERE chunk_id >> ?5 IN (SELECT value FROM json_each(?4)) ORDER BY distance, chunk_id LIMIT ?3
"""
# Over vec0's own table of its keys, ranges are no scan of the vectors.
_BY_COSINE = "SELECT chunk_id FROM chunks_vec WHERE vector MATCH ? AND k = ?"
_BY_COSINE_IN = """
SELECT chunk_id FROM chunks_vec WHERE vector MATCH ? AND k = ? AND chunk_id IN (
    SELECT rowid FROM chunks_vec_rowids WHERE rowid >> ? IN (SELECT value FROM json_each(?)))
"""


class VectorTable(Protocol):
    """`chunks_vec` of one connection."""

    def create(self) -> None:
        """Make the table."""
        ...

    def pack(self, rows: Floats) -> list[bytes]:
        """Unit rows as they are stored."""
        ...

    def unpack(self, stored: list[bytes]) -> Floats:
        """Unit rows of what is stored."""
        ...

    def insert(self, rows: Iterable[Stored]) -> None:
        """Store vectors of pieces that have none."""
        ...

    def delete(self, ids: Iterable[int]) -> None:
        """Forget the vectors of pieces, as far as there are any."""
        ...

    def select(self, ids: Collection[int]) -> list[Stored]:
        """The vectors of those pieces that have one, by id."""
        ...

    def of_file(self, file_id: int) -> list[Stored]:
        """The vectors of a file's pieces, by id."""
        ...

    def ids_of_file(self, file_id: int) -> set[int]:
        """The pieces of a file that have one."""
        ...

    def all(self) -> list[Stored]:
        """All vectors, by id."""
        ...

    def ids(self) -> list[int]:
        """The pieces that have one, in order."""
        ...

    def nearest(self, query: Floats, limit: int, file_ids: Collection[int] | None) -> list[int]:
        """Pieces that come into question, at least `limit` where there are so many; in `file_ids` when given."""
        ...


def vector_table(connection: apsw.Connection, profile: Profile, dimensions: int) -> VectorTable:
    """The table in the form of `profile`, for vectors of `dimensions`."""
    return (ExactTable if profile == "classic" else CodeTable)(connection, dimensions)


class CodeTable:
    """Codes in a plain table. vec0 takes five times as long to fill and to ask, and more room."""

    def __init__(self, connection: apsw.Connection, dimensions: int) -> None:
        self._connection = connection
        self._dimensions = dimensions

    def create(self) -> None:
        """Make the table."""
        self._connection.execute("CREATE TABLE chunks_vec (chunk_id INTEGER PRIMARY KEY, vector BLOB NOT NULL)")

    def pack(self, rows: Floats) -> list[bytes]:
        """Codes."""
        return encode(rows)

    def unpack(self, stored: list[bytes]) -> Floats:
        """Unit rows of codes."""
        return decode(stored, self._dimensions)

    def insert(self, rows: Iterable[Stored]) -> None:
        """Store codes."""
        self._connection.executemany(_INSERT, rows)

    def delete(self, ids: Iterable[int]) -> None:
        """Forget codes."""
        self._connection.executemany(_DELETE, [(one,) for one in ids])

    def select(self, ids: Collection[int]) -> list[Stored]:
        """Codes by id."""
        sql = "SELECT chunk_id, vector FROM chunks_vec WHERE chunk_id IN (SELECT value FROM json_each(?)) ORDER BY 1"
        return fetch(self._connection, sql, (json.dumps(list(ids)),))

    def of_file(self, file_id: int) -> list[Stored]:
        """Codes of a file."""
        sql = "SELECT chunk_id, vector FROM chunks_vec WHERE chunk_id >= ? AND chunk_id < ? ORDER BY 1"
        return fetch(self._connection, sql, _range(file_id))

    def ids_of_file(self, file_id: int) -> set[int]:
        """Ids of a file."""
        sql = "SELECT chunk_id FROM chunks_vec WHERE chunk_id >= ? AND chunk_id < ?"
        return {one for (one,) in fetch(self._connection, sql, _range(file_id))}

    def all(self) -> list[Stored]:
        """All codes."""
        return fetch(self._connection, "SELECT chunk_id, vector FROM chunks_vec ORDER BY 1")

    def ids(self) -> list[int]:
        """All ids."""
        return [one for (one,) in fetch(self._connection, "SELECT chunk_id FROM chunks_vec ORDER BY 1")]

    def nearest(self, query: Floats, limit: int, file_ids: Collection[int] | None) -> list[int]:
        """By the Hamming distance of the signs."""
        asked = (plane_bytes(self._dimensions), signs(query), max(3 * limit, _FEWEST_BY_SIGNS))
        if file_ids is None:
            return [one for one, _ in fetch(self._connection, _BY_SIGNS, asked)]
        asked_in = (*asked, json.dumps(list(file_ids)), ORDINAL_BITS)
        return [one for one, _ in fetch(self._connection, _BY_SIGNS_IN, asked_in)]


class ExactTable:
    """Vectors as they came, in vec0."""

    def __init__(self, connection: apsw.Connection, dimensions: int) -> None:
        self._connection = connection
        self._dimensions = dimensions

    def create(self) -> None:
        """Make the table."""
        self._connection.execute(
            "CREATE VIRTUAL TABLE chunks_vec USING vec0("
            f"chunk_id INTEGER PRIMARY KEY, vector float[{self._dimensions}] distance_metric=cosine)"
        )

    def pack(self, rows: Floats) -> list[bytes]:
        """The rows' bytes."""
        return [row.tobytes() for row in rows.astype("<f4")]

    def unpack(self, stored: list[bytes]) -> Floats:
        """The rows of bytes."""
        rows: Floats = numpy().frombuffer(b"".join(stored), "<f4").reshape(-1, self._dimensions)
        return rows

    def insert(self, rows: Iterable[Stored]) -> None:
        """Store vectors."""
        self._connection.executemany(_INSERT, rows)

    def delete(self, ids: Iterable[int]) -> None:
        """Forget vectors."""
        self._connection.executemany(_DELETE, [(one,) for one in ids])

    def select(self, ids: Collection[int]) -> list[Stored]:
        """Vectors by id."""
        sql = "SELECT vector FROM chunks_vec WHERE chunk_id = ?"
        return [(one, vector) for one in sorted(ids) for (vector,) in fetch(self._connection, sql, (one,))]

    def of_file(self, file_id: int) -> list[Stored]:
        """Vectors of a file."""
        return self.select(self.ids_of_file(file_id))

    def ids_of_file(self, file_id: int) -> set[int]:
        """Ids of a file."""
        sql = "SELECT rowid FROM chunks_vec_rowids WHERE rowid >= ? AND rowid < ?"
        return {one for (one,) in fetch(self._connection, sql, _range(file_id))}

    def all(self) -> list[Stored]:
        """All vectors."""
        return sorted(fetch(self._connection, "SELECT chunk_id, vector FROM chunks_vec"))

    def ids(self) -> list[int]:
        """All ids."""
        return [one for (one,) in fetch(self._connection, "SELECT rowid FROM chunks_vec_rowids ORDER BY 1")]

    def nearest(self, query: Floats, limit: int, file_ids: Collection[int] | None) -> list[int]:
        """By cosine, exactly."""
        asked = (query.tobytes(), min(limit, _MOST_OF_VEC0))
        if file_ids is None:
            return [one for (one,) in fetch(self._connection, _BY_COSINE, asked)]
        asked_in = (*asked, ORDINAL_BITS, json.dumps(list(file_ids)))
        return [one for (one,) in fetch(self._connection, _BY_COSINE_IN, asked_in)]


def _range(file_id: int) -> tuple[int, int]:
    """The first id of a file's pieces, and the first beyond."""
    return piece_id(file_id, 0), piece_id(file_id + 1, 0)
