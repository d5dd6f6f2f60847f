"""Small indexes to search: Markdown goes in as in life, vectors are sums of words that one can reason about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from clawbot.config.schema_memory import LineWeights, MemorySearchSettings
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.documents.days import day_of, marks_of
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.embeddings.embedding_text import chunk_embedding_text, query_embedding_text
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.search.engine import Search, SearchEngine
from clawbot.memory.search.protocols import Matrix, Ranked, StopCheck, never
from clawbot.memory.store.matrix import VectorMatrix
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import FileRecord, Identity
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.values import SearchRequest, Source
from clawbot.text.tokens import words_of

DIMENSIONS = 64
TODAY = date(2026, 11, 21)
LINES = MemorySearchSettings()
CLASSIC = MemorySearchSettings(profile="classic")

MEANINGS = {"automobile": "car", "physician": "doctor", "大夫": "doctor", "医生": "doctor", "gizmotron": "wumpus"}
"""Words with the vector of another word."""


@cache
def word_vector(word: str) -> np.ndarray:
    seed = int.from_bytes(blake2b(MEANINGS.get(word, word).encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype("<f4")


def vector(text: str) -> bytes:
    """The unit sum of the words' vectors; zeros without a word."""
    total = np.sum([np.zeros(DIMENSIONS, "<f4"), *(word_vector(word) for word in words_of(text))], axis=0)
    length = float(np.linalg.norm(total))
    return bytes((total / length if length else total).astype("<f4").tobytes())


Model = Callable[[str], bytes]


@cache
def narrow_vector(text: str) -> bytes:
    """The vector of another model: most of it is the same for all texts, so that all cosines are about .8."""
    own = np.frombuffer(vector(text), "<f4")
    if not own.any():
        return own.tobytes()
    total = 2 * np.frombuffer(vector("common"), "<f4") + own
    return bytes((total / np.linalg.norm(total)).astype("<f4").tobytes())


def build(
    path: Path,
    files: Mapping[str, str],
    settings: MemorySearchSettings = LINES,
    *,
    embed: bool = True,
    model: Model = vector,
) -> IndexReader:
    """An index of `files` (path and content) at `path`, and a reader of it."""
    writer = IndexWriter.open(path)
    writer.set_identity(
        Identity(profile=settings.profile, chunker="1", tokenizer="1", provider="offline", model="w", vectors="w")
    )
    write(writer, files, settings, embed=embed, model=model)
    writer.close()
    return IndexReader(path)


def write(
    writer: IndexWriter,
    files: Mapping[str, str],
    settings: MemorySearchSettings = LINES,
    *,
    embed: bool = True,
    model: Model = vector,
) -> None:
    """Put `files` into the index."""
    with writer.transaction():
        for name, text in files.items():
            digest = blake2b(text.encode(), digest_size=16).digest()
            day = day_of(name, text)
            source: Source = "sessions" if name.startswith("sessions/") else "memory"
            state = FileState(name, source, len(text), len(text))
            document = Document(state, text, digest, day, days=marks_of(text, day))
            writer.replace_file(FileRecord(state, digest, day, document.days), chunks_of(document, settings))
    chunks = writer.pending(0, 1_000_000) if embed else []
    if chunks:
        rows = [model(chunk_embedding_text(each.text, each.kind, each.above, remote=False)) for each in chunks]
        with writer.transaction():
            writer.put_vectors(chunks, Vectors(DIMENSIONS, b"".join(rows)))


class Searcher:
    """Asks an index."""

    def __init__(
        self,
        reader: IndexReader,
        settings: MemorySearchSettings = LINES,
        weights: LineWeights | None = None,
        model: Model = vector,
    ) -> None:
        self.reader = reader
        self.model = model
        query = settings.query.model_copy(update={"lines": weights or settings.query.lines})
        self.settings = settings.model_copy(update={"query": query})
        self.engine = SearchEngine()
        self.matrix: Matrix | None = None

    def load(self) -> Searcher:
        """With all vectors in memory, as a process that searches often."""
        self.matrix = VectorMatrix.load(self.reader)
        return self

    def ask(
        self,
        *queries: str,
        vectors: bool = True,
        today: date = TODAY,
        should_stop: StopCheck = never,
        **request: Any,
    ) -> Ranked:
        asked: Sequence[bytes | None] = [
            self.model(query_embedding_text(q, remote=False)) if vectors else None for q in queries
        ]
        wanted = SearchRequest(queries=queries, **request)
        is_offline = self.model is vector
        search = Search(
            self.reader, wanted, tuple(asked), self.settings, today, self.matrix, should_stop, offline=is_offline
        )
        return self.engine.rank(search).results()

    def places(self, *queries: str, **request: Any) -> list[str]:
        """The hits as `path:first-last`, best first."""
        return [f"{hit.path}:{hit.start_line}-{hit.end_line}" for hit in self.ask(*queries, **request).hits]

    def best(self, *queries: str, **request: Any) -> str:
        """The text of the best hit; empty without any."""
        hits = self.ask(*queries, **request).hits
        return hits[0].snippet if hits else ""
