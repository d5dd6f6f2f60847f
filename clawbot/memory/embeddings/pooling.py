"""Embeds many texts at once: the normalised sums of their token rows. Most words repeat, so each is summed once.

Imports numpy (0.1 seconds of CPU), so import this module only for many texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clawbot.memory.embeddings.offline_model import Bpe, WeightTable, atoms_of
from clawbot.text.language import HAN

Floats = NDArray[np.float16] | NDArray[np.float32]

MAX_WORDS = 32 * 1024
"""Maximum cached word sums: 32 MiB at 256 dimensions. The first ones are kept, since frequent words come early."""
LONGEST_WORD = 24
"""Characters. Longer words (URLs, paths) rarely repeat, their parts do."""
_FIRST_ROWS = 4096
_GROUP = 256
"""Texts summed in one step, so that they fit in the CPU cache."""
_SLICE = 4096
"""Rows of a long text summed in one step."""
_PART = "\0"
"""Prefix of the keys of word parts; other keys are whole words."""
_HAN = re.compile(f"[{HAN}]")


class WordPool:
    """Embeds lists of texts. Not thread-safe."""

    def __init__(self, bpe: Bpe, table: WeightTable) -> None:
        """Blocks."""
        # A plain array, since slicing a memmap is slower.
        self._tokens: NDArray[np.float16] = np.asarray(
            np.memmap(table.path, np.dtype("<f2"), "r", table.offset, (table.count, table.dimensions))
        )
        self._dimensions = table.dimensions
        self._sums = np.empty((_FIRST_ROWS, table.dimensions), np.float32)
        self._places: dict[str, int] = {}
        self._passing: list[str] = []
        self._encoded = _Encoded(bpe)

    def embed(self, texts: Sequence[str]) -> bytes:
        """One unit row of little-endian float32 per text; zeros for a text without words. Blocks."""
        self._forget_passing()
        known = len(self._places)
        places: list[int] = []
        counts: list[int] = []
        fresh: list[str] = []
        place_of = self._places.__getitem__
        for text in texts:
            try:
                found = list(map(place_of, text.split()))
            except KeyError:
                found = self._places_of(text, fresh)
            places += found
            counts.append(len(found))
        if fresh:
            self._add(fresh, known)
        rows = self._pooled(self._sums, places, counts)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        lengths[lengths == 0] = 1
        rows /= lengths[:, None]
        return rows.astype("<f4", copy=False).tobytes()

    def _places_of(self, text: str, fresh: list[str]) -> list[int]:
        """The positions of the sums of the words of `text`; new words are added to `fresh`."""
        known = self._places
        get = known.get
        places = []
        for word in text.split():
            place = get(word)
            if place is not None:
                places.append(place)
                continue
            for key in _keys(word):
                place = get(key)
                if place is None:
                    place = known[key] = len(known)
                    fresh.append(key)
                places.append(place)
        return places

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
            grown = np.empty((max(needed, min(2 * len(self._sums), MAX_WORDS)), self._dimensions), np.float32)
            grown[:known] = self._sums[:known]
            self._sums = grown
        self._sums[known:needed] = self._pooled(self._tokens, tokens, counts)
        if needed > MAX_WORDS:
            self._passing = fresh

    def _forget_passing(self) -> None:
        """Drop the words of the last call beyond the cache size."""
        for key in self._passing:
            del self._places[key]
        self._passing = []

    def _pooled(self, table: Floats, places: list[int], counts: list[int]) -> NDArray[np.float32]:
        """The sums of the rows of `table` at `places`, `counts[i]` of them for row i: `(len(counts), d)`.

        Rows of equal count are summed together: five times as fast as `np.add.reduceat`.
        """
        at = np.array(places, np.int32)
        sizes = np.array(counts, np.int64)
        starts = np.cumsum(sizes) - sizes
        order = np.argsort(sizes, kind="stable")
        out: NDArray[np.float32] = np.zeros((len(counts), self._dimensions), np.float32)
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
    """The cache keys of `word`: itself, or its parts if it is unlikely to repeat."""
    if len(word) <= LONGEST_WORD and (word.isascii() or not _HAN.search(word)):
        return (word,)
    return [_PART + atom for atom in atoms_of(word)]
