"""Small indexes to search: Markdown goes in as in life, vectors are sums of words that one can reason about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np

from clawbot.config.schema_lines import LineWeights
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.chunking.pieces import pieces_of
from clawbot.memory.documents.memory_files import Document, date_of
from clawbot.memory.documents.walking import FileState
from clawbot.memory.embeddings.meaning import piece_meaning, query_meaning
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.search import Matrix, Ranked, SearchEngine
from clawbot.memory.search.reading import StopCheck, never
from clawbot.memory.store.identity import Identity
from clawbot.memory.store.matrix import VectorMatrix
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import FileRecord
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.text import words_of
from clawbot.memory.values import SearchRequest

DIMENSIONS = 64
TODAY = date(2026, 11, 21)
LINES = MemorySearchSettings()
CLASSIC = MemorySearchSettings(profile="classic")

MEANINGS = {"automobile": "car", "physician": "doctor", "大夫": "doctor", "医生": "doctor"}
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


def build(
    path: Path, files: Mapping[str, str], settings: MemorySearchSettings = LINES, *, embed: bool = True
) -> IndexReader:
    """An index of `files` (path and content) at `path`, and a reader of it."""
    writer = IndexWriter.open(path)
    writer.set_identity(
        Identity(profile=settings.profile, chunker="1", tokenizer="1", provider="offline", model="w", vectors="w")
    )
    write(writer, files, settings, embed=embed)
    writer.close()
    return IndexReader(path)


def write(
    writer: IndexWriter, files: Mapping[str, str], settings: MemorySearchSettings = LINES, *, embed: bool = True
) -> None:
    """Put `files` into the index."""
    with writer.transaction():
        for name, text in files.items():
            digest = blake2b(text.encode(), digest_size=16).digest()
            document = Document(FileState(name, "memory", len(text), len(text)), text, digest, date_of(name))
            writer.replace_file(FileRecord(document.state, digest, document.date), pieces_of(document, settings))
    chunks = writer.pending(0, 1_000_000) if embed else []
    if chunks:
        rows = [vector(piece_meaning(each.text, each.kind, each.above, remote=False)) for each in chunks]
        with writer.transaction():
            writer.put_vectors(chunks, Vectors(DIMENSIONS, b"".join(rows)))


class Searcher:
    """Asks an index."""

    def __init__(
        self, reader: IndexReader, settings: MemorySearchSettings = LINES, weights: LineWeights | None = None
    ) -> None:
        self.reader = reader
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
        **request: object,
    ) -> Ranked:
        asked: Sequence[bytes | None] = [vector(query_meaning(q, remote=False)) if vectors else None for q in queries]
        return self.engine.run(
            self.reader,
            SearchRequest(queries=queries, **request),
            asked,
            self.settings,
            today=today,
            matrix=self.matrix,
            should_stop=should_stop,
        )

    def places(self, *queries: str, **request: object) -> list[str]:
        """The hits as `path:first-last`, best first."""
        return [f"{hit.path}:{hit.start_line}-{hit.end_line}" for hit in self.ask(*queries, **request).hits]

    def best(self, *queries: str, **request: object) -> str:
        """The text of the best hit; empty without any."""
        hits = self.ask(*queries, **request).hits
        return hits[0].snippet if hits else ""
