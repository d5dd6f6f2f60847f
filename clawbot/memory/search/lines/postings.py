"""Owns which lines hold which words of a question, and how rare each word is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.search.lines.question import Wanted
from clawbot.memory.search.reading import Reader, StopCheck

if TYPE_CHECKING:
    from clawbot.memory.search.reading import Floats, Ids

RAREST = 8.0
"""What the rarest word counts."""


class Matches(Struct, frozen=True):
    """Where one thing is found: ascending chunk `ids`, how well (0 to 1) each holds it, and what it counts."""

    ids: Ids
    values: Floats
    rarity: float

    def within(self, ids: Ids) -> tuple[Ids, Floats]:
        """The places in the ascending `ids` where it is found, and how well."""
        np = numpy()
        if not len(ids):
            return np.zeros(0, np.int64), self.values[:0]
        places = np.minimum(np.searchsorted(ids, self.ids), len(ids) - 1)
        known = ids[places] == self.ids
        return places[known], self.values[known]


class WordFinder:
    """Looks words up in one index of `total` chunks; each expression is asked for once."""

    def __init__(self, reader: Reader, total: int, limit: int) -> None:
        self._reader = reader
        self._total = total
        self._limit = limit
        self._known: dict[str, Ids] = {}

    def find(self, wanted: Sequence[Wanted], should_stop: StopCheck) -> tuple[list[Matches], bool]:
        """The matches of each, and whether `should_stop` ended this before all were looked up. Blocks."""
        found: list[Matches] = []
        for each in wanted:
            if should_stop():
                return found, True
            found.append(self._matches(each))
        return found, False

    def _matches(self, wanted: Wanted) -> Matches:
        np = numpy()
        own = self._ids(wanted.match)
        rarity = self._rarity(len(own))
        groups = [(own, 1.0)]
        for other in wanted.others:
            ids = self._ids(other.match)
            if len(ids):
                # A frequent other word must not count as much as the rare word that was asked for.
                groups.append((ids, other.weight * min(1.0, self._rarity(len(ids)) / rarity)))
        if len(groups) == 1:
            return Matches(own, np.ones(len(own), np.float32), rarity * wanted.weight)
        ids = np.unique(np.concatenate([ids for ids, _ in groups]))
        values = np.zeros(len(ids), np.float32)
        for some, weight in groups:
            places = np.searchsorted(ids, some)
            values[places] = np.maximum(values[places], weight)
        return Matches(ids, values, rarity * wanted.weight)

    def _ids(self, match: str) -> Ids:
        ids = self._known.get(match)
        if ids is None:
            ids = numpy().asarray(self._reader.postings(match, self._limit), numpy().int64)
            self._known[match] = ids
        return ids

    def _rarity(self, count: int) -> float:
        """RAREST for a word of no line, near 0 for one of every line."""
        total = max(self._total, 1)
        rarity = RAREST * math.log(1 + (total - count + 0.5) / (count + 0.5)) / math.log(1 + total)
        return min(rarity, RAREST)
