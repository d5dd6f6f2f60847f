"""The vectors in an embedding answer: checked, in the order of the texts, at unit length, as float32."""

from __future__ import annotations

import binascii
import math
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

FLOAT_BYTES = 4
_UNIT_TOLERANCE = 1e-5


class BadVectorsError(ValueError):
    """An answer that is no list of vectors for the texts; the text says why."""


class Rows(Struct, frozen=True):
    """Rows of `dimensions` little-endian float32, each of unit length or all zeros."""

    dimensions: int
    data: bytes

    def pieces(self, size: int) -> Iterator[bytes]:
        """The data in pieces of whole rows, of about `size` bytes."""
        row = self.dimensions * FLOAT_BYTES
        step = max(1, size // row) * row
        return (self.data[start : start + step] for start in range(0, len(self.data), step))


def to_rows(entries: object, count: int) -> Rows:
    """`entries` (`data` of an OpenAI embedding answer) as `count` rows. Blocks. Raises BadVectorsError."""
    if not isinstance(entries, Sequence) or len(entries) != count:
        found = len(entries) if isinstance(entries, Sequence) else "no"
        raise BadVectorsError(f"it holds {found} vectors for {count} texts")
    rows = [_row(_field(entry, "embedding")) for entry in _ordered(entries)]
    dimensions = len(rows[0])
    if any(len(row) != dimensions for row in rows):
        raise BadVectorsError("its vectors differ in size")
    return Rows(dimensions, b"".join(row.tobytes() for row in rows))


def _ordered(entries: Sequence[object]) -> Sequence[object]:
    """The entries in the order of the texts: by their index, when each has one."""
    indexed = {index: entry for entry in entries if isinstance(index := _field(entry, "index"), int)}
    return [indexed[index] for index in range(len(entries))] if indexed.keys() == set(range(len(entries))) else entries


def _row(vector: object) -> array[float]:
    if isinstance(vector, str):
        vector = _unpacked(vector)
    if not isinstance(vector, Sequence | array) or not vector:
        raise BadVectorsError("one of its vectors is no list of figures")
    try:
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise BadVectorsError("one of its vectors holds a figure that is none")
        even = abs(length - 1) < _UNIT_TOLERANCE or length == 0
        row = array("f", vector if even else [figure / length for figure in vector])
    except (TypeError, OverflowError) as error:
        raise BadVectorsError("one of its vectors is no list of figures") from error
    if sys.byteorder == "big":
        row.byteswap()
    return row


def _unpacked(text: str) -> array[float]:
    """Figures that were sent as base64 of little-endian float32."""
    figures = array("f")
    try:
        figures.frombytes(binascii.a2b_base64(text, strict_mode=True))
    except ValueError as error:
        raise BadVectorsError("one of its vectors is no list of figures") from error
    if sys.byteorder == "big":
        figures.byteswap()
    return figures


def _field(entry: object, name: str) -> object:
    return entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
