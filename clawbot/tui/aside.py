"""What happens beside the turns: a reset by the clock, a note that got another name, a hook that failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clawbot.agent.events import Event, MessageQueued, TurnEnded

if TYPE_CHECKING:
    from clawbot.runtime import Runtime


class Aside:
    """Shows events that belong to no submission between the turns: at once when none runs, else when the one that
    runs has ended. They keep their order. Those that come among the events of a turn wait for the end of the answer
    that is being written: nothing stands in the middle of a sentence.

    `show` puts an event on the screen; `later` calls a function from the screen's own queue, since such events come
    from tasks in which a timer would not belong to the app.
    """

    def __init__(self, show: Callable[[Event], None], later: Callable[[Callable[[], None]], object]) -> None:
        self._show = show
        self._later = later
        self._waiting: list[Event] = []
        self._held: list[Event] = []
        self._running = False

    def listen(self, runtime: Runtime) -> None:
        """Show what `runtime` tells from now on."""
        runtime.on_event = self.take

    def leave(self, runtime: Runtime) -> None:
        """Listen to `runtime` no more: another one takes its place."""
        runtime.on_event = None
        self._waiting.clear()

    def take(self, event: Event) -> None:
        """Something happened beside the turns."""
        self._waiting.append(event)
        self._later(self._tell)

    def hold(self, event: Event) -> None:
        """`event` of a turn came in the middle of an answer, to which it does not belong."""
        self._held.append(event)

    def release(self) -> None:
        """No answer is being written any more."""
        held, self._held = self._held, []
        for event in held:
            self._show(event)

    def before(self, event: Event) -> None:
        """`event` of a submission is about to be shown: what happened before its turn stands above it."""
        self._tell()
        self._running = self._running or not isinstance(event, MessageQueued)

    def after(self, event: Event) -> None:
        """`event` of a submission was shown."""
        if isinstance(event, TurnEnded):
            self._running = False
            self._tell()

    def _tell(self) -> None:
        while self._waiting and not self._running:
            self._show(self._waiting.pop(0))
