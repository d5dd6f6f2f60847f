"""What the parts of a search have in common: what they ask of the index, and what a ranking is before it becomes
results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from clawbot.memory.values import Hit

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats, Ids


StopCheck = Callable[[], bool]
"""Says whether the deadline is over or nobody waits any more. Asked between the steps of a search."""


ReadVectors = Callable[["Ids"], tuple["Ids", "Floats"]]
"""Ids go in; out come those that have a vector, ascending, and their unit vectors."""


def never() -> bool:
    """A search without a deadline."""
    return False


class Matrix(Protocol):
    """All vectors, in memory: ascending `ids`; see `store/matrix.py`."""

    @property
    def ids(self) -> Ids: ...

    def scores(self, vector: bytes) -> Floats:
        """The cosine of each row and a unit vector."""
        ...

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Like `IndexReader.vectors`."""
        ...


class Budget(Struct, frozen=True):
    """How much a search may return: `results` in number, `chars` together (None: any), nothing below `score`."""

    results: int
    chars: int | None
    score: float


class Ranked(Struct, frozen=True):
    """The results of a search, best first. `partial`: the deadline came first. `warnings` are for
    people and models."""

    hits: tuple[Hit, ...]
    partial: bool = False
    warnings: tuple[str, ...] = ()


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
