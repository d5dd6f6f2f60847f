"""What the tools on the files of a folder share: each session gets them on the folder as far as it may know it."""

from __future__ import annotations

import copy
from typing import Self, TypeVar

from clawbot.messages import ToolSpec
from clawbot.tools.arguments import Arguments, TypedTool
from clawbot.tools.fence import Barred
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import SessionAccess

A = TypeVar("A", bound=Arguments)

_WHY = "what is noted about the user is for conversations with them alone"


class FolderTool(TypedTool[A]):
    """A tool that works on files below `folder`. Implements `SessionTool`."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self.use(folder)

    def use(self, folder: WorkspaceFolder) -> None:
        """Work in `folder` from now on."""
        self._folder = folder

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it; of one that reads, also what it may read beside the workspace."""
        spec = super().spec
        folders = ", ".join(str(folder) for folder in self._folder.fence.readable) if self.read_only else ""
        if not folders:
            return spec
        more = f" Workspaces of other agents can be read too, by absolute path: {folders}."
        return ToolSpec(spec.name, spec.description + more, spec.parameters)

    def for_session(self, access: SessionAccess) -> Self:
        """The tool without the files that are hidden from the session."""
        folder = self._folder
        tops = (folder.root, *folder.fence.readable)
        hidden = (Barred(top / name, _WHY) for top in tops for name in access.hidden)
        tool = copy.copy(self)
        tool.use(WorkspaceFolder(folder.root, fence=folder.fence.deny(*hidden)))
        return tool
