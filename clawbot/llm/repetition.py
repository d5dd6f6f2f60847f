"""Notices a model that says the same over and over while its answer streams in. Pure, a few microseconds a word."""

from __future__ import annotations

from clawbot.text.patterns import lazy_re

SAME_WORDS = 20
TIMES = 10
"""An answer is stopped when it ends in so many words that came so many times in a row, in any period: 200 words of
`I'm you.`, or ten times the same paragraph."""

# A rule of dashes is one word, a script without spaces has a word in each character, and no word is endless.
_WORD = lazy_re(r"[\u2e80-\ud7ff\uf900-\ufaff]|[^\W\u2e80-\ud7ff\uf900-\ufaff]{1,24}|[^\w\s]{1,200}")


class RepetitionGuard:
    """Reads one text as it comes. `looping` is true from the word on that makes it a loop."""

    def __init__(self) -> None:
        self.looping = False
        self._words: list[str] = []
        self._ends: list[int] = []
        self._seen: dict[int, int] = {}
        self._tail = ""
        self._offset = 0
        self._period = 0
        self._run = 0

    @property
    def kept(self) -> int:
        """How many characters of the text say it once."""
        first = len(self._words) - self._run - SAME_WORDS - self._period
        return self._ends[max(0, first) + self._period - 1] if self.looping else self._offset + len(self._tail)

    def feed(self, piece: str) -> bool:
        """Take the next piece; whether the text is a loop by now."""
        text = self._tail + piece
        taken = 0
        for found in _WORD.finditer(text):
            if self.looping or found.end() == len(text):
                break  # what comes next may belong to the last word
            taken = found.end()
            self._take(found[0], self._offset + taken)
        self._offset, self._tail = self._offset + taken, text[taken:]
        return self.looping

    def _take(self, word: str, end: int) -> None:
        self._words.append(word)
        self._ends.append(end)
        number = len(self._words)
        last = hash(tuple(self._words[-SAME_WORDS:]))
        period = number - self._seen.get(last, number) if number >= SAME_WORDS else 0
        self._seen[last] = number
        self._run = self._run + 1 if period and period == self._period else 0
        self._period = period
        said = self._run + SAME_WORDS + period
        self.looping = bool(period) and said >= TIMES * max(SAME_WORDS, period)
