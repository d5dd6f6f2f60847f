"""Turns ranked lines into search results in the profile `lines`: merges neighbours into ranges within a budget of
characters and results, and truncates long texts around the words of the question."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from clawbot.memory.dates.ranges import A_DAY
from clawbot.memory.dates.validity import validity_of
from clawbot.memory.search.in_force import AskedTime, put_in_time
from clawbot.memory.search.protocols import Budget, ChunkReader, Ranked, reordered
from clawbot.memory.search.rank import RankedLines
from clawbot.memory.search.scale import on_scale
from clawbot.memory.search.spelling import also_searched
from clawbot.memory.search.structure import Structure, read_structure
from clawbot.memory.search.table import Columns, LineTable
from clawbot.memory.search.updates import InTime, Statement
from clawbot.memory.store.records import ChunkRow, FileRow, file_of, id_of, origin_of
from clawbot.memory.values import Hit, Mode, Source
from clawbot.text.language import CJK
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import INVISIBLE, plain_forms

if TYPE_CHECKING:
    from clawbot.config.schema_memory import LineWeights


class ResultLine(Struct, frozen=True):
    """A line to return: its chunk, the number of its section, and whether its neighbours belong to it."""

    row: ChunkRow
    section: int
    flowing: bool


class Range(Struct):
    """The chunks `first` to `last` (ids); `rank` is that of its best line, `chars` the limit if it is truncated."""

    first: int
    last: int
    rank: int
    chars: int | None = None


class _Page(Struct):
    """Collects lines, best first. `lines` are all that may be part of a range, by id.

    A line too long for the rest of the budget is truncated to it: always for the best line, for others with `cuts`
    unless too little remains.
    """

    lines: Mapping[int, ResultLine]
    weights: LineWeights
    chars: int
    count: int
    cuts: bool
    taken: set[int]
    ranges: list[Range] = field(default_factory=list)
    spent: int = 0

    def add(self, line: ResultLine, rank: int) -> bool:
        """Add `line` if there is room for it and for the gap between it and an adjacent range."""
        number, reach, room = line.row.id, 1 + self.weights.gap, self.chars - self.spent
        near = [each for each in self.ranges if each.first - reach <= number <= each.last + reach]
        adjacent = [each for each in near if self._touches(each, line)]
        is_full = len(self.ranges) >= self.count
        if rank and (room <= 0 or (is_full and not adjacent)):
            return False
        grown = alone = Range(number, self._end(line), rank)
        if adjacent:
            grown = Range(
                min(alone.first, *(each.first for each in adjacent)),
                max(alone.last, *(each.last for each in adjacent)),
                rank,
            )
            if not self._may_grow(grown, adjacent):
                adjacent, grown = [], alone
        is_shown_already = _is_front_matter(line.row) and number + 1 in self.taken
        if not adjacent and (is_shown_already or is_full):
            return False
        size = self._size(grown) - sum(map(self._size, adjacent))
        if size > room:
            is_worth_it = rank == 0 or (self.cuts and room >= self.weights.range_chars)
            if adjacent or not is_worth_it:
                return False
            size = grown.chars = room
        self.spent += size
        self.taken.update(range(grown.first, grown.last + 1))
        if adjacent:
            grown.rank = min(each.rank for each in adjacent)
            self.ranges = [each for each in self.ranges if each not in adjacent]
        self.ranges.append(grown)
        return True

    def _end(self, line: ResultLine) -> int:
        """Return the last chunk to include with `line`: for a heading the next one, for front matter what the note
        begins with, since alone they mean little."""
        below = self.lines.get(line.row.id + 1)
        if below is None or below.row.id in self.taken:
            return line.row.id
        if _is_front_matter(line.row):
            return self._end(below)
        return below.row.id if line.row.kind == "heading" and below.section == line.section else line.row.id

    def _touches(self, near: Range, line: ResultLine) -> bool:
        if near.first == line.row.id + 1 and _is_front_matter(line.row):
            return True
        ends = (self.lines[near.first], self.lines[near.last])
        return all(each.flowing and each.section == line.section for each in (*ends, line))

    def _may_grow(self, grown: Range, parts: Sequence[Range]) -> bool:
        inside = set(range(grown.first, grown.last + 1))
        if not inside <= self.lines.keys():
            return False
        others = (inside & self.taken).difference(*(range(each.first, each.last + 1) for each in parts))
        return not others and self._size(grown) <= self.weights.range_chars

    def _size(self, each: Range) -> int:
        lines = self.lines
        return (
            sum([len(lines[number].row.text) for number in range(each.first, each.last + 1)]) + each.last - each.first
        )


def _is_front_matter(row: ChunkRow) -> bool:
    return row.start_line == 1 and row.kind == "code" and row.text.startswith("---")


def build_ranges(
    ranked: Sequence[int], lines: Mapping[int, ResultLine], budget: Budget, weights: LineWeights
) -> list[Range]:
    """Return the ranges of the `ranked` line ids (best first), within the budget.

    The first page has few results, so that they can include their context; the second adds more, up to what is usual;
    the third, for those who ask for more, follows behind. Ranges of the first two are ordered by their best line. The
    best line is always included, truncated if it exceeds the budget: shorter, less relevant lines must not replace it.
    """
    taken: set[int] = set()
    shown: list[Range] = []
    more: list[Range] = []
    rest = list(enumerate(ranked))
    chars, count = budget.chars or sys.maxsize, budget.results
    usual_count, usual_chars = budget.usual[0], budget.usual[1] or sys.maxsize
    best = len(lines[ranked[0]].row.text) if ranked else 0
    first = max(min(weights.first_chars, usual_chars), best)
    pages = (
        (shown, first, weights.first_ranges, False),
        (shown, max(usual_chars, best), usual_count, True),
        (more, sys.maxsize, sys.maxsize, True),
    )
    spent = 0
    for kind, page_chars, page_count, cuts in pages:
        room, free = min(page_chars, chars) - spent, min(page_count, count) - len(shown) - len(more)
        page = _Page(lines, weights, room, free, cuts, taken)
        rest = [(rank, number) for rank, number in rest if number not in taken and not page.add(lines[number], rank)]
        kind.extend(page.ranges)
        spent += page.spent
    return [*sorted(shown, key=lambda each: each.rank), *sorted(more, key=lambda each: each.rank)]


_FRONT, _BACK = "… ", " …"
_MIN_CHARS = 40
"""Characters below which ellipses would be longer than the text."""
_MAX_MATCHES = 500
_MIN_STEM = 3
_MAX_ENDING = 3

_SENTENCE = lazy_re(r"[.!?][\"'”’)]*\s+|[。！？；][”’」』)）]*\s*|\n+")
_BLANK = lazy_re(r"\s+")
_LETTER = lazy_re(rf"[^\W_{CJK}]")
_HIDDEN = lazy_re(f"[{INVISIBLE}]")


class _Span(Struct, frozen=True):
    """Matches from the start of the first one to the end of the last one."""

    first: int
    end: int


def cut_around(text: str, chars: int, words: Sequence[str]) -> str:
    """Return at most `chars` characters of `text`: the part with the most of `words` (the earliest of several), else
    the start.

    `words` are those of the question in lower case; longer words with such a prefix count too.
    """
    if len(text) <= chars:
        return text
    before = chars // 4
    span = _fullest(sorted(_matches(text, words)), chars - before - len(_FRONT + _BACK))
    if chars < _MIN_CHARS:
        return text[span.first : span.first + chars]
    start = 0
    if span.end > chars - len(_BACK):
        earliest = min(span.first - before, len(text) - chars + len(_FRONT))
        start = _start(text, max(0, earliest), span.first)
    lead = _FRONT if start else ""
    room = chars - len(lead)
    if len(text) - start <= room:
        return lead + text[start:]
    end = _end(text, max(span.end, start + room * 3 // 4), start + room - len(_BACK))
    return f"{lead}{text[start:end].rstrip()}{_BACK}"


def _start(text: str, start: int, match: int) -> int:
    """Return the start of a sentence, else of a word, from `start` on but not after `match`."""
    for border in (_SENTENCE, _BLANK):
        found = border.search(text, start, match)
        if found:
            return found.end()
    return start


def _end(text: str, least: int, most: int) -> int:
    """Return the end of a sentence, else of a word: as late as possible between `least` and `most`."""
    for border in (_SENTENCE, _BLANK):
        ends = [found.end() for found in border.finditer(text, min(least, most), most)]
        if ends:
            return ends[-1]
    return most


def _matches(text: str, words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield the matches of the words: start, end, and index of the word."""
    lower = text.lower()
    is_plain = len(lower) == len(text) and not _HIDDEN.search(text)
    for number, word in enumerate(dict.fromkeys(words)):
        for begun in _spellings(plain_forms(word)):
            found = _found(lower, begun) if is_plain else _found_apart(text, begun)
            matches = [(start, end, number) for start, end in islice(found, _MAX_MATCHES)]
            yield from matches
            if matches:
                break


