"""The types shared by the parts of a search: what it needs from the index, and what a ranking is before it becomes
results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from clawbot.errors import ClawbotError
from clawbot.memory.values import Evidence, Hit, Reranker

if TYPE_CHECKING:
    from pathlib import Path

    from clawbot.config.schema_memory import QuerySettings
    from clawbot.memory.arrays import Bools, Floats, Ids
    from clawbot.memory.store.records import ChunkRow, FileRow, IdRange, LineRow


RERANKER_GROUP = "clawbot.rerankers"
"""The entry point group for what orders results: functions from a RerankerContext to a Reranker."""

MAX_RERANKED = 50
"""Maximum number of texts that a reranker orders."""

Complete = Callable[[str, str], Awaitable[str]]
"""A system prompt and a prompt in, the model's text out. Raises ClawbotError on failure."""

StopCheck = Callable[[], bool]
"""Whether the deadline has passed or the caller is gone. Checked between the steps of a search."""


ReadVectors = Callable[["Ids"], tuple["Ids", "Floats"]]
"""Maps ids to those that have a vector, ascending `(m,)`, and their unit vectors `(m, d)`."""


def never() -> bool:
    """Return a search without a deadline."""
    return False


class ChunkReader(Protocol):
    """What a search reads: the index of this machine (`store.reader.IndexReader`), or a part of another one.

    Ids are those of chunks (`id_of`), and mean the same inside one `snapshot`. Everything blocks.
    """

    def snapshot(self) -> AbstractContextManager[None]:
        """Inside, the index does not change."""

    @property
    def generation(self) -> int:
        """Changes with everything that a search may find."""

    def files(self) -> Mapping[int, FileRow]:
        """Return the files by their id."""

    def speakers(self) -> Mapping[int, str]:
        """Return the speakers of dialogue, by the number used in chunks."""

    def changed_since(self, generation: int) -> Collection[int] | None:
        """Return the files that changed after an earlier generation, removed ones included; None if unknown."""

    def postings(self, match: str, limit: int, id_range: IdRange) -> Sequence[int] | Ids:
        """Return the first `limit` chunks in `id_range`, by id, that match the FTS5 expression `match`."""

    def frequency(self, match: str, found: int) -> int:
        """Return the number of chunks with `match`, where `postings` returned `found`."""

    def stems(self, shortest: int, beginning: str) -> Sequence[str]:
        """Return the stems of at least `shortest` characters with this `beginning`, most frequent first, to correct
        misspelt words."""

    def stems_between(self, first: str, end: str, limit: int) -> Sequence[str]:
        """Return the first `limit` stems, in order, from `first` on and before `end`."""

    def best_keywords(self, match: str, limit: int, file_ids: Collection[int] | None) -> Sequence[tuple[int, float]]:
        """Return the `limit` best matches of `match` (only in `file_ids`, if given) with bm25: lower is better."""

    def nearest(self, vector: bytes, limit: int, file_ids: Collection[int] | None) -> Sequence[tuple[int, float]]:
        """Return the `limit` chunks (only in `file_ids`, if given) nearest to a unit vector and cosines, best first."""

    def rows(self, ids: Collection[int]) -> Sequence[ChunkRow]:
        """Return the existing chunks in `ids`, by id."""

    def lines(self, ids: Collection[int]) -> Sequence[LineRow]:
        """Return the existing chunks in `ids`, by id, without their text."""

    def columns(self, id_range: IdRange) -> tuple[list[int], ...]:
        """Return all chunks in `id_range`, by id: ids, ordinals of their headings (-1 without one), speakers (-1),
        numbers of their kinds, flags."""

    def vectors(self, ids: Collection[int]) -> tuple[Ids, Floats]:
        """Return the ids in `ids` that have a vector, ascending `(m,)`, and their unit vectors, float32 `(m, d)`."""

    def all_vectors(self, id_range: IdRange) -> tuple[Ids, Floats]:
        """Return the ids in `id_range` with a vector, ascending `(n,)`, and their unit vectors, float32 `(n, d)`."""


class Matrix(Protocol):
    """All vectors in memory, by ascending `ids` in stretches; see `store/matrix.py`."""

    @property
    def ids(self) -> Sequence[Ids]: ...

    def positions(self, ids: Ids) -> tuple[Ids, Bools]:
        """Return the row of each of the ascending `ids` `(m,)`, and which have one: both `(m,)`."""

    def scores(self, vector: bytes) -> Floats:
        """Return the cosine of each row with a unit vector `(d,)`, or an estimate: `(n,)`."""

    def rows(self, ids: Ids) -> tuple[Ids, Floats]:
        """Return the same as `IndexReader.vectors`."""


class Budget(Struct, frozen=True):
    """The limits of a search: number of `results`, total `chars` (None: no limit), minimum `score`, and whether the
    user or the model states that.

    `usual` are the results and characters of a search that sets none (None: no limit): what is beyond
    follows behind these, and changes nothing of them.
    """

    results: int
    chars: int | None
    score: float
    usual: tuple[int, int | None] = (sys.maxsize, None)
    states_score: bool = False


class Ranked(Struct, frozen=True):
    """The results of a search, best first. `partial`: the deadline passed first. `warnings` are for people and
    models. `evidence`: whether the notes probably hold an answer."""

    hits: tuple[Hit, ...]
    partial: bool = False
    warnings: tuple[str, ...] = ()
    evidence: Evidence = "fair"


class Ranking(Protocol):
    """Ranked candidates before they become results: a reranker may reorder them."""

    def texts(self, count: int) -> list[str]:
        """Return the texts of the first `count`."""

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """Return the results. `order` lists the positions (from 0) to put first; the others follow in their order."""


def reordered(count: int, order: Sequence[int] | None) -> list[int]:
    """Return the numbers 0 to `count` - 1, those of `order` first; invalid and repeated numbers are ignored."""
    first = dict.fromkeys(number for number in order or () if 0 <= number < count)
    return [*first, *(number for number in range(count) if number not in first)]


class RerankerContext(Struct, frozen=True):
    """The input of a reranker: the settings of searches, the folder for its files, and the agent's model where there is
    one to ask."""

    settings: QuerySettings
    folder: Path
    complete: Complete | None = None


async def reranked(reranker: Reranker, queries: Sequence[str], ranking: Ranking) -> Ranked:
    """Return the results of `ranking` in the order of `reranker`; in their own, with a warning, if that fails."""
    texts = await asyncio.to_thread(ranking.texts, MAX_RERANKED)
    try:
        order = await reranker.order(queries, texts) if len(texts) > 1 else None
    except ClawbotError as error:
        ranked = await asyncio.to_thread(ranking.results)
        return structs.replace(ranked, warnings=(*ranked.warnings, str(error)))
    return await asyncio.to_thread(ranking.results, order)
