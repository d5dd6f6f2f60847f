"""Compares file names across Unicode forms, and finds the file meant by a name.

`ü` is one character (NFC, as typed) or two (NFD, as stored by older macOS and carried along by git, rsync and
archives). Both appear the same to people and models.
"""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path


def fold_name(name: str) -> str:
    """`name` as compared by the least exact file system: case-folded, composed, without the invisible characters that
    HFS+ ignores. Names with equal results may be one file, others never are."""
    if name.isascii():
        return name.casefold()
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", shown).casefold())


def composed(name: str) -> str:
    """Return `name`, or a path, in NFC: names that appear the same are then equal."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def on_disk(path: str | Path) -> Path:
    """Return `path`, or if it does not exist, the existing path whose names appear the same.

    An exact match wins. For a missing path, its existing folders are still resolved. Blocks: one folder listing for
    each name not found. Never raises.
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
    """Return the first name in `folder` that appears as `wanted`, which is in NFC."""
    try:
        with os.scandir(folder) as entries:
            return min((entry.name for entry in entries if composed(entry.name) == wanted), default=None)
    except (OSError, ValueError):
        return None
