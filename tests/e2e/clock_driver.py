"""Runs clawbot by the time in a file: `python clock_driver.py CLOCK ARGUMENT…`, where CLOCK holds an ISO time.

The schedule looks all the time. Beside the file stand `CLOCK.began` and `CLOCK.looked`: the time at which a look at the
schedule began, and the one at which the last that ended had begun.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from clawbot import background, ground
from clawbot.cli.main import main
from clawbot.clock import SystemClock
from clawbot.scheduling import timer

CLOCK = Path(sys.argv.pop(1))


def shown() -> str:
    """The time in the file."""
    return CLOCK.read_text("ascii")


class FileClock(SystemClock):
    """The time in the file, in the user's zone."""

    def now(self) -> datetime:
        return datetime.fromisoformat(shown()).astimezone(self.zone)


class ToldTimer(timer.Timer):
    """Tells of its looks."""

    async def look(self) -> None:
        moment = shown()
        tell("began", moment)
        await super().look()
        tell("looked", moment)


def tell(name: str, moment: str) -> None:
    """Say `moment` in the file beside the clock."""
    part = CLOCK.with_suffix(".part")
    part.write_text(moment, "ascii")
    part.replace(CLOCK.with_suffix(f".{name}"))


if __name__ == "__main__":
    ground.SystemClock = FileClock
    background.Timer = ToldTimer
    timer.LONGEST_PAUSE = 0.1
    main()
