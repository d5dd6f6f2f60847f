"""Owns what an index was built with: whatever of it changes, makes its pieces or its vectors those of another index."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from clawbot.memory.values import Source

Profile = Literal["lines", "classic"]

VECTOR_FORM = 1
"""Changes with the bits in which the profiles store vectors: an index of another form is built anew."""


class Identity(Struct, frozen=True, kw_only=True):
    """What pieces and vectors depend on.

    `chunker` and `tokenizer` are versions with their parameters. `provider` and `model` are for people ("none" and ""
    without vectors), `vectors` is the embedder's own identity with the version of what is embedded ("" without).
    `dimensions` is 0 until the first vector came. `sources` is for people: a sync adds and removes files by itself.
    `form` is that of the stored vectors.
    """

    profile: Profile
    chunker: str
    tokenizer: str
    provider: str = "none"
    model: str = ""
    vectors: str = ""
    dimensions: int = 0
    sources: tuple[Source, ...] = ("memory",)
    form: int = VECTOR_FORM

    @property
    def text_part(self) -> tuple[str, ...]:
        """Another one means: other pieces and words."""
        return (self.profile, self.chunker, self.tokenizer)

    @property
    def vector_part(self) -> tuple[str, ...]:
        """Another one means: other vectors. They are stored in another form in each profile."""
        return (self.profile, self.provider, self.model, self.vectors, str(self.form))
