"""Globs over a folder that leave out what nobody means: hidden folders, those of packages, and links."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

_LEFT_OUT = frozenset({"node_modules", "__pycache__", "venv"})
_ANY_FOLDERS = "**"


def matches(root: Path, pattern: str) -> list[str]:
    """The files below `root` that fit `pattern`, as paths below it, sorted. Blocks. Raises ValueError for a pattern
    that leads out of `root`.

    `*`, `?` and `[...]` stand for a part of a name, `**` for any number of folders. A folder that `pattern` names is
    looked into whatever it is called. Names that don't show as they are (line breaks in them, say) never fit.
    """
    parts = [part for part in pattern.strip().split("/") if part not in ("", ".")]
    if pattern.strip().startswith(("/", "~")) or ".." in parts or "\0" in pattern:
        raise ValueError("it must stay inside the workspace")
    if parts[-1:] == [_ANY_FOLDERS]:
        parts.append("*")
    return sorted(set(_below(root, "", parts)))


def _below(root: Path, folder: str, parts: list[str]) -> Iterator[str]:
    """The files below `root/folder` that fit `parts`."""
    if not parts:
        return
    part, rest = parts[0], parts[1:]
    if part == _ANY_FOLDERS and rest[:1] == [part]:
        yield from _below(root, folder, rest)
    elif part == _ANY_FOLDERS:
        yield from _below(root, folder, rest)
        for name in _folders(root / folder):
            yield from _below(root, f"{folder}{name}/", parts)
    elif not rest:
        yield from (f"{folder}{name}" for name in _names(root / folder, part) if (root / folder / name).is_file())
    else:
        for name in _names(root / folder, part):
            yield from _below(root, f"{folder}{name}/", rest)


def _names(folder: Path, part: str) -> list[str]:
    """What fits `part` in `folder`; a name without signs is itself."""
    if not set("*?[") & set(part):
        return [part]
    return [name for name in _listed(folder) if fnmatchcase(name, part) and _is_meant(name)]


def _folders(folder: Path) -> list[str]:
    found = [name for name in _listed(folder) if _is_meant(name)]
    return [name for name in found if (folder / name).is_dir() and not (folder / name).is_symlink()]


def _is_meant(name: str) -> bool:
    return not name.startswith(".") and name not in _LEFT_OUT and name.isprintable()


def _listed(folder: Path) -> list[str]:
    """The names in `folder`; none when it can't be listed."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
