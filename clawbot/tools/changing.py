"""The base of tools that change files: a change is planned, approved where necessary, and then made exactly as shown.

Above all, changes of instruction files need approval: instructions are obeyed in every later session, and so would be
an injected text. What the user always allows is remembered here.
"""

from __future__ import annotations

import functools
import os
from abc import abstractmethod
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from clawbot.config.paths import INSTRUCTIONS, UNASKED, is_instruction
from clawbot.config.schema_agent import AskedWord
from clawbot.files import version_of
from clawbot.text.interface import N_, _
from clawbot.text.names import fold_name
from clawbot.tools.arguments import PathArguments, completed, parse
from clawbot.tools.folder import WorkspaceFolder, WorkspacePath
from clawbot.tools.listing import FolderTool
from clawbot.tools.permissions import Permissions, Ruling
from clawbot.tools.protocol import ApprovalQuestion, Approver, OnOutput, ToolError, ToolOutcome, refused, to_nobody
from clawbot.tools.text import FileChange, full_diff

OBEYED = "what stands in it is obeyed in every later session"
EVERY = "tools.files.ask has `all`"

_NOTES = frozenset({"memory.md", "memory"})
_UNASKED = frozenset(map(fold_name, UNASKED))
_RITUAL = ("bootstrap.md",)


class Reason(Struct, frozen=True):
    """Why a change needs approval, as a clause in `text`. `name` is the instruction file concerned (possibly under
    another name), "" for none."""

    text: str
    name: str = ""


class AskedFiles:
    """Which changes in the workspace `root` need approval, by the `words` of `tools.files.ask`. All tools of a run
    share one object, since "always" applies to all. The methods block, except `add_prompted`."""

    def __init__(self, root: Path, words: Collection[AskedWord]) -> None:
        self._root = root
        self._words = frozenset(words)
        self._prompted: frozenset[str] = frozenset()
        self._allowed: set[tuple[str, ...]] = set()

    def add_prompted(self, names: Iterable[str]) -> None:
        """Treat these files of the workspace as instructions whatever their names: hooks put them into a prompt."""
        self._prompted |= set(names)

    def why(self, path: WorkspacePath) -> Reason | None:
        """Why a change of `path` needs approval; None if it does not, or was always allowed."""
        if _folded(path.parts) in self._allowed:
            return None
        if "instructions" in self._words and (name := self._instruction(path)):
            return Reason(OBEYED, name)
        if "all" in self._words and fold_name(path.parts[0]) not in _NOTES:
            return Reason(EVERY)
        return None

    def allow(self, path: WorkspacePath) -> None:
        self._allowed.add(_folded(path.parts))

    def is_allowed(self, path: WorkspacePath) -> bool:
        return _folded(path.parts) in self._allowed

    def grants(self) -> list[str]:
        return sorted("/".join(parts) for parts in self._allowed)

    def take_back(self, grant: str) -> None:
        self._allowed.discard(tuple(grant.split("/")))

    def _instruction(self, path: WorkspacePath) -> str:
        """The known name of the instruction file at `path`; "" for none."""
        if is_instruction(path.parts):
            return path.shown
        root = os.path.realpath(self._root)
        real = str(Path(root, *path.parts))
        found = _identity(real)
        names = (*INSTRUCTIONS, *sorted(name for name in self._prompted if not _is_known(name)))
        return next((name for name in names if _is_file(os.path.realpath(Path(root, name)), real, found)), "")


def ends_ritual(path: WorkspacePath, after: bytes) -> bool:
    """Whether writing `after` to `path` ends the first-run ritual: an emptied BOOTSTRAP.md counts as deleted."""
    return _folded(path.parts) == _RITUAL and not after.strip()


def _is_known(name: str) -> bool:
    """Whether `name` may be changed without approval though it is part of the prompt."""
    parts = _folded(Path(name).parts)
    return not parts or parts[-1] in _UNASKED or parts[0] in _NOTES


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(fold_name, parts))


def _is_file(path: str, real: str, found: tuple[int, int] | None) -> bool:
    """Whether `path`, without links, is the file `real` with the identity `found`: by name, by hard link, or by a
    spelling that its file system considers equal."""
    return fold_name(path) == fold_name(real) or (found is not None and _identity(path) == found)


