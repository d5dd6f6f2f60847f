"""The kept embeddings of whichever index is being written now; empty while none is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clawbot.memory.store.writer import IndexWriter


class CurrentCache:
    """A `CacheTable` that follows `writer` from round to round. Between rounds vectors are kept in memory alone."""

    def __init__(self) -> None:
        self.writer: IndexWriter | None = None

    def get_many(self, identity: str, hashes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The rows that are there, by hash. Blocks."""
        writer = self.writer
        return writer.cache.get_many(identity, hashes) if writer is not None else {}

    def put_many(self, identity: str, rows: Mapping[bytes, bytes]) -> None:
        """Store rows by hash. Blocks."""
        writer = self.writer
        if writer is not None:
            writer.cache.put_many(identity, rows)
