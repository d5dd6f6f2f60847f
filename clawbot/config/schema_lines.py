"""The settings of the ranking in the profile `lines`: what counts how much, the reach of neighbours, results.

The numbers were learned on conversations (with one left out in turn, so that none was judged by its own numbers),
rounded, and checked on Chinese notes. Each is on a flat stretch: a fifth more or less changes little.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clawbot.config.section import Section
from clawbot.config.values import Count, Positive, Share

Weight = Annotated[float, Field(ge=-100, le=100)]


class LineWeights(Section):
    """How lines are ranked, in the profile `lines`; a rare word that is found counts about 8 before its weight."""

    term: Weight = 0.33
    """A word of the question in the line or beside it, by its rarity (0 to 8)."""
    section: Weight = 0.20
    """The same anywhere under the line's heading: what a whole talk was about."""
    meaning: Weight = 7.0
    """The cosine between the question and the line with its neighbours."""
    speaker: Weight = 3.0
    """The line is said by somebody whom the question names."""
    speaker_near: Weight = 3.0
    """Somebody whom the question names speaks under the same heading."""
    day: Weight = 5.0
    """The note is of a day that the question names, or the line speaks of that day."""
    when: Weight = 2.4
    """The line has words of date or time, and the question asks for them."""
    question: Weight = -0.5
    """The line is a question itself: the answer is elsewhere."""
    answer: Weight = 0.14
    """Words of the question in the line before, when that one asks (like term)."""
    heading: Weight = -2.0
    """A heading says what follows; what follows is the better answer."""
    before: Share = 0.7
    """What a word counts that stands one line before: often the question that a line answers."""
    after: Share = 0.5
    """What a word counts that stands one line after."""
    two_before: Share = 0.35
    """What a word counts that stands two lines before."""
    two_after: Share = 0.25
    """What a word counts that stands two lines after."""
    same_meaning: Share = 0.7
    """What another word of the same meaning counts beside the word itself."""
    broader: Share = 0.35
    """What a broader word counts (drink for coffee)."""
    begun: Share = 0.6
    """What a word counts that begins with the one which is being typed."""
    begun_stem: Share = 0.3
    """What a word counts that begins with what may be its stem."""
    by_words: Positive = 300
    """Lines looked at for their words, in a one-shot search of a large index."""
    by_meaning: Positive = 300
    """Lines looked at for their vectors, in a one-shot search of a large index."""
    by_day: Positive = 300
    """Lines looked at because the question names their day."""
    promising: Positive = 200
    """Lines of the whole index that are looked at exactly, where all of them are in memory."""
    postings: Positive = 20_000
    """Lines that are read for one word; in a large index a fifth of all. What is in more of them tells little."""
    least_score: Share = 0.02
    """What a line has to score that holds no word of the question."""
    ranked: Positive = 60
    """Lines, best first, that results are built of."""
    first_chars: Positive = 1_500
    """Characters of the first page: the best lines, before what stands beside them is taken in."""
    first_ranges: Positive = 4
    """Results of the first page."""
    range_chars: Positive = 700
    """Characters of a result; a longer line stays whole, or is cut to what is left if that is at least so much."""
    gap: Count = 1
    """Lines between two good ones that a result takes in."""

    @property
    def window(self) -> tuple[tuple[int, float], ...]:
        """What a word counts at a distance in lines."""
        return (0, 1.0), (-1, self.before), (1, self.after), (-2, self.two_before), (2, self.two_after)
