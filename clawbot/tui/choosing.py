"""What follows a choice: of a model, an agent, a theme, or of anything in the palette."""

from __future__ import annotations

import asyncio
import difflib
from abc import abstractmethod
from typing import TYPE_CHECKING, TypeVar

from clawbot.errors import ClawbotError
from clawbot.text.interface import _
from clawbot.tui.input import classify
from clawbot.tui.render.start import is_said
from clawbot.tui.themes import THEMES, ThemedApp, keep_theme, theme_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.screen import Screen

    from clawbot.api import RuntimeApi
    from clawbot.tui.input import UserInput
    from clawbot.tui.screens.chat import ChatScreen
    from clawbot.tui.screens.palette import PaletteChoice
    from clawbot.tui.screens.places import TalkPlace
    from clawbot.tui.switching import AgentSwitch

ResultT = TypeVar("ResultT")


class Front(ThemedApp):
    """What of the app a choice needs."""

    chat: ChatScreen
    agents: AgentSwitch
    runtime: RuntimeApi | None

    @abstractmethod
    def take(self, entry: UserInput | None) -> None:
        """Do what the user entered."""

    @abstractmethod
    async def shown(self, make: Callable[[RuntimeApi], Screen[ResultT]]) -> ResultT | None:
        """The result of a screen above the conversation."""

    @abstractmethod
    async def connect(self, runtime: RuntimeApi) -> None:
        """Show the conversation of `runtime`."""

    @abstractmethod
    async def go_to(self, place: TalkPlace) -> None:
        """Resume the session of `place`, and show what was said there."""

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
    from clawbot.tui.screens.places import TalkPlace

    match choice.kind:
        case "action":
            await app.chat.run_action(choice.name)
        case "command":
            _command(app, runtime, choice.name)
        case "session":
            await app.go_to(TalkPlace(choice.name))
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
            _skill(app, runtime, choice.name)


def _command(app: Front, runtime: RuntimeApi, name: str) -> None:
    """Run the command `name`; one that needs an argument waits for it in the prompt."""
    needs = any(info.name == name and info.arguments[:1] not in ("", "[") for info in runtime.commands)
    if needs and app.chat.composer.is_empty:
        app.chat.composer.prompt.take(f"{name} ")
    else:
        app.take(classify(name, runtime.commands))


def _skill(app: Front, runtime: RuntimeApi, name: str) -> None:
    """Call the skill `name`; the words for it are typed in the prompt, unless something else stands there."""
    if app.chat.composer.is_empty:
        app.chat.composer.prompt.take(f"/skill {name} ")
    else:
        app.take(classify(f"/skill {name}", runtime.commands))


async def choose_theme(app: Front, name: str) -> None:
    """Change to the theme `name`, or to one that the user chooses."""
    from clawbot.tui.screens.palette import ThemesScreen

    if not name and (choice := await app.shown(ThemesScreen)) is not None:
        name = choice.name
    known = [*THEMES, *app.available_themes]
    if name and name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        said = (
            _("There is no theme {name}. Did you mean {near}?")
            if near
            else _("There is no theme {name}. /theme lists them.")
        )
        app.notify(said.format(name=name, near="".join(near)), severity="error", markup=False)
    elif name:
        await keep(app, name)


async def keep(app: Front, theme: str) -> None:
    """Show `theme` from now on, in later starts too."""
    app.theme = theme_name(theme, app.available_themes)
    if app.runtime is None:
        return
    try:
        await asyncio.to_thread(keep_theme, app.runtime.paths.look_file, theme, app.runtime.settings.tui.theme)
    except OSError as error:
        app.notify(_("The theme is not kept: {error}").format(error=error), severity="error", markup=False)
    else:
        app.chat.hint(_("the theme {theme} is kept").format(theme=theme), 2.0)


async def go_on_from(app: Front, runtime: RuntimeApi, entry: str, *, fork: bool) -> None:
    """Take the conversation back to before the message `entry`, whose text goes into the prompt; `fork`: go on from
    there in another one, and leave this one as it is."""
    if app.chat.turns.busy:
        app.notify(_("A turn is running: stop it first, then go back."), severity="warning", markup=False)
        return
    try:
        text = (await runtime.agent.fork(at=entry))[1] if fork else await runtime.agent.rewind(entry)
    except ClawbotError as error:
        app.notify(str(error), title=_("Not gone back"), severity="error", markup=False)
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
        app.notify(str(error), severity="error", markup=False)
    else:
        if is_said(app.chat.page.stack.items):
            app.chat.writer.divider(_("{model} answers from here on").format(model=model.ref))
        app.chat.status_bar.changed()
        app.chat.welcome()


async def run_local_model(app: Front, runtime: RuntimeApi) -> None:
    """Get a model that runs on this machine, if it is not here, and let it answer."""
    from clawbot.tui.screens.choices import LocalModelsScreen
    from clawbot.tui.screens.install import InstallScreen

    problem = await asyncio.to_thread(lambda: runtime.local_models.problem)
    if problem and not await app.shown(lambda runtime: InstallScreen(runtime, problem)):
        return
    name = await app.shown(LocalModelsScreen)
    if not name:
        return
    try:
        await runtime.local_models.pull(name, lambda done, size: _pulled(app, name, done, size))
    except (ClawbotError, OSError) as error:
        app.notify(str(error), title=_("Download failed: {name}").format(name=name), severity="error", markup=False)
        return
    await take_model(app, runtime, f"local/{name}")


def _pulled(app: Front, name: str, done: int, size: int | None) -> None:
    if size:
        said = _("downloading {name}: {share} % of {size:.1f} GB").format(
            name=name, share=done * 100 // size, size=size / 1e9
        )
    else:
        said = _("downloading {name}: {size:.1f} GB").format(name=name, size=done / 1e9)
    app.chat.hint(said, 2.0)


async def change_agent(app: Front, runtime: RuntimeApi, agent: str) -> None:
    """Switch to `agent`; on failure stay with the current one."""
    if app.chat.turns.busy:
        app.notify(_("{agent} comes when the running turn has ended.").format(agent=agent), markup=False)
    try:
        new, failure = await app.agents.change(runtime, agent)
    except ClawbotError as error:
        app.notify(str(error), title=_("{agent} was not opened").format(agent=agent), severity="error", markup=False)
        return
    await app.connect(new)
    if failure is not None:
        app.notify(
            _("The other agent could not be closed as usual: {failure}").format(failure=failure),
            severity="error",
            markup=False,
        )
