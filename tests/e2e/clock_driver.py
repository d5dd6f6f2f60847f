"""Runs clawbot by the time in a file: `python clock_driver.py CLOCK ARGUMENT…`, where CLOCK holds an ISO time.

The schedule looks all the time. `CLOCK.looked` holds the time at which the last look that has ended began.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from unittest.mock import patch

from clawbot.cli.main import main
from clawbot.clock import SystemClock
from clawbot.scheduling.runner import Timer

CLOCK = Path(sys.argv.pop(1))


def shown() -> str:
    """The time in the file."""
    return CLOCK.read_text("ascii")


class FileClock(SystemClock):
    """The time in the file, in the user's zone."""

    def now(self) -> datetime:
        return datetime.fromisoformat(shown()).astimezone(self.zone)


class ToldTimer(Timer):
    """Tells of its looks."""

    async def check(self) -> None:
        moment = shown()
        await super().check()
        tell(moment)


def tell(moment: str) -> None:
    """Say that a look that began at `moment` has ended."""
    part = CLOCK.with_suffix(".telling")
    part.write_text(moment, "ascii")
    part.replace(CLOCK.with_suffix(".looked"))


if __name__ == "__main__":
    with (
        patch("clawbot.services.SystemClock", FileClock),
        patch("clawbot.background.Timer", ToldTimer),
        patch("clawbot.scheduling.runner.MAX_PAUSE", 0.1),
    ):
        main()
