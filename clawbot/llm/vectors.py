"""What goes into a call of an embedding model, and what comes out: batches of texts, and rows of vectors. Pure."""

from __future__ import annotations

import binascii
import math
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from clawbot.llm.providers import EmbeddingLimits
from clawbot.llm.tokens import estimate_tokens

SHORTEST_CUT = 64
"""Characters. A text that is refused for its length is cut down to this; then something else must be wrong."""
_SPARE = 0.95  # tokens are not spread evenly over a text


class BatchText(Struct, frozen=True):
    """A pending text, and its position among the texts of the call."""

    position: int
    text: str


class Excess(Struct, frozen=True):
    """The tokens that a refusal states: the maximum of a prompt, and the size of this one; None if it doesn't."""

    limit: int | None = None
    size: int | None = None


class Batches:
    """Hands out batches within `limits`, which become narrower when a batch was refused."""

    def __init__(self, texts: Sequence[str], limits: EmbeddingLimits) -> None:
        """Blank texts are left out: providers refuse them."""
        self.limits = limits
        self._waiting = deque(BatchText(position, text) for position, text in enumerate(texts) if text.strip())
        self._texts = limits.texts
        self._halves: deque[Sequence[BatchText]] = deque()

    def take(self) -> Sequence[BatchText]:
        """Return the next batch; empty when there is none."""
        if self._halves:
            return self._halves.popleft()
        batch: list[BatchText] = []
        tokens = 0
        while self._waiting and len(batch) < self.limits.texts:
            entry = _fitting(self._waiting[0], self.limits.each)
            tokens += estimate_tokens(entry.text)
            if batch and tokens > self.limits.tokens:
                break
            batch.append(entry)
            self._waiting.popleft()
        return batch

    def put_back(self, batch: Sequence[BatchText], excess: Excess) -> bool:
        """Return a refused batch, to be split in halves; a single text is cut. False if it can't be cut any more."""
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

    def _cut(self, entry: BatchText, excess: Excess) -> bool:
        # It was this one then, not how many they were.
        self.limits = msgspec.structs.replace(self.limits, texts=self._texts)
        if len(entry.text) <= SHORTEST_CUT:
            return False
        share = 0.5
        if excess.limit and excess.size and excess.size > excess.limit:
            share = _SPARE * excess.limit / excess.size
        kept = max(SHORTEST_CUT, int(len(entry.text) * share))
        self._halves.appendleft([BatchText(entry.position, entry.text[:kept])])
        return True


def _one_is_too_long(batch: Sequence[BatchText], limit: int) -> bool:
    """Whether one text may exceed `limit` alone. Estimates are for prose: code and figures have up to twice as many
    tokens."""
    return max(estimate_tokens(entry.text) for entry in batch) * 2 > limit


def _fitting(entry: BatchText, most: int) -> BatchText:
    """Return the beginning of `entry`, with about `most` tokens."""
    tokens = estimate_tokens(entry.text)
    return entry if tokens <= most else BatchText(entry.position, entry.text[: len(entry.text) * most // tokens])


FLOAT_BYTES = 4
_UNIT_TOLERANCE = 1e-5


class BadVectorsError(ValueError):
    """An answer that is no list of vectors for the texts, with the reason."""


class Rows(Struct, frozen=True):
    """Rows of `dimensions` little-endian float32, each of unit length or all zeros."""

    dimensions: int
    data: bytes

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yield the data in groups of complete rows, of about `size` bytes."""
        row = self.dimensions * FLOAT_BYTES
        step = max(1, size // row) * row
        return (self.data[start : start + step] for start in range(0, len(self.data), step))


def to_rows(entries: object, count: int) -> Rows:
    """`entries` (`data` of an OpenAI embedding answer) as `count` rows. Blocks. Raises BadVectorsError."""
    if not isinstance(entries, Sequence) or len(entries) != count:
        found = len(entries) if isinstance(entries, Sequence) else "no"
        raise BadVectorsError(f"it holds {found} vectors for {count} texts")
    rows = [_row(_field(entry, "embedding")) for entry in _ordered(entries)]
    dimensions = len(rows[0])
    if any(len(row) != dimensions for row in rows):
        raise BadVectorsError("its vectors differ in size")
    return Rows(dimensions, b"".join(row.tobytes() for row in rows))


def _ordered(entries: Sequence[object]) -> Sequence[object]:
    """Return the entries in the order of their indexes, if each has one."""
    indexed = {index: entry for entry in entries if isinstance(index := _field(entry, "index"), int)}
    return [indexed[index] for index in range(len(entries))] if indexed.keys() == set(range(len(entries))) else entries


def _row(vector: object) -> array[float]:
    if isinstance(vector, str):
        vector = _unpacked(vector)
    if not isinstance(vector, Sequence | array) or not vector:
        raise BadVectorsError("one of its vectors is no list of figures")
    try:
        length = math.hypot(*vector)
        if not math.isfinite(length):
            raise BadVectorsError("one of its vectors holds a figure that is none")
        even = abs(length - 1) < _UNIT_TOLERANCE or length == 0
        row = array("f", vector if even else [figure / length for figure in vector])
    except (TypeError, OverflowError) as error:
        raise BadVectorsError("one of its vectors is no list of figures") from error
    if sys.byteorder == "big":
        row.byteswap()
    return row


def _unpacked(text: str) -> array[float]:
    figures = array("f")
    try:
        figures.frombytes(binascii.a2b_base64(text, strict_mode=True))
    except ValueError as error:
        raise BadVectorsError("one of its vectors is no list of figures") from error
    if sys.byteorder == "big":
        figures.byteswap()
    return figures


def _field(entry: object, name: str) -> object:
    return entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
