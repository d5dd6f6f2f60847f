"""Workspace files in an editor: the choice of one, the built-in editor, which saves full files and never over somebody
else's change unasked, and the user's own ($VISUAL, else $EDITOR) in place of the screen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shlex
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.timer import Timer
from textual.widgets import Static, TextArea

from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.screens.common import AskScreen, KeyHint, KeyLine, OverScreen
from clawbot.tui.screens.picker import PickerScreen, Row
from clawbot.tui.widgets.fields import Area, ShownLine

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tui.widgets.prompt import Prompt

# How an editor gets the line; one that is not listed opens the file at its beginning.
_PLUS = {
    "vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacsclient", "micro", "kak", "joe", "jed", "mcedit", "ne",
}  # fmt: skip
_COLON = {"hx", "helix", "subl", "zed"}
_GOTO = {"code", "code-insiders", "codium", "cursor", "windsurf"}
# Editors with a window of their own return at once unless an option makes them wait.
_WAITS = {*_GOTO, "subl", "zed", "gedit"}


class EditorError(ClawbotError):
    """No editor could be run."""


async def edit_external(app: App[Any], path: Path, line: int | None = None) -> bool:
    """Open `path` at `line` (from 1) in the user's editor, and wait until it is closed.

    The terminal belongs to the editor until then; the event loop goes on, so a running turn does, too. Returns whether
    the editor ended well; what went wrong is shown as a notice.
    """
    try:
        command = editor_command(os.environ, path, line)
        code = await _run(app, command)
    except (EditorError, OSError) as error:
        app.notify(f"{error}", title=_("No editor"), severity="error")
        return False
    except SuspendNotSupported:
        app.notify(_("This terminal can't be lent to another program."), title=_("No editor"), severity="error")
        return False
    if code:
        app.notify(
            _("{program} ended with code {code}.").format(program=command[0], code=code),
            title=_("Not edited"),
            severity="warning",
        )
    return code == 0


def private_file(text: str) -> Path:
    """Return a new file that only the user can read, with `text` in it. Blocks."""
    handle, name = tempfile.mkstemp(prefix="clawbot-", suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    return Path(name)


def editor_command(environ: Mapping[str, str], path: Path, line: int | None = None) -> list[str]:
    """Return the command that opens `path` at `line`. Raises EditorError when no editor is named or it is not there."""
    named = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()
    if not named:
        raise EditorError(_("Neither $VISUAL nor $EDITOR is set."), hint=_("Set one, for example: export EDITOR=nano"))
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise EditorError(
            _("$VISUAL or $EDITOR can't be read ({error}): {named}").format(error=error, named=named)
        ) from error
    if shutil.which(words[0]) is None:
        raise EditorError(
            _("{program} is not installed.").format(program=words[0]),
            hint=_("Set $VISUAL or $EDITOR to an editor that is."),
        )
    name = Path(words[0]).name.removesuffix(".exe")
    if name in _WAITS and not {"--wait", "-w"} & set(words):
        words.append("--wait")
    return [*words, *_line_arguments(name, path, line)]


def _line_arguments(name: str, path: Path, line: int | None) -> list[str]:
    if line is None:
        return [f"{path}"]
    if name in _PLUS:
        return [f"+{line}", f"{path}"]
    if name in _GOTO:
        return ["--goto", f"{path}:{line}"]
    return [f"{path}:{line}"] if name in _COLON else [f"{path}"]


async def _run(app: App[Any], command: list[str]) -> int:
    # batch_update: nothing that happens during the edit paints over the editor.
    with app.suspend(), app.batch_update(), _own_interrupts():
        process = await asyncio.create_subprocess_exec(*command)
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Ctrl+C in an editor reaches the entire process group: it is meant for the editor alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# Ids of rows are file names; no file name holds a slash at its end.
NEW = "new/"


class FilesScreen(PickerScreen[str]):
    """Dismisses with the name of a file, from the workspace on, or None. A new name can be typed."""

    heading = N_("edit")
    nothing = N_("The workspace is empty. Type a name to begin a file.")
    keys = (KeyHint("enter", N_("edit"), "screen.choose"), KeyHint("esc", N_("back"), "screen.back"))

    async def load(self) -> list[Row]:
        return [Row(name, clean_line(name)) for name in await self.runtime.workspace.files()]

    def fixed_rows(self, query: str) -> list[Row]:
        if not query or query.endswith("/") or query in {row.id for row in self.rows}:
            return []
        return [Row(NEW, _("new file {name}").format(name=clean_line(query)), mark="+")]

    def chosen(self, row: Row) -> None:
        self.dismiss(self.typed if row.id == NEW else row.id)


# Counting follows when the typing pauses for this long, in seconds.
COUNT_DELAY = 0.3

# Control characters and marks that reorder text, each as a sign one cell wide: a file never steers the terminal. A tab
# is kept, since the text area widens it up to the next stop.
_SHOWN = {
    **{code: chr(0x2400 + code) for code in range(32) if code != ord("\t")},
    127: "␡",
    **dict.fromkeys([*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "�"),
}

READ_ERRORS = (ClawbotError, OSError, UnicodeError)


class MarkdownArea(Area):
    """A text area that sets headings off, and shows control characters instead of sending them to the terminal."""

    COMPONENT_CLASSES: ClassVar = {"text-area--heading"}

    def get_line(self, line_index: int) -> Text:
        line = ShownLine(self.document.get_line(line_index).translate(_SHOWN), end="", no_wrap=True)
        if line.plain.startswith("#"):
            line.stylize(Style(color=self.get_component_rich_style("text-area--heading").color, bold=True))
        return line


KEYS = (
    KeyHint("ctrl+s", N_("save"), "screen.save"),
    KeyHint("ctrl+z", N_("undo"), "screen.undo"),
    KeyHint("esc", N_("close"), "screen.close"),
)


class EditorScreen(OverScreen[bool]):
    """Edits one file of the workspace. Dismisses with whether anything was saved.

    Without a `file` it lets one be chosen first. `line` counts from 1. With `tui.editor: external` in the settings the
    user's own editor replaces it.
    """

    CSS_PATH: ClassVar = "../styles/editor.tcss"
    BINDINGS: ClassVar = [
        Binding("ctrl+s", "save", "Save", priority=True),
        Binding("escape", "close", "Close", priority=True),
    ]

    def __init__(self, runtime: RuntimeApi, file: str | None = None, line: int | None = None) -> None:
        super().__init__()
        self.runtime = runtime
        self.file = file or ""
        self.line = line
        self.is_loading = True  # the next keys are for the text, or for the choice of a file
        self.on_disk: str | None = None
        self.saved = False
        self.tokens: int | None = None
        self.pause: Timer | None = None
        self.saving = asyncio.Lock()

    def compose(self) -> ComposeResult:
        yield Static(id="name", markup=False)
        yield MarkdownArea(show_line_numbers=True, tab_behavior="indent", compact=True, disabled=True, id="text")
        yield KeyLine(KEYS)

    @work(group="begin")
    async def on_mount(self) -> None:
        if not self.file:
            self.file = await self.app.push_screen_wait(FilesScreen(self.runtime)) or ""
            if not self.file:
                self.dismiss(False)
                return
        with contextlib.suppress(OSError):  # reading it fails with the same error, and reports it
            self.file = await self.runtime.workspace.locate_note(self.file)
        self.query_one("#name", Static).update(clean_line(self.file))
        is_read = await self._read()
        self.is_loading = False
        if not is_read:
            self.dismiss(False)
        elif self.runtime.settings.tui.editor == "external":
            path = Path(self.runtime.agent.status.workspace) / self.file
            self.dismiss(await edit_external(self.app, path, self.line))
        else:
            self.area.disabled = False
            self.area.focus()
            self._go_to(self.line)

    @property
    def area(self) -> MarkdownArea:
        return self.query_one("#text", MarkdownArea)

    @property
    def dirty(self) -> bool:
        return self.on_disk is not None and self.area.text != self.on_disk

    async def _read(self) -> bool:
        """Take the file from the disk as it is now; False, with a notice, when it can't be read."""
        text = await self._text_on_disk(self.file)
        if text is None or self.has_left:
            return False
        self.area.load_text(text)
        # The text area may have joined mixed line ends; what it makes of the file is what counts as unchanged.
        self.on_disk = self.area.text
        return True

    async def _text_on_disk(self, name: str) -> str | None:
        try:
            return await self.runtime.workspace.read(name)
        except FileNotFoundError:
            return ""
        except READ_ERRORS as error:
            self._complain(_("Not read"), error)
            return None

    def _complain(self, what: str, error: Exception) -> None:
        self.notify(clean(f"{self.file}: {error}"), title=what, severity="error")

    def _go_to(self, line: int | None) -> None:
        if line is not None:
            row = max(0, min(line, self.area.document.line_count) - 1)
            self.area.move_cursor((row, 0))  # before the next key
            self.call_after_refresh(self.area.scroll_cursor_visible, center=True)

    @on(TextArea.Changed, "#text")
    def changed(self) -> None:
        if self.pause is None:
            self.pause = self.set_timer(COUNT_DELAY, self._count)
        else:
            self.pause.reset()

    @work(group="count", exclusive=True)
    async def _count(self) -> None:
        self.pause = None
        self.tokens = await self.runtime.workspace.count_tokens(self.area.text)
        if not self.has_left:
            self._show_state()

    def _show_state(self) -> None:
        figures = (
            "…" if self.tokens is None else ngettext("{n:,} token", "{n:,} tokens", self.tokens).format(n=self.tokens)
        )
        self.query_one(KeyLine).status = f"{figures} · {_('not saved yet') if self.dirty else _('saved')}"

    def action_undo(self) -> None:
        self.area.undo()

    def action_save(self) -> None:
        if self.on_disk is not None:
            self.run_worker(self.save(), group="save")

    async def save(self) -> bool:
        """Write the file, after a question when it has changed on disk. Returns whether text and file are the same."""
        async with self.saving:
            on_disk = await self._text_on_disk(self.file)
            if on_disk is None or self.has_left:
                return False
            if not self._is_known(on_disk) and not await self._settle_change():
                return False
            text = self.area.text
            if not await self._write(self.file, text, on_disk):
                return False
            self.saved, self.on_disk = True, text
            if not self.has_left:
                self._show_state()
            return True

    async def _write(self, name: str, text: str, known: str) -> bool:
        try:
            await self.runtime.workspace.write(name, text, known)
        except READ_ERRORS as error:
            self._complain(_("Not saved"), error)
            return False
        return True

    def _is_known(self, on_disk: str) -> bool:
        """Return whether the file on disk is what was read or written last, or is to be written, but for line ends."""
        lines = on_disk.splitlines()
        return lines in ((self.on_disk or "").splitlines(), self.area.text.splitlines())

    async def _settle_change(self) -> bool:
        """Ask what becomes of a change by somebody else; True when it is to be overwritten."""
        question = _("{file} has changed on disk since it was opened here.").format(file=clean_line(self.file))
        answers = [("k", _("keep both")), ("o", _("overwrite it")), ("r", _("reload it"))]
        answer = await self.app.push_screen_wait(AskScreen(question, answers))
        if answer == "r" or (answer == "k" and await self._save_copy()):
            row, _column = self.area.cursor_location
            await self._read()
            self._go_to(row + 1)
        return answer == "o"

    async def _save_copy(self) -> bool:
        """Save the text as a new file next to the one on disk; False, with a notice, when that fails."""
        path = PurePath(self.file)
        for number in itertools.count(2):
            name = str(path.with_stem(f"{path.stem}-{number}"))
            if (there := await self._text_on_disk(name)) is None:
                return False
            if not there:
                break
        if not await self._write(name, self.area.text, ""):
            return False
        self.notify(_("Your text is in {file}.").format(file=clean_line(name)))
        return True

    @work(group="close", exclusive=True)
    async def action_close(self) -> None:
        """Close, after a question when there is something to lose."""
        if self.dirty:
            question = _("{file} has changes that are not saved.").format(file=clean_line(self.file))
            answer = await self.app.push_screen_wait(AskScreen(question, [("s", _("save")), ("d", _("discard"))]))
            if answer == "escape" or (answer == "s" and not await self.save()):
                return
        self.dismiss(self.saved)


async def edit_prompt(app: App[Any], prompt: Prompt) -> None:
    """Let the user write the text of `prompt` in an editor of their own."""
    path = await asyncio.to_thread(private_file, prompt.expanded(prompt.text))
    try:
        if await edit_external(app, path):
            prompt.take((await asyncio.to_thread(path.read_text, "utf-8", "replace")).rstrip("\n"))
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)
