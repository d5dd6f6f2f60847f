"""What an embedder is: texts go in, unit vectors come out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from clawbot.errors import ClawbotError

FLOAT_BYTES = 4
"""Bytes of one figure of a vector: a little-endian float32."""

Purpose = Literal["document", "query"]
"""What a text is: some models embed a question in another way than the text that answers it."""


class Vectors(Struct, frozen=True):
    """Rows of `dimensions` little-endian float32 in `data`, of unit length; all zeros where a text says nothing."""

    dimensions: int
    data: bytes

    def __len__(self) -> int:
        return len(self.data) // (self.dimensions * FLOAT_BYTES) if self.dimensions else 0

    def row(self, index: int) -> bytes:
        """The bytes of row `index`."""
        size = self.dimensions * FLOAT_BYTES
        return self.data[index * size : (index + 1) * size]

    def rows(self) -> list[bytes]:
        """The bytes of each row."""
        return [self.row(index) for index in range(len(self))]

    @classmethod
    def of_rows(cls, rows: Iterable[bytes]) -> Vectors:
        """Vectors made of rows of equal length. Raises ValueError when they are not."""
        found = list(rows)
        sizes = {len(row) for row in found}
        if len(sizes) > 1:
            raise ValueError(f"rows of {sorted(sizes)} bytes")
        return cls(sizes.pop() // FLOAT_BYTES if sizes else 0, b"".join(found))


class EmbeddingError(ClawbotError):
    """Texts could not be embedded. `retryable` says whether the same call may work later."""

    def __init__(self, message: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class Embedder(Protocol):
    """Something that turns texts into vectors."""

    @property
    def provider(self) -> str:
        """`offline`, or litellm's name of the provider: `openai`, `gemini`, …"""
        ...

    @property
    def model(self) -> str:
        """The model, without the provider before it."""
        ...

    @property
    def remote(self) -> bool:
        """Whether the texts leave this machine's memory for it."""
        ...

    @property
    def identity(self) -> str:
        """Provider, model and address. Vectors of another identity have nothing to do with these; holds no key."""
        ...

    @property
    def address(self) -> str:
        """Where the texts go; "" for the provider's own address, and where they go nowhere. Holds no key."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """One row for each text, in their order. Takes any number of texts; may be cancelled. Raises EmbeddingError.

        A text of blanks alone gets zeros; where nothing else was asked for, the size may be unknown: no rows then.
        """
        ...

    async def aclose(self) -> None:
        """Let go of processes and memory."""
        ...
