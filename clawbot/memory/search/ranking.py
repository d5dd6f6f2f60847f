"""Owns what a ranking is: the places found, best first, before they are made into results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from clawbot.memory.values import Hit


class Budget(Struct, frozen=True):
    """How much a search may return: `results` in number, `chars` together (None: any), nothing below `score`."""

    results: int
    chars: int | None
    score: float


class Ranked(Struct, frozen=True):
    """The results of a search, best first. `partial`: the deadline came first. `notes` are for people and models."""

    hits: tuple[Hit, ...]
    partial: bool = False
    notes: tuple[str, ...] = ()


class Ranking(Protocol):
    """What was found, best first, before it becomes results: a re-ranker may put it into another order."""

    def texts(self, count: int) -> list[str]:
        """The texts of the first `count`."""
        ...

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """The results. `order` says which of the first ones (from 0) come first; the others follow as they were."""
        ...


def reordered(count: int, order: Sequence[int] | None) -> list[int]:
    """The numbers 0 to `count` - 1, those of `order` first; what is no such number or comes twice is passed over."""
    first = dict.fromkeys(number for number in order or () if 0 <= number < count)
    return [*first, *(number for number in range(count) if number not in first)]
