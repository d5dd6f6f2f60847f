"""How much one address may ask, as decisions on a clock: requests a second, and failed tokens a minute."""

from __future__ import annotations

import math
from collections import OrderedDict

from clawbot.clock import Clock

MOST_ADDRESSES = 1024
"""Addresses that are remembered; the one that was quiet longest is forgotten."""
FAILURES = 10
"""Wrong tokens that an address may send at once; another one is allowed every FAILURE_SECONDS."""
FAILURE_SECONDS = 6.0


class Buckets:
    """A token bucket for each address: `rate` a second, `burst` at once. With a rate of 0 everything is allowed."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> int:
        """Take one; returns 0, or the whole seconds to wait if there is none."""
        left = self._now(address)
        if left is None:
            return 0
        if left < 1.0:
            return math.ceil((1.0 - left) / self._rate)
        self._keep(address, left - 1.0)
        return 0

    def wait(self, address: str) -> int:
        """The whole seconds until the next one is allowed, 0 for now. Takes nothing."""
        left = self._now(address)
        return 0 if left is None or left >= 1.0 else math.ceil((1.0 - left) / self._rate)

    def _now(self, address: str) -> float | None:
        if self._rate <= 0:
            return None
        left, at = self._left.get(address, (self._burst, 0.0))
        return min(self._burst, left + (self._clock.monotonic() - at) * self._rate)

    def _keep(self, address: str, left: float) -> None:
        self._left[address] = (left, self._clock.monotonic())
        self._left.move_to_end(address)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)


def failure_buckets(clock: Clock) -> Buckets:
    """The limit on wrong tokens."""
    return Buckets(1.0 / FAILURE_SECONDS, FAILURES, clock)
