"""Texts in batches that an embedding provider takes, and smaller ones after it refused one. Pure decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from clawbot.llm.providers import EmbeddingLimits
from clawbot.llm.tokens import estimate_tokens

SHORTEST_CUT = 256
"""Characters. A text that is refused for its length is halved down to this; then something else must be wrong."""


class Piece(Struct, frozen=True):
    """A text that waits, and its place among the texts of the call."""

    place: int
    text: str


class Batches:
    """Hands out batches within `limits`, which become narrower when a batch was refused."""

    def __init__(self, texts: Sequence[str], limits: EmbeddingLimits) -> None:
        """Texts of blanks alone are left out: providers refuse them, and they say nothing."""
        self.limits = limits
        self._waiting = deque(Piece(place, text) for place, text in enumerate(texts) if text.strip())

    def take(self) -> list[Piece]:
        """The next batch; empty when there is none."""
        batch: list[Piece] = []
        tokens = 0
        while self._waiting and len(batch) < self.limits.texts:
            piece = _fitting(self._waiting[0], self.limits.each)
            tokens += estimate_tokens(piece.text)
            if batch and tokens > self.limits.tokens:
                break
            batch.append(piece)
            self._waiting.popleft()
        return batch

    def put_back(self, batch: Sequence[Piece]) -> bool:
        """Take a refused batch back, to hand it out in halves; a single text is cut in half.

        False when there is nothing left to halve.
        """
        if len(batch) > 1:
            self.limits = msgspec.structs.replace(self.limits, texts=min(self.limits.texts, len(batch) // 2))
            self._waiting.extendleft(reversed(batch))
            return True
        (piece,) = batch
        if len(piece.text) <= SHORTEST_CUT:
            return False
        self._waiting.appendleft(Piece(piece.place, piece.text[: len(piece.text) // 2]))
        return True


def _fitting(piece: Piece, most: int) -> Piece:
    """`piece` with at most about `most` tokens: the beginning of a text says what it is about."""
    tokens = estimate_tokens(piece.text)
    return piece if tokens <= most else Piece(piece.place, piece.text[: len(piece.text) * most // tokens])
