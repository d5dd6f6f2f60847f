"""Paths that the user types or pastes: how one outside the workspace is completed, and what a pasted one means."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from clawbot.attachments.mentions import written

MOST_ENTRIES = 500
LONGEST = 4096  # characters of a path, by the limit of the systems

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def is_outside(typed: str) -> bool:
    """Whether `typed` begins a path that is not relative to the workspace."""
    return typed.startswith(("/", "~"))


def complete_path(typed: str) -> list[str]:
    """What `typed`, an absolute path or one with `~`, may go on to: mentions, in the order of their names, folders with
    a slash at the end. Hidden entries only where a dot was typed. Blocks."""
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
    return [written(f"{shown}/{name}") for name in sorted(names)[:MOST_ENTRIES]]


def pasted_mention(pasted: str, workspace: Path) -> str | None:
    """The mention that stands for `pasted` when that is nothing but the path of an existing file, as terminals paste
    one that is dragged into them: quoted, with escapes, or as a `file://` address. None for any other text. Blocks."""
    text = pasted.strip()
    if not text or len(text) > LONGEST or "\n" in text:
        return None
    return next((written(_short(path, workspace)) for path in _meant(text) if _is_file(path)), None)


def _meant(text: str) -> list[Path]:
    """The paths that `text` may stand for, the plain reading first."""
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
    """`path` as the user would mention it: relative to the workspace, if it lies in it."""
    try:
        return path.relative_to(workspace).as_posix()
    except ValueError:
        return str(path)
