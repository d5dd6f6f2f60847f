"""Packs texts into calls of an embedding model, and makes what was refused as too large smaller. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from clawbot.llm.providers import EmbeddingLimits
from clawbot.llm.tokens import estimate_tokens

SHORTEST_CUT = 64
"""Characters. A text that is refused for its length is cut down to this; then something else must be wrong."""
_SPARE = 0.95  # tokens are not spread evenly over a text


class BatchText(Struct, frozen=True):
    """A text that waits, and its place among the texts of the call."""

    place: int
    text: str


class Excess(Struct, frozen=True):
    """What a refusal says in tokens: the most that a prompt may have, and how many this one has; None where it doesn't
    say so."""

    limit: int | None = None
    size: int | None = None


class Batches:
    """Hands out batches within `limits`, which become narrower when a batch was refused."""

    def __init__(self, texts: Sequence[str], limits: EmbeddingLimits) -> None:
        """Texts of blanks alone are left out: providers refuse them, and they say nothing."""
        self.limits = limits
        self._waiting = deque(BatchText(place, text) for place, text in enumerate(texts) if text.strip())
        self._texts = limits.texts
        self._halves: deque[Sequence[BatchText]] = deque()

    def take(self) -> Sequence[BatchText]:
        """The next batch; empty when there is none."""
        if self._halves:
            return self._halves.popleft()
        batch: list[BatchText] = []
        tokens = 0
        while self._waiting and len(batch) < self.limits.texts:
            piece = _fitting(self._waiting[0], self.limits.each)
            tokens += estimate_tokens(piece.text)
            if batch and tokens > self.limits.tokens:
                break
            batch.append(piece)
            self._waiting.popleft()
        return batch

    def put_back(self, batch: Sequence[BatchText], excess: Excess) -> bool:
        """Take a refused batch back, to hand it out in halves; a single text is cut.

        False for a text that can't be cut any more.
        """
        if len(batch) == 1:
            return self._cut(batch[0], excess)
        middle = len(batch) // 2
        if excess.limit is not None and _one_is_too_long(batch, excess.limit):
            # The others are as welcome together as before.
            self.limits = msgspec.structs.replace(self.limits, each=min(self.limits.each, excess.limit))
            self._halves.extendleft((batch[middle:], batch[:middle]))
        else:
            self.limits = msgspec.structs.replace(self.limits, texts=min(self.limits.texts, middle))
            self._waiting.extendleft(reversed(batch))
        return True

    def _cut(self, piece: BatchText, excess: Excess) -> bool:
        # It was this one then, not how many they were.
        self.limits = msgspec.structs.replace(self.limits, texts=self._texts)
        if len(piece.text) <= SHORTEST_CUT:
            return False
        share = 0.5
        if excess.limit and excess.size and excess.size > excess.limit:
            share = _SPARE * excess.limit / excess.size
        kept = max(SHORTEST_CUT, int(len(piece.text) * share))
        self._halves.appendleft([BatchText(piece.place, piece.text[:kept])])
        return True


def _one_is_too_long(batch: Sequence[BatchText], limit: int) -> bool:
    """Whether a text may be over `limit` tokens on its own, rather than all of them together. Estimates are of prose:
    code and figures take up to twice as many."""
    return max(estimate_tokens(piece.text) for piece in batch) * 2 > limit


def _fitting(piece: BatchText, most: int) -> BatchText:
    """`piece` with at most about `most` tokens: the beginning of a text says what it is about."""
    tokens = estimate_tokens(piece.text)
    return piece if tokens <= most else BatchText(piece.place, piece.text[: len(piece.text) * most // tokens])
