"""The prompt with its completions, history, and placeholders for long pastes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click, Key, Paste
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

from clawbot.agent.slash import COMMANDS, CommandInfo
from clawbot.clock import Clock
from clawbot.text.sanitize import clean_line
from clawbot.tui.history import PromptHistory, load_history, save_entry
from clawbot.tui.input import Choice, CompletionRequest, UnknownCommand, UserInput, best, classify, wanted
from clawbot.tui.render.lines import ellipsis, width_of

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

PASTE_CHARS = 2000  # a longer paste is shown as a placeholder
PASTE_LINES = 25


class Prompt(TextArea):
    """Where the user types. Enter sends; Shift+Enter, Alt+Enter and Ctrl+J break the line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", show=False),
        Binding("ctrl+p", "older", "Earlier input", show=False),
        Binding("ctrl+n", "newer", "Later input", show=False),
        Binding("ctrl+z", "undo_or_suspend", "Undo", show=False),
        # Not a priority binding: what was typed before it must have arrived when it asks whether the prompt is empty.
        Binding("ctrl+d", "app.leave_or_delete", "Leave", show=False),
    ]

    class Typed(Message):
        """Any key press, for whoever needs to know that the user is typing."""

    def __init__(self, submit: Callable[[str, str], None], steer: Callable[[str], None]) -> None:
        """`submit` is called on Enter with the text, with pastes expanded and not; `steer` with a key for the
        completions: `up`, `down`, `tab`, `enter`. Calls rather than messages: keys of one burst would overtake a
        message and end up in the sent text."""
        super().__init__(compact=True, highlight_cursor_line=False, placeholder="")
        self._submit = submit
        self._steer = steer
        self.cursor_blink = False  # a blinking cursor is a timer that never sleeps
        self.inputs = PromptHistory()
        self.pastes: dict[str, str] = {}
        self.choosing = False  # the list of completions is open and takes its keys

    def take(self, text: str) -> None:
        """Put `text` in the place of what is there, cursor at the end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def expanded(self, text: str) -> str:
        """`text` with its placeholders replaced by what was pasted."""
        for placeholder, pasted in self.pastes.items():
            text = text.replace(placeholder, pasted)
        return text

    @property
    def before_cursor(self) -> str:
        """The text from the start to the cursor; empty when it is long, where nothing is completed."""
        row, column = self.cursor_location
        if row > 50:
            return ""
        return "\n".join([*(self.document.get_line(n) for n in range(row)), self.document.get_line(row)[:column]])

    async def _on_key(self, event: Key) -> None:
        self.post_message(self.Typed())
        if event.key not in ("tab", "enter") and not (self.choosing and event.key in ("up", "down")):
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter" and not self.choosing:
            self.submit()
        else:
            self._steer(event.key)

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert(self.shortened(event.text.replace("\r\n", "\n").replace("\r", "\n")))

    def shortened(self, text: str) -> str:
        """`text`, or the placeholder that stands for it until it is sent when it is long."""
        if len(text) <= PASTE_CHARS and text.count("\n") <= PASTE_LINES:
            return text
        placeholder = f"[pasted {len(text):,} characters]"
        number = 2
        while self.pastes.get(placeholder, text) != text:
            placeholder = f"[pasted {len(text):,} characters, {number}]"
            number += 1
        self.pastes[placeholder] = text
        return placeholder

    def submit(self) -> None:
        """Send what stands here."""
        self._submit(self.expanded(self.text), self.text)

    def action_newline(self) -> None:
        """Break the line."""
        self.insert("\n")

    def action_cursor_up(self, select: bool = False) -> None:
        """One line up; from the first one, to the input before."""
        if not select and self.wrapped_document.location_to_offset(self.cursor_location).y == 0:
            self.action_older()
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """One line down; from the last one, to the input after."""
        last = self.wrapped_document.height - 1
        if not select and self.wrapped_document.location_to_offset(self.cursor_location).y >= last:
            self.action_newer()
        else:
            super().action_cursor_down(select)

    def action_undo_or_suspend(self) -> None:
        """Take the last change back; where there is none, do what the key does in a shell: `fg` comes back."""
        if self.history.undo_stack:
            self.undo()
        else:
            self.app.action_suspend_process()

    def action_older(self) -> None:
        """Show the input before."""
        text = self.inputs.older(self.text)
        if text is not None:
            self.take(text)

    def action_newer(self) -> None:
        """Show the input after."""
        text = self.inputs.newer()
        if text is not None:
            self.take(text)


class Completions(Widget):
    """Offers choices; hidden while there are none."""

    @dataclass
    class Picked(Message):
        """A choice was clicked."""

        choice: Choice

    def __init__(self) -> None:
        super().__init__()
        self.choices: list[Choice] = []
        self.place = 0
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.choices)

    @property
    def choice(self) -> Choice:
        """The one that is marked."""
        return self.choices[self.place]

    def offer(self, choices: Sequence[Choice]) -> None:
        """Show `choices`, the first one marked; none closes the list."""
        if self.choices == list(choices):
            return
        self.choices = list(choices)
        self.place = 0
        self.display = bool(choices)
        self.refresh(layout=True)

    def move(self, step: int) -> None:
        """Mark the next one, or the one before."""
        self.place = (self.place + step) % len(self.choices)
        self.refresh()

    def render(self) -> Content:
        """A line for each choice."""
        width = max((width_of(choice.text) for choice in self.choices), default=0)
        rows = []
        for number, choice in enumerate(self.choices):
            name = clean_line(choice.text)
            text = f" {name}{' ' * (width - width_of(name))}   {choice.help}"
            style = "$accent bold" if number == self.place else "$foreground 60%"
            rows.append(Content.styled(ellipsis(text, self.size.width - 1), style))
        return Content("\n").join(rows)

    def on_click(self, event: Click) -> None:
        """Take the one under the pointer."""
        if 0 <= event.y < len(self.choices):
            self.post_message(self.Picked(self.choices[event.y]))


MID_TYPING = 1.5  # seconds after a key in which the user is still writing
PAUSE = 60.0  # seconds without a key after which what a call needs may have been let go
NEVER = -1e9  # on the monotonic clock: no key was pressed yet


class Composer(Vertical):
    """Gives out what was entered; a slip stays in the prompt."""

    prompt = getters.query_one(Prompt)
    completions = getters.query_one(Completions)

    @dataclass
    class Entered(Message):
        """Something was entered that means something."""

        entry: UserInput

    class FirstKey(Message):
        """The user has begun to type, for the first time or after a pause."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.last_typed = NEVER
        self._commands: Sequence[CommandInfo] = COMMANDS
        self._runtime: RuntimeApi | None = None
        self._history_file: Path | None = None
        self._want: CompletionRequest | None = None  # what the list was made for

    def compose(self) -> ComposeResult:
        """The list above the prompt."""
        yield Completions()
        with Horizontal(id="prompt-row"):
            yield Static("❯", id="prompt-mark")
            yield Prompt(self._submit, self._steer)

    def connect(self, runtime: RuntimeApi) -> None:
        """Commands, files and history can be had from now on."""
        self._runtime = runtime
        self._commands = runtime.commands
        history_file = runtime.paths.history_file
        if history_file != self._history_file:
            self._history_file = history_file
            self._load_history(history_file)

    @work(group="history")
    async def _load_history(self, path: Path) -> None:
        self.prompt.inputs.preload(await asyncio.to_thread(load_history, path))

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands in the prompt."""
        return not self.prompt.text

    def is_mid_typing(self) -> bool:
        """Whether the user was writing something a moment ago: not when the last key sent it."""
        return bool(self.prompt.text) and self.clock.monotonic() - self.last_typed < MID_TYPING

    @property
    def was_used(self) -> bool:
        """Whether the user has typed anything so far."""
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
        """Give out `text`, which stands in the prompt as `shown`, and empty the prompt; a slip stays there."""
        entry = classify(text, self._commands)
        if self._runtime is None and isinstance(entry, UnknownCommand):
            self.notify("Still starting: commands are known in a moment.", markup=False)
        elif isinstance(entry, UnknownCommand):
            nearest = f" Did you mean {entry.nearest}?" if entry.nearest else " /help lists the commands."
            self.notify(f"There is no command {entry.name}.{nearest}", severity="warning", markup=False)
        elif entry is not None:
            self._offer([])
            self._remember(text, shown)
            self.prompt.take("")
            self.post_message(self.Entered(entry))

    def _remember(self, text: str, shown: str) -> None:
        if self.prompt.inputs.add(shown) and self._history_file is not None:
            # In a thread that outlives the screen: what was sent last is remembered when the program ends.
            asyncio.get_running_loop().run_in_executor(None, save_entry, self._history_file, text)

    # Completing

    @on(Prompt.Typed)
    def _typed(self, event: Prompt.Typed) -> None:
        event.stop()
        now = self.clock.monotonic()
        if now - self.last_typed >= PAUSE:
            self.post_message(self.FirstKey())
        self.last_typed = now

    @on(TextArea.Changed)
    def _changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if event.text_area is self.prompt:
            self._complete(wanted(self.prompt.before_cursor))

    def _complete(self, want: CompletionRequest | None) -> None:
        self._want = want
        if want is None:
            self._offer([])
        elif want.kind == "command":
            choices = [
                Choice(command.name, f"{command.arguments}  {command.help}".strip(), not command.arguments)
                for command in self._commands
            ]
            self._offer([choice for choice in best(want.typed, choices) if choice.text != want.typed])
        else:
            self._offer_files(want)

    @work(group="files", exclusive=True)
    async def _offer_files(self, want: CompletionRequest) -> None:
        if self._runtime is None:
            return
        files = [Choice(f"@{name}") for name in await self._runtime.workspace.files()]
        if wanted(self.prompt.before_cursor) == want:
            self._offer(best(want.typed, files))

    def _steer(self, key: str) -> None:
        """Take a key for the list. What was typed right before it may have changed what the list is for."""
        want = wanted(self.prompt.before_cursor)
        if want != self._want:
            self._offer([])
            self._complete(want)
        if not self.completions.is_open and key == "enter":
            self.prompt.submit()
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
        prompt.replace(f"{choice.text} ", (row, column - typed), (row, column))
        self._offer([])
        if send and choice.complete:
            self._submit(choice.text, choice.text)
