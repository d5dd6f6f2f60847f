"""What can be attached by typing or pasting: paths outside the workspace, and the picture in the clipboard."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
import re
import shlex
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from clawbot.attachments.mentions import picture_type, written
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.guarded import GuardedFolder
from clawbot.text.interface import _

MAX_ENTRIES = 500
LONGEST = 4096  # characters of a path, by the limit of the systems

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def is_outside(typed: str) -> bool:
    """Return whether `typed` begins a path that is not relative to the workspace."""
    return typed.startswith(("/", "~"))


def complete_path(typed: str) -> list[str]:
    """Return what `typed`, an absolute path or one with `~`, may go on to: mentions, in the order of their names,
    folders with a slash at the end. Hidden entries only where a dot was typed. Blocks."""
    if "/" not in typed:
        return ["@~/"] if typed == "~" else []
    shown, _, begun = typed.rpartition("/")
    try:
        with os.scandir(Path(f"{shown}/").expanduser()) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in entries
                if entry.name.lower().startswith(begun.lower()) and (begun or not entry.name.startswith("."))
            ]
    except (OSError, RuntimeError, ValueError):
        return []
    return [written(f"{shown}/{name}") for name in sorted(names)[:MAX_ENTRIES]]


def pasted_mention(pasted: str, workspace: Path) -> str | None:
    """Return the mention that replaces `pasted` if that is only the path of an existing file, as terminals paste one
    that is dragged into them: quoted, with escapes, or as a `file://` address. None for any other text. Blocks."""
    text = pasted.strip()
    if not text or len(text) > LONGEST or "\n" in text:
        return None
    return next((written(_short(path, workspace)) for path in _meant(text) if _is_file(path)), None)


def _meant(text: str) -> list[Path]:
    """Return the paths that `text` may mean, the plain reading first."""
    if text.lower().startswith("file://"):
        parts = urlsplit(text)
        return [Path(unquote(parts.path))] if parts.netloc in ("", "localhost") else []
    readings = [text]
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if len(words) == 1:
        readings.append(words[0])
    return [Path(each).expanduser() for each in readings if each.startswith(("/", "~/")) or _DRIVE.match(each)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _short(path: Path, workspace: Path) -> str:
    """Return `path` as the user would mention it: relative to the workspace if it is inside."""
    try:
        return path.relative_to(workspace).as_posix()
    except ValueError:
        return str(path)


MAX_BYTES = 32 * 1024**2  # as text of a script; no model takes a picture that is near it
SECONDS = 5.0
FOLDER = "attachments"
"""Of the workspace: attachments are where file tools may read them, so that nobody is asked."""

_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$p=[Windows.Forms.Clipboard]::GetImage();if($p){$m=New-Object IO.MemoryStream;"
    "$p.Save($m,[Drawing.Imaging.ImageFormat]::Png);[Convert]::ToBase64String($m.ToArray())}"
)
_APPLE = re.compile(rb"\xc2\xabdata PNGf([0-9A-F]+)\xc2\xbb")


class ClipboardError(ClawbotError):
    """No picture is available."""


def readers(platform: str, environ: Mapping[str, str]) -> list[list[str]]:
    """Return the commands that may print the picture of the clipboard, the surest first."""
    if platform == "darwin":
        return [["pngpaste", "-"], ["osascript", "-e", "the clipboard as «class PNGf»"]]
    found = []
    if environ.get("WAYLAND_DISPLAY"):
        found.append(["wl-paste", "--type", "image/png"])
    if environ.get("DISPLAY"):
        found.append(["xclip", "-selection", "clipboard", "-t", "image/png", "-o"])
    if platform == "win32" or environ.get("WSL_DISTRO_NAME"):
        found.append(["powershell.exe", "-NoProfile", "-Sta", "-Command", _POWERSHELL])
    return found


async def read_picture(environ: Mapping[str, str], platform: str = sys.platform) -> bytes:
    """Return the picture in the clipboard. Raises ClipboardError with what to do."""
    commands = readers(platform, environ)
    there = [command for command in commands if shutil.which(command[0], path=environ.get("PATH"))]
    if not there:
        wanted = _(" or ").join(command[0] for command in commands)
        hint = _("Install {programs}, or attach the file: @picture.png.")
        if not wanted:
            hint = _("There is no clipboard here (over SSH there is none): attach the file: @picture.png.")
        raise ClipboardError(_("The clipboard can't be read."), hint=hint.format(programs=wanted))
    for command in there:
        if picture := _decoded(await _output(command, environ)):
            return picture
    raise ClipboardError(
        _("There is no picture in the clipboard."), hint=_("Copy one, or attach the file: @picture.png.")
    )


async def _output(command: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """Return what `command` prints; nothing where it fails, takes too long or prints too much."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=dict(environ)
        )
    except OSError:
        return b""
    data = b""
    try:
        async with deadline(SECONDS):
            while process.stdout is not None and (chunk := await process.stdout.read(1 << 16)):
                data += chunk
                if len(data) > MAX_BYTES:
                    return b""
        return data
    except TimeoutError:
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _decoded(printed: bytes) -> bytes:
    """Return the picture in `printed`, also as scripts print it; nothing for what is none."""
    if picture_type(printed[:16]):
        return printed
    try:
        apple = _APPLE.search(printed)
        data = bytes.fromhex(apple[1].decode()) if apple else base64.b64decode(printed, validate=False)
    except (ValueError, binascii.Error):
        return b""
    return data if picture_type(data[:16]) else b""


def keep_picture(data: bytes, workspace: Path, now: datetime) -> str:
    """Write `data` to a new file of the workspace that only the user can read; returns its path there. Blocks. Raises
    ClipboardError, OSError."""
    folder = workspace / FOLDER
    kind = picture_type(data[:16]).rpartition("/")[2]
    stem = f"clipboard-{now:%Y%m%d-%H%M%S}"
    for number in range(1, 100):
        name = f"{stem}{f'-{number}' if number > 1 else ''}.{kind}"
        try:
            if GuardedFolder(workspace).create(f"{FOLDER}/{name}", data):
                return f"{FOLDER}/{name}"
        except NotADirectoryError as error:
            text = _("{folder} is a link or a file, not a folder.").format(folder=folder)
            raise ClipboardError(text, hint=_("Remove it.")) from error
    raise ClipboardError(
        _("{folder} holds too many pictures of this second.").format(folder=folder), hint=_("Try again.")
    )