def _spellings(word: str) -> tuple[str, ...]:
    """Return the word and its possible stem."""
    stem = word[: max(_MIN_STEM, len(word) - _MAX_ENDING)]
    return (word, stem) if word.isascii() and word.isalpha() and stem != word else (word,)


def _found(lower: str, begun: str) -> Iterator[tuple[int, int]]:
    """Yield words of the text that begin with `begun`. Compiling a pattern for each would outlast the ranking."""
    begun = begun.lower()
    at = lower.find(begun)
    while at >= 0:
        if not (begun[:1].isascii() and at and _LETTER.match(lower, at - 1)):
            yield at, at + len(begun)
        at = lower.find(begun, at + (len(begun) or 1))


def _found_apart(text: str, begun: str) -> Iterator[tuple[int, int]]:
    """Yield the same in a text with invisible characters."""
    spelled = f"[{INVISIBLE}]*".join(map(re.escape, begun))
    for each in re.finditer(spelled, text, re.IGNORECASE):
        if not (begun[:1].isascii() and each.start() and _LETTER.match(text, each.start() - 1)):
            yield each.span()


def _fullest(matches: Sequence[tuple[int, int, int]], reach: int) -> _Span:
    """Return the stretch of at most `reach` characters with the most different words, the first of several."""
    best, most = _Span(0, 0), 0
    inside: Counter[int] = Counter()
    first = 0
    for last, (_, end, word) in enumerate(matches):
        inside[word] += 1
        while first < last and end - matches[first][0] > reach:
            gone = matches[first][2]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            first += 1
        if len(inside) > most:
            best, most = _Span(matches[first][0], end), len(inside)
    return best


