"""Pieces that wait for their vector: which they are, and what comes for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clawbot.memory.arrays import numpy
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.store.pieces_table import MUTE
from clawbot.memory.store.records import KINDS, PendingChunk, file_of, piece_id
from clawbot.memory.store.vectors import VectorTable

if TYPE_CHECKING:
    import apsw
    import numpy as np
    from numpy.typing import NDArray

_FILES = "SELECT id, revision FROM files WHERE pending > 0 AND id >= ? ORDER BY id"
_PIECES = """
SELECT piece.id, piece.kind, piece.text, coalesce(above.text, '')
FROM chunks AS piece LEFT JOIN chunks AS above ON above.id = ?1 + piece.heading
WHERE piece.id >= ?1 AND piece.id < ?2 AND piece.flags & ?3 = 0 ORDER BY piece.id
"""
_COUNT = "UPDATE files SET pending = pending - ?, mute = mute + ? WHERE id = ?"


def pending_chunks(
    connection: apsw.Connection, table: VectorTable | None, after_id: int, limit: int
) -> list[PendingChunk]:
    """Pieces behind `after_id` without a vector, by their id, `limit` at most."""
    found: list[PendingChunk] = []
    for file_id, revision in connection.execute(_FILES, (file_of(after_id),)):
        have = table.ids_of_file(file_id) if table is not None else set()
        for one, kind, text, above in connection.execute(
            _PIECES, (piece_id(file_id, 0), piece_id(file_id + 1, 0), MUTE)
        ):
            if one > after_id and one not in have:
                found.append(PendingChunk(one, revision, KINDS[kind], text, above))
        if len(found) >= limit:
            break
    return found[:limit]


def put_vectors(
    connection: apsw.Connection, table: VectorTable, chunks: Sequence[PendingChunk], vectors: Vectors
) -> int:
    """Store the vectors of those of `chunks` that still wait for them; returns how many that were."""
    np = numpy()
    places = _waiting(connection, table, chunks)
    rows, says = _unit(np.frombuffer(vectors.data, "<f4").reshape(-1, vectors.dimensions)[places])
    ids = [chunks[place].id for place in places]
    spoken = np.flatnonzero(says)
    table.insert(zip((ids[place] for place in spoken), table.pack(rows[spoken]), strict=True))
    silent = [ids[place] for place in np.flatnonzero(~says)]
    connection.executemany("UPDATE chunks SET flags = flags | ? WHERE id = ?", [(MUTE, one) for one in silent])
    counts: dict[int, list[int]] = {}
    for one, speaks in zip(ids, says.tolist(), strict=True):
        count = counts.setdefault(file_of(one), [0, 0])
        count[0] += 1
        count[1] += not speaks
    connection.executemany(_COUNT, [(*count, file_id) for file_id, count in counts.items()])
    return len(ids)


def _waiting(connection: apsw.Connection, table: VectorTable, chunks: Sequence[PendingChunk]) -> list[int]:
    """The places in `chunks` of those whose file is as it was, and that got no vector meanwhile."""
    places: list[int] = []
    revisions: dict[int, int | None] = {}
    have: set[int] = set()
    for place, chunk in enumerate(chunks):
        file_id = file_of(chunk.id)
        if file_id not in revisions:
            row = connection.execute("SELECT revision FROM files WHERE id = ?", (file_id,)).fetchone()
            revisions[file_id] = row[0] if row else None
            have |= table.ids_of_file(file_id)
        if revisions[file_id] == chunk.revision and chunk.id not in have:
            have.add(chunk.id)
            places.append(place)
    return places


def _unit(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """`rows` at unit length, without figures that are none; and which of them say anything."""
    np = numpy()
    clean = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.sqrt(np.einsum("ij,ij->i", clean, clean, dtype=np.float64))
    says = lengths > 0
    lengths[~says] = 1
    return (clean / lengths[:, None]).astype(np.float32), says
