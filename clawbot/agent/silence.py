"""A reply that streams in, held back only while it may still turn out to be silent (reference sheet 9.2, 9.3)."""

from __future__ import annotations

from clawbot.sessions.silence import CONTEXT, completed, end_of, spoken, start_of


class Hold:
    """What of one reply may be shown, piece by piece.

    However the reply is split, what `feed` and `end` give is together what `spoken` makes of the whole, up to blanks
    around it, and nothing of a silent reply is ever given.
    """

    def __init__(self) -> None:
        self._held = ""
        self._before = ""
        self._begun = False

    def feed(self, piece: str) -> str:
        """Take the next piece of the reply; returns what may be shown now."""
        self._held += piece
        if not self._begun:
            start = start_of(self._held, ended=False)
            if start is None:
                return ""
            self._begun = True
            self._held = self._held[start:]
        return self._release(end_of(self._held, ended=False, before=self._before))

    def end(self, *, cut: bool = False) -> str:
        """The reply is over; returns what is left to show. `cut`: it was cut off, maybe in the middle of a token."""
        if not self._begun:
            rest, self._held = spoken(self._held, cut=cut), ""
            return rest
        text = completed(self._held) if cut else self._held
        end = end_of(text, ended=True, before=self._before)
        return self._release(min(end, len(self._held))).rstrip()

    def _release(self, size: int) -> str:
        shown, self._held = self._held[:size], self._held[size:]
        self._before = (self._before + shown)[-CONTEXT:]
        return shown
