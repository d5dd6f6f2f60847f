"""How a conversation that is too large for one summary is taken in parts, each of which fits (sheet 7.5). Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from clawbot.context.cutting import head_and_tail

SAFETY = 1.2
"""Providers count differently from this program."""

LEAST_STAGE = 256
"""Tokens. Below this a part holds nothing that could be summarised."""


class Piece(Struct, frozen=True):
    """One message as text, and its tokens."""

    text: str
    tokens: int


def stage_budget(window: int, answer: int, overhead: int) -> int:
    """How many tokens of conversation fit into one call, beside an answer and an overhead of so many."""
    return max(LEAST_STAGE, int((window - answer - overhead) / SAFETY))


def pieces_of(texts: Iterable[str], stage: int, count: Callable[[str], int]) -> list[Piece]:
    """`texts` with their tokens by `count`. One of more than half a stage is shortened to that. Blocks."""
    return [_piece(text, stage // 2, count) for text in texts]


def _piece(text: str, most: int, count: Callable[[str], int]) -> Piece:
    tokens = count(text)
    chars = len(text)
    shown = text
    while tokens > most and chars > 0:
        chars = min(chars - 1, int(chars * most / tokens * 0.9))
        shown = head_and_tail(text, max(chars, 0))
        tokens = count(shown)
    return Piece(shown, tokens + 1)  # the blank line behind it


def plan_stages(tokens: Sequence[int], budget: int) -> list[range]:
    """The indexes of `tokens` in as few runs as fit into `budget` each, of about the same size. One that is larger than
    the budget has a run of its own."""
    fewest = len(_filled(tokens, budget))
    low, high = math.ceil(sum(tokens) / max(fewest, 1)), budget
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(tokens, middle)) <= fewest else (middle + 1, high)
    return _filled(tokens, high)


def _filled(tokens: Sequence[int], budget: int) -> list[range]:
    runs: list[range] = []
    start = filled = 0
    for index, size in enumerate(tokens):
        if index > start and filled + size > budget:
            runs.append(range(start, index))
            start, filled = index, 0
        filled += size
    return [*runs, range(start, len(tokens))] if tokens else runs
