"""How typed words find rows in a list: every word must occur, or else its letters in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.fuzzy import FuzzySearch

# The fuzzy search tries every way to lay the letters into the text; beyond this many it is left out, so that a key
# press never waits for it.
MAX_WAYS = 5_000


def match(search: FuzzySearch, query: str, text: str) -> tuple[float, Sequence[int]] | None:
    """How well `text` answers `query`, and where its letters are; None: a word of the query is not in it.

    A higher score is better. An empty query matches everything alike.
    """
    score, offsets = 0.0, set[int]()
    folded = text.lower()
    for word in query.lower().split():
        if word not in folded and _ways(word, folded) > MAX_WAYS:
            return None
        found, at = search.match(word, text)
        if not found:
            return None
        score += found
        offsets.update(at)
    return score, sorted(offsets)


def _ways(word: str, text: str) -> int:
    """An upper bound of the ways in which the letters of `word` can be laid into `text`."""
    return math.prod(text.count(letter) for letter in word)
