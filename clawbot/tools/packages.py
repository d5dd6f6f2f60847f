"""Tools of installed packages: entry points of the group `clawbot.tools` are loaded, checked and approved like builtin
tools.

An entry point names a tool, or a function or class that creates one from a `ToolContext`. A package can only break
itself: unusable tools are left out with a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.entry_points import BrokenExtension, installed
from clawbot.messages import ToolCallBlock, ToolSpec
from clawbot.text.interface import _
from clawbot.tools.changing import AskedFiles
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import AnyTool, ApprovalQuestion, Approver, AskingTool, ToolError, refused

GROUP = "clawbot.tools"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what all providers take


class ToolContext(Struct, frozen=True):
    """What a tool is made of: the agent's `settings`, and `folder`, the workspace behind the fence that holds for the
    builtin tools. `asked` decides which changes of files need approval; `ChangingTool` takes it."""

    folder: WorkspaceFolder
    asked: AskedFiles
    settings: AgentSettings
    clock: Clock

    @property
    def workspace(self) -> Path:
        return self.folder.root


class PackageTools(Struct, frozen=True):
    """The `tools` of packages, the package of each by tool name, and `warnings` about those left out."""

    tools: tuple[AnyTool, ...]
    packages: Mapping[str, str]
    warnings: tuple[str, ...]


def package_tools(context: ToolContext, taken: Collection[str]) -> PackageTools:
    """Import the tools of packages, except those with `taken` or denied names. Blocks; never raises for a package."""
    tools: dict[str, AnyTool] = {}
    packages: dict[str, str] = {}
    warnings: list[str] = []
    for extension in installed(GROUP):
        if extension.name in context.settings.tools.deny:
            continue
        made = extension.use(lambda point: _made(point.load(), context))
        if isinstance(made, BrokenExtension):
            warnings.append(f"A tool is left out: {made.problem}.")
        elif (name := made.spec.name) in taken or name in tools:
            owner = f"the package {packages[name]}" if name in tools else "clawbot"
            warnings.append(f"The tool {name} of the package {extension.distribution} is left out: {owner} has it.")
        else:
            tools[name], packages[name] = made, extension.distribution
    return PackageTools(tuple(tools.values()), packages, tuple(warnings))


def _made(found: Any, context: ToolContext) -> AnyTool:
    """The tool of an entry point. Raises TypeError if it is not one, and whatever a factory raises."""
    tool = found(context) if isinstance(found, type) or not hasattr(found, "spec") else found
    spec = tool.spec
    if not isinstance(spec, ToolSpec) or not _NAME.fullmatch(spec.name):
        raise TypeError(f"`spec` must be a ToolSpec with a name of letters, digits, _ and -, got {spec!r:.100}")
    if spec.parameters.get("type") != "object":
        raise TypeError(f"the parameters of {spec.name} must be the JSON schema of an object")
    if not isinstance(tool.read_only, bool) or not callable(tool.title):
        raise TypeError(f"{spec.name} must have a bool `read_only` and a method `title`")
    if not callable(getattr(tool, "run", None)) and not isinstance(tool, AskingTool):
        raise TypeError(f"{spec.name} has neither run nor run_approved")
    made: AnyTool = tool
    return made


class PackageApprovals:
    """Asks the user before a packaged tool changes anything, if the tool does not ask itself. "Always" applies to all
    sessions for the lifetime of this object."""

    def __init__(self, workspace: Path, packages: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._packages = packages
        self._granted: set[str] = set()

    async def ask(self, tool: AnyTool, call: ToolCallBlock, approve: Approver) -> None:
        """Ask for `call` if necessary. Raises ToolError if the user refuses."""
        package = self._packages.get(call.name)
        if package is None or call.name in self._granted or tool.read_only or isinstance(tool, AskingTool):
            return
        reach = _("It is a tool of the package {package}, and does what that does.").format(package=package)
        remedy = "The user can be asked in the chat."
        if await ask_to_run(call, approve, folder=str(self._workspace), reach=reach, remedy=remedy):
            self._granted.add(call.name)

    def grants(self) -> list[str]:
        return sorted(self._granted)

    def take_back(self, grant: str) -> None:
        self._granted.discard(grant)


async def ask_to_run(call: ToolCallBlock, approve: Approver, *, folder: str, reach: str, remedy: str) -> bool:
    """Ask whether a tool of others may do `call`; True for "always". Raises ToolError if the user refuses."""
    command = f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}"
    answer = await approve(ApprovalQuestion(call.name, command, folder, call.name, reach, remedy=remedy))
    if answer.decision == "deny":
        raise refused(answer, "Not run.", "Find another way or ask.")
    if answer.command not in (None, command):
        raise ToolError("Not run: the arguments of this tool can't be edited first.")
    return answer.decision == "always"
