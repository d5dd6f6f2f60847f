"""The app's keys, each of which takes effect before the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol, runtime_checkable

from textual.events import Event, Key, Paste
from textual.message_pump import MessagePump

from clawbot.tui.choosing import Front
from clawbot.tui.driver import AltKey
from clawbot.tui.widgets.fields import TextField

SCREEN_POLL = 0.01  # seconds between two checks whether a new screen is there to take keys
MAX_HELD = 2.0  # seconds that keys wait for one before
MAX_LOAD = 10.0  # seconds that keys wait for what a screen loads


@runtime_checkable
class Loading(Protocol):
    """A screen that may be loading what the next keys are for."""

    @property
    def is_loading(self) -> bool:
        """Whether keys wait."""
        ...


class KeysInOrder(Front):
    """Passes keys and pastes on in their order; they wait until the app `_is_ready`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_ready = False
        self._held_until = 0.0  # on the monotonic clock: a key is on its way until then at most
        self._load_until = 0.0  # the same for what the screen loads; 0 while it loads nothing
        self._typed: deque[Key | Paste] = deque()

    async def on_event(self, event: Event) -> None:
        """Take what was typed in its order; Textual would run a binding after the letters that follow it."""
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            self._typed.append(event)
            await self._take_typed()
        else:
            await super().on_event(event)

    async def _take_typed(self) -> None:
        """Let each key take effect before the next one, as soon as there is a screen for it."""
        while self._typed and self._is_ready:
            if not self.screen.is_mounted or monotonic() < self._held_until or self._is_loading():
                self.set_timer(SCREEN_POLL, self._take_typed)
                return
            event, field = self._typed.popleft(), self.focused
            pumps = (field or self.screen).ancestors_with_self
            if isinstance(field, TextField):
                if isinstance(event, AltKey) and field.has_modes:
                    self._typed.extendleft(reversed(event.apart))
                    continue
                if await self._type(field, event):
                    continue
            else:
                await super().on_event(event)
            self._held_until = monotonic() + MAX_HELD
            await self._follow(pumps)

    def _is_loading(self) -> bool:
        """Return whether the screen loads what the next key is for, and may take its time."""
        if not (isinstance(self.screen, Loading) and self.screen.is_loading):
            self._load_until = 0.0
            return False
        self._load_until = self._load_until or monotonic() + MAX_LOAD
        return monotonic() < self._load_until

    async def _follow(self, pumps: Sequence[MessagePump]) -> None:
        """Follow a key, which goes up through the queues of `pumps`, and take the next one behind it."""
        for at, pump in enumerate(pumps):
            if pump is not self and pump.call_later(self._follow, pumps[at + 1 :]):
                return
        if pumps:
            self.call_later(self._follow, ())
            return
        self._held_until = 0.0
        await self._take_typed()

    async def _type(self, field: TextField, event: Key | Paste) -> bool:
        """Pass `event` to `field`; return whether it has taken effect: Enter sends messages that do."""
        self.app_focus = True
        if isinstance(event, Paste):
            event.stop()
            await field.on_event(event)
            return True
        bound = not field.claims(event.key) and await self._check_bindings(event.key, priority=True)
        if not (bound or await field.take_key(event)):
            await self._check_bindings(event.key)
        await asyncio.sleep(0)  # a worker that the key started runs up to its first wait
        return event.key != "enter"
