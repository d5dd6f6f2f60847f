"""Caches the vectors of remote models, since requesting them again costs money and time."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError, Purpose, Vectors


class CurrentCache:
    """A `CacheTable` that delegates to the `table` of the index being written; empty between rounds."""

    def __init__(self) -> None:
        self.table: CacheTable | None = None

    def get_many(self, identity: str, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        table = self.table
        return table.get_many(identity, hashes) if table is not None else {}

    def put_many(self, identity: str, rows: Mapping[bytes, bytes]) -> None:
        table = self.table
        if table is not None:
            table.put_many(identity, rows)


MAX_MEMORY = 8 * 1024 * 1024
"""Bytes of vectors cached in memory on top of the table: the last 1,300 at 1,536 dimensions."""
SLICE = 1024
"""Texts after which results are stored: the most that a stop or a failure loses."""
_HASH_BYTES = 16


class CacheTable(Protocol):
    """Vectors on disk: rows are float32 bytes. Both methods block and may be called from any thread, one at a time."""

    def get_many(self, identity: str, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the cached rows by hash."""

    def put_many(self, identity: str, rows: Mapping[bytes, bytes]) -> None:
        """Store rows by hash."""


class CachedEmbedder:
    """An `Embedder` with the name of `inner`, which it calls only for texts that are not cached."""

    def __init__(self, inner: Embedder, table: CacheTable, max_memory: int = MAX_MEMORY) -> None:
        """`max_memory` is in bytes of vectors."""
        self.provider, self.model = inner.provider, inner.model
        self.remote, self.identity, self.address = inner.remote, inner.identity, inner.address
        self._inner = inner
        self._table = table
        self._memory = _Recent(max_memory)
        self._at_table = threading.Lock()
        self._row_bytes = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return a row for each text; equal texts are requested once. Raises EmbeddingError and the table's errors."""
        hashes = [_hash(text, purpose) for text in texts]
        wanted = {key: text for key, text in zip(hashes, texts, strict=True) if text.strip()}
        known = await self._find(list(wanted))
        known |= await self._ask({key: text for key, text in wanted.items() if key not in known}, purpose)
        if len({len(row) for row in known.values()}) > 1:
            # The model of this name has changed its vectors: cached ones are useless now.
            known = await self._ask(wanted, purpose)
        nothing = bytes(len(next(iter(known.values()), b"")))
        try:
            return Vectors.of_rows(known.get(key, nothing) for key in hashes)
        except ValueError as error:
            raise EmbeddingError(
                f"{self.provider}/{self.model} gave vectors of different sizes.", hint="Try again.", retryable=True
            ) from error

    async def aclose(self) -> None:
        """Close the inner embedder; the table belongs to the store."""
        await self._inner.aclose()

    async def _find(self, hashes: Sequence[bytes]) -> dict[bytes, bytes]:
        known = {key: row for key in hashes if (row := self._memory.get(key)) is not None}
        wanted = [key for key in hashes if key not in known]
        if wanted:
            stored = await asyncio.to_thread(self._stored, wanted)
            self._memory.put(stored)
            known |= stored
        # Rows of another size come from an earlier model of this name.
        return {key: row for key, row in known.items() if len(row) == self._row_bytes or not self._row_bytes}

    async def _ask(self, missing: Mapping[bytes, str], purpose: Purpose) -> dict[bytes, bytes]:
        keys = list(missing)
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), SLICE):
            part = keys[start : start + SLICE]
            vectors = await self._inner.embed([missing[key] for key in part], purpose)
            rows = dict(zip(part, vectors.rows(), strict=True))
            self._row_bytes = len(vectors.row(0))
            await asyncio.to_thread(self._store, rows)
            self._memory.put(rows)
            found |= rows
        return found

    def _stored(self, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Blocks."""
        with self._at_table:
            return self._table.get_many(self.identity, hashes)

    def _store(self, rows: Mapping[bytes, bytes]) -> None:
        """Blocks."""
        with self._at_table:
            self._table.put_many(self.identity, rows)


class _Recent:
    """An LRU cache of rows, limited in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._bytes = 0
        self._rows: OrderedDict[bytes, bytes] = OrderedDict()

    def get(self, key: bytes) -> bytes | None:
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
        return row

    def put(self, rows: Mapping[bytes, bytes]) -> None:
        for key, row in rows.items():
            self._bytes += len(row) - len(self._rows.pop(key, b""))
            self._rows[key] = row
        while self._bytes > self._max:
            self._bytes -= len(self._rows.popitem(last=False)[1])


def _hash(text: str, purpose: Purpose) -> bytes:
    # Some models embed queries differently, so the purpose is part of the key.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES, person=purpose.encode()).digest()
