"""The prompt with its completions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.widget import Widget
from textual.widgets import Static

from clawbot.agent.slash import COMMANDS, CommandInfo
from clawbot.attachments.mentions import written
from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line
from clawbot.tui.input import (
    Choice,
    CompletionRequest,
    ShellMode,
    UnknownCommand,
    UserInput,
    argument_words,
    best,
    classify,
    load_history,
    save_entry,
    shell_mode,
    wanted,
)
from clawbot.tui.pasting import complete_path, is_outside, keep_picture, read_picture
from clawbot.tui.render.lines import code_spans, width_of
from clawbot.tui.themes import THEMES
from clawbot.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi


ROWS = 8
COLUMN = 30  # cells for the names at most: a longer one takes from its own description
HELP = "$foreground 70%"


class Completions(Widget):
    """Offers choices; hidden while there are none."""

    @dataclass
    class Picked(Message):
        """A choice was clicked."""

        choice: Choice

    def __init__(self) -> None:
        super().__init__()
        self.choices: list[Choice] = []
        self.index = 0
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self.choices)

    @property
    def choice(self) -> Choice:
        return self.choices[self.index]

    def offer(self, choices: Sequence[Choice]) -> None:
        if self.choices == list(choices):
            return
        self.choices = list(choices)
        self.index = 0
        self.display = bool(choices)
        self.refresh(layout=True)

    def move(self, step: int) -> None:
        self.index = (self.index + step) % len(self.choices)
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(len(self.choices), ROWS)

    def render(self) -> Content:
        names = [f"{clean_line(choice.text)} {choice.arguments}".rstrip() for choice in self.choices]
        column = min(COLUMN, max(map(width_of, names), default=0))
        first, stop = self._view()
        rows = [self._row(number, names[number], column) for number in range(first, stop)]
        if below := len(self.choices) - stop:
            rows.append(Content.styled(_(" ↓ {below:,} more").format(below=below), HELP))
        elif first:
            rows.append(Content.styled(_(" ↑ {first:,} more").format(first=first), HELP))
        return Content("\n").join(rows)

    def _row(self, number: int, name: str, column: int) -> Content:
        choice = self.choices[number]
        style = "$accent bold" if number == self.index else "$foreground"
        gap = " " * (max(0, column - width_of(name)) + 3)
        parts = [(span.text, "$foreground 80%" if span.style else HELP) for span in code_spans(choice.help)]
        row = Content.assemble((f" {name}", style), gap if choice.help else "", *parts)
        return row.truncate(self.size.width - 1, ellipsis=True)

    def _view(self) -> tuple[int, int]:
        """Return the first choice in view, and the one behind the last: the marked one is among them."""
        height = self.size.height or ROWS
        if len(self.choices) <= height:
            return 0, len(self.choices)
        shown = max(1, height - 1)
        first = max(0, self.index + 1 - shown)
        return first, first + shown

    def on_click(self, event: Click) -> None:
        first, stop = self._view()
        if first <= first + event.y < stop:
            self.post_message(self.Picked(self.choices[first + event.y]))


MARK = "❯"
SHELL_MARK = "$"
MID_TYPING = 1.5  # seconds after a key in which the user is still writing
PAUSE = 60.0  # seconds without a key after which what a call needs may have been let go
NEVER = -1e9  # on the monotonic clock: no key was pressed yet


class Composer(Vertical):
    """Passes on what was entered; a slip remains in the prompt."""

    prompt = getters.query_one(Prompt)
    completions = getters.query_one(Completions)
    shell: var[ShellMode] = var("", init=False, toggle_class="-shell")  # what is typed is a command of the shell

    class FirstKey(Message):
        """The user has begun to type, for the first time or after a pause."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.last_typed = NEVER
        self.entered: Callable[[UserInput], None] = lambda entry: None  # called at once: the next keys may depend on it
        self._commands: Sequence[CommandInfo] = COMMANDS
        self._runtime: RuntimeApi | None = None
        self._history_file: Path | None = None
        self._models: list[str] = []  # found since the last input: servers may come and go
        self._want: CompletionRequest | None = None  # what the list was made for
        self._finding: CompletionRequest | None = None  # what choices are computed for
        self._is_open = asyncio.Event()  # set as soon as there is a runtime
        self.picks_first = False  # Tab waits for the list, and the next keys wait for Tab

    def compose(self) -> ComposeResult:
        yield Completions()
        with Horizontal(id="prompt-row"):
            yield Static(MARK, id="prompt-mark")
            prompt = Prompt(self._submit, self._steer)
            prompt.changed = self._changed
            yield prompt

    def connect(self, runtime: RuntimeApi) -> None:
        self._runtime = runtime
        self._is_open.set()
        self._commands = runtime.commands
        self.prompt.workspace = runtime.agent.status.workspace
        history_file = runtime.paths.history_file
        if history_file != self._history_file:
            self._history_file = history_file
            self._load_history(history_file)

    @work(group="history")
    async def _load_history(self, path: Path) -> None:
        self.prompt.inputs.preload(await asyncio.to_thread(load_history, path))

    @property
    def is_empty(self) -> bool:
        return not self.prompt.text

    def is_mid_typing(self) -> bool:
        """Return whether the user was writing something a moment ago: not when the last key sent it."""
        return bool(self.prompt.text) and self.clock.monotonic() - self.last_typed < MID_TYPING

    @property
    def was_used(self) -> bool:
        return self.last_typed != NEVER

    def clear(self) -> None:
        """Empty the prompt; what was there can be had back with Up."""
        self.prompt.inputs.add(self.prompt.text)
        self.prompt.take("")

    def close_completions(self) -> bool:
        """Close the list. False when it was closed."""
        was_open = self.completions.is_open
        self._offer([])
        return was_open

    def _offer(self, choices: Sequence[Choice]) -> None:
        self.completions.offer(choices)
        self.prompt.choosing = self.completions.is_open

    # Sending

    def _submit(self, text: str, shown: str) -> None:
        """Pass on `text`, shown in the prompt as `shown`, and empty the prompt; a slip remains there."""
        entry = classify(text, self._commands)
        if self._runtime is None and isinstance(entry, UnknownCommand):
            self.notify(_("Still starting: commands are known in a moment."))
        elif isinstance(entry, UnknownCommand):
            template = _("There is no command {name}. /help lists the commands.")
            if entry.nearest:
                template = _("There is no command {name}. Did you mean {nearest}?")
            self.notify(template.format(name=entry.name, nearest=entry.nearest), severity="warning")
        elif entry is not None:
            self._offer([])
            self._models = []
            self._remember(text, shown)
            self.prompt.take("")
            self.entered(entry)

    def _remember(self, text: str, shown: str) -> None:
        if self.prompt.inputs.add(shown) and self._history_file is not None:
            # In a thread that outlives the screen: what was sent last is remembered when the program ends.
            asyncio.get_running_loop().run_in_executor(None, save_entry, self._history_file, text)

    # Pictures

    @on(Prompt.PictureWanted)
    def _picture_wanted(self, event: Prompt.PictureWanted) -> None:
        event.stop()
        self._attach_picture()

    @work(group="picture", exclusive=True)
    async def _attach_picture(self) -> None:
        if (workspace := self.prompt.workspace) is None:
            return
        try:
            data = await read_picture(os.environ)
            name = await asyncio.to_thread(keep_picture, data, workspace, self.clock.now())
        except (ClawbotError, OSError) as error:
            if self.app.clipboard:
                self.prompt.action_paste()
            else:
                self.notify(str(error), severity="warning")
            return
        before = self.prompt.before_cursor
        self.prompt.insert(f"{'' if not before or before[-1].isspace() else ' '}{written(name)} ")

    # Completing

    @on(Prompt.Typed)
    def _typed(self, event: Prompt.Typed) -> None:
        event.stop()
        now = self.clock.monotonic()
        if now - self.last_typed >= PAUSE:
            self.post_message(self.FirstKey())
        self.last_typed = now

    def _changed(self) -> None:
        self._complete(wanted(self.prompt.before_cursor))
        self.shell = shell_mode(self.prompt.document.get_line(0))

    def watch_shell(self, mode: ShellMode) -> None:
        self.query_one("#prompt-mark", Static).update(SHELL_MARK if mode else MARK)

    def _complete(self, want: CompletionRequest | None) -> None:
        before = self._want
        self._want, self._finding, self.picks_first = want, None, False
        if want is None or (before is not None and (before.kind, before.command) != (want.kind, want.command)):
            self._offer([])  # what was found for something else must not be picked for this
        if want is None:
            return
        if want.kind == "command":
            self._offer_best(want, [_command_choice(command) for command in self._commands])
        else:
            self._finding = want
            self._offer_found(want)

    def _offer_best(self, want: CompletionRequest, choices: Sequence[Choice]) -> None:
        """Offer what fits of `choices`, unless there is nothing left to complete."""
        found = best(want.typed, choices)
        self._offer([] if [choice.text for choice in found] == [want.typed] else found)

    @work(group="files", exclusive=True)
    async def _offer_found(self, want: CompletionRequest) -> None:
        try:
            choices = await self._found(want)
            if wanted(self.prompt.before_cursor) == want:
                self._offer_best(want, choices)
                if self.picks_first and self.completions.is_open:
                    self._pick(self.completions.choice, send=False)
        finally:
            if self._finding is want:
                self._finding, self.picks_first = None, False

    async def _found(self, want: CompletionRequest) -> list[Choice]:
        await self._is_open.wait()
        if self._runtime is None:
            return []
        if want.kind == "argument" and want.command == "/skill":
            return [Choice(name, clean_line(does)) for name, does in (await self._runtime.skills()).items()]
        if want.kind == "argument":
            return await self._arguments(self._runtime, want)
        if is_outside(want.typed):
            return [Choice(mention) for mention in await asyncio.to_thread(complete_path, want.typed)]
        return [Choice(written(name)) for name in await self._runtime.workspace.files()]

    async def _arguments(self, runtime: RuntimeApi, want: CompletionRequest) -> list[Choice]:
        """Return the words that may follow the command of `want`; none for one that takes free text."""
        match want.command:
            case "/edit":
                names: list[str] = await runtime.workspace.files()
            case "/model":
                self._models = self._models or [info.ref for info in await runtime.models()]
                names = ["auto", *self._models]
            case "/theme":
                names = [*THEMES, *self.app.available_themes]
            case "/agent":
                names = [agent.agent_id for agent in runtime.agents]
            case name:
                info = next((command for command in self._commands if command.name == name), None)
                is_first = info is not None and want.start == len(name) + 1
                names = argument_words(info.arguments) if info is not None and is_first else []
        return [Choice(name, complete=True) for name in names]

    def _steer(self, key: str) -> None:
        """Take a key for the list. What was typed right before it may have changed what the list is for."""
        want = wanted(self.prompt.before_cursor)
        if want != self._want:
            self._offer([])
            self._complete(want)
        if not self.completions.is_open and key == "enter":
            self.prompt.submit()
        elif not self.completions.is_open and self._finding is not None:
            self.picks_first = True
        elif not self.completions.is_open:
            self._complete(want)
        elif key in ("up", "down"):
            self.completions.move(-1 if key == "up" else 1)
        else:
            self._pick(self.completions.choice, send=key == "enter")

    @on(Completions.Picked)
    def _picked(self, event: Completions.Picked) -> None:
        event.stop()
        self._pick(event.choice, send=False)
        self.prompt.focus()

    def _pick(self, choice: Choice, *, send: bool) -> None:
        prompt = self.prompt
        want = wanted(prompt.before_cursor)
        if want is None:
            return
        row, column = prompt.cursor_location
        typed = len(want.typed) + (want.kind == "file")
        # Behind a folder the path goes on.
        behind = "" if choice.text.endswith("/") else " "
        prompt.replace(f"{choice.text}{behind}", (row, column - typed), (row, column))
        self._offer([])
        if send and (choice.complete or choice.text == want.typed):
            text = prompt.text.rstrip()
            self._submit(prompt.expanded(text), text)


def _command_choice(command: CommandInfo) -> Choice:
    return Choice(command.name, _(command.help), complete=not command.arguments, arguments=_(command.arguments))
