"""Ranks the lines of the index in the profile `lines`, and decides whether anything matches at all: by meaningful
words, by the days of the question, or by an outstanding cosine. Otherwise every question would be answered with the
least bad line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import compress
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import are_among, distinct, numpy
from clawbot.memory.embeddings.protocol import FLOAT_BYTES
from clawbot.memory.search.evidence import BestLines, ahead_of_others, best_of, evidence_of
from clawbot.memory.search.features import (
    Support,
    Wording,
    best_of_notes,
    days_of,
    holds_on,
    is_of_days,
    is_rare,
    scale_of,
    speaks_of,
    support,
)
from clawbot.memory.search.outline import Outline
from clawbot.memory.search.protocols import ChunkReader, Matrix, StopCheck
from clawbot.memory.search.question import RAREST, Matches, WordFinder
from clawbot.memory.search.scope import FileScope
from clawbot.memory.search.shortlist import shortlist
from clawbot.memory.search.table import Columns, LineTable
from clawbot.memory.search.vector_scores import (
    DEVIATION,
    FEWEST,
    MEAN,
    NEAR,
    LineVectors,
    Sample,
    VectorScores,
    as_offline,
    cosines_of,
    line_vectors,
    nearest,
    positions_of_best,
    rough_vector_scores,
)
from clawbot.memory.store.records import DATED, ORDINAL_BITS, FileRow, file_of, id_of
from clawbot.memory.values import Evidence, Mode
from clawbot.text.copies import More

if TYPE_CHECKING:
    from clawbot.config.schema_memory import LineWeights
    from clawbot.memory.arrays import Bools, Floats, Ids


VECTOR_SHARE, TEXT_SHARE = 0.3, 0.7
"""What vectors and words weigh in `LineWeights`."""

_SAMPLE = 500
"""Lines compared with a question to estimate the background similarity: 1 ms."""

_HALF = 0.5
"""Share of the question: a question of one frequent word is answered by that word."""

_COMPARED, _ALIKE = 6, 0.5
"""So many lines with at least this share of the best score are put in order of time."""

_WINDOW = 2
_MODELS = 3
"""The best lines that others are compared with: two lines about one thing seldom share the question's words."""

# Reading stops for words that occur in more than one of this many lines.
_COMMON = 5
# All words together are read in one of so many lines, or this many times the limit of one word in a small index.
_READ, _ALL = 2, 2


def word_matches(support: Support, least: float) -> Bools:
    """Which lines match by words, `(n,)`: the words in or around them are rare enough in total, or at least half of the
    question. With a `least` of 0 any word matches."""
    found: Bools = (support.words > 0) & ((support.words >= least) | (support.words >= _HALF * support.possible))
    return found


def _sample(scope: FileScope) -> Ids:
    """Return evenly spaced lines of `scope`."""
    np = numpy()
    files = np.fromiter(scope.files, np.int64, len(scope.files))
    counts = np.fromiter((file.chunks for file in scope.files.values()), np.int64, len(files))
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    wanted = distinct(np.linspace(0, total - 1, min(_SAMPLE, total)).astype(np.int64))
    positions = np.searchsorted(ends, wanted, side="right")
    found: Ids = id_of(files[positions], 0) + wanted - (ends - counts)[positions]
    return found


class LineSource(Struct, frozen=True):
    """Where lines are read from: the index; if all are in memory, `table` or (if they are many) `outline`, and with
    vectors also `matrix`. `offline`: the vectors are those of the offline model."""

    reader: ChunkReader
    matrix: Matrix | None = None
    table: LineTable | None = None
    outline: Outline | None = None
    offline: bool = True

    def vectors(self, ids: Ids) -> tuple[Ids, Floats]:
        """Return the ids of those that have a vector, ascending `(m,)`, and their unit vectors `(m, d)`."""
        return self.reader.vectors(ids.tolist()) if self.matrix is None else self.matrix.rows(ids)


class RankedLines(Struct, frozen=True):
    """Ids of lines, best first, with their scores (0 to 1), distinctive words (by number), and repetitions.
    `partial`: time ran out. `evidence`: whether the lines probably hold an answer."""

    ids: Sequence[int]
    scores: Sequence[float]
    partial: bool
    asked: Sequence[frozenset[int]] = ()
    more: Sequence[More | None] = ()
    evidence: Evidence = "weak"

    def first(self, count: int) -> RankedLines:
        """Return the best `count` of them."""
        lists = (self.ids[:count], self.scores[:count], self.partial, self.asked[:count], self.more[:count])
        return RankedLines(*lists, self.evidence)

    def in_time(self, files: Mapping[int, FileRow]) -> RankedLines:
        """Return them with the best ones in the order of their days, those without a day behind."""
        count = sum(score >= _ALIKE * self.scores[0] for score in self.scores[:_COMPARED])
        days = [file.day_at(each - id_of(file.id, 0)) for each in self.ids[:count] for file in [files[file_of(each)]]]
        order = [*sorted(range(count), key=lambda at: days[at] or date.max), *range(count, len(self.ids))]
        asked, more = ([of[at] for at in order if of] for of in (self.asked, self.more))
        return RankedLines([self.ids[at] for at in order], self.scores, self.partial, asked, more, self.evidence)


