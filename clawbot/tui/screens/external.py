"""The user's own editor ($VISUAL, else $EDITOR) in place of the screen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.app import App, SuspendNotSupported

from clawbot.errors import ClawbotError

# How an editor is told the line; one that is not listed opens the file at its beginning.
_PLUS = {
    "vi",
    "vim",
    "nvim",
    "view",
    "nano",
    "pico",
    "emacs",
    "emacsclient",
    "micro",
    "kak",
    "joe",
    "jed",
    "mcedit",
    "ne",
}
_COLON = {"hx", "helix", "subl", "zed"}
_GOTO = {"code", "code-insiders", "codium", "cursor", "windsurf"}
# Editors with a window of their own return at once unless they are told to wait.
_WAITS = {*_GOTO, "subl", "zed", "gedit"}


class EditorError(ClawbotError):
    """No editor could be run."""


async def edit_external(app: App[object], path: Path, line: int | None = None) -> bool:
    """Open `path` at `line` (from 1) in the user's editor, and wait until it is closed.

    The terminal belongs to the editor meanwhile; the event loop goes on, so a running turn does, too. Returns whether
    the editor ended well; what went wrong is shown as a notice.
    """
    try:
        command = editor_command(os.environ, path, line)
        code = await _run(app, command)
    except (EditorError, OSError) as error:
        app.notify(f"{error}", title="No editor", severity="error", markup=False)
        return False
    except SuspendNotSupported:
        app.notify("This terminal can't be lent to another program.", title="No editor", severity="error", markup=False)
        return False
    if code:
        app.notify(f"{command[0]} ended with code {code}.", title="Not edited", severity="warning", markup=False)
    return code == 0


def private_file(text: str) -> Path:
    """A new file that only the user can read, with `text` in it. Blocks."""
    handle, name = tempfile.mkstemp(prefix="clawbot-", suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    return Path(name)


def editor_command(environ: Mapping[str, str], path: Path, line: int | None = None) -> list[str]:
    """The command that opens `path` at `line`. Raises EditorError when no editor is named or it is not there."""
    named = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()
    if not named:
        raise EditorError("Neither $VISUAL nor $EDITOR is set.", hint="Set one, for example: export EDITOR=nano")
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise EditorError(f"$VISUAL or $EDITOR can't be read ({error}): {named}") from error
    if shutil.which(words[0]) is None:
        raise EditorError(f"{words[0]} is not installed.", hint="Set $VISUAL or $EDITOR to an editor that is.")
    name = Path(words[0]).name.removesuffix(".exe")
    if name in _WAITS and not {"--wait", "-w"} & set(words):
        words.append("--wait")
    return [*words, *_place(name, path, line)]


def _place(name: str, path: Path, line: int | None) -> list[str]:
    if line is None:
        return [f"{path}"]
    if name in _PLUS:
        return [f"+{line}", f"{path}"]
    if name in _GOTO:
        return ["--goto", f"{path}:{line}"]
    return [f"{path}:{line}"] if name in _COLON else [f"{path}"]


async def _run(app: App[object], command: list[str]) -> int:
    # batch_update: nothing that happens meanwhile paints over the editor.
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
    """Ctrl+C in an editor reaches the whole process group: it is meant for the editor alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
