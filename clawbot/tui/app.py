"""The app: passes keys on in their order, paints the prompt at once, and opens the runtime in the background."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.driver import Driver
from textual.events import Event, InputEvent, Key, Paste
from textual.message_pump import MessagePump
from textual.screen import Screen

from clawbot.clock import Clock, SystemClock
from clawbot.collector import share_heaps
from clawbot.errors import ClawbotError
from clawbot.text.interface import _, ngettext
from clawbot.tui.app_base import AgentSwitch, OpenRuntime, ScreensApp
from clawbot.tui.driver import AltKey
from clawbot.tui.input import ScreenCommand, Submitted, UserInput
from clawbot.tui.render.lines import code_spans
from clawbot.tui.screens.chat import ChatScreen
from clawbot.tui.screens.common import OverScreen
from clawbot.tui.terminal import Attention
from clawbot.tui.themes import kept_theme, theme_name
from clawbot.tui.widgets.composer import Composer
from clawbot.tui.widgets.fields import TextField

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

log = logging.getLogger(__name__)

TWICE = 1.0  # seconds between two Ctrl+C to quit, two Esc to go back
SCREEN_POLL = 0.01  # seconds between two checks whether a new screen is there to take keys
MAX_HELD = 2.0  # seconds that keys wait for one before
MAX_LOAD = 10.0  # seconds that keys wait for what a screen loads


class KeysInOrder(ScreensApp):
    """Passes keys and pastes on in their order; they wait until the app `_is_ready`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_ready = False
        self._held_until = 0.0  # on the monotonic clock: a key is on its way until then at most
        self._load_until = 0.0  # the same for what the screen loads; 0 while it loads nothing
        self._typed: deque[Key | Paste] = deque()

    async def on_event(self, event: Event) -> None:
        """Take what was typed in its order; Textual would run a binding after the letters that follow it."""
        if isinstance(event, InputEvent | Paste) and self.runtime is not None:
            self.runtime.agent.touch()
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            self._typed.append(event)
            await self._take_typed()
        else:
            await super().on_event(event)

    async def _take_typed(self) -> None:
        """Let each key take effect before the next one, while there is a screen for it."""
        while self._typed and self._is_ready and self.screen_stack:
            if not self.screen.is_mounted or monotonic() < self._held_until or self._is_loading():
                # Textual skips a timer if the thread is stopped for as long.
                asyncio.get_running_loop().call_later(SCREEN_POLL, self.call_next, self._take_typed)
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
        if not (isinstance(self.screen, ChatScreen | OverScreen) and self.screen.is_loading):
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


