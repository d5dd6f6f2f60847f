"""The offline model: its byte pair encoding, its memory-mapped table of weights, one float16 row per token, and, with
numpy for many texts at once, the normalised sums of these rows. Most words repeat, so each is summed once."""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.text.language import HAN
from clawbot.text.patterns import lazy_re

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clawbot.memory.arrays import Floats

    Halves = NDArray[np.float16]

WORD_START = "▁"
"""Marks the start of a word after a space."""
MAX_RUN = 48
"""Characters. Longer runs (base64, Thai) are split: merging is quadratic, and a token has at most 16."""

# No token crosses the boundary of these parts, so each is encoded separately. Verified by a test.
_ATOM = lazy_re(rf"▁?[^\W\d_{HAN}]+|\d|[{HAN}]|▁?(?:[^\w▁]|_)+|▁+|.", re.DOTALL)
# The same without Chinese: compiling its sets takes a search 3 ms.
_ASCII_ATOM = lazy_re(r"▁?[^\W\d_]+|\d|▁?(?:[^\w▁]|_)+|▁+|.", re.DOTALL)


def atoms_of(word: str) -> list[str]:
    """Return the parts of `word` (text without spaces) to encode separately; the first begins with WORD_START."""
    pattern = _ASCII_ATOM if word.isascii() else _ATOM
    return [
        atom[start : start + MAX_RUN]
        for atom in pattern.findall(WORD_START + word)
        for start in range(0, len(atom), MAX_RUN)
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
        """Return whether `word` is one token: the words that are frequent in any text are."""
        return WORD_START + word in self._ids

    def text(self, text: str) -> list[int]:
        """Return the tokens of `text`; any run of whitespace counts as one space."""
        return [token for word in text.split() for atom in atoms_of(word) for token in self.atom(atom)]

    def atom(self, atom: str) -> list[int]:
        """Return the tokens of a word part; characters missing from the vocabulary become their bytes."""
        parts = [atom] if atom in self._ids else self._merged(list(atom))
        return [token for part in parts for token in self._tokens(part)]

    def _merged(self, parts: list[str]) -> list[str]:
        ids = self._ids
        last = self._behind
        # The token of each part with the next one; only the two next to a merged pair change.
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
    """A weights file without a table of 16-bit floats; the text is the reason."""


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
        """Return the normalised sum of the rows of `tokens`, as little-endian float32 bytes; zeros for no tokens."""
        size = self._row.size
        rows = [self._row.unpack_from(self._map, self.offset + token * size) for token in tokens]
        totals = [sum(column) for column in zip(*rows, strict=True)] if rows else [0.0] * self.dimensions
        length = math.hypot(*totals) or 1.0
        return struct.pack(f"<{self.dimensions}f", *[total / length for total in totals])


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


MAX_WORDS = 32 * 1024
"""Maximum cached word sums: 32 MiB at 256 dimensions. The first ones are kept, since frequent words come early."""
MAX_WORD_CHARS = 24
"""Characters. Longer words (URLs, paths) rarely repeat, their parts do."""
_FIRST_ROWS = 4096
_GROUP = 256
"""Texts summed in one step, so that they fit in the CPU cache."""
_SLICE = 4096
"""Rows of a long text summed in one step."""
_PART = "\0"
"""Prefix of the keys of word parts; other keys are entire words."""
_FIGURE = lazy_re(r"\d")
_FIGURE_OR_HAN = lazy_re(rf"[\d{HAN}]")


class WordPool:
    """Embeds lists of texts. Not thread-safe."""

    def __init__(self, bpe: Bpe, table: WeightTable) -> None:
        """Blocks."""
        np = numpy()
        # A plain array, since slicing a memmap is slower.
        self._tokens: Halves = np.asarray(
            np.memmap(table.path, np.dtype("<f2"), "r", table.offset, (table.count, table.dimensions))
        )
        self._dimensions = table.dimensions
        self._sums: Floats = np.empty((_FIRST_ROWS, table.dimensions), np.float32)
        self._positions: dict[str, int] = {}
        self._passing: list[str] = []
        self._encoded = _Encoded(bpe)

    def embed(self, texts: Sequence[str]) -> bytes:
        """Return one unit row of little-endian float32 per text; zeros for a text without words. Blocks."""
        self._forget_passing()
        known = len(self._positions)
        positions: list[int] = []
        counts: list[int] = []
        fresh: list[str] = []
        position_of = self._positions.__getitem__
        for text in texts:
            try:
                found = list(map(position_of, text.split()))
            except KeyError:
                found = self._positions_of(text, fresh)
            positions += found
            counts.append(len(found))
        if fresh:
            self._add(fresh, known)
        rows = self._pooled(self._sums, positions, counts)
        np = numpy()
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        lengths[lengths == 0] = 1
        rows /= lengths[:, None]
        return rows.astype("<f4", copy=False).tobytes()

    def _positions_of(self, text: str, fresh: list[str]) -> list[int]:
        """Return the positions of the sums of the words of `text`; new words are added to `fresh`."""
        known = self._positions
        get = known.get
        positions = []
        for word in text.split():
            position = get(word)
            if position is not None:
                positions.append(position)
                continue
            for key in _keys(word):
                position = get(key)
                if position is None:
                    position = known[key] = len(known)
                    fresh.append(key)
                positions.append(position)
        return positions

    def _add(self, fresh: list[str], known: int) -> None:
        """Sum the words `fresh`, with positions after the `known` ones."""
        tokens: list[int] = []
        counts: list[int] = []
        for key in fresh:
            atoms = (key[1:],) if key.startswith(_PART) else atoms_of(key)
            found = [token for atom in atoms for token in self._encoded[atom]]
            tokens += found
            counts.append(len(found))
        needed = known + len(fresh)
        if needed > len(self._sums):
            np = numpy()
            grown = np.empty((max(needed, min(2 * len(self._sums), MAX_WORDS)), self._dimensions), np.float32)
            grown[:known] = self._sums[:known]
            self._sums = grown
        self._sums[known:needed] = self._pooled(self._tokens, tokens, counts)
        if needed > MAX_WORDS:
            self._passing = fresh

    def _forget_passing(self) -> None:
        """Drop the words of the last call beyond the cache size."""
        for key in self._passing:
            del self._positions[key]
        self._passing = []

    def _pooled(self, table: Floats | Halves, positions: list[int], counts: list[int]) -> Floats:
        """Return the sums of the rows of `table` at `positions`, `counts[i]` of them for row i: `(len(counts), d)`.

        Rows of equal count are summed together: five times as fast as `np.add.reduceat`.
        """
        np = numpy()
        at = np.array(positions, np.int32)
        sizes = np.array(counts, np.int64)
        starts = np.cumsum(sizes) - sizes
        order = np.argsort(sizes, kind="stable")
        out: Floats = np.zeros((len(counts), self._dimensions), np.float32)
        for group in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
            size = int(sizes[group[0]])
            if len(group) < size:
                for row in group:
                    for first in range(starts[row], starts[row] + size, _SLICE):
                        part = at[first : min(first + _SLICE, starts[row] + size)]
                        out[row] += table.take(part, axis=0).sum(axis=0, dtype=np.float32)
                continue
            for first in range(0, len(group), _GROUP) if size else ():
                rows = group[first : first + _GROUP]
                total = table.take(at[starts[rows]], axis=0).astype(np.float32)
                for step in range(1, size):
                    total += table.take(at[starts[rows] + step], axis=0)
                out[rows] = total
        return out


class _Encoded(dict[str, list[int]]):
    """The tokens of word parts: `dog` is in "dog", "dog." and "(dog", and encoding is half of the cost of new words."""

    def __init__(self, bpe: Bpe) -> None:
        super().__init__()
        self._bpe = bpe

    def __missing__(self, atom: str) -> list[int]:
        tokens = self._bpe.atom(atom)
        if len(self) >= MAX_WORDS:
            self.clear()
        self[atom] = tokens
        return tokens


def _keys(word: str) -> Sequence[str]:
    """Return the cache keys of `word`: itself, or its parts if it is unlikely to repeat: a number, time or id."""
    if len(word) <= MAX_WORD_CHARS and not (_FIGURE if word.isascii() else _FIGURE_OR_HAN).search(word):
        return (word,)
    return [_PART + atom for atom in atoms_of(word)]
