"""Reads the table of a test from the TOML file of the same name beside it."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


def load_table(file: str, name: str) -> Any:
    """Return what `name` is in the data of the test `file`: rows, or values by name."""
    return _tables(Path(file).with_suffix(".toml"))[name]


@cache
def _tables(data: Path) -> dict[str, Any]:
    return tomllib.loads(data.read_text(encoding="utf-8"))
