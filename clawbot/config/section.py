"""The base of every section of the settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of keys in the settings: immutable, no other keys, no silent conversion between kinds of values."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
