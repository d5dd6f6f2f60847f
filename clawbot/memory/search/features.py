"""The ranking features of a line: its words and those around it, speaker, time, and kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.dates import DateRange, dates_in
from clawbot.memory.dates.validity import validity_of
from clawbot.memory.search.question import RAREST, Matches, Question
from clawbot.memory.search.scope import ChunkSpan, spans_of, within
from clawbot.memory.search.table import LineTable
from clawbot.memory.store.records import BY_AGENT, BY_USER, DATED, NUMBERED, QUESTION, FileRow

if TYPE_CHECKING:
    from clawbot.config.schema_memory import LineWeights
    from clawbot.memory.arrays import Bools, Floats, Ids

_A_WEEK = 7
# Rare words count for more if the question has few others: with several words, the answer is as often in a line without
# it.
_SOLE = 3

_PART = 0.3
"""A line of the question's days precedes the others if it has this share of what the best line has of the words."""


class Wording(Struct):
    """One wording of the question, with its unit vector (float32 `(d,)`) if it is to be used.

    A search fills in where each of `question.wanted` was found, as far as time allowed; and where it scans only a
    part of the lines, what words their `notes` have altogether, `(f,)` by the number of the note; and the `spans` of
    its days.
    """

    question: Question
    vector: bytes | None
    matches: Sequence[Matches] = ()
    notes: Floats | None = None
    spans: Sequence[ChunkSpan] | None = None


class Support(Struct, frozen=True):
    """The evidence for each line apart from vectors.

    Each array is `(n,)` for the n lines of a table. `total` is the sum of all features. `around` sums the rarities of
    the words found in the line and its neighbours, `words` those in its entire section if that is more; `possible` is
    the sum for all words of the question. `answers` are the lines that have a speaker of it or a share of its words,
    `of_days` those of its days, or all of these if it asks for nothing else.
    """

    total: Floats
    around: Floats
    words: Floats
    possible: float
    answers: Bools
    of_days: Bools

    @property
    def share(self) -> Floats:
        """The share of the question's words (0 to 1) that each line has with its neighbours: `(n,)`."""
        found: Floats = self.around / numpy().float32(self.possible or 1.0)
        return found


def support(table: LineTable, wording: Wording, files: Iterable[FileRow], weights: LineWeights) -> Support:
    """Return the evidence apart from vectors for each line of `table`, whose lines belong to `files`."""
    np = numpy()
    total: Floats = np.zeros(len(table), np.float32)
    found = features(table, wording, files, weights)
    for name, values in found.items():
        total += np.float32(getattr(weights, name)) * values
    answers = (found["term"] > _PART * found["term"].max(initial=0)) | (found["speaker"] > 0)
    of_days = (found["day"] > 0) & (answers | wording.question.only_days)
    words = np.maximum(found["term"], found["section"])
    return Support(total, found["term"], words, total_rarity(wording), answers, of_days)


def features(table: LineTable, wording: Wording, files: Iterable[FileRow], weights: LineWeights) -> dict[str, Floats]:
    """Return the features of each line by their `LineWeights`: `(n,)`, mostly 0 or 1; words by their rarity."""
    np = numpy()
    question, columns = wording.question, table.columns
    words = _weigh_words(table, wording, weights.window)
    asks = (columns.flags & QUESTION) > 0
    before = table.neighbours(-1)
    named = np.isin(columns.speaker, list(question.speakers))
    near = np.zeros(len(table.section_names), np.bool_)
    near[table.section[named]] = True
    return {
        "term": words.around,
        "exact": _exact(table, wording, weights.rare),
        "section": np.where(columns.flowing, words.sections[table.section], words.own),
        "note": words.notes[table.note],
        "together": _together(words.around, wording),
        "speaker": named,
        "speaker_near": near[table.section],
        "day": within(table.ids, days_of(wording, files)),
        "when": ((columns.flags & DATED) > 0) & question.asks_when,
        "number": ((columns.flags & NUMBERED) > 0) & question.asks_number,
        "question": asks,
        "answer": np.append(words.own * asks, np.float32(0))[before],
        "heading": columns.is_heading,
        "by_user": (columns.flags & BY_USER) > 0,
        "by_agent": (columns.flags & BY_AGENT) > 0,
    }


def _together(around: Floats, wording: Wording) -> Floats:
    """Return the square of each line's share of the question's words: `(n,)`; 0 for a question of one word."""
    share: Floats = around / numpy().float32(total_rarity(wording) or 1.0)
    return share**2 if len(wording.matches) > 1 else share * 0


def total_rarity(wording: Wording) -> float:
    """Return the sum of the rarities of all words."""
    return sum(each.rarity for each in wording.matches)


class _Words(Struct, frozen=True):
    """The summed rarities of the words found: in each of n lines and in its window, `(n,)`, in each of s sections,
    `(s,)`, and in each of f files, `(f,)`."""

    own: Floats
    around: Floats
    sections: Floats
    notes: Floats


def _weigh_words(table: LineTable, wording: Wording, window: Sequence[tuple[int, float]]) -> _Words:
    np = numpy()
    own: Floats = np.zeros(len(table), np.float32)
    around: Floats = np.zeros(len(table), np.float32)
    sections: Floats = np.zeros(len(table.section_names), np.float32)
    notes: Floats = np.zeros(table.notes, np.float32)
    for each in wording.matches:
        positions, values = each.within(table.ids)
        values = values * np.float32(each.rarity)
        own[positions] += values
        # The best position in the window counts, so each word needs its own column; one more for what is outside.
        best: Floats = np.zeros(len(table) + 1, np.float32)
        for distance, weight in window:
            # The line that has this one at `distance` is equally far on the other side.
            others = table.neighbours(-distance)[positions] if distance else positions
            best[others] = np.maximum(best[others], np.float32(weight) * values)
        around += best[:-1]
        sections += _best_of_sections(table, each, positions, values)
        add_best(table.note[positions], values, notes)
    return _Words(own, around, sections, notes if wording.notes is None else wording.notes)


