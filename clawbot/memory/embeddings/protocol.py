"""The embedder protocol: texts in, unit vectors out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from clawbot.errors import ClawbotError

FLOAT_BYTES = 4
"""Bytes of one vector component: a little-endian float32."""

Purpose = Literal["document", "query"]
"""The role of a text: some models embed queries differently from documents."""


class Vectors(Struct, frozen=True):
    """Rows of `dimensions` little-endian float32 in `data`, of unit length; zeros for text without meaning."""

    dimensions: int
    data: bytes

    def __len__(self) -> int:
        return len(self.data) // (self.dimensions * FLOAT_BYTES) if self.dimensions else 0

    def row(self, index: int) -> bytes:
        size = self.dimensions * FLOAT_BYTES
        return self.data[index * size : (index + 1) * size]

    def rows(self) -> list[bytes]:
        return [self.row(index) for index in range(len(self))]

    @classmethod
    def of_rows(cls, rows: Iterable[bytes]) -> Vectors:
        """Raises ValueError if the rows differ in length."""
        found = list(rows)
        sizes = {len(row) for row in found}
        if len(sizes) > 1:
            raise ValueError(f"rows of {sorted(sizes)} bytes")
        return cls(sizes.pop() // FLOAT_BYTES if sizes else 0, b"".join(found))


class EmbeddingError(ClawbotError):
    """Texts could not be embedded. `retryable`: the same call may succeed later."""

    def __init__(self, message: str, *, hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class Embedder(Protocol):
    """Converts texts to vectors."""

    @property
    def provider(self) -> str:
        """`offline`, or litellm's provider name: `openai`, `gemini`, …"""

    @property
    def model(self) -> str:
        """The model, without the provider before it."""

    @property
    def remote(self) -> bool:
        """Whether texts leave this machine."""

    @property
    def identity(self) -> str:
        """Provider, model and address, without the key. Vectors of different identities are not comparable."""

    @property
    def address(self) -> str:
        """Where the texts go; "" for the provider's own address, and where they go nowhere. Holds no key."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return one row for each text, in order. Accepts any number of texts; may be cancelled. Raises EmbeddingError.

        Blank text gets zeros; if all texts are blank, the size may be unknown: then there are no rows.
        """

    async def aclose(self) -> None:
        """Release processes and memory."""
