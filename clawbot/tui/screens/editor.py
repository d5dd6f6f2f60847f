"""The built-in editor for workspace files: saves whole files, and never over somebody else's change unasked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.timer import Timer
from textual.widgets import Static, TextArea

from clawbot.errors import ClawbotError
from clawbot.tui.render.sanitize import clean, clean_line
from clawbot.tui.screens.external import edit_external
from clawbot.tui.screens.files import FilesScreen
from clawbot.tui.screens.over import OverScreen
from clawbot.tui.screens.parts import AskScreen, Key, KeyLine

if TYPE_CHECKING:
    from clawbot.runtime import Runtime

# Counting follows when the typing pauses for this long, in seconds.
COUNT_DELAY = 0.3

# Control characters and marks that reorder text, each as a sign one cell wide: a file never steers the terminal. A tab
# stays one, since the text area widens it up to the next stop.
_SHOWN = {
    **{code: chr(0x2400 + code) for code in range(32) if code != ord("\t")},
    127: "␡",
    **dict.fromkeys([*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�"),
}

READ_ERRORS = (ClawbotError, OSError, UnicodeError)


class MarkdownArea(TextArea):
    """A text area that sets headings off, and shows control characters instead of sending them to the terminal."""

    COMPONENT_CLASSES: ClassVar = {"text-area--heading"}

    def get_line(self, line_index: int) -> Text:
        """One line of the file, as it is shown."""
        line = Text(self.document.get_line(line_index).translate(_SHOWN), end="", no_wrap=True)
        if line.plain.startswith("#"):
            line.stylize(Style(color=self.get_component_rich_style("text-area--heading").color, bold=True))
        return line


KEYS = (
    Key("ctrl+s", "save", "screen.save"),
    Key("ctrl+z", "undo", "screen.undo"),
    Key("esc", "close", "screen.close"),
)


class EditorScreen(OverScreen[bool]):
    """Edits one file of the workspace. Gives back whether anything was saved.

    Without a `file` it lets one be chosen first. `line` counts from 1. With `tui.editor: external` in the settings the
    user's own editor takes its place.
    """

    CSS_PATH: ClassVar = "../styles/editor.tcss"
    BINDINGS: ClassVar = [
        Binding("ctrl+s", "save", "Save", priority=True),
        Binding("escape", "close", "Close", priority=True),
    ]

    def __init__(self, runtime: Runtime, file: str | None = None, line: int | None = None) -> None:
        super().__init__()
        self.runtime = runtime
        self.file = file or ""
        self.line = line
        self.on_disk: str | None = None
        self.saved = False
        self.tokens: int | None = None
        self.pause: Timer | None = None
        self.saving = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """The name of the file, its text, the keys."""
        yield Static(id="name", markup=False)
        yield MarkdownArea(show_line_numbers=True, tab_behavior="indent", compact=True, disabled=True, id="text")
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Find the file and read it, off the event loop."""
        self.run_worker(self._begin(), group="begin")

    @property
    def area(self) -> MarkdownArea:
        """Where the text is edited."""
        return self.query_one("#text", MarkdownArea)

    @property
    def dirty(self) -> bool:
        """Whether there is anything that closing would lose."""
        return self.on_disk is not None and self.area.text != self.on_disk

    async def _begin(self) -> None:
        if not self.file:
            self.file = await self.app.push_screen_wait(FilesScreen(self.runtime)) or ""
            if not self.file:
                self.dismiss(False)
                return
        self.query_one("#name", Static).update(clean_line(self.file))
        if not await self._read():
            self.dismiss(False)
        elif self.runtime.settings.tui.editor == "external":
            path = Path(self.runtime.status.workspace) / self.file
            self.dismiss(await edit_external(self.app, path, self.line))
        else:
            self.area.disabled = False
            self.area.focus()
            self._go_to(self.line)

    async def _read(self) -> bool:
        """Take the file from the disk as it is now; False, with a notice, when it can't be read."""
        text = await self._text_on_disk()
        if text is None or self.has_left:
            return False
        self.area.load_text(text)
        # The text area may have joined mixed line ends; what it makes of the file is what counts as unchanged.
        self.on_disk = self.area.text
        return True

    async def _text_on_disk(self) -> str | None:
        try:
            return await self.runtime.read_workspace_file(self.file)
        except FileNotFoundError:
            return ""
        except READ_ERRORS as error:
            self._complain("Not read", error)
            return None

    def _complain(self, what: str, error: Exception) -> None:
        self.notify(clean(f"{self.file}: {error}"), title=what, severity="error", markup=False)

    def _go_to(self, line: int | None) -> None:
        if line is not None:
            row = max(0, min(line, self.area.document.line_count) - 1)
            self.call_after_refresh(self.area.move_cursor, (row, 0), center=True)

    @on(TextArea.Changed, "#text")
    def changed(self) -> None:
        """Count anew when the typing pauses."""
        if self.pause is None:
            self.pause = self.set_timer(COUNT_DELAY, self._count_later)
        else:
            self.pause.reset()

    def _count_later(self) -> None:
        self.pause = None
        self.run_worker(self._count(), group="count", exclusive=True)

    async def _count(self) -> None:
        self.tokens = await self.runtime.count_tokens(self.area.text)
        if not self.has_left:
            self._tell()

    def _tell(self) -> None:
        figures = "…" if self.tokens is None else f"{self.tokens:,} tokens"
        self.query_one(KeyLine).status = f"{figures} · {'not saved yet' if self.dirty else 'saved'}"

    def action_undo(self) -> None:
        """Take the last change back."""
        self.area.undo()

    def action_save(self) -> None:
        """Write the file."""
        if self.on_disk is not None:
            self.run_worker(self.save(), group="save")

    async def save(self) -> bool:
        """Write the file, after a question when it has changed on disk. Returns whether text and file are the same."""
        async with self.saving:
            on_disk = await self._text_on_disk()
            if on_disk is None or self.has_left:
                return False
            if not self._is_known(on_disk) and not await self._settle_change():
                return False
            text = self.area.text
            try:
                await self.runtime.write_workspace_file(self.file, text)
            except READ_ERRORS as error:
                self._complain("Not saved", error)
                return False
            self.saved, self.on_disk = True, text
            if not self.has_left:
                self._tell()
            return True

    def _is_known(self, on_disk: str) -> bool:
        """Whether the file on disk is what was read or written last, or is to be written; line ends don't matter."""
        lines = on_disk.splitlines()
        return lines in ((self.on_disk or "").splitlines(), self.area.text.splitlines())

    async def _settle_change(self) -> bool:
        """Ask what becomes of a change by somebody else; True when it is to be overwritten."""
        question = f"{clean_line(self.file)} has changed on disk since it was opened here."
        answer = await self.app.push_screen_wait(AskScreen(question, [("o", "overwrite it"), ("r", "reload it")]))
        if answer == "r":
            row, _ = self.area.cursor_location
            await self._read()
            self._go_to(row + 1)
        return answer == "o"

    def action_close(self) -> None:
        """Close, after a question when there is something to lose."""
        self.run_worker(self._close(), group="close", exclusive=True)

    async def _close(self) -> None:
        if self.dirty:
            question = f"{clean_line(self.file)} has changes that are not saved."
            answer = await self.app.push_screen_wait(AskScreen(question, [("s", "save"), ("d", "discard")]))
            if answer == "escape" or (answer == "s" and not await self.save()):
                return
        self.dismiss(self.saved)
