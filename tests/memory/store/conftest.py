"""An index in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "main.sqlite"


@pytest.fixture
def writer(path: Path) -> Iterator[IndexWriter]:
    found = opened(path)
    yield found
    found.close()
