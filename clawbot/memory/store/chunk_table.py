"""The chunks of a file in the tables `chunks`, `chunks_fts` and `chunks_vec`: writes only the differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.store.database import fetch
from clawbot.memory.store.records import KINDS, ChunkRecord, id_of
from clawbot.memory.store.vectors import Stored, VectorTable

if TYPE_CHECKING:
    import apsw

MUTE = 128
"""Bit of `flags` used only in the table: the chunk has no text to embed, so it waits for no vector."""

StoredChunk = tuple[int, int, int, "int | None", "int | None", int, str]
"""Start line, end line, kind, heading, speaker, flags, text: a row of `chunks` without its id."""

VectorKey = tuple[int, str, str]
"""What determines a vector: kind, text, and the text of the heading above."""

_SELECT = """
SELECT start_line, end_line, kind, heading, speaker, flags, text FROM chunks WHERE id >= ? AND id < ? ORDER BY id
"""
_INSERT = "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_NOBODY = -1
"""A speaker that no row has."""
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


class Change(Struct, frozen=True):
    """The changes to a file's chunks: `kept` ones were unchanged, `carried` ones of `written` kept their vector.

    Of all chunks, `pending` ones wait for a vector, and `mute` ones never get one.
    """

    kept: int
    written: int
    carried: int
    pending: int
    mute: int


class ChunkTable:
    """The chunks on one connection, inside a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._speakers: dict[str, int] = {}
        self._silent: set[int] = set()

    def forget(self) -> None:
        """Drop cached state after a rollback."""
        self._speakers.clear()
        self._silent.clear()

    def drop_silent_speakers(self) -> None:
        """Delete speakers without chunks: words of a question that are names are not searched as words."""
        if not self._silent:
            return
        # Only after a file lost a name, since this scans all chunks.
        left = {one for (one,) in self._connection.execute("SELECT DISTINCT speaker FROM chunks")}
        gone = self._silent - left
        self._connection.executemany("DELETE FROM speakers WHERE id = ?", [(one,) for one in gone])
        self.forget()

    def stored(self, file_id: int) -> list[StoredChunk]:
        return fetch(self._connection, _SELECT, (id_of(file_id, 0), id_of(file_id + 1, 0)))

    def replace(
        self,
        file_id: int,
        chunks: Sequence[ChunkRecord],
        vectors: VectorTable | None,
        inherited: Mapping[VectorKey, bytes | None],
        *,
        rewrite: bool = False,
    ) -> Change:
        """Make `chunks` those of the file. Equal leading ones are kept (unless `rewrite`), known vectors always.

        `inherited` are vectors from another index, None for chunks without text to embed.
        """
        old = self.stored(file_id)
        new = [_row(chunk, None if chunk.speaker is None else self._speaker(chunk.speaker)) for chunk in chunks]
        self._silent |= _speakers_of(old) - _speakers_of(new)
        kept = 0 if rewrite else common(old, new)
        known = dict(inherited)
        have: dict[int, bytes] = {}
        if vectors is not None and old:
            have = dict(vectors.of_file(file_id))
            known |= vectors_by_key(file_id, old, have)
        self._remove(file_id, kept, len(old), vectors, have)
        carried = self._insert(file_id, kept, new, chunks, known)
        if vectors is not None:
            vectors.insert(carried)
        unchanged = old[:kept]
        mute = sum(1 for row in [*unchanged, *new[kept:]] if row[5] & MUTE)
        waiting = len(new) - mute - len(carried) - sum(1 for one in range(kept) if id_of(file_id, one) in have)
        return Change(kept, len(new) - kept, len(carried), waiting, mute)

    def differs(self, stored: Sequence[StoredChunk], chunks: Iterable[ChunkRecord]) -> bool:
        """Return whether `stored` differ from the rows of `chunks`. Writes nothing."""
        rows = [_row(chunk, None if chunk.speaker is None else self._known_speaker(chunk.speaker)) for chunk in chunks]
        return common(stored, rows) < max(len(stored), len(rows))

    def remove(self, file_id: int, count: int, vectors: VectorTable | None) -> None:
        """Remove the `count` chunks of a file."""
        self._silent |= _speakers_of(self.stored(file_id))
        ids = vectors.ids_of_file(file_id) if vectors is not None else ()
        self._remove(file_id, 0, count, vectors, ids)

    def _remove(self, file_id: int, first: int, end: int, vectors: VectorTable | None, have: Iterable[int]) -> None:
        if first == end:
            return
        start = id_of(file_id, first)
        if vectors is not None:
            vectors.delete([one for one in have if one >= start])
        ids = [(one,) for one in range(start, id_of(file_id, end))]
        self._connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", ids)
        self._connection.execute("DELETE FROM chunks WHERE id >= ? AND id < ?", (start, id_of(file_id + 1, 0)))

    def _insert(
        self,
        file_id: int,
        first: int,
        rows: list[StoredChunk],
        chunks: Sequence[ChunkRecord],
        known: Mapping[VectorKey, bytes | None],
    ) -> list[Stored]:
        """Insert the rows from `first` on, marking mute ones in `rows`; returns the vectors they keep."""
        carried: list[Stored] = []
        for ordinal in range(first, len(rows)) if known else ():
            key = _vector_key(rows, ordinal)
            if key not in known:
                continue
            vector = known[key]
            if vector is None:
                row = rows[ordinal]
                rows[ordinal] = (*row[:5], row[5] | MUTE, row[6])
            else:
                carried.append((id_of(file_id, ordinal), vector))
        start = id_of(file_id, 0)
        self._connection.executemany(_INSERT, [(start + one, *rows[one]) for one in range(first, len(rows))])
        self._connection.executemany(
            "INSERT INTO chunks_fts (rowid, text) VALUES (?, ?)",
            [(start + one, chunks[one].indexed) for one in range(first, len(rows))],
        )
        return carried

    def _speaker(self, name: str) -> int:
        """Return the id of `name`, added if new."""
        if self._known_speaker(name) == _NOBODY:
            self._connection.execute("INSERT INTO speakers (name) VALUES (?)", (_storable(name),))
        return self._known_speaker(name)

    def _known_speaker(self, name: str) -> int:
        known = self._speakers.get(name)
        if known is None:
            sql = "SELECT id FROM speakers WHERE name = ?"
            row = self._connection.execute(sql, (_storable(name),)).fetchone()
            if row is None:
                return _NOBODY
            known = self._speakers[name] = int(row[0])
        return known


