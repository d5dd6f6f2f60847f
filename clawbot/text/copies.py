"""Recognises texts that repeat each other, so that an answer with a budget shows each of them once.

The measure: two texts are equal if their words are equal in order, after full-width forms, case, markup,
punctuation, list markers, a time stamp at the start, articles and the endings of English words are left out; each
character of Chinese and Japanese counts as a word, without particles. Numbers, times, dates, weekdays and ticks are no
words but values: texts with other values are variants of each other. Negations, question marks and symbols are words. A
text of few words also needs the same context, such as the headings above it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence, Set
from datetime import date

from msgspec import Struct

from clawbot.languages.stems import stem
from clawbot.languages.tables import pattern_in, text_in
from clawbot.text.language import CALENDAR_WORDS, CJK
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import plain_forms

VISIBLE = 3
"""Variants of a text that are shown. Of more, only the newest one is, with the values of the others."""

MAX_VALUES = 12
"""Values of hidden variants that are named."""

FEW_WORDS = 5
"""With fewer words, a text means little without its context. A Chinese character is half a word."""

NEAR = 0.97
"""A copy of a short text with at least this share of the best one's score may replace it."""

_LONGEST = 8_000  # characters that are compared; longer texts only match themselves
_STAMP = r"\d{4}-\d\d-\d\d(?:[T ]\d{1,2}:\d\d(?::\d\d)?)?"
_LEAD = lazy_re(
    r"[ \t]*(?:>[ \t]*)*(?:#{1,6}[ \t]+)?(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\[(?P<tick>.)\][ \t]+)?"
    rf"(?:\[(?:{_STAMP}|\d{{1,2}}:\d\d(?::\d\d)?)\]|{_STAMP}(?![\w-]))?"
)
_WEEKDAY = pattern_in("weekday", "zh")
_NUMBER = r"\d[\d.,:/%-]*"


@functools.cache
def _token(cjk: str) -> re.Pattern[str]:
    """The parts of a text with characters of `cjk`, a set that takes 2 ms to compile: many texts have none of it. A
    number that is glued to letters is a name: srv12."""
    letter, single = (rf"(?:(?![{cjk}])[^\W\d_])", f"|(?P<cjk>[{cjk}])") if cjk else (r"[^\W\d_]", "|(?P<cjk>(?!))")
    return re.compile(
        rf"(?P<value>(?<![\w.])[-+−]?[vV]?{_NUMBER}|{_NUMBER}|{_WEEKDAY}){single}"
        rf"|{letter}+(?:\d(?:\d|{letter})*)?(?:['’]{letter}+)*[+#]*"
        r"|(?P<mark>[?？!<>=$]|[^\w\s!-/:-@\[-`{-~\u2000-\u206f\u3000-\u303f\uff00-\uffef])"
    )


_TICKS = ("[ ]", "[x]")
_ARTICLES = frozenset({"a", "an", "the"})
_PARTICLES = frozenset(text_in("sentence_particles"))
_SPOKEN = "!！·…—–"


class Wording(Struct, frozen=True):
    """The wording of a text: its `words`, and the `values` among them. `is_short`: it needs its context."""

    words: tuple[str, ...]
    values: tuple[str, ...]
    is_short: bool = False


class More(Struct, frozen=True, omit_defaults=True):
    """The texts that a result represents, besides itself: how many, from the day `first` to `last`, and the other
    `values` that variants of it have."""

    count: int
    first: date | None = None
    last: date | None = None
    values: tuple[str, ...] = ()


class Line(Struct, frozen=True):
    """A text that may repeat others: of which `day` it is, what it is `about` besides its words, and its `score`.
    Texts with another `mark` are variants; those of one `source` count once."""

    text: str
    day: date | None = None
    about: str = ""
    mark: date | None = None
    score: float = 1.0
    source: int | None = None


class Kept(Struct, frozen=True):
    """The text at the position `at`, the position of the best one that it represents, `position`, and what else."""

    at: int
    position: int
    more: More | None = None


