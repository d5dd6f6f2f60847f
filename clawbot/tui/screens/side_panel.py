"""The side panel of wide screens: reads what its rows show, opens what is clicked or entered in them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

from clawbot.agent import events
from clawbot.agent.conversation import last_plan
from clawbot.clock import Clock
from clawbot.config.keys import KeyMap
from clawbot.errors import ClawbotError
from clawbot.tui.render.items import FOLD
from clawbot.tui.screens.panel_rows import (
    FIGURES,
    PanelRow,
    PanelState,
    changed_files,
    panel_rows,
    plan_steps,
    used_notes,
)
from clawbot.tui.screens.welcome import has_messages
from clawbot.tui.status_bar import gauge_of
from clawbot.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from textual.worker import WorkType

    from clawbot.api import RuntimeApi
    from clawbot.sessions.summary import SessionSummary

log = logging.getLogger(__name__)

WHEEL = 3  # rows
PLAN_REACH = 500  # messages back in which a plan is searched
USES_NOTES = (events.ToolFinished, events.MessageFinished, events.MemoryWritten)
CHANGES_WINDOW = (events.TurnEnded, events.CompactionFinished, events.ModelChanged)
Reader = Callable[["RuntimeApi"], Awaitable[object]]


class SidePanel(Widget, can_focus=True):
    """Shows the plan, the files and the notes of `page`, and the window and the sessions of the runtime. It gets the
    focus by F6 alone."""

    FOCUS_ON_CLICK: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Entry above", show=False),
        Binding("down,j", "step(1)", "Entry below", show=False),
        Binding("enter,space", "activate", "Open", show=False),
    ]

    def __init__(self, page: TranscriptView, clock: Clock) -> None:
        super().__init__()
        self.page = page
        self.clock = clock
        self.runtime: RuntimeApi | None = None
        self.state = PanelState()
        self.rows: list[PanelRow] = []
        self._made_for = Size()
        self._top = 0  # the first row in view
        self._cursor: int | None = None

    # What it shows

    def on_mount(self) -> None:
        self.app.screen_change_signal.subscribe(self, self._screen_changed)

    def _screen_changed(self, screen: Screen[Any]) -> None:
        if screen is self.screen:
            self.load_sessions()

    def connect(self, runtime: RuntimeApi) -> None:
        self.runtime = runtime
        self.state = PanelState()
        self._top, self._cursor = 0, None
        self.reloaded()
        self.load_report()
        self.load_sessions()

    def reloaded(self) -> None:
        self.read_page()
        self.load_plan()

    def take(self, event: events.Event, *, more: bool) -> None:
        """Update after an event that the page has shown; `more`: another turn follows, whose end is reported too."""
        if isinstance(event, USES_NOTES):
            self.read_page()
        elif isinstance(event, events.ContextUsed):
            self.show()
        elif isinstance(event, events.PlanReady):
            self.state = replace(self.state, plan=plan_steps(event.plan))
            self.show()
        elif isinstance(event, events.SessionChanged):
            self.load_plan()
            self.load_sessions()
        if isinstance(event, CHANGES_WINDOW) and not more:
            self.load_report()

    def read_page(self) -> None:
        items = self.page.stack.items
        self.state = replace(self.state, notes=used_notes(items), files=changed_files(items))
        self.show()

    def load_plan(self) -> None:
        self._load("plan", self._plan)

    def load_report(self) -> None:
        """Count the parts of the window, which waits for the running turn."""
        self._load("report", lambda runtime: runtime.agent.context_report())

    def load_sessions(self) -> None:
        self._load("sessions", self._sessions)

    def _load(self, name: str, read: Reader) -> None:
        """Set the field `name` of the state to what `read` returns."""
        if self.runtime is not None:
            work: WorkType[None] = partial(self._loaded, name, read, self.runtime)
            self.run_worker(work, group=name, exclusive=True)

    async def _loaded(self, name: str, read: Reader, runtime: RuntimeApi) -> None:
        try:
            found = await read(runtime)
        except (ClawbotError, OSError):
            log.exception("The side panel could not read its %s.", name)
        else:
            self.state = replace(self.state, **{name: found})
            self.show()

    async def _plan(self, runtime: RuntimeApi) -> list[str]:
        history = await runtime.sessions.history(limit=PLAN_REACH)
        return plan_steps(last_plan(item.message for item in history if item.message is not None))

    async def _sessions(self, runtime: RuntimeApi) -> list[SessionSummary]:
        here = runtime.agent.status.session_id
        return [each for each in await runtime.sessions.all() if each.turns and each.session_id != here]

    def show(self) -> None:
        if self.runtime is not None:
            gauge = gauge_of(self.runtime.settings, self.runtime.agent.status)
            keys = None if has_messages(self.page.stack.items) else KeyMap(self.runtime.settings.tui.keys)
            self.state = replace(self.state, gauge=gauge, keys=keys)
            self._make_rows()
            self.refresh()

    def _make_rows(self) -> None:
        self._made_for = self.size
        self.rows = panel_rows(self.state, max(20, self.size.width), self.size.height, self.clock.now())
        self._top = self._at_most(self._top)

    def render(self) -> Content:
        """Return the rows in view; that of the cursor reversed."""
        # No Resize comes where another widget scrolls in the moment in which this one gets its size.
        if self._made_for != self.size:
            self._make_rows()
        rows = [row.content for row in self.rows]
        if self.has_focus and self._cursor is not None and self._cursor < len(rows):
            rows[self._cursor] = rows[self._cursor].stylize("reverse")
        return Content("\n").join(rows[self._top : self._top + self.size.height])

    # Where the reader is

    def _scroll(self, top: int) -> None:
        self._top = self._at_most(top)
        self.refresh()

    def _at_most(self, top: int) -> int:
        return max(0, min(top, len(self.rows) - self.size.height))

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self._scroll(self._top + WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self._scroll(self._top - WHEEL)

    def enter(self) -> bool:
        """Put the cursor on the first entry that opens; False when there is none."""
        self._cursor = next(self._opening(range(len(self.rows))), None)
        self.refresh()
        return self._cursor is not None

    def _opening(self, numbers: Iterable[int]) -> Iterator[int]:
        """Yield those of the rows `numbers` that open something: of an entry of two rows the first."""
        targets = [row.target for row in self.rows]
        return (at for at in numbers if targets[at] and (not at or targets[at - 1] != targets[at]))

    def action_step(self, step: int) -> None:
        here = self._cursor if self._cursor is not None else -1
        ahead = range(here + 1, len(self.rows)) if step > 0 else range(here - 1, -1, -1)
        self._cursor = next(self._opening(ahead), self._cursor)
        if self._cursor is not None:
            height = self.size.height
            self._scroll(min(self._cursor, max(self._top, self._cursor + 2 - height)))

    def action_activate(self) -> None:
        if self._cursor is not None and self._cursor < len(self.rows):
            self._open(self.rows[self._cursor].target)

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        number = self._top + offset.y if offset is not None else len(self.rows)
        if number < len(self.rows) and (target := self.rows[number].target):
            event.stop()
            self._open(target)

    def _open(self, target: str) -> None:
        if target == FOLD:
            self.state = replace(self.state, unfolded=True)
            self.show()
        elif target == FIGURES:
            self.state = replace(self.state, figures=not self.state.figures)
            self.show()
        else:
            self.post_message(TranscriptView.Opened(target))
