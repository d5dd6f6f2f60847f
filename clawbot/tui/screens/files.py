"""The choice of a workspace file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clawbot.tui.render.sanitize import clean_line
from clawbot.tui.screens.parts import Key
from clawbot.tui.screens.picker import PickerScreen, Row

if TYPE_CHECKING:
    from clawbot.runtime import Runtime

# Ids of rows are file names; no file name holds a slash at its end.
NEW = "new/"


class FilesScreen(PickerScreen[str]):
    """Gives the name of a file, from the workspace on, or None. A name that does not exist yet can be typed."""

    heading = "edit"
    nothing = "The workspace is empty. Type a name to begin a file."
    keys = (Key("enter", "edit", "screen.choose"), Key("esc", "back", "screen.back"))

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self.runtime = runtime

    async def load(self) -> list[Row]:
        """The files of the workspace."""
        return [Row(name, clean_line(name)) for name in await self.runtime.workspace_files()]

    def fixed_rows(self, query: str) -> list[Row]:
        """A new file of the name that was typed."""
        if not query or query.endswith("/") or query in {row.id for row in self.rows}:
            return []
        return [Row(NEW, f"new file {clean_line(query)}", mark="+")]

    def chosen(self, row: Row) -> None:
        """Give the name back."""
        self.dismiss(self.typed if row.id == NEW else row.id)
