"""Owns the numbers of the profile `lines`: what counts how much, the reach of neighbours, results.

They were learned on conversations (with one left out in turn, so that none was judged by its own numbers), rounded, and
checked on Chinese notes. Each is on a flat stretch: a fifth more or less changes little.
"""

from __future__ import annotations

from msgspec import Struct

VECTOR_SHARE, TEXT_SHARE = 0.3, 0.7
"""What users call these weights of meaning and of words; other shares scale them."""


class LineWeights(Struct, frozen=True):
    """See the module. Scores are sums of these; a rare word that is found counts about 8 before its weight."""

    term: float = 0.33
    """A word of the question in the line or beside it, by its rarity (0 to 8)."""
    section: float = 0.20
    """The same anywhere under the line's heading: what a whole talk was about."""
    meaning: float = 7.0
    """The cosine between the question and the line with its neighbours."""
    speaker: float = 3.0
    """The line is said by somebody whom the question names."""
    speaker_near: float = 3.0
    """Somebody whom the question names speaks under the same heading."""
    day: float = 5.0
    """The note is of a day that the question names, or the line speaks of that day."""
    when: float = 2.4
    """The line has words of date or time, and the question asks for them."""
    question: float = -0.5
    """The line is a question itself: the answer is elsewhere."""
    answer: float = 0.14
    """Words of the question in the line before, when that one asks (like `term`)."""
    heading: float = -2.0
    """A heading says what follows; what follows is the better answer."""

    window: tuple[tuple[int, float], ...] = ((0, 1.0), (-1, 0.7), (1, 0.5), (-2, 0.35), (2, 0.25))
    """What a word counts at a distance in lines. The line before is often the question that this one answers."""
    same_meaning: float = 0.7
    """What another word of the same meaning counts beside the word itself."""
    begun: float = 0.6
    """What a word counts that begins with the one which is being typed."""
    begun_stem: float = 0.3
    """What a word counts that begins with what may be its stem."""
    broader: float = 0.35
    """What a broader word counts (drink for coffee)."""

    by_words: int = 300
    """Lines looked at for their words."""
    by_meaning: int = 300
    """Lines looked at for their vectors."""
    by_day: int = 300
    """Lines looked at because the question names their day."""
    promising: int = 200
    """Lines of the whole index that are looked at exactly, where all of them are in memory."""
    postings: int = 20_000
    """Lines that are read for one word; in a large index a fifth of all. What is in more of them tells little."""

    least_score: float = 0.02
    """A line that holds no word of what is asked for has to mean something like it: this much. Up to 0.03 no answer of
    the measured questions is lost."""
    ranked: int = 60
    """Lines, best first, that ranges are built of."""
    first_chars: int = 1_500
    first_ranges: int = 4
    """The first page: so many ranges get what their surroundings add before other places are looked at."""
    range_chars: int = 700
    """Characters of a range; a longer line stays whole, or is cut to what is left if that is at least so much."""
    gap: int = 1
    """Lines between two good ones that a range takes in."""