_MAX_BLANK = 2


_COMPARED = 24
"""Best lines that are compared with each other: those about the same thing are shown with the newest first."""


class LineResults(Struct, frozen=True):
    """A `Ranking` of lines. `lines` are the ranked ones and those between them, by id; `words` are those of the
    question, `misspelt` the misspelt ones with their replacements. `asked` is the time that it asks for,
    None if it asks for an order. Scores are on the scale of `mode`."""

    ranked: RankedLines
    lines: Mapping[int, ResultLine]
    files: Mapping[int, FileRow]
    budget: Budget
    weights: LineWeights
    words: tuple[str, ...]
    warnings: tuple[str, ...]
    mode: Mode
    misspelt: Mapping[str, Sequence[str]] = {}
    asked: AskedTime | None = None

    def texts(self, count: int) -> list[str]:
        return [self.lines[number].row.text for number in self.ranked.ids[:count]]

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """Return the results: ranges of lines within the budget, each with its best line's own score, whatever the
        order. Those below the minimum score are left out."""
        shares = dict(zip(self.ranked.ids, self.ranked.scores, strict=True))
        positions = reordered(len(shares), order)
        in_time = InTime((), frozenset())
        if self.asked is not None:
            in_time = put_in_time(list(map(self._statement, positions[:_COMPARED])), self.asked)
        earlier = {self.ranked.ids[positions[at]] for at in in_time.earlier}
        ended = {self.ranked.ids[positions[at]]: day for at, day in in_time.ended.items()}
        positions[: len(in_time.order)] = [positions[at] for at in in_time.order]
        ids = [self.ranked.ids[position] for position in positions]
        ranges = build_ranges(ids, self.lines, self.budget, self.weights)
        more = dict(zip(self.ranked.ids, self.ranked.more, strict=False))
        structure = Structure({number: line.row for number, line in self.lines.items()})
        hits: list[Hit] = []
        left = self.budget.chars or sys.maxsize
        for each in ranges:
            if not left:
                break
            best = max(filter(shares.__contains__, range(each.first, each.last + 1)), key=lambda number: shares[number])
            score = on_scale(shares[best], self.mode)
            if score < self.budget.score:
                continue
            hit = self._hit(each, self.lines[best].row, score, min(left, each.chars or left))
            repeated = [same for number in range(each.first, each.last + 1) if (same := more.get(number))]
            hit = replace(hit, more=max(repeated, key=lambda same: same.count, default=None))
            left -= len(hit.snippet)
            if hit.source == "memory":
                below = structure.below(each.first, each.last, self.weights.list_chars)
                hit = replace(hit, above=structure.above(each.first), below=below)
            is_over = all(number in ended for number in range(each.first, each.last + 1))
            hit = replace(hit, ended=ended[best]) if is_over else hit
            hits.append(replace(hit, earlier=True) if ids[each.rank] in earlier else hit)
        notices = also_searched(self.misspelt, (hit.snippet for hit in hits))
        return Ranked(tuple(hits), self.ranked.partial, (*self.warnings, *notices), self.ranked.evidence)

    def _statement(self, at: int) -> Statement:
        file = self.files[file_of(number := self.ranked.ids[at])]
        day, asked = file.day_at(number - id_of(file.id, 0)), self.ranked.asked[at]
        validity = validity_of(text := self.lines[number].row.text)
        if validity.text is text:
            return Statement(text, day, asked)
        day = day or validity.since or (validity.until and validity.until - A_DAY)
        return Statement(validity.text, day, asked, validity)

    def _hit(self, found: Range, best: ChunkRow, score: float, chars: int) -> Hit:
        rows = [self.lines[number].row for number in range(found.first, found.last + 1)]
        file = self.files[file_of(found.first)]
        snippet = joined(rows, file.source)
        if len(snippet) > chars:
            # Blank lines exceed the counted characters.
            snippet = cut_around("\n".join(row.text for row in rows), chars, self.words)
        lines = rows[0].start_line, last_line(rows[-1])
        return Hit(file.path, *lines, score, snippet, file.source, best.start_line, origin=origin_of(best.flags))


