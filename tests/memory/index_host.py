"""What the tests of the index share: an index on a folder of the test, and an embedder that is told what to do."""

from __future__ import annotations

import asyncio
import math
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from clawbot.clock import SystemClock
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.backend import IndexContext
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import DocumentSource, MemoryDocuments
from clawbot.memory.embeddings.cache import CachedEmbedder, CurrentCache
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError, Purpose, Vectors
from clawbot.memory.index import MemoryIndex
from clawbot.memory.store.errors import MissingIndexError
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.values import Reranker, SearchRequest, SearchResult, SyncReport

DIMENSIONS = 32


class WordEmbedder:
    """Vectors of the words of a text. `gate` closed: embedding documents waits; `failure` set: it fails.

    `texts` are the documents that were embedded, `waiting` is set while one waits at the gate.
    """

    provider = "words"
    address = ""

    def __init__(self, model: str = "one", *, remote: bool = False, dimensions: int = DIMENSIONS) -> None:
        self.model = model
        self.remote = remote
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.failure: EmbeddingError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()
        self.closed = False
        self.dimensions = dimensions

    @property
    def identity(self) -> str:
        return f"words/{self.model}"

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        if purpose == "document" and not self.gate.is_set():
            self.waiting.set()
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        (self.texts if purpose == "document" else self.queries).extend(texts)
        return Vectors.of_rows(self._row(text) for text in texts)

    async def aclose(self) -> None:
        self.closed = True

    def _row(self, text: str) -> bytes:
        row = [0.0] * self.dimensions
        for word in text.lower().split():
            row[crc32(word.strip(".,?#-").encode("utf-8", "replace")) % self.dimensions] += 1.0
        length = math.sqrt(sum(value * value for value in row)) or 1.0
        return struct.pack(f"<{self.dimensions}f", *(value / length for value in row))


class House:
    """A workspace and a database, on which indexes are opened one after another or side by side."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self.db = root / "state" / "main.sqlite"

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file of the workspace."""
        target = self.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)
        return target

    def notes(self, count: int, lines: int = 6) -> None:
        """Write many notes."""
        for number in range(count):
            text = "\n".join(f"- fact {number} {line} word{number * lines + line}" for line in range(lines))
            self.write(f"memory/{number:04}.md", f"# Note {number}\n\n{text}\n")

    def context(self, *more: DocumentSource, **settings: Any) -> IndexContext:
        """Where an index would be."""
        search = MemorySearchSettings.model_validate(settings)
        documents = MemoryDocuments(self.workspace, search.extra_paths, watch=True)
        library = Library([source for source in (documents, *more) if source.source in search.sources])
        return IndexContext(self.db, self.workspace, documents, library, search, SystemClock(), CurrentCache())

    def index(
        self,
        embedder: Embedder | Exception | None = None,
        *more: DocumentSource,
        long_lived: bool = False,
        rerank: Reranker | None = None,
        cached: bool = False,
        **settings: Any,
    ) -> MemoryIndex:
        """An index with vectors from `embedder`; an exception is why there is none."""
        place = self.context(*more, **settings)

        async def opener() -> Embedder | None:
            if isinstance(embedder, Exception):
                raise embedder
            return CachedEmbedder(embedder, place.cache) if embedder is not None and cached else embedder

        provider = "none" if embedder is None else "words"
        return MemoryIndex(place, EmbedderHandle(provider, opener, place.clock), long_lived=long_lived, rerank=rerank)

    @asynccontextmanager
    async def opened(
        self, embedder: Embedder | Exception | None = None, *more: DocumentSource, **options: Any
    ) -> AsyncIterator[MemoryIndex]:
        """An index that is closed at the end."""
        index = self.index(embedder, *more, **options)
        try:
            yield index
        finally:
            await index.close()

    async def sync(self, embedder: Embedder | Exception | None = None, **options: Any) -> SyncReport:
        """Bring the index up to date, and close it."""
        async with self.opened(embedder, **options) as index:
            return await index.sync()

    def stored(self) -> dict[str, int]:
        """The files that the database holds, with their chunks; none while there is no database."""
        try:
            reader = IndexReader(self.db)
        except MissingIndexError:
            return {}
        try:
            return {row.path: row.chunks for row in reader.files().values()}
        finally:
            reader.close()

    def vectors(self) -> int:
        """How many vectors the database holds."""
        reader = IndexReader(self.db)
        try:
            return sum(total.vectors for total in reader.totals().values())
        finally:
            reader.close()


async def find(index: MemoryIndex, text: str, **bounds: Any) -> SearchResult:
    """Search for one wording."""
    return await index.search(SearchRequest(queries=(text,), **bounds))


def paths(result: SearchResult) -> list[str]:
    """Where the hits are."""
    return [hit.path for hit in result.hits]


async def until(holds: Callable[[], bool], seconds: float = 100.0) -> None:
    """Wait until something holds."""
    over = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < over, "it did not come true"
        await asyncio.to_thread(time.sleep, 0.01)
