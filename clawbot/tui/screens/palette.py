"""The palette: one list of everything that can be done or opened, with its key; and the list of the themes, each shown
as soon as it is highlighted."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.widgets import OptionList

from clawbot.agent.slash import ENDING
from clawbot.clock import Clock, age
from clawbot.config.keys import NO_KEY, shown_key
from clawbot.errors import ClawbotError
from clawbot.memory.documents.memory_files import ROOT_FILES
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean_line
from clawbot.tui.screens.choices import agent_row, model_row
from clawbot.tui.screens.common import KeyHint
from clawbot.tui.screens.picker import PickerScreen, Row
from clawbot.tui.themes import DARK, LIGHT, THEMES, theme_name

if TYPE_CHECKING:
    from textual.screen import Screen

    from clawbot.agent.slash import CommandInfo
    from clawbot.api import RuntimeApi
    from clawbot.tui.screens.chat import ChatScreen

# What a group shows before anything is typed.
FIRST = 5
SHOWN = 40  # characters of what a skill does; all of them are searched
# What a command does on the screen: its key is shown with it, and is not listed again.
COMMAND_ACTIONS = {
    "/model": "app.choose_model",
    "/sessions": "app.choose_session",
    "/memory": "app.search_memory",
    "/help": "app.help",
    "/rewind": "app.rewind",
}
# The palette has these in another way, or they are of no use in it.
LEFT_OUT = ("app.command_palette", "app.copy_or_leave", "app.leave_or_delete", "app.focus_next", "stop")
ESC = KeyHint("esc", N_("back"), "screen.back")


class PaletteChoice(NamedTuple):
    """What was chosen: its `kind` (`action`, `command`, `session`, `file`, `skill`, `agent`, `model`, `theme`,
    `memory`), and its name."""

    kind: str
    name: str


class ThemePreview(PickerScreen[PaletteChoice]):
    """A list with themes in it: the one that is highlighted is shown, and what was before comes back without a choice.

    The id of a row is its kind and its name, with a colon between them.
    """

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__(runtime)
        self.before = ""

    def on_mount(self) -> None:
        self.before = self.app.theme

    @on(OptionList.OptionHighlighted, "#rows")
    def _preview(self) -> None:
        choice = _choice(self.current)
        shown = theme_name(choice.name, self.app.available_themes) if choice.kind == "theme" else self.before
        if shown != self.app.theme and not self.has_left:
            self.app.theme = shown

    def chosen(self, row: Row) -> None:
        choice = _choice(row)
        if choice.kind != "theme":
            self.app.theme = self.before
        self.dismiss(choice)

    def action_back(self) -> None:
        """Leave without a choice: the theme is what it was."""
        self.app.theme = self.before
        self.dismiss(None)


class ThemesScreen(ThemePreview):
    """Dismisses with the theme to keep, or None."""

    heading = N_("theme")
    keys: ClassVar = (KeyHint("enter", N_("keep it"), "screen.choose"), ESC)

    async def load(self) -> list[Row]:
        return theme_rows(self.app.available_themes)

    def first_choice(self, query: str) -> int:
        ids = [row.id for row in self.shown]
        return 0 if query or f"theme:{self.before}" not in ids else ids.index(f"theme:{self.before}")


class PaletteScreen(ThemePreview):
    """Everything by its name. `chat` is the screen whose keys are shown. Dismisses with what to do, or None.

    Commands, keys, agents and themes are there at once; sessions, files, skills and models when they were read.
    """

    heading = N_("find anything")
    fills = True
    keys: ClassVar = (
        KeyHint("enter", N_("run or open"), "screen.choose"),
        KeyHint(N_("type"), N_("to find"), "screen.type"),
        ESC,
    )

    def __init__(self, runtime: RuntimeApi, chat: ChatScreen, *, clock: Clock) -> None:
        super().__init__(runtime)
        self.recent = chat.recent
        self.clock = clock
        self.keys_of_chat = key_rows(chat)
        self.counts: Counter[str] = Counter()

    def on_mount(self) -> None:
        self.rows = self._gathered([], [], [], [])

    async def load(self) -> list[Row]:
        """List everything. What can't be read is reported, and the rest is there nevertheless."""
        reading = (self._sessions, self._files, self._skills, self._models)
        return self._gathered(*await asyncio.gather(*map(self._read, reading)))

    async def _read(self, load: Callable[[], Awaitable[list[Row]]]) -> list[Row]:
        try:
            return await load()
        except (ClawbotError, OSError) as error:
            if not self.has_left:
                self.notify(clean_line(f"{error}"), severity="error")
            return []

    def _gathered(
        self, sessions: Sequence[Row], files: Sequence[Row], skills: Sequence[Row], models: Sequence[Row]
    ) -> list[Row]:
        keys = {row.id.removeprefix("action:"): row.right for row in self.keys_of_chat}
        commands = [command_row(info, keys) for info in self.runtime.commands]
        others = [row for row in self.keys_of_chat if row.id.removeprefix("action:") not in COMMAND_ACTIONS.values()]
        agents = [
            _of(N_("agent"), N_("Agents"), agent_row(agent)) for agent in self.runtime.agents if not agent.current
        ]
        themes = theme_rows(self.app.available_themes)
        rows = [*commands, *others, *sessions, *files, *skills, *agents, *models, *themes]
        known = {row.id: row for row in rows}
        recent = [replace(known[each], group=N_("Recent")) for each in self.recent if each in known][:FIRST]
        return [*recent, *sorted((row for row in rows if row.id not in self.recent[:FIRST]), key=_ends)]

    async def _sessions(self) -> list[Row]:
        found = sorted(await self.runtime.sessions.all(), key=lambda summary: summary.updated_at, reverse=True)
        now = self.clock.now()
        return [
            Row(
                f"session:{each.session_id}",
                clean_line(each.title) or _("(nothing said)"),
                more=each.name,
                right=age(each.updated_at, now),
                group=N_("Conversations"),
            )
            for each in found
        ]

    async def _files(self) -> list[Row]:
        paths = [
            (path, path in ROOT_FILES or path.startswith("memory/")) for path in await self.runtime.workspace.files()
        ]
        notes = sorted((path for path, is_note in paths if is_note), reverse=True)
        rows = [Row(f"file:{path}", clean_line(path), right=_("note"), group=N_("Notes")) for path in notes]
        files = [path for path, is_note in paths if not is_note]
        return [*rows, *(Row(f"file:{path}", clean_line(path), right=_("file"), group=N_("Files")) for path in files)]

    async def _skills(self) -> list[Row]:
        found = await self.runtime.skills()
        return [
            Row(f"skill:{name}", f"{name}  {clean_line(does, SHOWN)}", more=does, right=_("skill"), group=N_("Skills"))
            for name, does in found.items()
        ]

    async def _models(self) -> list[Row]:
        in_use = self.runtime.agent.status.model.ref
        found = [model for model in await self.runtime.models() if model.ref != in_use]
        return [_of(N_("model"), N_("Models"), model_row(model, in_use)) for model in found]

    def matching(self, query: str) -> Sequence[tuple[Row, Sequence[int]]]:
        """Return all with the letters of `query`; before anything is typed the first of what there may be many of."""
        if query:
            return sorted(super().matching(query), key=lambda found: not _begins(found[0], query))
        self.counts.clear()
        return [(row, ()) for row in self.rows if self._is_first(row)]

    def _is_first(self, row: Row) -> bool:
        self.counts[row.group] += 1
        return row.group in ("Commands", "Keys") or self.counts[row.group] <= FIRST

    def fixed_rows(self, query: str) -> list[Row]:
        return (
            [Row(f"memory:{query}", _("search the memory for “{query}”").format(query=clean_line(query)), mark="+")]
            if query
            else []
        )

    def chosen(self, row: Row) -> None:
        """Dismiss with the choice, and list it first the next time if it is harmless."""
        if not _ends(row):
            self.recent[:] = [row.id, *(each for each in self.recent if each != row.id)]
        super().chosen(row)


