"""Which of the lines that were found answer the question best."""

from __future__ import annotations

import math
import re

from msgspec import Struct

from clawbot.llm.offline.intents import is_question
from clawbot.llm.offline.notes import Line, match_strength, same_words
from clawbot.llm.offline.quoting import bare
from clawbot.llm.offline.words import Term, normalise, stems

MAX_QUOTES = 3
NEAR_BEST = 0.6
"""A line that scores less than this share of the best is not quoted beside it."""

_SPEAKER = re.compile(r"(?:\W{0,4})(?:user|assistant|用户|助手)(?:\W{0,4})[:：]\s?", re.IGNORECASE)
_ASSISTANT = re.compile(r"(?:\W{0,4})(?:assistant|助手)(?:\W{0,4})[:：]", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s")
_ASIDE = re.compile(r"\s*(?:#|<!--|_|\(|>|\|)")


class Ranked(Struct, frozen=True):
    """The lines to quote, best first, and how much of the question the best one covers, from 0 to 1."""

    lines: list[Line]
    coverage: float


class _Scored(Struct, frozen=True):
    line: Line
    score: float
    coverage: float


def rank(lines: list[Line], wanted: list[Term], question: str) -> Ranked:
    """The best lines for `wanted`: rare words count more, and of equals the newest is first."""
    candidates = [line for line in _newest_first(lines) if not same_words(_said(line.text), question)]
    fits = [_fits(line, wanted) for line in candidates]
    found_in = [sum(fit[at] > 0 for fit in fits) for at in range(len(wanted))]
    rarity = [math.log(1 + (len(fits) + 1) / (count + 1)) for count in found_in]
    worth = [term.weight * rare for term, rare in zip(wanted, rarity, strict=True)]
    whole = sum(term.weight for term in wanted) or 1.0
    scored = [
        _Scored(
            line,
            sum(value * share for value, share in zip(worth, fit, strict=True)) * _kind_factor(line.text),
            sum(term.weight for term, share in zip(wanted, fit, strict=True) if share) / whole,
        )
        for line, fit in zip(candidates, fits, strict=True)
    ]
    scored = sorted((entry for entry in scored if entry.score > 0), key=lambda entry: -entry.score)
    if not scored:
        return Ranked([], 0.0)
    kept = [entry.line for entry in scored if entry.score >= NEAR_BEST * scored[0].score]
    return Ranked(_without_repeats(kept)[:MAX_QUOTES], scored[0].coverage)


def newest(lines: list[Line], limit: int) -> list[Line]:
    """The last lines that were written, newest first."""
    return _without_repeats(_newest_first(lines))[:limit]


def _newest_first(lines: list[Line]) -> list[Line]:
    """Files of a day before those of none, the latest day first, and in each the last line first."""
    return sorted(lines, key=lambda line: (line.day, line.path, line.number), reverse=True)


def _without_repeats(lines: list[Line]) -> list[Line]:
    kept: dict[str, Line] = {}
    for line in lines:
        kept.setdefault(normalise(bare(line.text)), line)
    return list(kept.values())


def _said(text: str) -> str:
    """A line of an archived conversation without its speaker."""
    return _SPEAKER.sub("", bare(text), count=1)


def _fits(line: Line, wanted: list[Term]) -> list[float]:
    text = normalise(line.text)
    text_stems = set(stems(line.text))
    return [match_strength(text, text_stems, term) for term in wanted]


def _kind_factor(text: str) -> float:
    """Items are notes; headings, comments and hints of a template are about notes; a question answers none."""
    if _ASIDE.match(text) or is_question(_said(text)):
        return 0.3
    if _ASSISTANT.match(bare(text)):
        return 0.5
    return 1.0 if _ITEM.match(text) else 0.8
