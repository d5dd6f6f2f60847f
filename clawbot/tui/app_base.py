"""What the app is built on: keys in their order, the runtime of an agent and its switch, what follows a choice."""

from __future__ import annotations

import asyncio
import difflib
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from textual.events import Event, Key, Paste
from textual.message_pump import MessagePump

from clawbot.errors import ClawbotError
from clawbot.text.interface import _
from clawbot.tui.driver import AltKey
from clawbot.tui.input import classify
from clawbot.tui.screens.welcome import has_messages
from clawbot.tui.themes import THEMES, ThemedApp, keep_theme, theme_name
from clawbot.tui.widgets.fields import TextField

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.screen import Screen

    from clawbot.api import RuntimeApi
    from clawbot.tui.input import UserInput
    from clawbot.tui.screens.chat import ChatScreen
    from clawbot.tui.screens.palette import PaletteChoice
    from clawbot.tui.screens.passages import SessionTarget
    from clawbot.tui.turns import Turns


log = logging.getLogger(__name__)


class OpenRuntime(Protocol):
    """Opens the agent of the command line, or `agent`. Raises ClawbotError."""

    def __call__(self, agent: str | None = None) -> Awaitable[RuntimeApi]:
        """Return the runtime, to be closed by the caller."""
        ...


class AgentSwitch:
    """The runtimes of one program, of which one is `current`.

    `runtimes` are open and not closing; `closing` is the task that closes the previous one, which may save to memory
    for some seconds.
    """

    def __init__(self, open_runtime: OpenRuntime, turns: Turns) -> None:
        self._open_runtime = open_runtime
        self._turns = turns
        self.runtimes: list[RuntimeApi] = []
        self.closing: asyncio.Task[None] | None = None
        self.busy = False

    async def open(self, agent: str | None = None) -> RuntimeApi:
        runtime = await (self._open_runtime() if agent is None else self._open_runtime(agent))
        self.runtimes.append(runtime)
        return runtime

    async def change(self, old: RuntimeApi, agent: str) -> tuple[RuntimeApi, Exception | None]:
        """Open `agent`, wait until submissions to `old` have ended, close `old`; inputs wait during this.

        Returns the new runtime, and the exception of closing the old one. Raises ClawbotError if the new one can't be
        opened; the old one then continues.
        """
        self.busy = True
        try:
            new = await self.open(agent)
            await self._turns.hold()
            return new, await self._close(old)
        finally:
            self.busy = False

    def skip(self) -> bool:
        """Stop waiting for the memory flush of the previous agent. False if nothing is closing."""
        return self.closing is not None and self.closing.cancel()

    async def _close(self, old: RuntimeApi) -> Exception | None:
        self.runtimes.remove(old)
        self.closing = closing = asyncio.create_task(old.close())
        # Whoever cancels this one leaves the program, which waits for the closing by itself.
        await asyncio.wait({closing})
        self.closing = None
        if closing.cancelled():
            log.info("The conversation is not saved to memory yet: the wait for it was ended.")
            return None
        error = closing.exception()
        if error is not None:
            log.critical("The session of the other agent could not be closed.", exc_info=error)
        return error if isinstance(error, Exception) else None


ResultT = TypeVar("ResultT")


class Front(ThemedApp):
    """The part of the app that a choice needs."""

    chat: ChatScreen
    agents: AgentSwitch
    runtime: RuntimeApi | None

    @abstractmethod
    def take(self, entry: UserInput | None) -> None:
        """Do what the user entered."""

    @abstractmethod
    async def shown(self, make: Callable[[RuntimeApi], Screen[ResultT]]) -> ResultT | None:
        """Return the result of a screen above the conversation."""

    @abstractmethod
    async def connect(self, runtime: RuntimeApi) -> None:
        """Show the conversation of `runtime`."""

    @abstractmethod
    async def go_to(self, target: SessionTarget) -> None:
        """Resume the session of `target`, and show the entry that it names."""

    @abstractmethod
    def edit(self, file: str | None, line: int | None = None) -> object:
        """Open `file` of the workspace at `line` (from 1), or the choice of one."""

    @abstractmethod
    def choose_agent(self, agent: str) -> object:
        """Switch to `agent`, or to one that the user chooses."""

    @abstractmethod
    def action_search_memory(self, query: str = "") -> object:
        """Search the memory for `query`."""


async def do(app: Front, runtime: RuntimeApi, choice: PaletteChoice) -> None:
    """Do what was chosen in the palette."""
    # The screens come in after the first paint.
    from clawbot.tui.screens.passages import SessionTarget

    match choice.kind:
        case "action":
            await app.chat.run_action(choice.name)
        case "command":
            needs = any(info.name == choice.name and info.arguments[:1] not in ("", "[") for info in runtime.commands)
            _enter(app, runtime, choice.name, needs_argument=needs)
        case "session":
            await app.go_to(SessionTarget(choice.name))
        case "file":
            app.edit(choice.name)
        case "agent":
            app.choose_agent(choice.name)
        case "model":
            await take_model(app, runtime, choice.name)
        case "memory":
            app.action_search_memory(choice.name)
        case "theme":
            await keep(app, choice.name)
        case "skill":
            _enter(app, runtime, f"/skill {choice.name}", needs_argument=True)


