"""The types shared by the parts of a search: what it needs from the index, and what a ranking is before it becomes
results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from clawbot.memory.values import Hit

if TYPE_CHECKING:
    from clawbot.memory.arrays import Floats, Ids


StopCheck = Callable[[], bool]
"""Whether the deadline has passed or the caller is gone. Checked between the steps of a search."""


ReadVectors = Callable[["Ids"], tuple["Ids", "Floats"]]
"""Maps ids to those that have a vector, ascending `(m,)`, and their unit vectors `(m, d)`."""


def never() -> bool:
    """A search without a deadline."""
    return False


class Matrix(Protocol):
    """All vectors in memory, by ascending `ids` `(n,)`; see `store/matrix.py`."""

    @property
    def ids(self) -> Ids: ...

    def scores(self, vector: bytes) -> Floats:
        """The cosine of each row with a unit vector `(d,)`: `(n,)`."""
        ...

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Like `IndexReader.vectors`."""
        ...


class Budget(Struct, frozen=True):
    """The limits of a search: number of `results`, total `chars` (None: no limit), minimum `score`."""

    results: int
    chars: int | None
    score: float


class Ranked(Struct, frozen=True):
    """The results of a search, best first. `partial`: the deadline passed first. `warnings` are for people and
    models."""

    hits: tuple[Hit, ...]
    partial: bool = False
    warnings: tuple[str, ...] = ()


class Ranking(Protocol):
    """Ranked candidates before they become results: a reranker may reorder them."""

    def texts(self, count: int) -> list[str]:
        """The texts of the first `count`."""
        ...

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """The results. `order` lists the positions (from 0) to put first; the others follow in their order."""
        ...


def reordered(count: int, order: Sequence[int] | None) -> list[int]:
    """The numbers 0 to `count` - 1, those of `order` first; invalid and repeated numbers are ignored."""
    first = dict.fromkeys(number for number in order or () if 0 <= number < count)
    return [*first, *(number for number in range(count) if number not in first)]