class _Evidence(Struct):
    """The evidence for one wording: word features for the entire table, rough cosines of each line alone where its
    vector is in memory, cosines for the lines to rank."""

    wording: Wording
    support: Support
    rough: VectorScores | None = None
    near: VectorScores | None = None


def _distinctive_words(wordings: Sequence[Wording], table: LineTable, positions: Ids) -> list[frozenset[int]]:
    """Which rare words, names and numbers of `wordings` each line or its heading has, then all its headings."""
    found = [
        match.ids
        for question, matches in ((each.question, each.matches) for each in wordings)
        for word, match in zip(question.wanted, matches, strict=False)
        if match.rarity >= RAREST / 2 or word.match in question.names or any(map(str.isdigit, word.match))
    ]
    ids, above = table.ids[positions], table.section_names[table.section[positions]]
    headings = table.ids[table.columns.is_heading]
    titled = [headings[are_among(headings, each)] >> ORDINAL_BITS for each in found]
    has = [are_among(ids, each) | are_among(above, each) for each in found]
    has += [near | are_among(ids >> ORDINAL_BITS, files) for near, files in zip(has, titled, strict=True)]
    lines = zip(*(which.tolist() for which in has), strict=True) if has else ((),) * len(ids)
    return [frozenset(compress(range(len(has)), which)) for which in lines]


