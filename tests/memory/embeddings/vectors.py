"""Reading vectors in tests: rows as figures, and how near two of them are."""

from __future__ import annotations

import struct

from clawbot.memory.embeddings.protocol import Vectors


def figures(vectors: Vectors) -> list[tuple[float, ...]]:
    return [struct.unpack(f"<{vectors.dimensions}f", row) for row in vectors.rows()]


def cosine(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def apart(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