@functools.lru_cache(4_096)
def wording_of(text: str) -> Wording:
    """Return the wording of `text` by the measure of this module."""
    if len(text) > _LONGEST:
        return Wording((text,), ())
    words: list[str] = []
    values: list[str] = []
    tokens = _token("" if text.isascii() else CJK)
    for line in plain_forms(text).split("\n"):
        lead = _LEAD.match(line)
        if lead and lead["tick"]:
            values.append(_TICKS[not lead["tick"].isspace()])
        for token in tokens.finditer(line, lead.end() if lead else 0):
            word = token[0].lower()
            if token["value"] or word in CALENDAR_WORDS:
                values.append(word.rstrip(".,:/-"))
            elif token["cjk"] or token["mark"]:
                words += [] if word in _PARTICLES or word in _SPOKEN else [word.replace("？", "?")]
            elif word not in _ARTICLES:
                words.append(stem(word.replace("’", "'")))
    if not words:
        return Wording(tuple(values), (), is_short=True)
    long = sum(1.0 if len(word) > 1 or word.isascii() else 0.5 for word in words[: 2 * FEW_WORDS])
    return Wording(tuple(words), tuple(values), long < FEW_WORDS)


def fold(lines: Sequence[Line], wanted: Set[object] = frozenset(), *, newest: bool = True) -> list[Kept]:
    """Return `lines`, best first, without repetition. Takes time in proportion to them.

    Of equal ones the `newest` is kept (else the best), at the position of the best.
    So it is of more than `VISIBLE` variants, besides those with a value or mark in `wanted`.
    """
    groups: dict[object, dict[tuple[object, ...], list[int]]] = {}
    for at, line in enumerate(lines):
        wording = wording_of(line.text)
        about = wording_of(line.about).words if wording.is_short else ()
        groups.setdefault((wording.words, about), {}).setdefault((*wording.values, line.mark), []).append(at)

    def age(at: int) -> tuple[date, int]:
        return (lines[at].day or date.min) if newest else date.min, -at

    kept: list[Kept] = []
    for variants in groups.values():
        asked = [ats for values, ats in variants.items() if len(variants) <= VISIBLE or not wanted.isdisjoint(values)]
        rest = [at for ats in variants.values() if ats not in asked for at in ats]
        found = [(max(_near(lines, ats), key=age), ats) for ats in asked]
        found += [(max(rest, key=age), rest)] if rest else []
        positions = [min(ats) for _, ats in found]
        if len({tuple(value for value in values if value not in _TICKS) for values in variants}) == 1:
            # Done or not: the newest state first.
            found.sort(key=lambda each: age(each[0]), reverse=True)
            positions.sort()
        for position, (at, ats) in zip(positions, found, strict=True):
            kept.append(Kept(at, position, _more(lines, at, sorted(ats, key=age, reverse=True))))
    return sorted(kept, key=lambda each: each.position)


def _near(lines: Sequence[Line], ats: Sequence[int]) -> Sequence[int]:
    """Return those of equal lines that may replace the best: of short ones, those that are not clearly worse for
    what is around them."""
    least = NEAR * lines[min(ats)].score if wording_of(lines[ats[0]].text).is_short else 0.0
    return [at for at in ats if lines[at].score >= least]


def _more(lines: Sequence[Line], at: int, ats: Sequence[int]) -> More | None:
    """Return what the line at the position `at` represents besides itself, of those at `ats`; None for nothing."""
    sources: dict[object, int] = {}
    for each in ats:
        source = lines[each].source
        if each != at and (source is None or source != lines[at].source):
            sources.setdefault((each,) if source is None else source, each)
    others = list(sources.values())
    if not others:
        return None
    days = sorted(day for each in others if (day := lines[each].day) is not None)
    shown = wording_of(lines[at].text).values
    hidden = (" ".join(word for word in wording_of(lines[each].text).values if word not in shown) for each in others)
    more = tuple(dict.fromkeys(filter(None, hidden)))
    more = (*more[:MAX_VALUES], "…") if len(more) > MAX_VALUES else more
    return More(len(others), days[0] if days else None, days[-1] if days else None, more)
