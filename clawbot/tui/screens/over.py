"""A screen over the conversation: it leaves once, and knows when it has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.await_complete import AwaitComplete
from textual.events import Event, Mount, Resize
from textual.screen import ModalScreen, ScreenResultType

WAYS_OUT = ("back", "close")  # actions that need no widgets


class OverScreen(ModalScreen[ScreenResultType]):
    """A modal screen that keys, signals and late answers find in any state.

    Textual removes the widgets of a screen first and cancels its workers after that: a worker looks at `has_left` when
    it comes back from a wait, and leaves the widgets alone then.
    """

    @property
    def has_left(self) -> bool:
        """Whether the screen is over, or the whole program. Its widgets may be gone, or may never have been there."""
        return not (self.is_running and self.is_attached and self in self.app.screen_stack)

    async def on_event(self, event: Event) -> None:
        """A screen that is closed before it is made gets no widgets, but it is told that it has them."""
        if not (isinstance(event, Mount | Resize) and self.has_left):
            await super().on_event(event)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave with `result`. The second time nothing happens: a key that was on its way already must not close the
        screen below, or the conversation."""
        if self not in self.app.screen_stack:
            return AwaitComplete()
        return super().dismiss(result)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key may do what it does now: before there are widgets it can but leave."""
        if not self.is_mounted and action not in WAYS_OUT:
            return False
        return super().check_action(action, parameters)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call `callback` once what was changed is shown, if the screen is still there then.

        Textual has the screen that is shown by then run it, which may be the one below.
        """

        def run() -> Any:
            return None if self.has_left else callback(*args, **kwargs)

        return super().call_after_refresh(run)
