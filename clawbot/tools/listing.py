"""The tool that lists folders, and what file tools share: the walk, and the restriction to what a session may know."""

from __future__ import annotations

import copy
import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self, TypeVar

from msgspec import Meta

from clawbot.messages import ToolSpec
from clawbot.text.globs import Glob, GlobError, compile_glob
from clawbot.text.visible import visible_name
from clawbot.tools.arguments import Arguments, ArgumentTool, TypedTool
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.paths import Barred, Fence
from clawbot.tools.protocol import SessionAccess, ToolError, ToolOutcome
from clawbot.trees import MAX_TREE_ENTRIES, Skips, TreeWalk

A = TypeVar("A", bound=Arguments)

_WHY = "what is noted about the user is for conversations with them alone"


class FolderTool(ArgumentTool[A]):
    """A tool that works on files below `folder`. Implements `SessionTool`."""

    needs = frozenset({"files"})

    def __init__(self, folder: WorkspaceFolder) -> None:
        self.use(folder)

    def use(self, folder: WorkspaceFolder) -> None:
        self._folder = folder

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it; for reading tools with the additional readable folders."""
        spec = super().spec
        folders = ", ".join(str(folder) for folder in self._folder.fence.readable) if self.read_only else ""
        if not folders:
            return spec
        more = f" Workspaces of other agents can be read too, by absolute path: {folders}."
        return ToolSpec(spec.name, spec.description + more, spec.parameters)

    def for_session(self, access: SessionAccess) -> Self:
        folder = self._folder
        tool = copy.copy(self)
        tool.use(WorkspaceFolder(folder.root, fence=hidden_from(access, folder.root, folder.fence)))
        return tool


def hidden_from(access: SessionAccess, workspace: Path, fence: Fence) -> Fence:
    """`fence` for a session with `access`: without the files hidden from it."""
    tops = (workspace, *fence.readable)
    return fence.deny(*(Barred(top / name, _WHY) for top in tops for name in access.hidden))


class ReadingTool(FolderTool[A], TypedTool[A]):
    """A tool that reads files and changes none. Implements `Tool`."""


MAX_ENTRIES = 1000
HIDDEN = {".git"}

FolderArgument = Annotated[str, Meta(description="Folder.")]


def walk(top: int, hides: Skips | None = None) -> TreeWalk:
    """Everything below the open folder `top` except .git and paths for which `hides` is true."""
    return TreeWalk(top, skips=hides, ignored=HIDDEN)


def glob_of(pattern: str) -> Glob:
    """Compile a model's glob. Raises ToolError if it is too long."""
    try:
        return compile_glob(pattern.removeprefix("./"))
    except GlobError as error:
        raise ToolError(str(error)) from None


def left_out(problems: Sequence[str]) -> list[str]:
    """What a walk skipped, as lines after its results."""
    return [f"[{visible_name(problem)}]" for problem in problems]


class ListArguments(Arguments, frozen=True):
    """Arguments of `list`."""

    path: FolderArgument = "."
    pattern: Annotated[str, Meta(description="Glob, such as `**/*.md`.")] = ""


class ListTool(ReadingTool[ListArguments]):
    """`list`: one entry a line, relative to the folder; folders end with `/`."""

    name = "list"
    description = "List a folder; folders in it end with `/`."
    arguments = ListArguments

    def act(self, arguments: ListArguments) -> ToolOutcome:
        path = self._folder.locate(arguments.path)
        hides = self._folder.bounds().hides(self._folder.real(path))
        with self._folder.folder(path.parts, base=path.base) as handle:
            if arguments.pattern:
                found = walk(handle, hides)
                glob = glob_of(arguments.pattern.rstrip("/"))
                entries = sorted(f"{one.path}/" if one.is_folder else one.path for one in found if glob.fits(one.path))
                problems = found.problems
            else:
                entries, problems = _plain(handle, hides)
        if not entries and not problems:
            return ToolOutcome(
                "Nothing fits." if arguments.pattern else f"[{path.shown} is empty]", summary="0 entries"
            )
        lines = [visible_name(entry) for entry in entries[:MAX_ENTRIES]] or ["Nothing fits."]
        if len(entries) > MAX_ENTRIES:
            lines.append(f"[{MAX_ENTRIES:,} of {len(entries):,} entries shown: narrow it with pattern or path]")
        lines += left_out(problems)
        return ToolOutcome("\n".join(lines), summary=f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}")


def _plain(handle: int, hides: Skips) -> tuple[list[str], list[str]]:
    """The content of the folder: folders first, then the rest; links with their targets. And what was skipped."""
    with os.scandir(handle) as found:
        entries = list(itertools.islice(found, MAX_TREE_ENTRIES + 1))
    problems = [f"there are more than {MAX_TREE_ENTRIES:,} entries, and the rest was left out"]
    names = sorted(entry.name for entry in entries[:MAX_TREE_ENTRIES])
    modes = {name: _mode(handle, name) for name in names if name not in HIDDEN and not hides(name)}
    folders = [f"{name}/" for name, mode in modes.items() if stat.S_ISDIR(mode)]
    others = [_with_target(handle, name, mode) for name, mode in modes.items() if not stat.S_ISDIR(mode)]
    return folders + others, problems if len(entries) > MAX_TREE_ENTRIES else []


def _mode(handle: int, name: str) -> int:
    """The type of an entry; 0 if it is gone."""
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _with_target(handle: int, name: str, mode: int) -> str:
    if not stat.S_ISLNK(mode):
        return name
    try:
        return f"{name} -> {os.readlink(name, dir_fd=handle)}"
    except OSError:
        return name  # deleted, or no longer a link