def _exact(table: LineTable, wording: Wording, rare: float) -> Floats:
    """Return the share of the question that each line contains as rare words in their original form: `(n,)`."""
    np = numpy()
    found: Floats = np.zeros(len(table), np.float32)
    names = len(wording.question.speakers) + len(wording.question.days)
    total = total_rarity(wording) + RAREST * names
    for each in wording.matches:
        if is_rare(each, rare):
            positions, values = each.within(table.ids)
            found[positions[values >= 1]] += np.float32(each.rarity / total)
    return found**_SOLE


def _best_of_sections(table: LineTable, match: Matches, positions: Ids, values: Floats) -> Floats:
    """Return the match of each section with one word: that of its best line or its heading, `(s,)`."""
    np = numpy()
    best: Floats = np.zeros(len(table.section_names), np.float32)
    add_best(table.section[positions], values, best)
    if not table.is_complete:
        order = np.argsort(table.section_names)
        headings, found = match.within(table.section_names[order])
        best[order[headings]] = np.maximum(best[order[headings]], found * np.float32(match.rarity))
    return best


def add_best(groups: Ids, values: Floats, out: Floats) -> None:
    """Add to `out` `(g,)` the highest of `values` `(n,)` in each of g groups. `groups` `(n,)` ascend."""
    np = numpy()
    if len(groups):
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        out[groups[starts]] += np.maximum.reduceat(values, starts)


def best_of_notes(notes: Ids, values: Floats) -> Floats:
    """For each line the highest of `values` `(n,)` in its file, at least 0: `(n,)`. `notes` `(n,)` number the files,
    ascending."""
    best: Floats = numpy().zeros(int(notes[-1]) + 1 if len(notes) else 0, numpy().float32)
    add_best(notes, values, best)
    found: Floats = best[notes]
    return found


def scale_of(wording: Wording, weights: LineWeights, *, has_vector: bool) -> float:
    """Return the score of a perfect line; results show scores as shares of this."""
    words = total_rarity(wording)
    best = (weights.term + weights.section + weights.note) * max(words, RAREST) + weights.together
    best += weights.exact * sum(each.rarity for each in wording.matches if is_rare(each, weights.rare)) / (words or 1.0)
    best += weights.meaning + weights.note_meaning + weights.echo if has_vector else 0.0
    best += weights.speaker + weights.speaker_near if wording.question.speakers else 0.0
    best += weights.day if wording.question.days else 0.0
    best += weights.when if wording.question.asks_when else 0.0
    best += weights.number if wording.question.asks_number else 0.0
    # A wording without a vector next to one with a vector, and words have no weight.
    return best or 1.0


def is_rare(found: Matches, least: float) -> bool:
    """Return whether this word distinguishes lines: it is found, with at least this rarity."""
    return len(found.ids) > 0 and found.rarity >= least


def is_of_days(day: date, wanted: Sequence[DateRange]) -> bool:
    """Return whether `day` is in one of the periods."""
    return any(each.start <= day <= each.end for each in wanted)


def with_nearest(wanted: Sequence[DateRange], files: Iterable[FileRow]) -> tuple[DateRange, ...]:
    """`wanted`, and for a single day of which no file is the nearest days before and after it within a week, of which
    one is: what happened on a day is often written on another."""
    found = list(wanted)
    known = {day for file in files for run in file.runs for day in run.days} if wanted else set()
    for each in wanted:
        if each.precision != "day" or each.start in known:
            continue
        near = [day for day in known if abs((day - each.start).days) <= _A_WEEK]
        nearest = {
            *sorted(day for day in near if day < each.start)[-1:],
            *sorted(day for day in near if day > each.start)[:1],
        }
        found += [DateRange(day, day, each.text, "day") for day in sorted(nearest)]
    return tuple(found)


def speaks_of(text: str, day: date, wanted: Sequence[DateRange]) -> bool:
    """Return whether a line written on `day` names one of the wanted periods about as precisely as the question."""
    return any(
        period.start <= each.end and each.start <= period.end and _days(period) <= max(_days(each), _A_WEEK)
        for period in dates_in(text, day)
        for each in wanted
    )


def holds_on(text: str, wanted: Sequence[DateRange]) -> bool:
    """Return whether a line has a mark by which it holds on a day of the wanted periods."""
    validity = validity_of(text)
    return validity.text is not text and any(validity.days_within(each.start, each.end) for each in wanted)


def _days(period: DateRange) -> int:
    return (period.end - period.start).days + 1


def chunks_of_days(files: Iterable[FileRow], wanted: Sequence[DateRange]) -> list[ChunkSpan]:
    """Return the chunks of `files` dated in one of the periods."""
    return spans_of(files, lambda day: is_of_days(day, wanted)) if wanted else []


def days_of(wording: Wording, files: Iterable[FileRow]) -> Sequence[ChunkSpan]:
    """Return the chunks of `files` of the days of `wording`, which keeps them: 20 ms for ten thousand files."""
    if wording.spans is None:
        wording.spans = chunks_of_days(files, wording.question.days)
    return wording.spans
