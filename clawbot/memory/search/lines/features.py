"""Owns what speaks for a line: its words and those around it, who says it, when, and what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.config.schema_lines import LineWeights
from clawbot.memory.arrays import numpy
from clawbot.memory.dates import DateRange, dates_in
from clawbot.memory.search.lines.postings import RAREST, Matches
from clawbot.memory.search.lines.question import Question
from clawbot.memory.search.lines.table import LineTable
from clawbot.memory.store.records import DATED, ORDINAL_BITS, QUESTION

if TYPE_CHECKING:
    from clawbot.memory.search.reading import Floats, Ids

_A_WEEK = 7


class Asked(Struct, frozen=True):
    """One wording of the question, and where each of `question.wanted` was found, as far as there was time."""

    question: Question
    matches: Sequence[Matches]


def support(table: LineTable, asked: Asked, days: Mapping[int, date | None], weights: LineWeights) -> Floats:
    """What speaks for each line of `table`, apart from its meaning. `days` are the days of the files."""
    np = numpy()
    total: Floats = np.zeros(len(table), np.float32)
    for name, values in features(table, asked, days, weights.window).items():
        total += np.float32(getattr(weights, name)) * values
    return total


def features(
    table: LineTable, asked: Asked, days: Mapping[int, date | None], window: Sequence[tuple[int, float]]
) -> dict[str, Floats]:
    """What speaks for each line, by the names of `LineWeights`."""
    np = numpy()
    question, columns = asked.question, table.columns
    words = _weigh_words(table, asked.matches, window)
    asks = (columns.flags & QUESTION) > 0
    before = table.beside(-1)
    named = np.isin(columns.speaker, list(question.speakers))
    near = np.zeros(len(table.section_names), np.bool_)
    near[table.section[named]] = True
    return {
        "term": words.around,
        "section": np.where(columns.flowing, words.sections[table.section], words.own),
        "speaker": named,
        "speaker_near": near[table.section],
        "day": np.isin(table.ids >> ORDINAL_BITS, _files_of(days, question.days)),
        "when": ((columns.flags & DATED) > 0) & question.asks_when,
        "question": asks,
        "answer": np.append(words.own * asks, np.float32(0))[before],
        "heading": columns.is_heading,
    }


class _Words(Struct, frozen=True):
    """The rarities of what is found, summed: in each line itself, in its window, and in each section."""

    own: Floats
    around: Floats
    sections: Floats


def _weigh_words(table: LineTable, matches: Sequence[Matches], window: Sequence[tuple[int, float]]) -> _Words:
    np = numpy()
    own: Floats = np.zeros(len(table), np.float32)
    around: Floats = np.zeros(len(table), np.float32)
    sections: Floats = np.zeros(len(table.section_names), np.float32)
    for each in matches:
        places, values = each.within(table.ids)
        values = values * np.float32(each.rarity)
        own[places] += values
        # The best place in the window counts, so each thing needs a column of its own. One more for what is outside.
        best: Floats = np.zeros(len(table) + 1, np.float32)
        for distance, weight in window:
            # Who has this line at `distance` is the one as far on the other side.
            beside = table.beside(-distance)[places] if distance else places
            best[beside] = np.maximum(best[beside], np.float32(weight) * values)
        around += best[:-1]
        sections += _best_of_sections(table, each, places, values)
    return _Words(own, around, sections)


def _best_of_sections(table: LineTable, match: Matches, places: Ids, values: Floats) -> Floats:
    """How much each section holds of one thing: as much as its best line, or its heading."""
    np = numpy()
    best: Floats = np.zeros(len(table.section_names), np.float32)
    if len(places):
        sections = table.section[places]
        is_first = np.ones(len(sections), np.bool_)
        is_first[1:] = sections[1:] != sections[:-1]
        starts = np.flatnonzero(is_first)
        best[sections[starts]] = np.maximum.reduceat(values, starts)
    if not table.is_whole:
        order = np.argsort(table.section_names)
        headings, found = match.within(table.section_names[order])
        best[order[headings]] = np.maximum(best[order[headings]], found * np.float32(match.rarity))
    return best


def scale_of(asked: Asked, weights: LineWeights, *, has_vector: bool) -> float:
    """What a line that fits the question in every way would have: scores are shown as shares of this."""
    words = sum(each.rarity for each in asked.matches)
    best = (weights.term + weights.section) * max(words, RAREST)
    best += weights.meaning if has_vector else 0.0
    best += weights.speaker + weights.speaker_near if asked.question.speakers else 0.0
    best += weights.day if asked.question.days else 0.0
    best += weights.when if asked.question.asks_when else 0.0
    # A wording without a vector beside one that has one, where words count nothing.
    return best or 1.0


def is_of_days(day: date, wanted: Sequence[DateRange]) -> bool:
    """Whether `day` is in one of the periods."""
    return any(each.start <= day <= each.end for each in wanted)


def speaks_of(text: str, day: date, wanted: Sequence[DateRange]) -> bool:
    """Whether a line, written on `day`, names one of the wanted periods about as closely as the question does."""
    return any(
        said.start <= each.end and each.start <= said.end and _days(said) <= max(_days(each), _A_WEEK)
        for said in dates_in(text, day)
        for each in wanted
    )


def _days(period: DateRange) -> int:
    return (period.end - period.start).days + 1


def _files_of(days: Mapping[int, date | None], wanted: Sequence[DateRange]) -> list[int]:
    if not wanted:
        return []
    return [number for number, day in days.items() if day is not None and is_of_days(day, wanted)]
