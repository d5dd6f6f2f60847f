"""The scale of the scores in the profile `lines`: that of older systems, whose usual threshold is 0.35.

A line is ranked by its share of a perfect line's score. The share of a right line depends on what the search could use,
and is often below 0.35. Raised to the power of its mode it is on one scale for all modes, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping

from clawbot.memory.values import Mode

EXPONENTS: Mapping[Mode, float] = {"hybrid": 0.39, "fts-only": 0.34, "vector-only": 0.28}
"""By mode: at most 3 % of right first results are below 0.35, also in a conversation (`query.transcript_weight`).
Fitted by benchmarks/score_scale.py with the offline vectors, to whose scale those of other models are brought."""


def on_scale(share: float, mode: Mode) -> float:
    """Return the score of `share` (0 to 1), with the three decimals that are shown and compared. The score of a product
    is the product of the scores."""
    score: float = share ** EXPONENTS[mode]
    return round(score, 3)