class ClawbotApp(KeysInOrder):
    """One conversation on the screen. `failure` is why the runtime did not open, `crash` an unexpected exception,
    `ended_by` the signal that ended the program, 0 for none. `sixteen`: the terminal has but 16 colours."""

    TITLE = "clawbot"
    CSS_PATH = "styles/chat.tcss"
    ENABLE_COMMAND_PALETTE = False  # F2 opens our own

    def __init__(
        self,
        open_runtime: OpenRuntime,
        *,
        theme: str = "auto",
        clock: Clock | None = None,
        driver: type[Driver] | None = None,
        sixteen: bool = False,
    ) -> None:
        super().__init__(driver, sixteen=sixteen)
        self.clock = clock or SystemClock()
        self.runtime: RuntimeApi | None = None
        self.failure: ClawbotError | None = None
        self.crash: BaseException | None = None
        self.ended_by = 0
        self.chat = ChatScreen(self.clock, Attention(self._write_sequence, os.environ, lambda: self.app_focus))
        self.agents = AgentSwitch(open_runtime, self.chat.turns)
        self.chat.skip_closing = self.agents.skip
        self.chat.opens = self.open_output
        self._last_interrupt = float("-inf")
        self._last_escape = float("-inf")  # with nothing to stop
        self.theme = theme_name(theme, self.available_themes)

    def _write_sequence(self, sequence: str) -> None:
        """Send a sequence that is no part of the screen, where there is a terminal."""
        if self._driver is not None and not (self.is_headless or self.is_web):
            self._driver.write(sequence)

    def notify(self, message: str, **options: Any) -> None:
        """Show `message` for a while as it is, but for the marks of code in it."""
        super().notify("".join(span.text for span in code_spans(message)), **options | {"markup": False})

    def get_default_screen(self) -> Screen[None]:
        return self.chat

    def on_ready(self) -> None:
        """Replay early keys once the prompt is painted, then open the rest."""
        self.chat.composer.entered = self.take
        self.chat.composer.prompt.focus()
        # After `fg` the terminal is empty: repaint everything.
        self.app_resume_signal.subscribe(self.chat, lambda _: self.refresh(layout=True))
        self.call_after_refresh(self.call_later, self._begin)

    async def _begin(self) -> None:
        self._is_ready = True
        await self._take_typed()
        self._open()

    @work(group="runtime")
    async def _open(self) -> None:
        share_heaps()
        try:
            runtime = await self.agents.open()
        except ClawbotError as error:
            self.failure = error
            self.exit(return_code=1)
            return
        kept = await asyncio.to_thread(kept_theme, runtime.paths.theme_file, runtime.settings.tui.theme)
        self.theme = theme_name(kept or runtime.settings.tui.theme, self.available_themes)
        await self.connect(runtime)
        # Freeze what exists now, so that the garbage collector skips it: scanning it again would stall the screen.
        gc.freeze()

    async def connect(self, runtime: RuntimeApi) -> None:
        self.runtime = runtime
        await self.chat.connect(runtime)
        if self.chat.composer.was_used:
            self._warm(runtime)

    def _fatal_error(self) -> None:
        """Keep the terminal clean: errors go to the log, whose path `run_chat` prints. Closing a screen before it is
        complete is not a crash."""
        if self.ended_by:
            log.info("The screen was ended while it was made.", exc_info=True)
        else:
            self.crash = self.crash or sys.exception()
            log.critical("The screen crashed.", exc_info=self.crash)
        self._close_messages_no_wait()

    # Input

    def take(self, entry: UserInput | None) -> None:
        match entry:
            case Submitted(text):
                self.chat.page.go_to_end()
                self.chat.turns.submit(text, self.chat.unsent.enter(), draft=True)
            case ScreenCommand(name, argument):
                self._screen_command(name, argument)

    def _screen_command(self, name: str, argument: str) -> None:
        answers: dict[str, Callable[[], object]] = {
            "/sessions": self.action_choose_session,
            "/model": self.action_choose_model,
            "/edit": lambda: self.edit(argument or None, None),
            "/memory": lambda: self.action_search_memory(argument),
            "/context": self.action_show_context,
            "/mode": lambda: self.chat.choose_mode(argument),
            "/agent": lambda: self.choose_agent(argument),
            "/hooks": self.show_hooks,
            "/help": self.action_help,
            "/quit": self.exit,
            "/rewind": self.action_rewind,
            "/theme": lambda: self.choose_theme(argument),
            "/copy": lambda: self._copy(self.chat.writer.last_reply),
            "/unsent": lambda: self.chat.questions.offer_unsent(asked=True),
        }
        answers[name]()

    @on(Composer.FirstKey)
    def _first_key(self) -> None:
        if self.runtime is not None:
            self._warm(self.runtime)

    @work(group="warm")
    async def _warm(self, runtime: RuntimeApi) -> None:
        await runtime.agent.warm()

    # Keys

    def action_copy_or_leave(self) -> None:
        """Copy the selection, else clear the input; twice within a second quits, if nothing was typed in between."""
        selected = self.chat.get_selected_text() or self.chat.composer.prompt.selected_text
        now = self.clock.monotonic()
        if selected:
            self._copy(selected)
            self.chat.clear_selection()
        elif self.chat.search.is_open:
            self.chat.search.close()
        elif now - self._last_interrupt < TWICE and self.chat.composer.is_empty:
            self.exit()
        else:
            self._last_interrupt = now
            self.chat.composer.clear()
            self.chat.hint(_("ctrl+c again leaves"), TWICE)

    def _copy(self, text: str) -> None:
        if not text:
            self.notify(_("There is no reply to copy yet."), severity="warning")
            return
        self.copy_to_clipboard(text)
        self.chat.hint(
            ngettext("{n:,} character copied", "{n:,} characters copied", len(text)).format(n=len(text)), 2.0
        )

    def action_leave_or_delete(self) -> None:
        if self.chat.composer.is_empty:
            self.exit()
        else:
            self.chat.composer.prompt.action_delete_right()

    def end_by_signal(self, number: int) -> None:
        """Quit at once, with the shells' exit code for a signal."""
        self.ended_by = number
        self.exit(return_code=128 + number)

    async def action_quit(self) -> None:
        """Quit; a screen with unsaved changes asks first, and one that already asks waits for its answer."""
        from clawbot.tui.screens.editor import EditorScreen

        unsaved = [screen for screen in self.screen_stack if isinstance(screen, EditorScreen) and screen.dirty]
        if not unsaved:
            self.exit()
        elif unsaved[-1] is self.screen:
            unsaved[-1].action_close()

    def action_go_back(self) -> None:
        """Handle Esc with nothing to stop: twice within a second goes back to an earlier message."""
        now = self.clock.monotonic()
        if now - self._last_escape < TWICE:
            self._last_escape = float("-inf")
            self.action_rewind()
        else:
            self._last_escape = now
            self.chat.hint(_("{key} again: back to an earlier message").format(key=self.chat.keys.first("stop")), TWICE)

    @work
    async def action_edit_prompt(self) -> None:
        from clawbot.tui.screens.editor import edit_prompt

        self._is_ready = False  # what is typed on comes behind what the editor makes of the text
        try:
            await edit_prompt(self, self.chat.composer.prompt)
        finally:
            self._is_ready = True
            self.call_later(self._take_typed)
