"""Which names of files may be one, and which file is meant by a name that is spelled in another Unicode form.

`ü` is one character (NFC, as people type it) or two (NFD, as macOS once stored it, and as git, rsync and archives carry
it along). Both look the same, so neither a person nor a model can tell which one a file has.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path


def fold_name(name: str) -> str:
    """`name` as the least exact of file systems compares it: without case, composed, and without the characters that
    show nothing (HFS+ passes these by). Two names that fold to the same may be one file, others never are."""
    if name.isascii():
        return name.casefold()
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", shown).casefold())


def composed(name: str) -> str:
    """`name`, or a path, in NFC: two that are equal then look the same."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def on_disk(path: str | Path) -> Path:
    """`path`, or, where nothing is there, what is there under names that look the same.

    What exists as it is spelled wins. Of a path that leads to nothing, the folders that exist are found. Blocks: one
    look into a folder for each name that is not in it. Never raises.
    """
    if str(path).isascii() or _exists(path):
        return Path(path)
    first, *names = Path(path).parts
    found = Path(first)
    for number, name in enumerate(names):
        if not name.isascii() and not _exists(found / name):
            twin = _twin(found, composed(name))
            if twin is None:
                return found.joinpath(*names[number:])
            found /= twin
        else:
            found /= name
    return found


def _exists(path: str | Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL in it
        return False


def _twin(folder: Path, wanted: str) -> str | None:
    """The first name in `folder` that looks like `wanted`, which is in NFC."""
    try:
        with os.scandir(folder) as entries:
            return min((entry.name for entry in entries if composed(entry.name) == wanted), default=None)
    except (OSError, ValueError):
        return None
