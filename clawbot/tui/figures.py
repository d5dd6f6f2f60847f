"""The facts around a conversation: the header and the status line, kept true to the runtime and to what runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from clawbot.agent.events import Notice
from clawbot.errors import ClawbotError
from clawbot.tui.activity import SAVING
from clawbot.tui.gauge import gauge_of, window_note
from clawbot.tui.indexing import IndexingWatch, indexing_share
from clawbot.tui.turns import Turns
from clawbot.tui.widgets.bars import Header, StatusLine

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.worker import WorkType

    from clawbot.memory.values import Progress
    from clawbot.runtime import Runtime

log = logging.getLogger(__name__)

STARTING = "starting"
IDLE_HINT = "/help"
BUSY_HINT = "esc stops"
SAVING_HINT = "esc skips"


class Figures:
    """Shows on `header` and `status` what the runtime tells, and the key that matters most while `turns` run.

    `say` puts a notice on the page. What waits or works in the background does so as a part of `screen`.
    """

    def __init__(
        self, screen: Screen[Any], header: Header, status: StatusLine, turns: Turns, say: Callable[[Notice], None]
    ) -> None:
        self._screen = screen
        self._header = header
        self._status = status
        self._turns = turns
        self._say = say
        self._runtime: Runtime | None = None
        self._watch: IndexingWatch | None = None
        self._noted = ""  # what was said of the window
        self._activity = ("", "")  # what runs by the events, and its detail
        status.show(place=STARTING)

    def connect(self, runtime: Runtime) -> None:
        """The figures are those of `runtime`."""
        self._runtime = runtime

    def watch(self, runtime: Runtime) -> None:
        """Tell from now on what `runtime` indexes and saves beside the turns, and no other one."""
        if self._watch is not None:
            self._watch.stop()
            self._indexing(None)
        self._watch = IndexingWatch(self._screen, runtime, self._indexing)
        self._watch.start()
        runtime.on_saving = self._saving_changed
        self.runs("")

    # The figures

    def refresh(self) -> None:
        """Take over the figures of the runtime."""
        if self._runtime is None:
            return
        status = self._runtime.status
        self._header.name_text = f"clawbot · {status.agent_id}"
        self._header.right_text = f"{status.model.ref} · {self._status.clock.now():%a %-d %b}"
        self._status.show(
            place=status.session_key,
            gauge=gauge_of(self._runtime.settings, status),
            cost=status.cost,
            notes=status.notes,
            hint=self._hint,
        )
        self._note_window(window_note(status))

    def measure(self) -> None:
        """Say how full the context is before a model has told it, once nothing runs."""
        if self._runtime is not None:
            work: WorkType[None] = partial(self._measure, self._runtime)
            self._screen.run_worker(work, group="measure", exclusive=True)

    async def _measure(self, runtime: Runtime) -> None:
        try:
            await runtime.measure()
        except (ClawbotError, OSError):
            log.exception("What is in the context could not be counted.")
        else:
            self.refresh()

    def _note_window(self, note: str) -> None:
        """Say once what the window of a model is taken to be."""
        if note and note != self._noted:
            self._say(Notice(level="info", text=note))
        self._noted = note

    def _indexing(self, progress: Progress | None) -> None:
        """The memory's index has come further, or rests."""
        self._status.show(indexing=indexing_share(progress) if progress else "")

    # What runs

    def runs(self, activity: str, detail: str = "") -> None:
        """`activity` runs from now on, and has come as far as `detail` (2/5); an empty one: nothing runs."""
        self._activity = (activity, detail)
        self._show_activity()

    def show_hint(self) -> None:
        """Name the key that matters most at the moment."""
        self._status.show(hint=self._hint)

    @property
    def saving(self) -> bool:
        """Whether memory takes what was said right now."""
        return self._runtime is not None and self._runtime.saving

    @property
    def _hint(self) -> str:
        if self.saving:
            return SAVING_HINT
        return BUSY_HINT if self._turns.busy else IDLE_HINT

    def _saving_changed(self) -> None:
        # Through the screen's own queue: memory is saved by a task in which a timer would not belong to the app.
        self._screen.call_later(self._show_activity)

    def _show_activity(self) -> None:
        """What runs; while memory takes what was said, that is all that does."""
        activity, detail = (SAVING, "") if self.saving else self._activity
        self._status.run_clock(activity, detail)
        self._turns.changed()
