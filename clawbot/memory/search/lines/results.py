"""Owns how ranked lines become the results of a search in the profile `lines`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from clawbot.config.schema_lines import LineWeights
from clawbot.memory.search.lines.cutting import cut_around
from clawbot.memory.search.lines.ranges import Line, Range, build_ranges
from clawbot.memory.search.lines.rank import RankedLines
from clawbot.memory.search.lines.table import Columns, LineTable
from clawbot.memory.search.ranking import Budget, Ranked, reordered
from clawbot.memory.search.reading import Reader
from clawbot.memory.store.records import ChunkRow, FileRow, file_of, piece_id
from clawbot.memory.values import Hit

_MOST_BLANK = 2


class LineResults(Struct, frozen=True):
    """A `Ranking` of lines. `lines` are the ranked ones and those between them, by id, `words` what was asked for."""

    ranked: RankedLines
    lines: Mapping[int, Line]
    files: Mapping[int, FileRow]
    budget: Budget
    weights: LineWeights
    words: tuple[str, ...]
    notes: tuple[str, ...]

    def texts(self, count: int) -> list[str]:
        """The texts of the first `count` lines."""
        return [self.lines[number].row.text for number in self.ranked.ids[:count]]

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """The results: ranges of lines within the budget, each with the score of its best line."""
        scores = [score for score in self.ranked.scores if score >= self.budget.score]
        # In another order the first line is the best one: it gets the best score, and so on.
        ids = [self.ranked.ids[number] for number in reordered(len(scores), order)]
        ranges = build_ranges(ids, self.lines, self.budget, self.weights)
        hits: list[Hit] = []
        left = self.budget.chars or sys.maxsize
        for each in ranges:
            if not left:
                break
            hit = self._hit(each, scores[each.rank], min(left, each.chars or left))
            left -= len(hit.snippet)
            hits.append(hit)
        return Ranked(tuple(hits), self.ranked.partial, self.notes)

    def _hit(self, found: Range, score: float, chars: int) -> Hit:
        rows = [self.lines[number].row for number in range(found.first, found.last + 1)]
        file = self.files[file_of(found.first)]
        snippet = joined(rows)
        if len(snippet) > chars:
            # Blank lines are more than what was counted.
            snippet = cut_around("\n".join(row.text for row in rows), chars, self.words)
        return Hit(file.path, rows[0].start_line, last_line(rows[-1]), round(score, 6), snippet, file.source)


def read_lines(reader: Reader, ids: Sequence[int], gap: int) -> dict[int, Line]:
    """The lines of `ids` and those up to `gap` beside them, by id. Blocks."""
    around = {number + distance for number in ids for distance in range(-gap, gap + 1)}
    rows = reader.rows(sorted(around))
    table = LineTable(Columns.of(rows))
    places = zip(rows, table.section.tolist(), table.columns.flowing.tolist(), strict=True)
    return {row.id: Line(row, section, flowing) for row, section, flowing in places}


def joined(rows: Sequence[ChunkRow]) -> str:
    """The text of neighbouring chunks, with the blank lines that stand between them."""
    text = rows[0].text
    for before, row in pairwise(rows):
        blank = row.start_line - _end_of_text(before) - 1
        text += "\n" * (1 + max(0, min(blank, _MOST_BLANK))) + row.text
    return text


def last_line(row: ChunkRow) -> int:
    """The last line of a chunk without the blank ones behind its text."""
    # The first chunk of a file may have blank lines before its text as well: it is not known where that ends.
    return row.end_line if row.id == piece_id(file_of(row.id), 0) else _end_of_text(row)


def _end_of_text(row: ChunkRow) -> int:
    return min(row.end_line, row.start_line + row.text.count("\n"))
