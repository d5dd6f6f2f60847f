"""Owns what a search needs of the index: the few things that it asks of a reader and of the matrix of vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from clawbot.memory.store.records import ChunkRow, FileRow, LineRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Floats = NDArray[np.float32]
    Bools = NDArray[np.bool_]

StopCheck = Callable[[], bool]
"""Says whether the deadline is over or nobody waits any more. Asked between the steps of a search."""


def never() -> bool:
    """A search without a deadline."""
    return False


class Reader(Protocol):
    """What a search reads of the index; see `store/reader.py`. Everything blocks."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Inside, the index does not change."""
        ...

    @property
    def generation(self) -> int:
        """Another number after each change of what a search may find."""
        ...

    def revisions(self) -> Mapping[int, tuple[int, int]]:
        """For each file what is another pair of numbers after each change of its pieces or their vectors."""
        ...

    def files(self) -> Mapping[int, FileRow]:
        """The files by id."""
        ...

    def speakers(self) -> Mapping[int, str]:
        """The people who speak in the notes, by id."""
        ...

    def postings(self, match: str, limit: int) -> Sequence[int]:
        """The first `limit` ids, ascending, of the chunks that an FTS5 expression finds."""
        ...

    def best_keywords(
        self, match: str, limit: int, file_ids: Collection[int] | None = None
    ) -> Sequence[tuple[int, float]]:
        """The chunks that fit an FTS5 expression best, with their bm25: the lower, the better."""
        ...

    def nearest(
        self, vector: bytes, limit: int, file_ids: Collection[int] | None = None
    ) -> Sequence[tuple[int, float]]:
        """The `limit` chunks nearest to a unit vector, with their cosines, the best first."""
        ...

    def vectors(self, ids: Collection[int]) -> tuple[Ids, Floats]:
        """The unit vectors of `ids`, as far as there are any, and which ids these are."""
        ...

    def all_vectors(self) -> tuple[Ids, Floats]:
        """The ids of all chunks that have a vector, ascending, and their unit vectors."""
        ...

    def lines(self, ids: Collection[int]) -> Sequence[LineRow]:
        """Like `rows`, without text."""
        ...

    def rows(self, ids: Collection[int]) -> Sequence[ChunkRow]:
        """The chunks of `ids` in the order of their ids; those that do not exist are left out."""
        ...


class Matrix(Protocol):
    """All vectors, in memory: ascending `ids`; see `store/matrix.py`."""

    @property
    def ids(self) -> Ids: ...

    def scores(self, vector: bytes) -> Floats:
        """The cosine of each row and a unit vector."""
        ...

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Like `Reader.vectors`."""
        ...
