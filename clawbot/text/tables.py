"""Reads the tables that are packaged with the modules."""

from __future__ import annotations

import tomllib
from typing import TypeVar

import msgspec

Table = TypeVar("Table")


def packaged_table(package: str, name: str, shape: type[Table]) -> Table:
    """Return the TOML file `name` of `package` as a `shape`. Blocks: cache the result. Raises
    `msgspec.ValidationError` if it is not of that shape."""
    # Deferred: with what it imports, the reader of packages costs more than all tables.
    from importlib.resources import files

    return msgspec.convert(tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8")), shape)
