"""Vectors for tests: hashed words, so that equal texts have equal vectors and texts that share words lie near."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct

USUAL_DIMENSIONS = 256
# The largest vectors that embedding models make have about 4,000 numbers.
MAX_DIMENSIONS = 16384
WORD = re.compile(r"\w+")


def embed(text: str, dimensions: int) -> list[float]:
    """The vector of `text`, of length 1, the same on every machine."""
    vector = [0.0] * dimensions
    for word in WORD.findall(text.lower()) or [text]:
        digest = hashlib.sha256(word.encode()).digest()
        place = int.from_bytes(digest[:8], "big") % dimensions
        vector[place] += 1.0 if digest[8] % 2 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0.0:
        return [1.0, *vector[1:]]
    return [value / length for value in vector]


def packed(vector: list[float]) -> str:
    """The vector as base64 of little-endian 32-bit floats, which the OpenAI SDK asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
