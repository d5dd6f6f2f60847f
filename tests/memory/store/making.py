"""Small indexes for the tests of the store: files of one-line chunks, and vectors that are easy to tell apart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clawbot.memory.documents.walking import FileState
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.store.records import ChunkRecord, FileRecord, Identity, PendingChunk, Profile
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.values import ChunkKind
from clawbot.text.tokens import index_text

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats

DIMENSIONS = 64


def identity(profile: Profile = "lines", **changes: Any) -> Identity:
    values: dict[str, Any] = {
        "chunker": "1",
        "tokenizer": "1",
        "provider": "offline",
        "model": "words",
        "vectors": "offline/words",
    }
    return Identity(profile=profile, **{**values, **changes})


def record(path: str, text: str, day: dt.date | None = None) -> FileRecord:
    data = text.encode()
    state = FileState(path, "memory", len(data), 1_000 + len(data))
    return FileRecord(state, blake2b(data, digest_size=16).digest(), day)


def chunks(text: str) -> list[ChunkRecord]:
    """A chunk for each line; those below a `# heading` stand under it, `Name: …` is dialogue."""
    found: list[ChunkRecord] = []
    heading = None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#"):
            found.append(ChunkRecord(number, number, "heading", line, index_text(line)))
            heading = number - 1
            continue
        speaker = line.split(":")[0] if ":" in line else None
        kind: ChunkKind = "dialogue" if speaker else "item" if line.startswith("-") else "prose"
        found.append(ChunkRecord(number, number, kind, line, index_text(line), heading, speaker))
    return found


def vector(text: str, dimensions: int = DIMENSIONS) -> Floats:
    """Always the same for `text`; zeros for "..."."""
    if text == "...":
        return np.zeros(dimensions, np.float32)
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    row = np.random.default_rng(seed).standard_normal(dimensions).astype("<f4")
    unit: Floats = row / np.linalg.norm(row)
    return unit


def embedded(chunks: Sequence[PendingChunk], dimensions: int = DIMENSIONS) -> Vectors:
    rows = [vector(f"{chunk.above} {chunk.text}".strip(), dimensions) for chunk in chunks]
    return Vectors(dimensions, np.array(rows, "<f4").tobytes())


def put(writer: IndexWriter, files: dict[str, str], *, embed: bool = True) -> None:
    """Write `files` in one transaction, then their vectors in another."""
    with writer.transaction():
        for path, text in files.items():
            writer.replace_file(record(path, text), chunks(text))
    if embed:
        embed_all(writer)


def embed_all(writer: IndexWriter) -> int:
    chunks = writer.pending(0, 100_000)
    if not chunks:
        return 0
    with writer.transaction():
        return writer.put_vectors(chunks, embedded(chunks))


def opened(path: Path, profile: Profile = "lines") -> IndexWriter:
    writer = IndexWriter.open(path)
    writer.set_identity(identity(profile))
    return writer


def kept_in(writer: IndexWriter) -> int:
    """How many embeddings are kept."""
    return int(writer.connection.execute("SELECT count(*) FROM embedding_cache").get)
