"""Recognises texts that repeat each other, so that an answer with a budget shows each of them once.

The measure: two texts say the same if their words are equal in order, after full-width forms, case, markup,
punctuation, list markers, a time stamp at the start, articles and the endings of English words are left out; each
character of Chinese and Japanese counts as a word, without particles. Numbers, times, dates, weekdays and ticks are no
words but values: texts with other values are variants of each other. Negations, question marks and symbols are words. A
text of few words also needs the same context, such as the headings above it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence, Set
from datetime import date

from msgspec import Struct

from clawbot.text.language import CALENDAR_WORDS, CJK
from clawbot.text.patterns import lazy_re
from clawbot.text.stems import stem
from clawbot.text.tokens import plain_forms

VISIBLE = 3
"""Variants of a text that are shown. Of more, only the newest one is, with the values of the others."""

MOST_VALUES = 12
"""Values of hidden variants that are named."""

FEW_WORDS = 5
"""With fewer words, a text says little without its context. A Chinese character is half a word."""

_LONGEST = 8_000  # characters that are compared; longer texts only match themselves
_STAMP = r"\d{4}-\d\d-\d\d(?:[T ]\d{1,2}:\d\d(?::\d\d)?)?"
_LEAD = lazy_re(
    r"[ \t]*(?:>[ \t]*)*(?:#{1,6}[ \t]+)?(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\[(?P<tick>.)\][ \t]+)?"
    rf"(?:\[(?:{_STAMP}|\d{{1,2}}:\d\d(?::\d\d)?)\]|{_STAMP}(?![\w-]))?"
)
_WEEKDAY = r"(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]"
_TOKEN = lazy_re(
    rf"(?P<value>(?<![\w.])[-+−]?\d[\d.,:/%-]*|\d[\d.,:/%-]*|{_WEEKDAY})|(?P<cjk>[{CJK}])"
    rf"|(?:(?![{CJK}])[^\W\d_])+(?:['’][^\W\d_]+)*[+#]*"
    r"|(?P<mark>[?？!<>=$]|[^\w\s!-/:-@\[-`{-~\u2000-\u206f\u3000-\u303f\uff00-\uffef])"
)
_TICKS = ("[ ]", "[x]")
_ARTICLES = frozenset({"a", "an", "the"})
_PARTICLES = frozenset("的了呢啊呀哦嘛")
_SPOKEN = "!！·…—–"


class Said(Struct, frozen=True):
    """What a text says: its `words`, and the `values` among them. `is_short`: it needs its context."""

    words: tuple[str, ...]
    values: tuple[str, ...]
    is_short: bool = False


class More(Struct, frozen=True, omit_defaults=True):
    """The texts that a result stands for, besides itself: how many, from the day `first` to `last`, and the other
    `values` that variants of it have."""

    count: int
    first: date | None = None
    last: date | None = None
    values: tuple[str, ...] = ()


class Kept(Struct, frozen=True):
    """The text at the position `at`, the position of the best one that it stands for, `place`, and what else."""

    at: int
    place: int
    more: More | None = None


@functools.lru_cache(4_096)
def said_in(text: str) -> Said:
    """What `text` says by the measure of this module."""
    if len(text) > _LONGEST:
        return Said((text,), ())
    words: list[str] = []
    values: list[str] = []
    for line in plain_forms(text).split("\n"):
        lead = _LEAD.match(line)
        if lead and lead["tick"]:
            values.append(_TICKS[not lead["tick"].isspace()])
        for token in _TOKEN.finditer(line, lead.end() if lead else 0):
            word = token[0].lower()
            if token["value"] or word in CALENDAR_WORDS:
                values.append(word.rstrip(".,:/-"))
            elif token["cjk"] or token["mark"]:
                words += [] if word in _PARTICLES or word in _SPOKEN else [word.replace("？", "?")]
            elif word not in _ARTICLES:
                words.append(stem(word.replace("’", "'")))
    length = sum(1.0 if len(word) > 1 or word.isascii() else 0.5 for word in words)
    return Said(tuple(words), tuple(values), length < FEW_WORDS) if words else Said(tuple(values), (), is_short=True)


def fold(
    texts: Sequence[str],
    days: Sequence[date | None],
    contexts: Sequence[str] | None = None,
    wanted: Set[str] = frozenset(),
    *,
    newest: bool = True,
) -> list[Kept]:
    """`texts`, best first, without repetition: of those that say the same the `newest` (else the best) is kept, in the
    place of the best. So it is of more than `VISIBLE` variants, besides those with a value in `wanted`. `contexts` say
    what texts of few words are about. Takes time in proportion to the texts."""
    groups: dict[object, dict[tuple[str, ...], list[int]]] = {}
    for at, text in enumerate(texts):
        said = said_in(text)
        about = said_in(contexts[at]).words if contexts is not None and said.is_short else ()
        groups.setdefault((said.words, about), {}).setdefault(said.values, []).append(at)

    ages = [((days[at] or date.min) if newest else date.min, -at) for at in range(len(texts))]
    kept: list[Kept] = []
    for variants in groups.values():
        # All copies of a text, newest first; of more than a few variants, those of all that nobody asks for.
        asked = [ats for values, ats in variants.items() if len(variants) <= VISIBLE or not wanted.isdisjoint(values)]
        rest = [at for ats in variants.values() if ats not in asked for at in ats]
        parts = [sorted(ats, key=lambda each: ages[each], reverse=True) for ats in ([*asked, rest] if rest else asked)]
        places = [min(ats) for ats in parts]
        if len({tuple(value for value in values if value not in _TICKS) for values in variants}) == 1:
            # Done or not: the newest state first.
            parts.sort(key=lambda ats: ages[ats[0]], reverse=True)
            places.sort()
        for place, (at, *others) in zip(places, parts, strict=True):
            kept.append(Kept(at, place, _more(texts, days, at, others) if others else None))
    return sorted(kept, key=lambda each: each.place)


def _more(texts: Sequence[str], days: Sequence[date | None], at: int, others: Sequence[int]) -> More:
    """What the text at the position `at` stands for besides itself."""
    known = sorted(day for each in others if (day := days[each]) is not None)
    shown = said_in(texts[at]).values
    hidden = (" ".join(word for word in said_in(texts[each]).values if word not in shown) for each in others)
    told = tuple(dict.fromkeys(filter(None, hidden)))
    told = (*told[:MOST_VALUES], "…") if len(told) > MOST_VALUES else told
    return More(len(others), known[0] if known else None, known[-1] if known else None, told)
