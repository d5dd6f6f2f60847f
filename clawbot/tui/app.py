"""The app: paints the prompt at once, opens the runtime in the background, and opens the other screens."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from textual import on, work
from textual.driver import Driver
from textual.screen import Screen

from clawbot.clock import Clock, SystemClock
from clawbot.errors import ClawbotError
from clawbot.text.interface import _, ngettext
from clawbot.text.numbers import whole_number
from clawbot.tui import app_base
from clawbot.tui.app_base import AgentSwitch, KeysInOrder, OpenRuntime
from clawbot.tui.earlier import share_heaps
from clawbot.tui.input import ScreenCommand, Submitted, UserInput
from clawbot.tui.render.lines import code_spans
from clawbot.tui.screens.chat import ChatScreen
from clawbot.tui.terminal import Attention
from clawbot.tui.themes import kept_theme, theme_name
from clawbot.tui.widgets.composer import Composer
from clawbot.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tui.screens.passages import SessionTarget

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")
TWICE = 1.0  # seconds between two Ctrl+C to quit, two Esc to go back


@runtime_checkable
class Unsaved(Protocol):
    """A screen with possibly unsaved changes."""

    @property
    def dirty(self) -> bool: ...

    def action_close(self) -> None:
        """Close the screen, asking first if there are unsaved changes."""
        ...


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
            "/hooks": self._show_hooks,
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

    @on(TranscriptView.Opened)
    def _opened(self, event: TranscriptView.Opened) -> None:
        self._open_target(event.target)

    def _open_target(self, target: str) -> None:
        kind, _, rest = target.partition(":")
        match kind:
            case "note":
                path, _, line = rest.rpartition(":")
                self.edit(path, whole_number(line) or 1)
            case "try":
                self.take(Submitted(rest))
                self.chat.composer.prompt.focus()
            case "session":
                self._resume(rest)
            case "run":
                self.call_later(self.run_action, rest)
            case _:
                self.open_url(target)

    @work
    async def _resume(self, session: str) -> None:
        from clawbot.tui.screens.passages import SessionTarget

        await self.go_to(SessionTarget(session))

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

    async def shown(self, make: Callable[[RuntimeApi], Screen[ResultT]]) -> ResultT | None:
        if self.runtime is None:
            self.notify(_("Still starting: try again in a moment."))
            return None
        return await self.push_screen_wait(make(self.runtime))

    def end_by_signal(self, number: int) -> None:
        """Quit at once, with the shells' exit code for a signal."""
        self.ended_by = number
        self.exit(return_code=128 + number)

    async def action_quit(self) -> None:
        """Quit; a screen with unsaved changes asks first, and one that already asks waits for its answer."""
        unsaved = [screen for screen in self.screen_stack if isinstance(screen, Unsaved) and screen.dirty]
        if not unsaved:
            self.exit()
        elif unsaved[-1] is self.screen:
            unsaved[-1].action_close()

    @work
    async def action_help(self) -> None:
        from clawbot.tui.screens.common import HelpScreen

        await self.shown(HelpScreen)

    def action_command_palette(self) -> None:
        if self.screen is self.chat:
            self._open_palette()

    @work
    async def _open_palette(self) -> None:
        from clawbot.tui.screens.palette import PaletteScreen

        choice = await self.shown(lambda runtime: PaletteScreen(runtime, self.chat, clock=self.clock))
        if choice and self.runtime is not None:
            await app_base.do(self, self.runtime, choice)

    @work
    async def choose_theme(self, name: str) -> None:
        await app_base.choose_theme(self, name)

    @work
    async def action_show_context(self) -> None:
        from clawbot.tui.screens.context import ContextScreen

        target = await self.shown(lambda runtime: ContextScreen(runtime, clock=self.clock))
        if target:
            self._open_target(target)

    @work
    async def _show_hooks(self) -> None:
        from clawbot.tui.screens.hooks import HooksScreen

        await self.shown(lambda runtime: HooksScreen(runtime, clock=self.clock))

    @work
    async def choose_agent(self, agent: str) -> None:
        from clawbot.tui.screens.choices import AgentsScreen

        chosen = agent or await self.shown(AgentsScreen)
        runtime = self.runtime
        if not chosen or runtime is None:
            return
        if chosen == runtime.agent.status.agent_id:
            self.chat.hint(_("You are talking to {agent}").format(agent=chosen), 2.0)
        elif self.agents.busy:
            self.notify(_("Another agent is being opened: try again in a moment."))
        else:
            await app_base.change_agent(self, runtime, chosen)

    @work
    async def action_choose_model(self) -> None:
        from clawbot.tui.screens.choices import ModelsScreen

        name = await self.shown(ModelsScreen)
        if name and self.runtime is not None:
            await app_base.take_model(self, self.runtime, name)

    @work(group="local", exclusive=True)
    async def action_run_local_model(self) -> None:
        if self.runtime is not None:
            await app_base.run_local_model(self, self.runtime)

    @work
    async def action_choose_session(self) -> None:
        from clawbot.tui.screens.sessions import SessionsScreen

        target = await self.shown(lambda runtime: SessionsScreen(runtime, clock=self.clock))
        if target:
            await self.go_to(target)

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
    async def action_rewind(self) -> None:
        from clawbot.tui.screens.choices import RewindScreen

        chosen = await self.shown(lambda runtime: RewindScreen(runtime, clock=self.clock))
        if chosen and self.runtime is not None:
            await app_base.go_on_from(self, self.runtime, chosen.entry, fork=chosen.fork)

    @work
    async def action_search_memory(self, query: str = "") -> None:
        from clawbot.tui.screens.memory import MemoryScreen

        target = await self.shown(lambda runtime: MemoryScreen(runtime, query, clock=self.clock))
        if target:
            await self.go_to(target)

    async def go_to(self, target: SessionTarget) -> None:
        if self.runtime is None:
            return
        if target.session != self.runtime.agent.status.session_id:
            try:
                await self.runtime.sessions.resume(target.session)
            except ClawbotError as error:
                self.notify(str(error), severity="error")
                return
        elif self.chat.turns.busy:
            # A running answer is not stored yet, so the page can't be rebuilt.
            return
        await self.chat.reload()
        if target.entry:
            await self.chat.earlier.go_to(target.entry, target.query)

    @work
    async def edit(self, file: str | None, line: int | None = None) -> None:
        from clawbot.tui.screens.editor import EditorScreen

        await self.shown(lambda runtime: EditorScreen(runtime, file, line))

    @work
    async def action_edit_prompt(self) -> None:
        from clawbot.tui.screens.editor import edit_prompt

        self._is_ready = False  # what is typed on comes behind what the editor makes of the text
        try:
            await edit_prompt(self, self.chat.composer.prompt)
        finally:
            self._is_ready = True
            self.call_later(self._take_typed)