def vectors_by_key(
    file_id: int, rows: Sequence[StoredChunk], have: Mapping[int, bytes]
) -> dict[VectorKey, bytes | None]:
    """Return the stored vectors of a file by their key; None for chunks without text to embed."""
    found: dict[VectorKey, bytes | None] = {}
    for ordinal, row in enumerate(rows):
        vector = have.get(id_of(file_id, ordinal))
        if vector is not None or row[5] & MUTE:
            found[_vector_key(rows, ordinal)] = vector
    return found


def _vector_key(rows: Sequence[StoredChunk], ordinal: int) -> VectorKey:
    _, _, kind, heading, _, _, text = rows[ordinal]
    above = rows[heading][6] if heading is not None and heading < len(rows) else ""
    return kind, text, above


def common(old: Sequence[StoredChunk], new: Sequence[StoredChunk]) -> int:
    """Return the number of equal leading rows under the same headings."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other and (not one[5] & MUTE or (*one[:5], one[5] & ~MUTE, one[6]) != other):
            break
        count += 1
    return count


def _row(chunk: ChunkRecord, speaker: int | None) -> StoredChunk:
    kind = _NUMBERS[chunk.kind]
    text = _storable(chunk.text)
    return (chunk.start_line, chunk.end_line, kind, chunk.heading, speaker, chunk.flags & ~MUTE, text)


def _speakers_of(rows: Iterable[StoredChunk]) -> set[int]:
    return {row[4] for row in rows if row[4] is not None}


def _storable(text: str) -> str:
    """Return `text` with lone surrogates, which JSON may contain, replaced by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
