"""The table of the offline weights: one row of halves for each token, mapped from its file and summed without numpy."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

_LENGTH = 8
"""Bytes of the length of the header, at the start of a safetensors file."""
_LARGEST_HEADER = 1024 * 1024
_HALF_BYTES = 2


class BrokenWeightsError(ValueError):
    """A weights file that holds no table of 16-bit floats; the text says why."""


class Table:
    """The rows of a safetensors file with one F16 matrix in it, on disk until they are used."""

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
        """The sum of the rows of `tokens` at unit length, as little-endian float32; zeros for no tokens."""
        size = self._row.size
        rows = [self._row.unpack_from(self._map, self.offset + token * size) for token in tokens]
        totals = [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * self.dimensions
        length = math.hypot(*totals) or 1.0
        return struct.pack(f"<{self.dimensions}f", *(total / length for total in totals))


def _shape(content: mmap.mmap) -> tuple[int, int, int]:
    """Rows, columns, and the byte at which the first row begins."""
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
