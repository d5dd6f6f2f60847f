"""How a running index is told: one line that redraws itself on a terminal, one quiet line for each step elsewhere."""

from __future__ import annotations

import os
import shutil
from types import TracebackType
from typing import Self, TextIO

from clawbot.clock import Clock
from clawbot.memory.values import Progress

BAR = 24
"""Characters of the bar, where there is room for them."""

REDRAW = 0.1
"""Seconds between two drawings."""

NAMES = {"scan": "listing", "text": "reading", "vectors": "embedding", "publish": "publishing"}
CLEAR = "\r\x1b[2K"


class ProgressLine:
    """Shows the progress of a sync on `stream`; leaves no trace of the bar behind. A context manager."""

    def __init__(self, stream: TextIO, clock: Clock, *, name: str = "") -> None:
        self._stream = stream
        self._clock = clock
        self._name = f"{name}: " if name else ""
        self._live = stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._drawn: float | None = None
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        """Take a step to show."""
        if not self._live:
            if progress.phase != self._phase and progress.total:
                self._stream.write(f"{self._name}{NAMES[progress.phase]}: {progress.total:,} {progress.unit}\n")
                self._phase = progress.phase
            return
        now = self._clock.monotonic()
        if self._drawn is not None and now - self._drawn < REDRAW and progress.phase == self._phase:
            return
        self._drawn, self._phase = now, progress.phase
        width = shutil.get_terminal_size().columns - 1
        line = self._name + describe(progress, width - len(self._name), fancy=self._is_unicode())
        self._stream.write(f"{CLEAR}{line[:width]}")
        self._stream.flush()

    def _is_unicode(self) -> bool:
        return (self._stream.encoding or "").lower().replace("-", "") == "utf8"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._drawn is not None:
            self._stream.write(CLEAR)
            self._stream.flush()


def describe(progress: Progress, width: int, *, fancy: bool) -> str:
    """`embedding  ━━━━━━━━────  420/1,000 pieces  85/s  6 s left`; without `fancy` in ASCII.

    The bar gives way first when there are less than `width` columns.
    """
    figures = [f"{progress.done:,}/{progress.total:,} {progress.unit}"]
    if progress.rate > 0:
        figures.append(f"{progress.rate:,.0f}/s")
    if progress.seconds_left is not None:
        figures.append(f"{_duration(progress.seconds_left)} left")
    name, rest = f"{NAMES[progress.phase]:<10}", "  ".join(figures)
    room = max(min(BAR, width - len(name) - len(rest) - 3), 0)
    share = min(progress.done / progress.total, 1.0) if progress.total else 0.0
    full, empty = ("━", "─") if fancy else ("#", "-")
    done = round(share * room)
    return f"{name} {full * done}{empty * (room - done)}  {rest}"


def _duration(seconds: float) -> str:
    whole = max(round(seconds), 0)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
