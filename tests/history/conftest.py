"""A workspace with a history."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.schema import HistorySettings
from clawbot.guarded import GuardedFolder
from clawbot.history import History
from tests.clocks import StillClock

NOTE = "memory/2026-11-20.md"


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def files(tmp_path: Path) -> GuardedFolder:
    (tmp_path / "workspace" / "memory").mkdir(parents=True)
    return GuardedFolder(tmp_path / "workspace")


@pytest.fixture
def history(tmp_path: Path, files: GuardedFolder, clock: StillClock) -> History:
    return opened(tmp_path, clock)


def opened(folder: Path, clock: StillClock, *, max_mb: int = 64, max_days: int = 365) -> History:
    """The history as another process opens it."""
    limits = HistorySettings(max_mb=max_mb, max_days=max_days)
    return History(folder / "history", folder / "workspace", clock, limits)
