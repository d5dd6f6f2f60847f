"""Shortens the steps in which Textual's pilot waits for an idle app: each key takes two of them."""

from __future__ import annotations

import pytest
from textual import _wait

STEP = 0.005  # seconds; Textual's own step is 0.02


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the share of a step that an idle app may compute."""
    monkeypatch.setattr(_wait, "SLEEP_IDLE", _wait.SLEEP_IDLE / _wait.SLEEP_GRANULARITY * STEP)
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", STEP)