def _identity(path: str) -> tuple[int, int] | None:
    """The unique identity of a file; None if it does not exist."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


CHANGE_BYTES = 16 * 1024 * 1024  # a file beyond that is no note and no source; it would be held in memory twice
INSTRUCTION_RISK = N_("changes what the agent obeys in every later conversation")

A = TypeVar("A", bound=PathArguments)


class PlannedChange(Struct, frozen=True):
    """A planned change: the bytes of `path` now (None: no file) and `after` it, the difference, and the text for the
    model. Whoever has seen all of `known` has then seen all of `after`; None: that is not known."""

    path: WorkspacePath
    before: bytes | None
    after: bytes
    change: FileChange
    message: str
    known: bytes | None = None


class ChangingTool(FolderTool[A]):
    """A tool that changes the file at `path`. Implements `AskingTool`: `asked` decides which changes need approval;
    None for none."""

    read_only = False

    def __init__(self, folder: WorkspaceFolder, asked: AskedFiles | None = None) -> None:
        super().__init__(folder)
        self._asked = asked

    async def run_approved(self, arguments: dict[str, Any], approve: Approver) -> ToolOutcome:
        """Make the change, after approval where the settings of files want it. Raises ToolError if it is refused."""
        return await self.run_ruled(arguments, approve, Permissions())

    async def run_ruled(
        self, arguments: dict[str, Any], approve: Approver, permissions: Permissions, on_output: OnOutput = to_nobody
    ) -> ToolOutcome:
        """Make the change, after approval where necessary. Completes despite a cancellation. Raises ToolError."""
        parsed = parse(self.arguments, arguments)
        begun = await completed(functools.partial(self._begin, parsed, permissions))
        if isinstance(begun, ToolOutcome):
            return begun
        planned, why = begun
        question = self._question(planned, why)
        answer = await approve(question)
        if answer.decision == "deny":
            otherwise = "Do not try it in another way: describe what you would have changed, and ask."
            raise refused(answer, f"{planned.path.shown} was not changed.", otherwise)
        if answer.command not in (None, question.command):
            raise ToolError(f"{planned.path.shown} was not changed: what is written there can't be edited first.")
        return await completed(functools.partial(self._make_as_shown, planned, always=answer.decision == "always"))

    @abstractmethod
    def plan(self, path: WorkspacePath, arguments: A) -> PlannedChange:
        """Plan the change of `path`. Blocks; raises ToolError with a text for the model."""

    def act(self, path: WorkspacePath, arguments: A) -> ToolOutcome:
        """Make the change of the file at `path`. Blocks; raises ToolError."""
        return self._make(self.plan(path, arguments))

    def grants(self) -> list[str]:
        return self._asked.grants() if self._asked is not None else []

    def take_back(self, grant: str) -> None:
        if self._asked is not None:
            self._asked.take_back(grant)

    def _begin(self, arguments: A, permissions: Permissions) -> ToolOutcome | tuple[PlannedChange, Reason]:
        """Make the change, or plan it with the reason for approval. Links that change later don't matter."""
        path = self._folder.locate_for_change(arguments.path)
        why = self._why(path, permissions.of_file(self.name, path.parts))
        if why is None:
            return self.act(path, arguments)
        planned = self.plan(path, arguments)
        if planned.before == planned.after or ends_ritual(path, planned.after):
            return self._make(planned)
        return planned, why

    def _why(self, path: WorkspacePath, ruling: Ruling) -> Reason | None:
        """Why a change of `path` needs approval under `ruling`; None if it does not. Raises ToolError if it is denied.
        What is obeyed in every later session is asked about whatever a rule allows."""
        if ruling.way == "deny":
            raise ToolError(ruling.reason)
        asked = self._asked
        why = asked.why(path) if asked is not None else None
        if why is None and ruling.way == "ask" and not (asked is not None and asked.is_allowed(path)):
            return Reason(ruling.reason)
        return None if why is not None and not why.name and ruling.way == "allow" else why

    def _question(self, planned: PlannedChange, why: Reason) -> ApprovalQuestion:
        shown = planned.path.shown
        return ApprovalQuestion(
            tool=self.name,
            command=f"{self.name} {shown}",
            folder=str(self._folder.root),
            pattern=shown,
            reach=_("it is {name} by another name").format(name=why.name) if why.name not in ("", shown) else "",
            risks=(INSTRUCTION_RISK,) if why.name else (),
            diff=full_diff(planned.before, planned.after, shown),
            remedy=f"The user sees such a change before it is made, as {why.text}. They can be asked in the chat, or "
            "set tools.files.ask or permissions in the config.",
        )

    def _make_as_shown(self, planned: PlannedChange, *, always: bool) -> ToolOutcome:
        outcome = self._make(planned)
        if always and self._asked is not None:
            self._asked.allow(planned.path)
        return outcome

    def _make(self, planned: PlannedChange) -> ToolOutcome:
        demand_unchanged = functools.partial(self._demand_unchanged, planned)
        if planned.before is None:
            demand_unchanged()
            while not self._folder.create(planned.path, planned.after):
                demand_unchanged()  # there is one now
        else:
            self._folder.replace(planned.path, planned.after, demand_unchanged)
        return changed(planned)

    def _demand_unchanged(self, planned: PlannedChange) -> None:
        path = self._folder.locate_for_change(self._folder.real(planned.path))
        if path != planned.path or self._folder.read(path, CHANGE_BYTES) != planned.before:
            raise ToolError(
                f"{planned.path.shown} was not changed: it has become another one since you called. Read it again."
            )


def changed(made: PlannedChange) -> ToolOutcome:
    """The outcome of a change, with the diff for the screen, and what the model has seen by it."""
    seen = {} if made.known is None else {"seen": {"was": version_of(made.known), "digest": version_of(made.after)}}
    return ToolOutcome(
        made.message, summary=made.change.summary, details={"path": made.path.shown, "diff": made.change.diff, **seen}
    )