def read_lines(reader: ChunkReader, ids: Sequence[int], gap: int) -> dict[int, ResultLine]:
    """Return the lines of `ids`, up to `gap` neighbours of each, and what they belong to, by id. Blocks."""
    around = {number + distance for number in ids for distance in range(-gap, gap + 1)}
    known = {row.id: row for row in reader.rows(sorted(around))}
    read_structure(reader, ids, known)
    rows = sorted(known.values(), key=lambda row: row.id)
    table = LineTable(Columns.of(rows))
    columns = zip(rows, table.section.tolist(), table.columns.flowing.tolist(), strict=True)
    return {row.id: ResultLine(row, section, flowing) for row, section, flowing in columns}


def joined(rows: Sequence[ChunkRow], source: Source) -> str:
    """Return the text of adjacent chunks, with the blank lines between them. Chunks of a note on the same line are
    slices of it; those of a transcript are lines of one message."""
    text = rows[0].text
    for before, row in pairwise(rows):
        blank = row.start_line - last_line(before) - 1
        if blank >= 0 or source == "sessions":
            text += "\n" * (1 + max(0, min(blank, _MAX_BLANK))) + row.text
        else:
            text += (" " if text[-1:].isascii() else "") + row.text
    return text


def last_line(row: ChunkRow) -> int:
    """Return the last line of a chunk without trailing blank ones."""
    return min(row.end_line, row.start_line + row.text.count("\n"))
