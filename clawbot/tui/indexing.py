"""How far the memory's index is, for the eye: the words for it, and when they are worth showing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clawbot.tui.meter import duration

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widget import Widget

    from clawbot.memory.values import Progress
    from clawbot.runtime import Runtime

# A sync that is over sooner is not worth a word; a longer one is told this often. In seconds.
TOLD_EVERY = 0.5


def indexing_text(progress: Progress) -> str:
    """The whole sentence: `indexing 420 of 1,000 files, 12 s left`."""
    if progress.phase == "scan" or not progress.total:
        return "looking for changed notes"
    if progress.phase == "publish":
        return "the new index is nearly ready"
    what = "indexing" if progress.phase == "text" else "indexing the meaning of"
    seconds = round(progress.seconds_left or 0)
    left = f", {duration(seconds)} left" if seconds else ""
    return f"{what} {progress.done:,} of {progress.total:,} {progress.unit}{left}"


def indexing_share(progress: Progress) -> str:
    """The same in few characters: `indexing 42%`."""
    if progress.phase in ("scan", "publish") or not progress.total:
        return "indexing"
    return f"indexing {100 * progress.done // progress.total}%"


class IndexingWatch:
    """Tells `show` how far the index is, and None when it rests, at most every TOLD_EVERY seconds.

    The runtime has one listener: a watch that starts while another one runs passes on to it, and gives the place back
    when it stops. Watches stop in the opposite order of their starts.
    """

    def __init__(self, widget: Widget, runtime: Runtime, show: Callable[[Progress | None], None]) -> None:
        self._widget = widget
        self._runtime = runtime
        self._show = show
        self._before: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._due = False
        self._listening = False

    def start(self) -> None:
        """Listen from now on."""
        self._listening = True
        self._before = self._runtime.on_memory_progress
        self._runtime.on_memory_progress = self._changed
        if self._runtime.memory_progress is not None:
            self._show(self._runtime.memory_progress)

    def stop(self) -> None:
        """Listen no more; nothing happens to one that never started."""
        if not self._listening:
            return
        self._listening = False
        self._runtime.on_memory_progress = self._before
        if self._timer is not None:
            self._timer.stop()

    def _changed(self) -> None:
        if self._before is not None:
            self._before()
        if not self._due:
            # Through the widget's own queue: the index calls from tasks of its own, in which a timer would not belong
            # to the app.
            self._due = self._widget.call_later(self._wait)

    def _wait(self) -> None:
        self._timer = self._widget.set_timer(TOLD_EVERY, self._tell)

    def _tell(self) -> None:
        self._due = False
        self._show(self._runtime.memory_progress)
