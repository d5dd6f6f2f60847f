"""Chooses the lines of a large index that are worth an exact check: by the words in them and in their sections, their
day, who speaks, and roughly by meaning. A few passes over all lines, 15 ms for a million."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import distinct, numpy
from clawbot.memory.search.features import Wording, add_best, days_of, is_rare, scale_of, total_rarity
from clawbot.memory.search.outline import Outline, Part
from clawbot.memory.search.question import Matches
from clawbot.memory.search.scope import ChunkSpan, FileScope
from clawbot.memory.search.table import Columns
from clawbot.memory.search.vector_scores import positions_of_best
from clawbot.memory.store.records import DATED, NUMBERED

if TYPE_CHECKING:
    from clawbot.config.schema_memory import LineWeights
    from clawbot.memory.arrays import Bools, Floats, Ids

WORTH_CHOOSING = 16_384
"""With at most this many lines each one is scored exactly."""

_FEWEST, _BEST, _SHARE = 1_000, 4_000, 50
"""Lines whose sections are checked: one of fifty, within these bounds. The ten best of a million are then nearly
those of a check of every line."""

_SURE = 0.7
"""How much of a rough cosine counts: its error is half of what cosines differ by."""

_FEW = 60_000
"""Lines with a word up to which their neighbours count as well: the word means little otherwise."""


class _Asked(Struct, frozen=True):
    """A wording; `near` are ids of lines, ascending in stretches, and their rough cosines, `(m,)`, if it has a vector;
    `spans` the lines of its days; by `scale` its scores are compared with those of other wordings."""

    wording: Wording
    near: tuple[Sequence[Ids], Floats] | None
    spans: Sequence[ChunkSpan]
    scale: float


class _Found(Struct, frozen=True):
    """The matches of one word in a part: their `positions` there, and `values`, `(m,)`; `few`: the word is in few lines
    of the complete outline."""

    positions: Ids
    values: Floats
    rarity: float
    few: bool


def shortlist(
    outline: Outline,
    scope: FileScope,
    wordings: Sequence[Wording],
    near: Sequence[tuple[Sequence[Ids], Floats] | None],
    weights: LineWeights,
) -> Columns:
    """Return the sections of the best lines. `near` are, for each wording with a vector, ids of lines, ascending in
    stretches, and their rough cosines, `(m,)`. The matches of `wordings` are reduced to these lines."""
    np = numpy()
    asked = [_asked(wording, each, scope, weights, len(wordings)) for wording, each in zip(wordings, near, strict=True)]
    found = [_matches_in_parts(outline, each) for each in wordings]
    best: Floats = np.empty(len(outline), np.float32)
    notes: list[list[Floats]] = []
    for number, (part, *here) in enumerate(zip(outline.parts, *found, strict=True)):
        positions = slice(*outline.starts[number : number + 2].tolist())
        best[positions], noted = _best_in(part, asked, here, weights)
        notes.append(noted)
    if not scope.is_complete:
        best[~scope.holds(outline.ids)] = -np.inf
    top = positions_of_best(best, min(_BEST, max(_FEWEST, len(outline) // _SHARE)))
    rare = np.concatenate([top[:0], *_in_rare_words(outline, wordings, found, weights)])
    chosen = distinct(np.append(top, rare[positions_of_best(best[rare], weights.by_words)]))
    lines = _around(outline, chosen[best[chosen] > -np.inf])
    for at, wording in enumerate(wordings):
        _reduce(outline, wording, lines, found[at], [each[at] for each in notes])
    return Columns.joined([part.columns.part(each) for part, each in zip(outline.parts, lines, strict=True)])


def _asked(
    wording: Wording, near: tuple[Sequence[Ids], Floats] | None, scope: FileScope, weights: LineWeights, wordings: int
) -> _Asked:
    scale = scale_of(wording, weights, has_vector=near is not None) if wordings > 1 else 1.0
    return _Asked(wording, near, days_of(wording, scope.files.values()), scale)


def _matches_in_parts(outline: Outline, wording: Wording) -> list[list[_Found]]:
    """Return for each part of `outline` the matches of the words there."""
    found: list[list[_Found]] = [[] for _ in outline.parts]
    for match in wording.matches:
        few = len(match.ids) <= _FEW
        for here, part, (first, end) in zip(found, outline.parts, pairwise(outline.cuts(match.ids)), strict=True):
            positions = part.positions(match.ids[first:end]) if first < end else match.ids[:0]
            here.append(_Found(positions, match.values[first:end], match.rarity, few))
    return found


def _in_rare_words(
    outline: Outline, wordings: Sequence[Wording], found: Sequence[Sequence[Sequence[_Found]]], weights: LineWeights
) -> Iterator[Ids]:
    """Yield the positions of the lines with rare words."""
    for wording, parts in zip(wordings, found, strict=True):
        for at, match in enumerate(wording.matches):
            if is_rare(match, weights.rare):
                yield from (here[at].positions + start for here, start in zip(parts, outline.starts, strict=False))


def _around(outline: Outline, chosen: Ids) -> list[Ids]:
    """Return by part the positions of the lines around those `chosen` (positions in `outline`, ascending)."""
    cuts = numpy().searchsorted(chosen, outline.starts).tolist()
    starts = outline.starts.tolist()
    return [
        part.around(chosen[first:end] - start)
        for part, start, (first, end) in zip(outline.parts, starts, pairwise(cuts), strict=False)
    ]


def _reduce(
    outline: Outline, wording: Wording, lines: Sequence[Ids], found: Sequence[Sequence[_Found]], notes: Sequence[Floats]
) -> None:
    """Leave `wording` its matches in `lines`, and `notes` of the files of these; each of them by part."""
    np = numpy()
    ids: list[list[Ids]] = [[np.zeros(0, np.int64)] for _ in wording.matches]
    values: list[list[Floats]] = [[np.zeros(0, np.float32)] for _ in wording.matches]
    of_notes: list[Floats] = [np.zeros(0, np.float32)]
    for part, chosen, here, noted in zip(outline.parts, lines, found, notes, strict=True):
        is_chosen: Bools = np.zeros(len(part), np.bool_)
        is_chosen[chosen] = True
        of_notes.append(noted[distinct(part.note_of_section[part.section[chosen]])])
        for at, match in enumerate(here if len(chosen) else ()):
            which = is_chosen[match.positions]
            ids[at].append(part.columns.ids[match.positions[which]])
            values[at].append(match.values[which])
    wording.notes = np.concatenate(of_notes)
    wording.matches = [
        Matches(np.concatenate(ids[at]), np.concatenate(values[at]), match.rarity)
        for at, match in enumerate(wording.matches)
    ]


def _best_in(
    part: Part, asked: Sequence[_Asked], found: Sequence[Sequence[_Found]], weights: LineWeights
) -> tuple[Floats, list[Floats]]:
    """Return the score of each line of `part` for its best wording, `(n,)`; and for each wording that of its notes."""
    np = numpy()
    totals: list[Floats] = []
    notes: list[Floats] = []
    for each, here in zip(asked, found, strict=True):
        total, noted = _total(part, each, here, weights)
        if each.near is not None:
            total += np.float32(_SURE * weights.meaning) * part.spread(*each.near)
        if len(asked) > 1:
            total /= np.float32(each.scale)
        totals.append(total)
        notes.append(noted)
    best: Floats = functools.reduce(np.maximum, totals)
    return best, notes


def _total(part: Part, asked: _Asked, found: Sequence[_Found], weights: LineWeights) -> tuple[Floats, Floats]:
    """What each line has of the wording apart from meaning, `(n,)`: most of `features.support`; and what words each
    note has, `(f,)`. What few lines have is added to these alone: each pass over all lines counts."""
    np = numpy()
    wording = asked.wording
    sections: Floats = np.zeros(part.sections, np.float32)
    notes: Floats = np.zeros(part.notes, np.float32)
    around, other = np.zeros((2, len(part)), np.float32)
    for match in found:
        if not len(match.positions):
            continue
        positions, values = match.positions, match.values * np.float32(match.rarity)
        flowing, numbers = part.columns.flowing[positions], part.section[positions]
        around[positions] += values
        other[positions[~flowing]] += np.float32(weights.section) * values[~flowing]
        if match.few:
            _add_adjacent(part, positions[flowing], values[flowing], weights, around)
        add_best(numbers, values, sections)
        add_best(part.note_of_section[numbers], values, notes)
    if wording.question.speakers:
        _add_speakers(part, wording, weights, other)
    of_notes = np.float32(weights.note) * notes
    of_sections = np.float32(weights.section) * sections + of_notes[part.note_of_section]
    total: Floats = np.concatenate([of_sections, of_notes])[part.flow]
    total += other
    if len(wording.matches) > 1:
        # The square of the share of all words, and the words themselves, in one.
        other = around * np.float32(weights.together / (total_rarity(wording) or 1.0) ** 2)
        other += np.float32(weights.term)
        around *= other
    else:
        around *= np.float32(weights.term)
    total += around
    _add_times(part, asked, weights, total)
    return total, notes


def _add_adjacent(part: Part, positions: Ids, values: Floats, weights: LineWeights, out: Floats) -> None:
    """Add to `out` `(n,)` the weight of a word for the neighbours of the flowing lines at `positions` `(m,)`, where it
    counts `values` `(m,)`."""
    np = numpy()
    numbers = part.section[positions]
    for distance, weight in weights.window:
        if distance:
            others = positions - distance
            good = (part.flow.take(others, mode="clip") == numbers) & (others >= 0) & (others < len(part))
            out[others[good]] += np.float32(weight) * values[good]


def _add_speakers(part: Part, wording: Wording, weights: LineWeights, out: Floats) -> None:
    """Add to `out` `(n,)` that a speaker named in the question wrote a line, or speaks in its section."""
    np = numpy()
    named = np.isin(part.columns.speaker, list(wording.question.speakers))
    out[named] += np.float32(weights.speaker)
    near: Floats = np.zeros(part.sections, np.float32)
    near[part.section[named]] = weights.speaker_near
    out += near[part.section]


def _add_times(part: Part, asked: _Asked, weights: LineWeights, out: Floats) -> None:
    """Add to `out` `(n,)` that a line is of a day of the question, or has a time or a number where one is asked for."""
    np = numpy()
    question = asked.wording.question
    # Spans have no line in common: nearly all of them are empty in one part.
    bounds = np.searchsorted(part.columns.ids, [(span.first, span.last + 1) for span in asked.spans] or ((0, 0),))
    for first, end in bounds[bounds[:, 0] < bounds[:, 1]].tolist():
        out[first:end] += np.float32(weights.day)
    flags = ((question.asks_when, DATED, weights.when), (question.asks_number, NUMBERED, weights.number))
    for is_asked, flag, weight in flags:
        if is_asked:
            out += (part.columns.flags & flag) * np.float32(weight / flag)
