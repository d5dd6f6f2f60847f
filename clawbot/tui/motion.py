"""What moves on the page: the sign where the answer will appear, and the signs and seconds of the calls that run.

One timer for all of it, which stands still while nothing runs; with `tui.motion: off` it only counts the seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawbot.clock import Clock
from clawbot.tui.render.items import WaitItem

if TYPE_CHECKING:
    from textual.timer import Timer

    from clawbot.tui.render.cards import ToolItem
    from clawbot.tui.widgets.transcript import TranscriptView

STEP = 0.25  # seconds between two pictures
STILL = 1.0  # the same where nothing moves


class Motion:
    """The signs on `page`; `is_on` is the user's setting."""

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        self._page = page
        self._clock = clock
        self.is_on = True
        self.steps = 0  # pictures that were drawn
        self._wait: WaitItem | None = None
        self._since = 0.0
        self._running: dict[int, tuple[ToolItem, float]] = {}
        self._timer: Timer | None = None

    def wait(self, activity: str, figures: str) -> None:
        """Show at the end of the page that this goes on; without an `activity` what it took."""
        if self._wait is None or self._page.stack.index_of(self._wait) is None:
            self._wait, self._since = WaitItem(activity, figures, not activity), self._clock.monotonic()
            self._page.foot(self._wait)
        elif (self._wait.text, self._wait.figures) != (activity, figures):
            self._wait.text, self._wait.figures, self._wait.over = activity, figures, not activity
            self._page.repaint(self._wait)
        self._go()

    def rest(self) -> None:
        """Show nothing at the end of the page."""
        if self._wait is not None:
            self._wait = None
            self._page.foot(None)

    def run(self, item: ToolItem) -> None:
        """The call of `item` runs from now on, or waits for the user."""
        if item.state == "running":
            self._running[id(item)] = (item, self._clock.monotonic())
            self._go()
        else:
            self.ended(item)

    def ended(self, item: ToolItem) -> None:
        """The call of `item` runs no more."""
        self._running.pop(id(item), None)
        item.lit = True

    def end(self) -> None:
        """The turn is over."""
        self.rest()
        for item, _ in list(self._running.values()):
            self.ended(item)

    @property
    def is_running(self) -> bool:
        """Whether the timer runs."""
        return self._timer is not None

    def _go(self) -> None:
        if self._timer is None:
            self._timer = self._page.set_interval(STEP if self.is_on else STILL, self._step)

    def _step(self) -> None:
        if (self._wait is None or self._wait.over) and not self._running and self._timer is not None:
            self._timer.stop()
            self._timer = None
            return
        now = self._clock.monotonic()
        if self._wait is not None and self.is_on:
            before, self._wait.lit = self._wait.lit, int(2 * (now - self._since)) % 2 == 0
            self.steps += 1
            if before != self._wait.lit:
                self._page.repaint(self._wait)
        for item, since in self._running.values():
            shown = (item.lit, item.seconds)
            item.seconds = int(now - since)
            item.lit = not self.is_on or int(2 * (now - since)) % 2 == 0
            if shown != (item.lit, item.seconds):
                self._page.repaint(item)
