"""The text files of the workspace for the user's editor: their names, their texts, and changes of them."""

from __future__ import annotations

from pathlib import Path

from clawbot.text.encoding import decoded, encoded_like, encoding_of
from clawbot.text.interface import _
from clawbot.tools.folder import WorkspaceFolder, WorkspacePath
from clawbot.tools.listing import walk
from clawbot.tools.protocol import ToolError

MAX_BYTES = 2 * 1024**2  # bytes: the most that the terminal editor handles well


MAX_FILES = 2000


TEXT_SUFFIXES = {".md", ".txt", ".yaml", ".yml", ".json", ".toml", ".py", ".sh", ".csv", ".ini", ".cfg", ""}


def list_workspace_files(workspace: Path) -> list[str]:
    """The text files below `workspace` as relative paths, top level first, without hidden files. Blocks."""
    with WorkspaceFolder(workspace).folder(()) as top:
        found = [
            entry.path
            for entry in walk(top)
            if not entry.is_folder
            and Path(entry.name).suffix in TEXT_SUFFIXES
            and not any(part.startswith(".") for part in entry.path.split("/"))
        ]
    return sorted(found, key=lambda path: (path.count("/"), path))[:MAX_FILES]


def read_workspace_file(workspace: Path, name: str) -> str:
    """The text of `name`; empty if there is no such file. Blocks.

    Raises ToolError for a path outside the workspace, a file that is too large, and one that is not text (UTF-8, or
    UTF-16 with a byte order mark): saving what can't be displayed would destroy it.
    """
    folder = WorkspaceFolder(workspace)
    located = folder.locate_for_change(name)
    return _editable(located, folder.read(located, MAX_BYTES) or b"")


def _editable(located: WorkspacePath, data: bytes) -> str:
    try:
        # Keep UTF-8's byte order mark as a character, so that it is saved again.
        return decoded(data) if encoding_of(data).is_wide else data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{located.shown} is not valid UTF-8 (byte {error.start:,}).", hint="Open it with another editor."
        ) from None


def write_workspace_file(workspace: Path, name: str, text: str, known: str | None = None) -> None:
    """Replace `name` with `text` atomically, in its present encoding. Blocks; raises ToolError for a path outside the
    workspace, for text that is too large, and with `known` for a file that holds another text by now."""
    folder = WorkspaceFolder(workspace)
    located = folder.locate_for_change(name)
    before = folder.read(located, MAX_BYTES) or b""

    def demand_known() -> None:
        if known is not None and _editable(located, folder.read(located, MAX_BYTES) or b"") != known:
            raise ToolError(_("It has changed on disk in this moment: save again."))

    folder.replace(located, encoded_like(text, before) if encoding_of(before).is_wide else text.encode(), demand_known)
