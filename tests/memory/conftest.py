"""A workspace for the tests of the index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.index_host import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)
