"""The tool that lists folders of the workspace, and the walk that it shares with grep."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from clawbot.tools.arguments import Arguments
from clawbot.tools.folder_tool import FolderTool
from clawbot.tools.protocol import ToolError, ToolOutcome

MAX_ENTRIES = 1000
MAX_VISITED = 100_000  # a walk over more is a walk over the wrong folder
HIDDEN = {".git"}

FolderArgument = Annotated[str, Meta(description="Folder in the workspace; the workspace itself when left out.")]


class Found(Struct, frozen=True):
    """One entry of a walk: `name` in the open folder `parent`, `path` relative to where the walk began."""

    parent: int
    name: str
    path: str
    is_folder: bool


def walk(top: int, hides: Callable[[str], bool] = lambda path: False) -> Iterator[Found]:
    """Everything below the open folder `top` but .git and the paths that `hides` is true of, level by level and
    sorted; no link is followed."""
    visited = 0
    for root, folders, files, parent in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        inside = root.removeprefix(".").removeprefix("/")
        prefix = f"{inside}/" if inside else ""
        folders[:] = sorted(name for name in folders if name not in HIDDEN and not hides(prefix + name))
        for name in sorted([*folders, *(name for name in files if not hides(prefix + name))]):
            visited += 1
            if visited > MAX_VISITED:
                raise ToolError(f"There are more than {MAX_VISITED:,} files here: name a folder further down.")
            yield Found(parent, name, prefix + name, name in folders)


def matches(path: str, pattern: str) -> bool:
    """Whether `path` fits a glob: `*` and `?` within one name, `**` for any number of folders."""
    return _match(path.split("/"), pattern.removeprefix("./").split("/"))


def _match(names: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(_match(names[skip:], patterns[1:]) for skip in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], patterns[0]) and _match(names[1:], patterns[1:])


class ListArguments(Arguments, frozen=True):
    """Arguments of `list`."""

    path: FolderArgument = "."
    pattern: Annotated[
        str, Meta(description="Only what fits this glob, relative to the folder: `*.md`, `**/*.md` for all levels.")
    ] = ""


class ListTool(FolderTool[ListArguments]):
    """`list`: one entry a line, relative to the folder; folders end with `/`."""

    name = "list"
    description = "List a folder of the workspace: one entry a line, folders end with `/`."
    arguments = ListArguments

    def act(self, arguments: ListArguments) -> ToolOutcome:
        """List the folder, or what in it fits the pattern."""
        place = self._folder.locate(arguments.path)
        hides = self._folder.bounds().hides(self._folder.real(place))
        with self._folder.folder(place.parts, base=place.base) as handle:
            entries = _matching(handle, arguments.pattern, hides) if arguments.pattern else _plain(handle, hides)
        if not entries:
            return ToolOutcome(
                "Nothing fits." if arguments.pattern else f"[{place.shown} is empty]", summary="0 entries"
            )
        lines = entries[:MAX_ENTRIES]
        if len(entries) > MAX_ENTRIES:
            lines.append(f"[{MAX_ENTRIES:,} of {len(entries):,} entries shown: narrow it with pattern or path]")
        return ToolOutcome("\n".join(lines), summary=f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}")


def _plain(handle: int, hides: Callable[[str], bool]) -> list[str]:
    """What is in the folder: folders first, then the rest; a symlink with where it leads."""
    names = [name for name in sorted(os.listdir(handle)) if name not in HIDDEN and not hides(name)]
    modes = {name: _mode(handle, name) for name in names}
    folders = [f"{name}/" for name in names if stat.S_ISDIR(modes[name])]
    return folders + [_with_target(handle, name, modes[name]) for name in names if not stat.S_ISDIR(modes[name])]


def _matching(handle: int, pattern: str, hides: Callable[[str], bool]) -> list[str]:
    """What below the folder fits `pattern`."""
    wanted = pattern.rstrip("/")
    found = (entry for entry in walk(handle, hides) if matches(entry.path, wanted))
    return sorted(f"{entry.path}/" if entry.is_folder else entry.path for entry in found)


def _mode(handle: int, name: str) -> int:
    """The type of an entry; 0 when it went away in between."""
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _with_target(handle: int, name: str, mode: int) -> str:
    return f"{name} -> {os.readlink(name, dir_fd=handle)}" if stat.S_ISLNK(mode) else name
