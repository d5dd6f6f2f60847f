"""Marks rows of long tables, so that `make test` runs a few of them and `make test-long` the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def sparse(rows: Iterable[object], every: int) -> list[ParameterSet]:
    """Return `rows` as parameters, all `long` but each `every`th from the first on. A tuple is several arguments."""
    values = (row if isinstance(row, tuple) else (row,) for row in rows)
    return [pytest.param(*row, marks=[pytest.mark.long] if number % every else []) for number, row in enumerate(values)]
