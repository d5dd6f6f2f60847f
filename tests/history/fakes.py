"""The history of a scripted home."""

from __future__ import annotations

from pathlib import Path

from clawbot.config.schema import HistorySettings
from clawbot.history import History
from tests.agent.keeping_house import MinuteClock


def history_in(folder: Path) -> History:
    """The history of the memory files in `folder`."""
    return History(folder / "memory/.history/main", folder / "workspace", MinuteClock(0), HistorySettings())
