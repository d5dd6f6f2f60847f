"""The choices of a model (and of a key for it, of one to install), of an agent, of an earlier message."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from clawbot.api import RuntimeApi
from clawbot.clock import Clock, age, moment_of
from clawbot.errors import ClawbotError
from clawbot.messages import UserMessage
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.lines import short
from clawbot.tui.screens.common import KeyHint, KeyLine, OverScreen, day_group
from clawbot.tui.screens.picker import PickerScreen, Row
from clawbot.tui.widgets.fields import Line

if TYPE_CHECKING:
    from clawbot.agent.status import AgentInfo
    from clawbot.llm.protocol import ModelInfo
    from clawbot.llm.providers import Provider
    from clawbot.sessions.conversation import HistoryItem


# Ids of the two rows that are no model; no model name starts with a space.
TYPED = " typed"
ADD_KEY = " key"


class ModelsScreen(PickerScreen[str]):
    """Dismisses with the name of the model to go on with, as the user would write it, or None."""

    BINDINGS: ClassVar = [Binding("ctrl+k", "add_key", "Add a key", priority=True)]
    heading = N_("model")
    keys = (
        KeyHint("enter", N_("use"), "screen.choose"),
        KeyHint(N_("type"), N_("any name"), "screen.type"),
        KeyHint("ctrl+k", N_("add a key"), "screen.add_key"),
        KeyHint("esc", N_("back"), "screen.back"),
    )
    letter_keys: ClassVar = {"k": "screen.add_key"}

    async def load(self) -> list[Row]:
        in_use = self.runtime.agent.status.model.ref
        return [model_row(model, in_use) for model in await self.runtime.models()]

    def fixed_rows(self, query: str) -> list[Row]:
        known = {row.id for row in self.rows}
        typed = [
            Row(
                TYPED,
                _("use “{query}”").format(query=clean(query)),
                _("a name as litellm spells it: provider/model"),
                mark="+",
            )
        ]
        key = Row(ADD_KEY, _("add a key …"), _("for a provider that you have an account with"), mark="+")
        return [*(typed if query and query not in known and " " not in query else []), key]

    def first_choice(self, query: str) -> int:
        """Return the model in use, or the text once it is the full name of a model."""
        wanted = query or self.runtime.agent.status.model.ref
        return next((index for index, row in enumerate(self.shown) if row.id == wanted), 0)

    def chosen(self, row: Row) -> None:
        """Dismiss with the model, or ask for a key."""
        if row.id == ADD_KEY:
            self.action_add_key()
        else:
            self.dismiss(self.typed if row.id == TYPED else row.id)

    @work(group="key", exclusive=True)
    async def action_add_key(self) -> None:
        name = await self.app.push_screen_wait(ProvidersScreen(self.runtime))
        provider = next((each for each in self.runtime.providers if each.name == name), None)
        if provider is None:
            return
        value = await self.app.push_screen_wait(KeyScreen(provider, f"{self.runtime.paths.env_file}"))
        if not value:
            return
        try:
            await self.runtime.save_key(provider.keys[0], value)
        except (ClawbotError, OSError) as error:
            self.notify(clean(f"{error}"), title=_("The key was not saved"), severity="error")
            return
        self.notify(
            _("{key} is in {file}").format(key=provider.keys[0], file=self.runtime.paths.env_file), title=_("Key saved")
        )
        if self.has_left:
            return
        self.query_one("#filter", Input).clear()
        self.fetch(highlight=provider.default)


def model_row(model: ModelInfo, in_use: str) -> Row:
    """Return a model as a row: why it can be used, how much it can read, whether its price is known."""
    details = [clean_line(model.reason)] if model.reason else []
    if model.window:
        details.append(_("{n} tokens").format(n=short(model.window)))
    if not model.supports_tools:
        details.append(_("no tools"))
    if model.ref == in_use:
        details.append(_("in use"))
    mark = "●" if model.ref == in_use else "○"
    return Row(model.ref, clean_line(model.ref), " · ".join(details), mark=mark, more=clean_line(model.reason))


class LocalModelsScreen(PickerScreen[str]):
    """Dismisses with the name of a model to run on this machine, or None."""

    heading = N_("on this machine")
    keys = (KeyHint("enter", N_("get it and use it"), "screen.choose"), KeyHint("esc", N_("back"), "screen.back"))

    async def load(self) -> list[Row]:
        offers = await self.runtime.local_models.offers()
        marks = {True: _("recommended"), False: ""}
        return [
            Row(each.name, each.name, each.detail, "●" if each.here else "○", right=marks[each.best]) for each in offers
        ]

    def count(self, query: str, found: int) -> str:
        """Return the memory of this machine, where there is room for it."""
        if (counted := super().count(query, found)) or self.app.size.width < 60:
            return counted
        return _("{memory} of memory").format(memory=self.runtime.local_models.memory)


class ProvidersScreen(PickerScreen[str]):
    """Dismisses with the name of the provider that a key is for, or None."""

    heading = N_("a key for")
    keys = (KeyHint("enter", N_("choose"), "screen.choose"), KeyHint("esc", N_("back"), "screen.back"))

    async def load(self) -> list[Row]:
        found = self.runtime.providers
        return [Row(each.name, each.title, f"{each.keys[0]} · {each.default}") for each in found]


class KeyScreen(OverScreen[str]):
    """Asks for one key, which is never shown. Dismisses with it, or None."""

    CSS_PATH = "../styles/models.tcss"
    BINDINGS: ClassVar = [Binding("escape", "back", "Back", priority=True)]

    def __init__(self, provider: Provider, env_file: str) -> None:
        super().__init__()
        self.provider = provider
        self.env_file = env_file

    def compose(self) -> ComposeResult:
        provider = Content(_("{provider} key").format(provider=self.provider.title))
        template = _("It goes to {file}, which only you can read. It is not shown here or in any log.")
        invitation = _("paste {key}").format(key=self.provider.keys[0])
        with Vertical(id="frame") as frame:
            frame.border_title = provider
            yield Static(provider, id="title")
            yield Static(Content(template.format(file=self.env_file)))
            yield Line(password=True, placeholder=invitation, compact=True, id="key")
            yield Static(id="wrong", markup=False)
            yield KeyLine(
                [KeyHint("enter", N_("save"), "screen.save"), KeyHint("esc", N_("back, save nothing"), "screen.back")]
            )

    @on(Input.Submitted, "#key")
    def action_save(self) -> None:
        value = self.query_one("#key", Input).value.strip()
        if problem := key_problem(value):
            self.query_one("#wrong", Static).update(problem)
        else:
            self.dismiss(value)


def key_problem(value: str) -> str:
    """Return why `value` can't be a key, in words that don't repeat it; empty when it can."""
    if not value:
        return _("Nothing was typed. Paste the key, or go back with esc.")
    if not value.isascii() or not value.isprintable() or " " in value:
        return _("A key has only letters, digits and signs, without spaces. Copy it again from the provider's page.")
    return ""


# The id of the row that is no agent; no id starts with a space.
HOW_TO_ADD = " add"


class AgentsScreen(PickerScreen[str]):
    """Dismisses with the id of the agent to go on with, or None."""

    heading = N_("agent")
    keys: ClassVar = (KeyHint("enter", N_("talk to it"), "screen.choose"), KeyHint("esc", N_("back"), "screen.back"))

    async def load(self) -> list[Row]:
        return [agent_row(agent) for agent in self.runtime.agents]

    def fixed_rows(self, query: str) -> list[Row]:
        if query or len(self.runtime.agents) > 1:
            return []
        how = _("write `agents: {{work: {{}}}}` into {file}, then /agent work").format(
            file=clean_line(str(self.runtime.paths.config_file))
        )
        return [Row(HOW_TO_ADD, _("this is the only agent; another one …"), how, mark="+")]

    def first_choice(self, query: str) -> int:
        current = next((agent.agent_id for agent in self.runtime.agents if agent.current), "")
        return next((index for index, row in enumerate(self.shown) if row.id == current and not query), 0)

    def chosen(self, row: Row) -> None:
        """Dismiss with the agent; nothing changes for the current one."""
        if row.id != HOW_TO_ADD:
            self.dismiss(None if row.mark == "●" else row.id)


def agent_row(agent: AgentInfo) -> Row:
    """Return an agent as a row: where it works, which model answers."""
    details = [_("this one") if agent.current else "", clean_line(agent.model), clean_line(str(agent.workspace))]
    mark = "●" if agent.current else "○"
    return Row(agent.agent_id, agent.agent_id, " · ".join(part for part in details if part), mark=mark)


class InstallScreen(OverScreen[bool]):
    """Installs what runs a model on this machine, after Enter. Dismisses with whether it is installed."""

    CSS_PATH = "../styles/models.tcss"
    BINDINGS: ClassVar = [
        Binding("enter", "install", "Install", priority=True),
        Binding("escape", "back", "Back", priority=True),
    ]

    def __init__(self, runtime: RuntimeApi, problem: str) -> None:
        super().__init__()
        self._runtime = runtime
        self._problem = problem

    def compose(self) -> ComposeResult:
        title = Content(_("A model on this machine"))
        with Vertical(id="frame") as frame:
            frame.border_title = title
            yield Static(title, id="title")
            yield Static(self._problem, id="step", markup=False)
            yield KeyLine(
                [KeyHint("enter", N_("install"), "screen.install"), KeyHint("esc", N_("stop"), "screen.back")]
            )

    @work
    async def action_install(self) -> None:
        if self._problem:
            self._problem = ""
            self._show(_("installing ..."))
            try:
                await self._runtime.local_models.install(self._show)
            except (ClawbotError, OSError) as error:
                self._problem = str(error)
                self._show(self._problem)
            else:
                self.dismiss(True)

    def _show(self, step: str) -> None:
        if not self.has_left:
            self.query_one("#step", Static).update(step)

    def action_back(self) -> None:
        """Leave; an installation that runs is stopped."""
        self.workers.cancel_node(self)
        self.dismiss(False)


# Items of history that are read, some at a time: a message from before that is found by the search.
MAX_ITEMS = 2_000
PAGE = 200
TITLE_CHARS = 200
PROMISE = N_("nothing is deleted; files stay")


class EarlierMessage(NamedTuple):
    """The `entry` of the message to go on from: in a `fork`, or in the conversation itself."""

    entry: str
    fork: bool = False


class RewindScreen(PickerScreen[EarlierMessage]):
    """Dismisses with the message to go on from, or None."""

    BINDINGS: ClassVar = [Binding("ctrl+b", "fork", "Fork", priority=True)]
    heading = N_("go back to")
    nothing = N_("Nothing was said yet.")
    keys: ClassVar = (
        KeyHint("enter", N_("edit it and go on"), "screen.choose"),
        KeyHint("ctrl+b", N_("fork here"), "screen.fork"),
        KeyHint("esc", N_("back"), "screen.back"),
    )
    letter_keys: ClassVar = {"f": "screen.fork"}

    def __init__(self, runtime: RuntimeApi, *, clock: Clock) -> None:
        super().__init__(runtime)
        self.clock = clock

    def on_mount(self) -> None:
        self.query_one(KeyLine).status = _(PROMISE)

    async def load(self) -> list[Row]:
        """Return the messages, the last one first."""
        rows: list[Row] = []
        before: str | None = None
        for _page in range(MAX_ITEMS // PAGE):
            items = await self.runtime.sessions.history(before=before, limit=PAGE)
            rows += [row for item in reversed(items) if (row := self._row(item)) is not None]
            if len(items) < PAGE:
                break
            before = items[0].entry_id
        return rows

    def _row(self, item: HistoryItem) -> Row | None:
        message = item.message
        if not isinstance(message, UserMessage) or message.scheduled or not message.text.strip():
            return None
        now = self.clock.now()
        then = moment_of(item.timestamp, now.tzinfo)
        title = clean_line(message.text.strip()[:TITLE_CHARS])
        return Row(item.entry_id, title, right=age(then, now), group=day_group(then, now))

    def chosen(self, row: Row) -> None:
        self.dismiss(EarlierMessage(row.id))

    def action_fork(self) -> None:
        """Go on from before the highlighted message in a new conversation; this one is unchanged."""
        if self.current is not None:
            self.dismiss(EarlierMessage(self.current.id, fork=True))
