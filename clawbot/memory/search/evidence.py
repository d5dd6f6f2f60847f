"""Grades the evidence of a search for an answer in the notes: strong, fair, or weak (probably none).

The strength is a weighted sum: the first score, its distance from the eleventh, less the share of the question that
no note has; for Chinese, Japanese and Korean, whose words are pairs of characters, the best cosine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.search.features import Wording, total_rarity
from clawbot.memory.search.scale import on_scale
from clawbot.memory.search.table import LineTable
from clawbot.memory.values import Evidence, Mode
from clawbot.text.tokens import CJK_RUN

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats, Ids


GRADES: tuple[Evidence, ...] = ("strong", "fair", "weak")


class EvidenceWeights(Struct, frozen=True):
    """The weights of the sum, and the strengths below which evidence is weak and from which it is strong."""

    first: float
    ahead: float
    missing: float
    cosine: float
    weak: float
    strong: float


WEIGHTS: Mapping[tuple[Mode, bool], EvidenceWeights] = {
    ("hybrid", False): EvidenceWeights(6.4, 5.7, 3.1, 0.0, 3.07, 4.48),
    ("hybrid", True): EvidenceWeights(0.0, 8.7, 0.4, 7.0, 5.28, 5.90),
    ("fts-only", False): EvidenceWeights(6.4, 3.7, 2.9, 0.0, 3.13, 5.06),
    ("fts-only", True): EvidenceWeights(0.0, 5.1, 1.0, 0.0, -0.08, 1.05),
}
"""By mode, and whether the question has Chinese, Japanese or Korean. Fitted by logistic regression on half of the
questions of four sets of notes, each with as many that the notes do not answer; 5 % of the others are weak."""

MIN_OF_LINE = 0.4
"""Strong evidence is in one line: this share of the words of the question, and of those that are no names."""

AHEAD_OF, MAX_MISSING = 10, 0.25


class BestLines(Struct, frozen=True):
    """The lines at `positions` of `table`: the first score, as a share of a perfect line's, and how far it is `ahead`
    of others."""

    table: LineTable
    positions: Ids
    first: float
    ahead: float


def ahead_of_others(scores: Floats) -> float:
    """Return the distance of the highest of `scores` from the eleventh, or from the lowest of fewer."""
    if not len(scores):
        return 0.0
    at = max(0, len(scores) - 1 - AHEAD_OF)
    return float(scores.max() - numpy().partition(scores, at)[at])


def evidence_of(best: BestLines, wording: Wording, mode: Mode, cosine: float, *, of_days: bool) -> Evidence:
    """Return how far the best lines answer one wording; `cosine` is its best. `of_days`: some are of its days."""
    question = wording.question
    asked = " ".join(word.match for word in question.wanted)
    weights = WEIGHTS.get((mode, not asked.isascii() and CJK_RUN.search(asked) is not None))
    if weights is None:
        return "fair"
    total = total_rarity(wording) or 1.0
    missing = sum(each.rarity for each in wording.matches if not len(each.ids)) / total
    strength = weights.first * on_scale(best.first, mode) + weights.cosine * cosine - weights.missing * missing
    strength += weights.ahead * best.ahead
    if strength < weights.weak:
        # Notes of a day that is asked for are found by their date.
        return "fair" if of_days and (question.names_nothing or missing < MAX_MISSING) else "weak"
    is_strong = strength >= weights.strong and _is_in_one_line(best, wording)
    return "strong" if is_strong else "fair"


def _is_in_one_line(best: BestLines, wording: Wording) -> bool:
    """Return whether a line has enough of the words, and of those that are no names."""
    np = numpy()
    own: Floats = np.zeros((2, len(best.table)), np.float32)
    possible = [0.0, 0.0]
    for word, match in zip(wording.question.wanted, wording.matches, strict=False):
        found, values = match.within(best.table.ids)
        for of in range(1 if word.match in wording.question.names else 2):
            own[of, found] += values * np.float32(match.rarity)
            possible[of] += match.rarity
    return all(float(own[of, best.positions].max(initial=0)) >= MIN_OF_LINE * possible[of] for of in range(2))


def best_of(found: Sequence[Evidence]) -> Evidence:
    """Return the best of several; weak without any."""
    return next((grade for grade in GRADES if grade in found), "weak")
