"""Removes repetition from the results of a search: the newest of equal lines replaces the others."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date
from itertools import pairwise

from msgspec import structs

from clawbot.memory.dates import DateRange, dates_in
from clawbot.memory.dates.named import named, weekday_or_time
from clawbot.memory.documents.days import date_of
from clawbot.memory.search.protocols import ChunkReader
from clawbot.memory.search.rank import RankedLines
from clawbot.memory.store.records import DATED, ChunkRow, FileRow, file_of, id_of
from clawbot.memory.values import Hit
from clawbot.text.copies import Line, fold, wording_of
from clawbot.text.language import CJK
from clawbot.text.patterns import lazy_re

_LATIN = lazy_re(r"[a-z0-9_]+")
CJK_RUN = lazy_re(rf"[{CJK}]+")
_DIGITS = re.compile(r"\d+")
_A_DAY, _A_WEEK_LATER = date(2001, 6, 6), date(2001, 6, 13)


def without_repetition(
    reader: ChunkReader,
    ranked: RankedLines,
    *,
    files: Mapping[int, FileRow],
    words: Set[str],
    days: Sequence[DateRange],
) -> RankedLines:
    """Return `ranked` with each text once, and the others that it represents. `words` and `days` are of the question:
    its numbers and single days are asked for, and where it names days, the best of equal lines is kept. Blocks."""
    rows = {row.id: row for row in reader.rows({each for number in ranked.ids for each in (number, number + 1)})}
    known = [at for at, number in enumerate(ranked.ids) if number in rows]
    above = _headings(reader, [rows[ranked.ids[at]] for at in known])
    exact = {each.start for each in days if each.start == each.end}
    lines: dict[int, Line] = {}
    seen: set[tuple[str, date | None]] = set()
    for at in known:
        row = rows[ranked.ids[at]]
        file, below = files[file_of(row.id)], rows.get(row.id + 1)
        day = file.day_at(row.id - id_of(file.id, 0))
        text, position = row.text, row.id
        if row.kind == "heading" and below:
            # A heading alone represents the line below it, and one of a day or a time is one position with it.
            text = f"{row.text}\n{below.text}"
            position += wording_of(text).words == wording_of(below.text).words
        about = "" if file.source == "sessions" else f"{_about(file.path)} {above.get(row.heading or -1, '')}"
        # A fork of a conversation repeats the messages of its parent: they count once.
        if file.source != "sessions" or (text, day) not in seen:
            lines[at] = Line(text, day, about, day if day in exact else None, ranked.scores[at], position)
            seen.add((text, day))
    lines |= _relative({at: line for at, line in lines.items() if rows[ranked.ids[at]].flags & DATED}, lines.values())
    ats = list(lines)
    kept = fold(list(lines.values()), {*words, *exact}, newest=not days)
    return structs.replace(
        ranked,
        ids=[ranked.ids[ats[each.at]] for each in kept],
        scores=[ranked.scores[ats[each.position]] for each in kept],
        asked=[ranked.asked[ats[each.at]] for each in kept],
        more=[each.more for each in kept],
    )


def _relative(dated: Mapping[int, Line], lines: Iterable[Line]) -> dict[int, Line]:
    """Return those of the `dated` lines that name a day by that of their note, with this day as their mark, where
    others of `lines` have their words."""
    counts = Counter(wording_of(line.text).words for line in lines)
    return {
        at: structs.replace(line, mark=line.day)
        for at, line in dated.items()
        # Which number it is does not matter: of many nearly equal lines only one is examined.
        if counts[wording_of(line.text).words] > 1 and _is_relative(_DIGITS.sub("3", line.text))
    }


@functools.lru_cache(4_096)
def _is_relative(text: str) -> bool:
    """Return whether `text` names a day by that of its note, such as "yesterday"; not by a weekday alone."""
    pairs = zip(dates_in(text, _A_DAY), dates_in(text, _A_WEEK_LATER), strict=False)
    return any(one.start != other.start and {*wording_of(one.text).words} - {"on"} for one, other in pairs)


def folded_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """`hits`, best first, with each text once."""
    days = [hit.said.at.date() if hit.said else date_of(hit.path) for hit in hits]
    lines = [Line(hit.snippet, day, _about(hit.path), score=hit.score) for hit, day in zip(hits, days, strict=True)]
    return tuple(structs.replace(hits[each.at], more=each.more or hits[each.at].more) for each in fold(lines))


@functools.lru_cache(8_192)
def _about(path: str) -> str:
    """Return the subject by the names of a note and its folders, without days."""
    *folders, name = path.removeprefix("memory/").rpartition(".")[0].split("/")
    found = named(name, at_end=True)
    rest = name if found is None else "" if weekday_or_time(found.rest) else found.rest
    return " ".join((*folders, rest)).replace("-", " ").replace("_", " ")


def _headings(reader: ChunkReader, rows: Sequence[ChunkRow]) -> dict[int, str]:
    """Return the text of each heading above lines, with those above it, by its id."""
    found: dict[int, ChunkRow] = {}
    wanted = {row.heading for row in rows if row.heading is not None}
    while wanted and (new := reader.rows(wanted)):
        found |= {row.id: row for row in new}
        wanted = {row.heading for row in new if row.heading is not None} - found.keys()
    texts: dict[int, str] = {}
    # A heading is behind the one above it.
    for number, row in sorted(found.items()):
        texts[number] = f"{texts.get(row.heading or -1, '')}\n{row.text}"
    return texts


def token_set(text: str) -> frozenset[str]:
    """Return the tokens by which texts are compared: words, and CJK characters and their pairs."""
    lower = text.lower()
    found = set(_LATIN.findall(lower))
    for run in CJK_RUN.findall(lower):
        found.update(run, (left + right for left, right in pairwise(run)))
    return frozenset(found)
