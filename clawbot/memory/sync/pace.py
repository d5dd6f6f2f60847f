"""How fast something goes and how long it will take: the figures behind a progress bar."""

from __future__ import annotations

from typing import Literal

from clawbot.clock import Clock
from clawbot.memory.values import Progress

# Before that a rate is chance.
_SOONEST_SECONDS = 0.2


class Pace:
    """One phase of `total` units; `weight` is what they cost together, in whatever measure `step` uses as well."""

    def __init__(
        self,
        phase: Literal["scan", "text", "vectors", "publish"],
        unit: Literal["files", "pieces"],
        clock: Clock,
        *,
        total: int,
        weight: float,
    ) -> None:
        self._phase = phase
        self._unit = unit
        self._clock = clock
        self._start = clock.monotonic()
        self._total = total
        self._weight = weight
        self._done = 0
        self._weight_done = 0.0

    def step(self, count: int, weight: float) -> Progress:
        """After `count` more units of `weight` together."""
        self._done += count
        self._weight_done += weight
        # More may turn up while it goes on.
        self._total = max(self._total, self._done)
        self._weight = max(self._weight, self._weight_done)
        elapsed = self._clock.monotonic() - self._start
        if elapsed < _SOONEST_SECONDS or not self._weight_done:
            return Progress(self._phase, self._done, self._total, self._unit)
        left = elapsed * (self._weight - self._weight_done) / self._weight_done
        return Progress(self._phase, self._done, self._total, self._unit, self._done / elapsed, left)
