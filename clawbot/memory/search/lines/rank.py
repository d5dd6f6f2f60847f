"""Ranks the lines of the index by what speaks for them, in the profile `lines`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.config.schema_lines import LineWeights
from clawbot.memory.arrays import numpy
from clawbot.memory.search.lines.features import Asked, is_of_days, scale_of, speaks_of, support
from clawbot.memory.search.lines.meaning import closeness, nearest, places_of_best, rough_closeness
from clawbot.memory.search.lines.postings import Matches, WordFinder
from clawbot.memory.search.lines.question import Question
from clawbot.memory.search.lines.table import Columns, LineTable
from clawbot.memory.search.reading import Matrix, Reader, StopCheck
from clawbot.memory.search.scope import Scope
from clawbot.memory.store.records import DATED, file_of, piece_id

if TYPE_CHECKING:
    from clawbot.memory.search.reading import Bools, Floats, Ids

_WINDOW = 2
# Of a word in more than one of so many lines the rest is not read.
_COMMON = 5


class Variant(Struct, frozen=True):
    """One wording: its question, and its unit vector (float32) where there is one."""

    question: Question
    vector: bytes | None


class Lines(Struct, frozen=True):
    """Where lines are read: the index; where all are in memory, also `table`, and with vectors also `matrix`."""

    reader: Reader
    matrix: Matrix | None = None
    table: LineTable | None = None

    def vectors(self, ids: Ids) -> tuple[Ids, Floats]:
        """The ids of those that have a vector, ascending, and their unit vectors."""
        return self.reader.vectors(ids.tolist()) if self.matrix is None else self.matrix.rows(ids)


class RankedLines(Struct, frozen=True):
    """Ids of lines, best first, with their scores (0 to 1). `partial`: there was no time to look everywhere."""

    ids: Sequence[int]
    scores: Sequence[float]
    partial: bool


class LineRanking:
    """Ranks the lines of one index for one search. Everything blocks."""

    def __init__(self, lines: Lines, scope: Scope, weights: LineWeights, should_stop: StopCheck) -> None:
        self._lines = lines
        self._scope = scope
        self._weights = weights
        self._should_stop = should_stop

    def rank(self, variants: Sequence[Variant]) -> RankedLines:
        """The best lines for any of `variants`; a line counts by the wording that fits it best."""
        np = numpy()
        limit = max(self._weights.postings, self._scope.chunks // _COMMON)
        finder = WordFinder(self._lines.reader, self._scope.chunks, limit)
        asked: list[Asked] = []
        partial = False
        for variant in variants:
            matches, stopped = finder.find(variant.question.wanted, self._should_stop)
            partial = partial or stopped
            asked.append(Asked(variant.question, matches))
        vectors = [None if partial else variant.vector for variant in variants]
        if self._lines.table is not None:
            table = self._lines.table
            found = self._supports(table, asked)
            places = self._promising(table, found, asked, vectors)
        else:
            table, places = self._neighbourhood(asked, vectors)
            found = self._supports(table, asked)
        partial = partial or self._should_stop()
        scores = self._scores(table, places, found, asked, vectors if not partial else [None] * len(vectors))
        says = self._has_evidence(table, asked)[places] & ~table.columns.is_heading[places]
        says |= scores >= self._weights.least_score
        places, scores = places[says], scores[says]
        order = np.lexsort((places, -scores))[: self._weights.ranked]
        return RankedLines(table.ids[places[order]].tolist(), np.clip(scores[order], 0, 1).tolist(), partial)

    def _supports(self, table: LineTable, asked: Sequence[Asked]) -> list[Floats]:
        days = {number: file.day for number, file in self._scope.files.items()}
        return [support(table, each, days, self._weights) for each in asked]

    def _promising(
        self, table: LineTable, found: Sequence[Floats], asked: Sequence[Asked], vectors: Sequence[bytes | None]
    ) -> Ids:
        """Places of the lines of the whole index that are worth an exact look."""
        np = numpy()
        matrix = self._lines.matrix
        best: Floats = np.full(len(table), -np.inf, np.float32)
        for each, words, vector in zip(asked, found, vectors, strict=True):
            total = words
            if vector is not None and matrix is not None:
                total = words + self._weights.meaning * rough_closeness(table, matrix, vector)
            np.maximum(best, total / scale_of(each, self._weights, has_vector=vector is not None), out=best)
        is_inside = self._scope.holds(table.ids)
        if not any(vectors):
            is_inside &= self._has_evidence(table, asked)
        inside: Ids = np.flatnonzero(is_inside)
        promising: Ids = np.sort(inside[places_of_best(best[inside], self._weights.promising)])
        return promising

    def _has_evidence(self, table: LineTable, asked: Sequence[Asked]) -> Bools:
        """Which lines hold a word of the question or flow in a section with one, or are of its days."""
        np = numpy()
        found: Bools = np.zeros(len(table), np.bool_)
        for each in asked:
            for match in each.matches:
                found[match.within(table.ids)[0]] = True
            found |= np.isin(table.ids, self._by_day(each.question))
        in_section = np.zeros(len(table.section_names), np.bool_)
        in_section[table.section[found]] = True
        found |= table.columns.flowing & in_section[table.section]
        return found

    def _scores(
        self,
        table: LineTable,
        places: Ids,
        found: Sequence[Floats],
        asked: Sequence[Asked],
        vectors: Sequence[bytes | None],
    ) -> Floats:
        """The score of each of `places`, as a share of what a perfect line would have."""
        np = numpy()
        weights = self._weights
        near = closeness(table, places, self._lines.vectors, vectors)
        best: Floats = np.full(len(places), -np.inf, np.float32)
        for each, words, meaning, vector in zip(asked, found, near, vectors, strict=True):
            total = words[places] + weights.meaning * meaning + weights.day * self._days(table, places, each)
            np.maximum(best, total / scale_of(each, weights, has_vector=vector is not None), out=best)
        return best

    def _days(self, table: LineTable, places: Ids, asked: Asked) -> Floats:
        """1 for lines that speak of a day that the question names, and are not of a file of that day anyhow."""
        np = numpy()
        found: Floats = np.zeros(len(places), np.float32)
        days = asked.question.days
        if not days:
            return found
        dated = np.flatnonzero(table.columns.flags[places] & DATED)
        rows = {row.id: row for row in self._lines.reader.rows(table.ids[places[dated]].tolist())}
        for place in dated.tolist():
            row = rows.get(int(table.ids[places[place]]))
            file = self._scope.files[file_of(row.id)] if row else None
            if row and file and file.day and not is_of_days(file.day, days):
                found[place] = speaks_of(row.text, file.day, days)
        return found

    def _neighbourhood(self, asked: Sequence[Asked], vectors: Sequence[bytes | None]) -> tuple[LineTable, Ids]:
        """The lines that come into question in one of the ways, and the places of those to be ranked."""
        np = numpy()
        seeds: list[Ids] = [self._scope.few_chunks()]
        for each, vector in zip(asked, vectors, strict=True):
            seeds += [self._by_words(each.matches), self._by_day(each.question)]
            if vector is not None and not self._should_stop():
                seeds.append(nearest(self._lines.reader, vector, self._weights.by_meaning, self._scope))
        near = np.unique(np.concatenate(seeds))
        near = near[self._scope.holds(near)]
        around = np.unique((near[:, None] + np.arange(-1 - _WINDOW, 2 + _WINDOW)).ravel())
        table = LineTable(Columns.of(self._lines.reader.lines(around.tolist())))
        is_near = np.append(np.isin(table.ids, near), False)
        for distance in (-1, 1):
            is_near[:-1] |= is_near[table.beside(distance)] if len(table) else False
        return table, np.flatnonzero(is_near)

    def _by_words(self, found: Sequence[Matches]) -> Ids:
        """The lines that hold the most of what is asked for by themselves."""
        np = numpy()
        ids = np.concatenate([np.zeros(0, np.int64), *(each.ids for each in found)])
        values = np.concatenate([np.zeros(0, np.float32), *(each.values * each.rarity for each in found)])
        inside = self._scope.holds(ids)
        lines, places = np.unique(ids[inside], return_inverse=True)
        sums = np.bincount(places, values[inside], len(lines))
        best: Ids = lines[places_of_best(sums, self._weights.by_words)]
        return best

    def _by_day(self, question: Question) -> Ids:
        """The lines of the files of the days that the question names, the first few hundred."""
        np = numpy()
        ids: list[int] = []
        for number, file in self._scope.files.items() if question.days else ():
            if file.day is not None and is_of_days(file.day, question.days):
                first = piece_id(number, 0)
                ids += range(first, first + min(file.chunks, self._weights.by_day - len(ids)))
        found: Ids = np.array(ids, np.int64)
        return found
