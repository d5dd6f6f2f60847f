"""Workspace files as the user edits them in the screen: the same guard as the model's tools, whole texts."""

from __future__ import annotations

from pathlib import Path

from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.listing import walk
from clawbot.tools.protocol import ToolError

LARGEST = 2 * 1024**2  # what an editor in the terminal can be asked to hold, in bytes
MOST_FILES = 2000
TEXT_SUFFIXES = {".md", ".txt", ".yaml", ".yml", ".json", ".toml", ".py", ".sh", ".csv", ".ini", ".cfg", ""}


def list_workspace_files(workspace: Path) -> list[str]:
    """The text files below `workspace` as relative paths, those at its top first. Blocks; hidden ones are left out."""
    with WorkspaceFolder(workspace).folder(()) as top:
        found = [
            entry.path
            for entry in walk(top)
            if not entry.is_folder and Path(entry.name).suffix in TEXT_SUFFIXES and not _hidden(entry.path)
        ]
    return sorted(found, key=lambda path: (path.count("/"), path))[:MOST_FILES]


def read_workspace_file(workspace: Path, name: str) -> str:
    """The text of `name`, empty when there is no such file. Blocks.

    Raises ToolError for a path outside, a file that is too large, and one that is not UTF-8: to save what can't be
    shown would destroy it.
    """
    folder = WorkspaceFolder(workspace)
    place = folder.locate_for_change(name)
    data = folder.read(place, LARGEST)
    try:
        return "" if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{place.shown} is not valid UTF-8 (byte {error.start:,}).", hint="Open it with another editor."
        ) from None


def write_workspace_file(workspace: Path, name: str, text: str) -> None:
    """Replace `name` by `text`, whole or not at all. Blocks; raises ToolError for a path outside."""
    folder = WorkspaceFolder(workspace)
    folder.replace(folder.locate_for_change(name), text.encode())


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
