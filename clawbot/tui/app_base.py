"""What the app is built on: the runtime of an agent and its switch, the screens above the conversation, and what
follows a choice in them."""

from __future__ import annotations

import asyncio
import difflib
import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from textual import on, work
from textual.screen import Screen

from clawbot.agent.events import CommandOutput, Notice
from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.text.interface import _
from clawbot.text.numbers import whole_number
from clawbot.tui.input import Submitted, UserInput, classify
from clawbot.tui.screens.chat import ChatScreen
from clawbot.tui.screens.welcome import has_messages
from clawbot.tui.themes import THEMES, ThemedApp, keep_theme, theme_name
from clawbot.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tui.screens.choices import EarlierMessage
    from clawbot.tui.screens.palette import PaletteChoice
    from clawbot.tui.screens.passages import SessionTarget
    from clawbot.tui.turns import Turns


SCREENS = "clawbot.screens"
"""The entry point group of screens: each is made with the runtime and the `clock`."""

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


class ScreensApp(ThemedApp):
    """Opens the screens above the conversation, which are imported when they are shown first, and does what is chosen
    there."""

    chat: ChatScreen
    agents: AgentSwitch
    runtime: RuntimeApi | None
    clock: Clock

    @abstractmethod
    def take(self, entry: UserInput | None) -> None:
        """Do what the user entered."""

    @abstractmethod
    async def connect(self, runtime: RuntimeApi) -> None:
        """Show the conversation of `runtime`."""

    async def shown(self, make: Callable[[RuntimeApi], Screen[ResultT]]) -> ResultT | None:
        """Return the result of a screen above the conversation."""
        if self.runtime is None:
            self.notify(_("Still starting: try again in a moment."))
            return None
        return await self.push_screen_wait(make(self.runtime))

    # What opens

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

    async def go_to(self, target: SessionTarget) -> None:
        """Resume the session of `target`, and show the entry that it names."""
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
        """Open `file` of the workspace at `line` (from 1), or the choice of one."""
        from clawbot.tui.screens.editor import EditorScreen

        await self.shown(lambda runtime: EditorScreen(runtime, file, line))

    @work
    async def action_help(self) -> None:
        from clawbot.tui.screens.common import HelpScreen

        await self.shown(HelpScreen)

    @work
    async def action_show_context(self) -> None:
        from clawbot.tui.screens.context import ContextScreen

        target = await self.shown(lambda runtime: ContextScreen(runtime, clock=self.clock))
        if target:
            self._open_target(target)

    @work
    async def show_hooks(self) -> None:
        from clawbot.tui.screens.hooks import HooksScreen

        await self.shown(lambda runtime: HooksScreen(runtime, clock=self.clock))

    def open_output(self, output: CommandOutput) -> bool:
        """Show `output` on its screen, unless something else has the keys: then return False."""
        chat = self.chat
        is_free = chat.is_current and chat.composer.is_empty and chat.approval.request is None
        if is_free and not chat.search.is_open:
            self._show_packaged(output)
            return True
        return False

    @work
    async def _show_packaged(self, output: CommandOutput) -> None:
        """Show `output` on the screen of a package, which dismisses with a line for the conversation, or None. One that
        can't be used leaves the text."""
        from clawbot.entry_points import BrokenExtension, find

        extension = await asyncio.to_thread(find, SCREENS, output.screen)
        await asyncio.to_thread(extension.load)  # a thread imports what the next line calls
        made = extension.use(lambda point: point.load()(self.runtime, clock=self.clock))
        if isinstance(made, BrokenExtension):
            self.notify(made.problem, severity="error")
            self.chat.writer.output(output.command, output.text)
        elif text := await self.shown(lambda _runtime: made):
            self.chat.writer.notice(Notice(level="info", text=text))

    @work
    async def action_choose_session(self) -> None:
        from clawbot.tui.screens.sessions import SessionsScreen

        target = await self.shown(lambda runtime: SessionsScreen(runtime, clock=self.clock))
        if target:
            await self.go_to(target)

    @work
    async def action_search_memory(self, query: str = "") -> None:
        from clawbot.tui.screens.memory import MemoryScreen

        target = await self.shown(lambda runtime: MemoryScreen(runtime, query, clock=self.clock))
        if target:
            await self.go_to(target)

    # The palette

    def action_command_palette(self) -> None:
        if self.screen is self.chat:
            self._open_palette()

    @work
    async def _open_palette(self) -> None:
        from clawbot.tui.screens.palette import PaletteScreen

        choice = await self.shown(lambda runtime: PaletteScreen(runtime, self.chat, clock=self.clock))
        if choice and self.runtime is not None:
            await self._do(self.runtime, choice)

    async def _do(self, runtime: RuntimeApi, choice: PaletteChoice) -> None:
        from clawbot.tui.screens.passages import SessionTarget

        match choice.kind:
            case "action":
                await self.chat.run_action(choice.name)
            case "command":
                needs = any(
                    each.name == choice.name and each.arguments[:1] not in ("", "[") for each in runtime.commands
                )
                self._enter(runtime, choice.name, needs_argument=needs)
            case "session":
                await self.go_to(SessionTarget(choice.name))
            case "file":
                self.edit(choice.name)
            case "agent":
                self.choose_agent(choice.name)
            case "model":
                await self.take_model(runtime, choice.name)
            case "memory":
                self.action_search_memory(choice.name)
            case "theme":
                await self._keep_theme(choice.name)
            case "skill":
                self._enter(runtime, f"/skill {choice.name}", needs_argument=True)

    def _enter(self, runtime: RuntimeApi, command: str, *, needs_argument: bool) -> None:
        """Run `command`; one that needs an argument waits for it in an empty prompt."""
        if needs_argument and self.chat.composer.is_empty:
            self.chat.composer.prompt.take(f"{command} ")
        else:
            self.take(classify(command, runtime.commands))

    # Themes

    @work
    async def choose_theme(self, name: str) -> None:
        """Change to the theme `name`, or to one that the user chooses."""
        from clawbot.tui.screens.palette import ThemesScreen

        if not name and (choice := await self.shown(ThemesScreen)) is not None:
            name = choice.name
        known = [*THEMES, *self.available_themes]
        if name and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            text = (
                _("There is no theme {name}. Did you mean {near}?")
                if near
                else _("There is no theme {name}. /theme lists them.")
            )
            self.notify(text.format(name=name, near="".join(near)), severity="error")
        elif name:
            await self._keep_theme(name)

    async def _keep_theme(self, theme: str) -> None:
        """Show `theme` from now on, in later starts too."""
        self.theme = theme_name(theme, self.available_themes)
        if self.runtime is None:
            return
        try:
            await asyncio.to_thread(keep_theme, self.runtime.paths.theme_file, theme, self.runtime.settings.tui.theme)
        except OSError as error:
            self.notify(_("The theme is not kept: {error}").format(error=error), severity="error")
        else:
            self.chat.hint(_("the theme {theme} is kept").format(theme=theme), 2.0)

    # Models

    @work
    async def action_choose_model(self) -> None:
        from clawbot.tui.screens.choices import ModelsScreen

        name = await self.shown(ModelsScreen)
        if name and self.runtime is not None:
            await self.take_model(self.runtime, name)

    async def take_model(self, runtime: RuntimeApi, name: str) -> None:
        """Let the model `name` answer."""
        try:
            model = await runtime.agent.set_model(name)
        except ClawbotError as error:
            self.notify(str(error), severity="error")
        else:
            if has_messages(self.chat.page.stack.items):
                self.chat.writer.divider(_("{model} answers from here on").format(model=model.ref))
            self.chat.status_bar.changed()
            self.chat.welcome()

    @work(group="local", exclusive=True)
    async def action_run_local_model(self) -> None:
        """Get a model that runs on this machine, if it is not here, and let it answer."""
        from clawbot.tui.screens.choices import InstallScreen, LocalModelsScreen

        if (runtime := self.runtime) is None:
            return
        problem = await asyncio.to_thread(lambda: runtime.local_models.problem)
        if problem and not await self.shown(lambda runtime: InstallScreen(runtime, problem)):
            return
        name = await self.shown(LocalModelsScreen)
        if not name:
            return
        try:
            await runtime.local_models.pull(name, lambda done, size: self._pulled(name, done, size))
        except (ClawbotError, OSError) as error:
            self.notify(str(error), title=_("Download failed: {name}").format(name=name), severity="error")
            return
        await self.take_model(runtime, f"local/{name}")

    def _pulled(self, name: str, done: int, size: int | None) -> None:
        if size:
            text = _("downloading {name}: {share} % of {size:.1f} GB").format(
                name=name, share=done * 100 // size, size=size / 1e9
            )
        else:
            text = _("downloading {name}: {size:.1f} GB").format(name=name, size=done / 1e9)
        self.chat.hint(text, 2.0)

    # Agents

    @work
    async def choose_agent(self, agent: str) -> None:
        """Switch to `agent`, or to one that the user chooses."""
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
            await self._change_agent(runtime, chosen)

    async def _change_agent(self, runtime: RuntimeApi, agent: str) -> None:
        """Switch to `agent`; on failure keep the current one."""
        if self.chat.turns.busy:
            self.notify(_("{agent} comes when the running turn has ended.").format(agent=agent))
        try:
            new, failure = await self.agents.change(runtime, agent)
        except ClawbotError as error:
            self.notify(str(error), title=_("{agent} was not opened").format(agent=agent), severity="error")
            return
        await self.connect(new)
        if failure is not None:
            text = _("The other agent could not be closed as usual: {failure}").format(failure=failure)
            self.notify(text, severity="error")

    # Going back

    @work
    async def action_rewind(self) -> None:
        from clawbot.tui.screens.choices import RewindScreen

        chosen = await self.shown(lambda runtime: RewindScreen(runtime, clock=self.clock))
        if chosen and self.runtime is not None:
            await self._go_on_from(self.runtime, chosen)

    async def _go_on_from(self, runtime: RuntimeApi, chosen: EarlierMessage) -> None:
        """Take the conversation back to before the message that was `chosen`, whose text goes into the prompt; a fork
        goes on from there in another one, and leaves this one as it is."""
        if self.chat.turns.busy:
            self.notify(_("A turn is running: stop it first, then go back."), severity="warning")
            return
        agent, entry = runtime.agent, chosen.entry
        try:
            text = (await agent.fork(at=entry))[1] if chosen.fork else await agent.rewind(entry)
        except ClawbotError as error:
            self.notify(str(error), title=_("Not gone back"), severity="error")
            return
        await self.chat.reload()
        if not chosen.fork:
            note = _("Continuing from here. Later messages stay in the transcript; files are unchanged.")
            self.chat.writer.divider(note)
        prompt = self.chat.composer.prompt
        prompt.take(prompt.shortened(text))
        prompt.focus()