def _enter(app: Front, runtime: RuntimeApi, command: str, *, needs_argument: bool) -> None:
    """Run `command`; one that needs an argument waits for it in an empty prompt."""
    if needs_argument and app.chat.composer.is_empty:
        app.chat.composer.prompt.take(f"{command} ")
    else:
        app.take(classify(command, runtime.commands))


async def choose_theme(app: Front, name: str) -> None:
    """Change to the theme `name`, or to one that the user chooses."""
    from clawbot.tui.screens.palette import ThemesScreen

    if not name and (choice := await app.shown(ThemesScreen)) is not None:
        name = choice.name
    known = [*THEMES, *app.available_themes]
    if name and name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        text = (
            _("There is no theme {name}. Did you mean {near}?")
            if near
            else _("There is no theme {name}. /theme lists them.")
        )
        app.notify(text.format(name=name, near="".join(near)), severity="error")
    elif name:
        await keep(app, name)


async def keep(app: Front, theme: str) -> None:
    """Show `theme` from now on, in later starts too."""
    app.theme = theme_name(theme, app.available_themes)
    if app.runtime is None:
        return
    try:
        await asyncio.to_thread(keep_theme, app.runtime.paths.theme_file, theme, app.runtime.settings.tui.theme)
    except OSError as error:
        app.notify(_("The theme is not kept: {error}").format(error=error), severity="error")
    else:
        app.chat.hint(_("the theme {theme} is kept").format(theme=theme), 2.0)


async def go_on_from(app: Front, runtime: RuntimeApi, entry: str, *, fork: bool) -> None:
    """Take the conversation back to before the message `entry`, whose text goes into the prompt; `fork`: go on from
    there in another one, and leave this one as it is."""
    if app.chat.turns.busy:
        app.notify(_("A turn is running: stop it first, then go back."), severity="warning")
        return
    try:
        text = (await runtime.agent.fork(at=entry))[1] if fork else await runtime.agent.rewind(entry)
    except ClawbotError as error:
        app.notify(str(error), title=_("Not gone back"), severity="error")
        return
    await app.chat.reload()
    if not fork:
        app.chat.writer.divider(_("Continuing from here. Later messages stay in the transcript; files are unchanged."))
    prompt = app.chat.composer.prompt
    prompt.take(prompt.shortened(text))
    prompt.focus()


async def take_model(app: Front, runtime: RuntimeApi, name: str) -> None:
    """Let the model `name` answer."""
    try:
        model = await runtime.agent.set_model(name)
    except ClawbotError as error:
        app.notify(str(error), severity="error")
    else:
        if has_messages(app.chat.page.stack.items):
            app.chat.writer.divider(_("{model} answers from here on").format(model=model.ref))
        app.chat.status_bar.changed()
        app.chat.welcome()


async def run_local_model(app: Front, runtime: RuntimeApi) -> None:
    """Get a model that runs on this machine, if it is not here, and let it answer."""
    from clawbot.tui.screens.choices import InstallScreen, LocalModelsScreen

    problem = await asyncio.to_thread(lambda: runtime.local_models.problem)
    if problem and not await app.shown(lambda runtime: InstallScreen(runtime, problem)):
        return
    name = await app.shown(LocalModelsScreen)
    if not name:
        return
    try:
        await runtime.local_models.pull(name, lambda done, size: _pulled(app, name, done, size))
    except (ClawbotError, OSError) as error:
        app.notify(str(error), title=_("Download failed: {name}").format(name=name), severity="error")
        return
    await take_model(app, runtime, f"local/{name}")


def _pulled(app: Front, name: str, done: int, size: int | None) -> None:
    if size:
        text = _("downloading {name}: {share} % of {size:.1f} GB").format(
            name=name, share=done * 100 // size, size=size / 1e9
        )
    else:
        text = _("downloading {name}: {size:.1f} GB").format(name=name, size=done / 1e9)
    app.chat.hint(text, 2.0)


async def change_agent(app: Front, runtime: RuntimeApi, agent: str) -> None:
    """Switch to `agent`; on failure keep the current one."""
    if app.chat.turns.busy:
        app.notify(_("{agent} comes when the running turn has ended.").format(agent=agent))
    try:
        new, failure = await app.agents.change(runtime, agent)
    except ClawbotError as error:
        app.notify(str(error), title=_("{agent} was not opened").format(agent=agent), severity="error")
        return
    await app.connect(new)
    if failure is not None:
        app.notify(
            _("The other agent could not be closed as usual: {failure}").format(failure=failure), severity="error"
        )


SCREEN_POLL = 0.01  # seconds between two checks whether a new screen is there to take keys
MAX_HELD = 2.0  # seconds that keys wait for one before
MAX_LOAD = 10.0  # seconds that keys wait for what a screen loads


@runtime_checkable
class Loading(Protocol):
    """A screen that may be loading what the next keys are for."""

    @property
    def is_loading(self) -> bool: ...


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
