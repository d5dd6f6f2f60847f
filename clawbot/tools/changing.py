"""What the tools that change files share: a change is worked out, asked for where that is needed, and then made as it
was shown.

Asked for are changes of instructions above all: they are obeyed in every later session, so what an injected text has
the model write there would be as well. What the user allows for always is remembered here.
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
from clawbot.text.names import fold_name
from clawbot.tools.arguments import PathArguments, completed, parse
from clawbot.tools.folder import WorkspaceFolder, WorkspacePath
from clawbot.tools.listing import FolderTool
from clawbot.tools.protocol import ApprovalQuestion, Approver, ToolError, ToolOutcome
from clawbot.tools.text import FileChange, whole_diff

OBEYED = "what stands in it is obeyed in every later session"
EVERY = "tools.files.ask has `all`"

_NOTES = frozenset({"memory.md", "memory"})
_UNASKED = frozenset(map(fold_name, UNASKED))
_RITUAL = ("bootstrap.md",)


class Reason(Struct, frozen=True):
    """Why a change is asked for, as a clause in `text`. `name` is the file of instructions that it is a change of, ""
    for no such file: maybe by another name."""

    text: str
    name: str = ""


class AskedFiles:
    """The files of the workspace `root` whose changes are asked for, by the `words` of `tools.files.ask`. One object
    for all tools of a run, since an "always" counts for each of them. The methods block, but for `add_prompted`."""

    def __init__(self, root: Path, words: Collection[AskedWord]) -> None:
        self._root = root
        self._words = frozenset(words)
        self._prompted: frozenset[str] = frozenset()
        self._allowed: set[tuple[str, ...]] = set()

    def add_prompted(self, names: Iterable[str]) -> None:
        """Files of these names, relative to the workspace, stand in a system prompt: those that hooks put there are
        instructions whatever they are called."""
        self._prompted |= set(names)

    def why(self, place: WorkspacePath) -> Reason | None:
        """Why a change of the file at `place` is asked for; None when it is not, or was allowed for always."""
        if _folded(place.parts) in self._allowed:
            return None
        if "instructions" in self._words and (name := self._instruction(place)):
            return Reason(OBEYED, name)
        if "all" in self._words and fold_name(place.parts[0]) not in _NOTES:
            return Reason(EVERY)
        return None

    def allow(self, place: WorkspacePath) -> None:
        """Ask no more for the file at `place`."""
        self._allowed.add(_folded(place.parts))

    def _instruction(self, place: WorkspacePath) -> str:
        """The file of instructions that lies at `place`, by the name that it is known by; "" for none."""
        if is_instruction(place.parts):
            return place.shown
        root = os.path.realpath(self._root)
        real = str(Path(root, *place.parts))
        found = _identity(real)
        names = (*INSTRUCTIONS, *sorted(name for name in self._prompted if not _is_known(name)))
        return next((name for name in names if _is_file(os.path.realpath(Path(root, name)), real, found)), "")


def ends_ritual(place: WorkspacePath, after: bytes) -> bool:
    """Whether to write `after` to `place` ends the first-run ritual: an emptied BOOTSTRAP.md counts as deleted."""
    return _folded(place.parts) == _RITUAL and not after.strip()


def _is_known(name: str) -> bool:
    """Whether the file `name` may be changed unasked though it stands in the prompt."""
    parts = _folded(Path(name).parts)
    return not parts or parts[-1] in _UNASKED or parts[0] in _NOTES


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(fold_name, parts))


def _is_file(path: str, real: str, found: tuple[int, int] | None) -> bool:
    """Whether the file at `path`, in which no links are left, is the one at `real`, whose identity is `found`: by name,
    by a hard link, or by a spelling that only its file system takes for the same."""
    return fold_name(path) == fold_name(real) or (found is not None and _identity(path) == found)


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from all others; None for one that is not there."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


CHANGE_BYTES = 16 * 1024 * 1024  # a file beyond that is no note and no source; it would be held in memory twice
INSTRUCTION_RISK = "changes what the agent obeys in every later session"

A = TypeVar("A", bound=PathArguments)


class PlannedChange(Struct, frozen=True):
    """A change that is worked out and not made: the bytes of the file at `place` now (None: there is no file) and
    `after` it, what that changes, and what the model is told."""

    place: WorkspacePath
    before: bytes | None
    after: bytes
    change: FileChange
    told: str


class ChangingTool(FolderTool[A]):
    """A tool that changes the file at `path`. Implements `AskingTool`: which changes the user is asked for, `asked`
    says; None for none."""

    read_only = False

    def __init__(self, folder: WorkspaceFolder, asked: AskedFiles | None = None) -> None:
        super().__init__(folder)
        self._asked = asked

    async def run_approved(self, arguments: dict[str, Any], approve: Approver) -> ToolOutcome:
        """Make the change, after the user has seen it where that is needed. One that has begun is completed before a
        cancellation goes on."""
        parsed = parse(self.arguments, arguments)
        begun = await completed(functools.partial(self._begin, parsed))
        if isinstance(begun, ToolOutcome):
            return begun
        planned, why = begun
        question = self._question(planned, why)
        answer = await approve(question)
        if answer.decision == "deny":
            raise ToolError(
                f"{planned.place.shown} was not changed. {answer.reason or 'The user declined.'} "
                "Do not try it in another way: say what you would have changed, and ask."
            )
        if answer.command not in (None, question.command):
            raise ToolError(f"{planned.place.shown} was not changed: what is written there can't be edited first.")
        return await completed(functools.partial(self._make_as_shown, planned, always=answer.decision == "always"))

    @abstractmethod
    def plan(self, place: WorkspacePath, arguments: A) -> PlannedChange:
        """Work out the change of the file at `place`. Blocks; raises ToolError with a text for the model."""

    def act(self, place: WorkspacePath, arguments: A) -> ToolOutcome:
        """Make the change of the file at `place`. Blocks; raises ToolError."""
        return self._make(self.plan(place, arguments))

    def _begin(self, arguments: A) -> ToolOutcome | tuple[PlannedChange, Reason]:
        """Make the change, or work it out and say why it is asked for. The place is found once: what a link in the path
        leads to later does not count."""
        place = self._folder.locate_for_change(arguments.path)
        why = self._asked.why(place) if self._asked is not None else None
        if why is None:
            return self.act(place, arguments)
        planned = self.plan(place, arguments)
        if planned.before == planned.after or ends_ritual(place, planned.after):
            return self._make(planned)
        return planned, why

    def _question(self, planned: PlannedChange, why: Reason) -> ApprovalQuestion:
        shown = planned.place.shown
        return ApprovalQuestion(
            tool=self.name,
            command=f"{self.name} {shown}",
            folder=str(self._folder.root),
            pattern=shown,
            reach=f"it is {why.name} by another name" if why.name not in ("", shown) else "",
            risks=(INSTRUCTION_RISK,) if why.name else (),
            diff=whole_diff(planned.before, planned.after, shown),
            remedy=f"The user sees such a change before it is made, as {why.text}. They can be asked in the chat, or "
            "set tools.files.ask in the config.",
        )

    def _make_as_shown(self, planned: PlannedChange, *, always: bool) -> ToolOutcome:
        """Make the change that was shown, unless the file has become another one since."""
        place = self._folder.locate_for_change(self._folder.real(planned.place))
        if place != planned.place or self._folder.read(place, CHANGE_BYTES) != planned.before:
            raise ToolError(
                f"{planned.place.shown} was not changed: it has become another one since the user was asked. "
                "Read it again."
            )
        if always and self._asked is not None:
            self._asked.allow(place)
        return self._make(planned)

    def _make(self, planned: PlannedChange) -> ToolOutcome:
        self._folder.replace(planned.place, planned.after)
        return changed(planned.place, planned.told, planned.change)


def changed(place: WorkspacePath, text: str, change: FileChange) -> ToolOutcome:
    """The outcome of a changed file, with the diff for the screen."""
    return ToolOutcome(text, summary=change.summary, details={"path": place.shown, "diff": change.diff})
