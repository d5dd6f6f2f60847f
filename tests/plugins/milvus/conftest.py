"""Machines on one stand-in for Milvus."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.milvus.stand_in import Machines, StandIn


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """No machine has a note yet."""
    return Machines(tmp_path, StandIn(), monkeypatch)