class LineRanking:
    """Ranks the lines of one index for one search. Everything blocks."""

    def __init__(self, lines: LineSource, scope: FileScope, weights: LineWeights, should_stop: StopCheck) -> None:
        self._lines = lines
        self._scope = scope
        self._weights = weights
        self._should_stop = should_stop
        self._rows: Floats | None = None

    def rank(self, wordings: Sequence[Wording]) -> RankedLines:
        """Return the best lines for any of `wordings`; a line counts by its best wording."""
        np = numpy()
        partial = self._find_words(wordings)
        table, positions, rough = self._table(wordings)
        files = self._scope.files.values()
        found = [
            _Evidence(each, support(table, each, files, self._weights), near)
            for each, near in zip(wordings, rough, strict=True)
        ]
        if positions is None:
            positions = self._promising(table, found)
        partial = partial or self._should_stop()
        vectors = None if partial or not len(positions) else self._add_cosines(table, positions, found)
        if not self._fits(positions, found) and not self._is_outstanding(found):
            return RankedLines((), (), partial)
        scores, alone = self._scores(table, positions, found, vectors)
        ahead = ahead_of_others(scores)
        matches = self._has_evidence(table, wordings)[positions] & ~table.columns.is_heading[positions]
        matches |= alone >= self._weights.least_score
        positions, scores = positions[matches], scores[matches]
        order = np.lexsort((positions, -scores))[: self._weights.promising]
        positions, scores = positions[order], np.clip(scores[order], 0, 1)
        asked, shares = _distinctive_words(wordings, table, positions), scores.tolist()
        best = BestLines(table, positions, shares[0] if shares else 0.0, ahead)
        grades = [self._grade(best, each) for each in found] if shares else []
        return RankedLines(table.ids[positions].tolist(), shares, partial, asked, evidence=best_of(grades))

    def _grade(self, best: BestLines, found: _Evidence) -> Evidence:
        of_days = bool(found.support.of_days[best.positions].any())
        if found.near is None:
            return evidence_of(best, found.wording, "fts-only", 0.0, of_days=of_days)
        mode: Mode = "hybrid" if self._weights.term else "vector-only"
        return evidence_of(best, found.wording, mode, float(found.near.own.max(initial=0)), of_days=of_days)

    def _table(self, wordings: Sequence[Wording]) -> tuple[LineTable, Ids | None, Sequence[VectorScores | None]]:
        """The candidate lines, the positions of those to rank (None: the promising ones), and for each wording the
        rough cosines of the lines."""
        matrix, outline, table = self._lines.matrix, self._lines.outline, self._lines.table
        scores = [None if matrix is None or each.vector is None else matrix.scores(each.vector) for each in wordings]
        if not self._lines.offline:
            scores = [None if each is None else as_offline(each, each[:: 1 + len(each) // _SAMPLE]) for each in scores]
        if outline is not None:
            near = [None if matrix is None or each is None else (matrix.ids, each) for each in scores]
            table = LineTable(shortlist(outline, self._scope, wordings, near, self._weights), is_complete=True)
        if table is None:
            return *self._neighbourhood(wordings), [None] * len(wordings)
        rough = [None if matrix is None or each is None else cosines_of(table.ids, matrix, each) for each in scores]
        return table, None, rough

    def _find_words(self, wordings: Sequence[Wording]) -> bool:
        """Find the words. Return whether time ran out before all were found, or before the vectors."""
        reader, postings, chunks = self._lines.reader, self._weights.postings, self._scope.chunks
        limits = max(postings, chunks // _COMMON), max(_ALL * postings, chunks // _READ)
        finder = WordFinder(
            lambda match, limit: reader.postings(match, limit, self._scope.id_range), chunks, reader.frequency, limits
        )
        finder.choose(word for each in wordings for word in each.question.wanted)
        partial = False
        for each in wordings:
            each.matches, stopped = finder.find(each.question.wanted, self._should_stop)
            partial = partial or stopped
        for each in wordings:
            each.vector = None if partial else each.vector
        return partial

    def _add_cosines(self, table: LineTable, positions: Ids, found: Sequence[_Evidence]) -> LineVectors | None:
        """Set the cosines of the wordings that have a vector. Return the vectors of the lines, if any has one."""
        asked = [each for each in found if each.wording.vector is not None]
        if not asked:
            return None
        dimensions = len(asked[0].wording.vector or b"") // FLOAT_BYTES
        sample = None if self._lines.offline else Sample.of(self._sample_rows(dimensions))
        vectors = line_vectors(table, positions, self._lines.vectors, dimensions, sample)
        for each in asked:
            each.near = vectors.scores(each.wording.vector or b"")
        return vectors

    def _fits(self, positions: Ids, found: Sequence[_Evidence]) -> bool:
        """Return whether any line matches one of the wordings by words or day."""
        for each in found:
            question = each.wording.question
            # The rarity of a word is unknown while it is being typed.
            least = 0.0 if question.unfinished else self._weights.least_words
            if word_matches(each.support, least)[positions].any() or len(self._by_day(each.wording)):
                return True
        return False

    def _is_outstanding(self, found: Sequence[_Evidence]) -> bool:
        """Return whether any line is nearer to one of the wordings than by chance."""
        for each in found:
            if each.near is not None and each.wording.vector is not None:
                least = self._min_cosine(each.wording.vector)
                if each.near.cosines.max(initial=-1) >= least:
                    return True
        return False

    def _sample_rows(self, dimensions: int) -> Floats:
        """Return the vectors of evenly spaced lines, `(m, d)`, read once."""
        if self._rows is None:
            _, rows = self._lines.vectors(_sample(self._scope))
            self._rows = rows if rows.shape[1] == dimensions else numpy().zeros((0, dimensions), "<f4")
        return self._rows

    def _min_cosine(self, vector: bytes) -> float:
        """Return the cosine above which a line is nearer to a question than by chance: the mean over a sample of lines
        plus some standard deviations. It depends on the question and the model."""
        query = numpy().frombuffer(vector, "<f4")
        rows, deviations = self._sample_rows(len(query)), self._weights.least_nearness
        if len(rows) < FEWEST:
            return NEAR
        if not self._lines.offline:
            return MEAN + deviations * DEVIATION
        cosines = rows @ query
        return float(cosines.mean() + deviations * cosines.std())

    def _promising(self, table: LineTable, found: Sequence[_Evidence]) -> Ids:
        """Return positions of the lines to score exactly, out of the entire index."""
        np = numpy()
        best: Floats = np.full(len(table), -np.inf, np.float32)
        for each in found:
            vector, total = each.wording.vector, each.support.total
            if each.rough is not None:
                near = rough_vector_scores(table, each.rough)
                total = total + self._weights.meaning * near.guessed(each.support.share)
            np.maximum(best, total / scale_of(each.wording, self._weights, has_vector=vector is not None), out=best)
        is_inside = self._scope.holds(table.ids)
        if all(each.wording.vector is None for each in found):
            is_inside &= self._has_evidence(table, [each.wording for each in found])
        inside: Ids = np.flatnonzero(is_inside)
        promising: Ids = np.sort(inside[positions_of_best(best[inside], self._weights.promising)])
        return promising

    def _has_evidence(self, table: LineTable, wordings: Sequence[Wording]) -> Bools:
        """Which lines contain a word of the question, flow in a section with one, or are of its days."""
        np = numpy()
        found: Bools = np.zeros(len(table), np.bool_)
        for each in wordings:
            for match in each.matches:
                found[match.within(table.ids)[0]] = True
            found |= are_among(table.ids, self._by_day(each))
        in_section = np.zeros(len(table.section_names), np.bool_)
        in_section[table.section[found]] = True
        found |= table.columns.flowing & in_section[table.section]
        return found

    def _scores(
        self, table: LineTable, positions: Ids, found: Sequence[_Evidence], vectors: LineVectors | None
    ) -> tuple[Floats, Floats]:
        """Return the score of each of `positions` as a share of a perfect line's; and that of the line alone, without
        the evidence from its note and the best lines."""
        np = numpy()
        weights = self._weights
        alone, best = np.full((2, len(positions)), -np.inf, np.float32)
        largest = 0.0
        first: Bools = np.zeros(len(positions), np.bool_)
        for each in found:
            words, near = each.support, each.near
            scale = scale_of(each.wording, weights, has_vector=near is not None)
            mentions, holds = self._days(table, positions, each.wording)
            first |= words.of_days[positions]
            first |= (holds | (mentions > 0) & (not each.wording.question.only_days)) & words.answers[positions]
            total = words.total[positions] + weights.day * mentions
            if near is not None:
                total = total + weights.meaning * near.guessed(words.share[positions])
            np.maximum(alone, total / scale, out=alone)
            if near is not None:
                total = total + weights.note_meaning * best_of_notes(table.note[positions], near.own)
            np.maximum(best, total / scale, out=best)
            largest = max(largest, scale)
        if vectors is not None and not any(each.wording.question.unfinished for each in found):
            best = best + np.float32(weights.echo / largest) * vectors.echo(alone, _MODELS)
        # Those of the named days come before all others.
        least = np.clip(best[~first].max(initial=0), 0, 1)
        best[first] = least + (1 - least) * best[first]
        return best, alone

    def _days(self, table: LineTable, positions: Ids, wording: Wording) -> tuple[Floats, Bools]:
        """Return 1 for lines that mention a day of the question, unless their entire file is of that day, or are marked
        as holding on one; and which are marked so."""
        np = numpy()
        found: Floats = np.zeros(len(positions), np.float32)
        holds: Bools = np.zeros(len(positions), np.bool_)
        days = wording.question.days
        if not days:
            return found, holds
        dated = np.flatnonzero(table.columns.flags[positions] & DATED)
        rows = {row.id: row for row in self._lines.reader.rows(table.ids[positions[dated]].tolist())}
        for position in dated.tolist():
            if (row := rows.get(int(table.ids[positions[position]]))) is None:
                continue
            file = self._scope.files[file_of(row.id)]
            day = file.day_at(row.id - id_of(file.id, 0))
            holds[position] = holds_on(row.text, days)
            if holds[position] or (day and not is_of_days(day, days) and speaks_of(row.text, day, days)):
                found[position] = 1
        return found, holds

    def _neighbourhood(self, wordings: Sequence[Wording]) -> tuple[LineTable, Ids]:
        """Return the candidate lines with their neighbours, and the positions of those to rank."""
        np = numpy()
        seeds: list[Ids] = [self._scope.few_chunks()]
        for each in wordings:
            seeds += [self._by_words(each.matches), self._by_day(each)]
            if each.vector is not None and not self._should_stop():
                seeds.append(nearest(self._lines.reader, each.vector, self._weights.by_meaning, self._scope))
        near = distinct(np.concatenate(seeds))
        near = near[self._scope.holds(near)]
        around = distinct((near[:, None] + np.arange(-1 - _WINDOW, 2 + _WINDOW)).ravel())
        table = LineTable(Columns.of(self._lines.reader.lines(around.tolist())))
        is_near = np.append(are_among(table.ids, near), False)
        for distance in (-1, 1):
            is_near[:-1] |= is_near[table.neighbours(distance)] if len(table) else False
        is_near[:-1] &= self._scope.holds(table.ids)
        return table, np.flatnonzero(is_near)

    def _by_words(self, found: Sequence[Matches]) -> Ids:
        """Return the lines that contain the most of the question, and those of its rare words: the same number."""
        np = numpy()
        ids = np.concatenate([np.zeros(0, np.int64), *(each.ids for each in found)])
        values = np.concatenate([np.zeros(0, np.float32), *(each.values * each.rarity for each in found)])
        inside = self._scope.holds(ids)
        lines = distinct(ids[inside])
        sums = np.bincount(np.searchsorted(lines, ids[inside]), values[inside], len(lines))
        rare = np.concatenate([lines[:0], *(each.ids for each in found if is_rare(each, self._weights.rare))])
        at, count = np.flatnonzero(are_among(lines, rare)), self._weights.by_words
        best: Ids = lines[np.append(positions_of_best(sums, count), at[positions_of_best(sums[at], count)])]
        return best

    def _by_day(self, wording: Wording) -> Ids:
        """Return the first few hundred lines of files of the question's days."""
        np = numpy()
        ids: list[int] = []
        for span in days_of(wording, self._scope.files.values()):
            ids += range(span.first, min(span.last + 1, span.first + self._weights.by_day - len(ids)))
        found: Ids = np.array(ids, np.int64)
        return found
