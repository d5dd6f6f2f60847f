"""The offline model without numpy: its byte pair encoding, and its memory-mapped table of weights, one float16 row per
token."""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.text.language import HAN
from clawbot.text.patterns import lazy_re

WORD_START = "▁"
"""Marks the start of a word after a space."""
LONGEST_RUN = 48
"""Characters. Longer runs (base64, Thai) are split: merging is quadratic, and a token has at most 16."""

# No token crosses the boundary of these parts, so each is encoded separately. Verified by a test.
_ATOM = lazy_re(rf"▁?[^\W\d_{HAN}]+|\d|[{HAN}]|▁?(?:[^\w▁]|_)+|▁+|.", re.DOTALL)
# The same without Chinese: compiling its sets takes a search 3 ms.
_ASCII_ATOM = lazy_re(r"▁?[^\W\d_]+|\d|▁?(?:[^\w▁]|_)+|▁+|.", re.DOTALL)


def atoms_of(word: str) -> list[str]:
    """The parts of `word` (text without spaces) to encode separately; the first begins with WORD_START."""
    pattern = _ASCII_ATOM if word.isascii() else _ATOM
    return [
        atom[start : start + LONGEST_RUN]
        for atom in pattern.findall(WORD_START + word)
        for start in range(0, len(atom), LONGEST_RUN)
    ]


class _Model(Struct):
    vocab: dict[str, int]


class Tokenizer(Struct):
    """The required part of a tokenizer file (`tokenizer.json` of Hugging Face).

    Merges are left out: their order is that of the ids.
    """

    model: _Model


class Bpe:
    """Encodes by repeatedly merging the neighbours whose token has the lowest id."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        """Raises KeyError if the vocabulary lacks the 256 single-byte tokens."""
        self._ids = vocabulary
        self._behind = max(vocabulary.values(), default=0) + 1
        self._bytes = [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)]

    def has_word(self, word: str) -> bool:
        """Whether `word` is one token: the words that are frequent in any text are."""
        return WORD_START + word in self._ids

    def text(self, text: str) -> list[int]:
        """The tokens of `text`; any run of whitespace counts as one space."""
        return [token for word in text.split() for atom in atoms_of(word) for token in self.atom(atom)]

    def atom(self, atom: str) -> list[int]:
        """The tokens of a word part; characters missing from the vocabulary become their bytes."""
        parts = [atom] if atom in self._ids else self._merged(list(atom))
        return [token for part in parts for token in self._tokens(part)]

    def _merged(self, parts: list[str]) -> list[str]:
        ids = self._ids
        last = self._behind
        # The token of each part with the next one; only the two beside a merged pair change.
        ranks = [ids.get(left + right, last) for left, right in pairwise(parts)]
        while ranks and (least := min(ranks)) < last:
            at = ranks.index(least)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            if at:
                ranks[at - 1] = ids.get(parts[at - 1] + parts[at], last)
            if at < len(ranks):
                ranks[at] = ids.get(parts[at] + parts[at + 1], last)
        return parts

    def _tokens(self, part: str) -> list[int]:
        token = self._ids.get(part)
        if token is not None:
            return [token]
        return [self._bytes[byte] for byte in part.encode("utf-8", "replace")]


_LENGTH = 8
"""Bytes of the header length at the start of a safetensors file."""
_LARGEST_HEADER = 1024 * 1024
_HALF_BYTES = 2


class BrokenWeightsError(ValueError):
    """A weights file without a table of 16-bit floats; the text says why."""


class WeightTable:
    """The rows of a safetensors file with one F16 matrix, memory-mapped."""

    def __init__(self, path: Path) -> None:
        """Blocks. Raises OSError, BrokenWeightsError."""
        with path.open("rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise BrokenWeightsError("it is empty") from error
        self.count, self.dimensions, self.offset = _shape(self._map)
        self.path = path
        self._row = struct.Struct(f"<{self.dimensions}e")

    def unit_sum(self, tokens: Sequence[int]) -> bytes:
        """The normalised sum of the rows of `tokens`, as little-endian float32 bytes; zeros for no tokens."""
        size = self._row.size
        rows = [self._row.unpack_from(self._map, self.offset + token * size) for token in tokens]
        totals = [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * self.dimensions
        length = math.hypot(*totals) or 1.0
        return struct.pack(f"<{self.dimensions}f", *(total / length for total in totals))


def _shape(content: mmap.mmap) -> tuple[int, int, int]:
    """Rows, columns, and the byte offset of the first row."""
    length = int.from_bytes(content[:_LENGTH], "little")
    if length > _LARGEST_HEADER:
        raise BrokenWeightsError("it is no safetensors file")
    try:
        header: dict[str, Any] = msgspec.json.decode(content[_LENGTH : _LENGTH + length], type=dict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenWeightsError("its header is broken") from error
    for entry in header.values():
        match entry:
            case {"dtype": "F16", "shape": [int(count), int(dimensions)], "data_offsets": [int(start), int()]}:
                offset = _LENGTH + length + start
                if count < 1 or dimensions < 1 or offset + count * dimensions * _HALF_BYTES > len(content):
                    raise BrokenWeightsError("it is cut off")
                return count, dimensions, offset
    raise BrokenWeightsError("it holds no table of 16-bit floats")