def _begins(row: Row, query: str) -> bool:
    """Return whether the name in `row` begins with `query`: names are typed more often than words of a help."""
    name = _choice(row).name.lower()
    return any(each.lstrip("/").startswith(query.lower().lstrip("/")) for each in (name, name.rpartition("/")[2]))


def _ends(row: Row) -> bool:
    return row.id.removeprefix("command:") in ENDING


def _choice(row: Row | None) -> PaletteChoice:
    kind, _, name = (row.id if row is not None else "").partition(":")
    return PaletteChoice(kind, name)


def _of(kind: str, group: str, row: Row) -> Row:
    """Return the row of another list, on one line."""
    return Row(f"{kind}:{row.id}", row.title, more=row.more, right=_(kind), group=group)


def command_row(info: CommandInfo, keys: dict[str, str]) -> Row:
    """Return a slash command with its help, and its key by the action of the screen in `keys`."""
    first_words = re.split(r"[.;](?!\S)|[。；]", _(info.help), maxsplit=1)[0].replace("`", "")
    title = f"{info.name}  {first_words}"
    return Row(
        f"command:{info.name}", title, right=keys.get(COMMAND_ACTIONS.get(info.name, ""), ""), group=N_("Commands")
    )


def key_rows(chat: Screen[None]) -> list[Row]:
    """Return what the keys of the conversation do, in their order, each with its key as it is set now."""
    found: dict[str, Row] = {}
    for active in chat.active_bindings.values():
        binding = active.binding
        if active.node is chat and binding.description and binding.action not in (*LEFT_OUT, *found):
            meaning = _(binding.description)
            found[binding.action] = Row(
                f"action:{binding.action}",
                meaning[0].upper() + meaning[1:],
                right="" if binding.key == NO_KEY else shown_key(binding.key),
                group=N_("Keys"),
            )
    return list(found.values())


def theme_rows(available: Collection[str]) -> list[Row]:
    """Return the themes, those of clawbot first."""
    others = sorted(name for name in available if name not in (DARK.name, LIGHT.name))
    return [
        Row(f"theme:{name}", _("theme {name}").format(name=name), right=_("theme"), group=N_("Themes"))
        for name in (*THEMES, DARK.name, LIGHT.name, *others)
    ]
