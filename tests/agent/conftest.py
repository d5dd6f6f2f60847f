"""The world that a conversation of these tests lives in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.gate_host import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """An agent's folder, whose agents are closed in the end."""
    house = House(tmp_path)
    yield house
    await house.close()
