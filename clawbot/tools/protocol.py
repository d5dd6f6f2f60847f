"""What a tool is to the rest of clawbot, and the question it may put to the user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.messages import ToolSpec

Decision = Literal["once", "always", "deny"]
Need = Literal["notes", "transcripts", "files", "shell"]
"""What a tool looks at or uses: the user's notes, what was said in other conversations, files of the workspace, and
commands."""


class ToolError(ClawbotError):
    """A call that could not be done. The text goes to the model, so it says why and what would work instead."""


class ToolOutcome(Struct, frozen=True):
    """What a call came to.

    `text` is what the model sees, `summary` its short form for the screen (`+2 -1`, `3 matches`), `details` plain
    data for the screen that the model does not see (`{"diff": ...}` of a changed file), and `notice` what the user is
    told beside it; "" for nothing.
    """

    text: str
    is_error: bool = False
    summary: str = ""
    details: Any = None
    notice: str = ""


class ApprovalQuestion(Struct, frozen=True):
    """What the user is asked before a tool acts: the `command` as it would run in `folder`, or a change of a file,
    which `command` names and `diff` shows (a unified diff).

    `pattern` is what the answer "always" allows from then on, `reach` says what the command can touch, and `risks`
    names in words what it seems to do beyond reading. `remedy` is what the user can do where nobody can be asked.
    `network`: it runs without the network, unless the answer says
    otherwise.
    """

    tool: str
    command: str
    folder: str
    pattern: str
    reach: str
    risks: tuple[str, ...] = ()
    diff: str = ""
    remedy: str = ""
    network: bool = False


class ApprovalAnswer(Struct, frozen=True):
    """What the user decided. `command`, when set, runs instead of the one that was asked about; `reason` is the
    user's word on a refusal, for the model. `network` lets it have the network, this time."""

    decision: Decision
    command: str | None = None
    reason: str = ""
    network: bool = False


class SessionAccess(Protocol):
    """What a session may know, as far as tools decide it. Must be hashable: toolboxes are kept by it."""

    @property
    def transcripts(self) -> bool:
        """Whether recall may look into other conversations."""

    @property
    def citations(self) -> bool:
        """Whether recall names its places unless the settings say otherwise."""

    def offers(self, needs: frozenset[str] | None, *, narrows: bool) -> bool:
        """Whether the model may call a tool that needs `needs`, None for one that does not say. `narrows`: the tool is
        a `SessionTool`, and keeps what is `hidden` out of reach by itself."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Files and folders at the top of the workspace that don't exist for file tools."""


Approver = Callable[[ApprovalQuestion], Awaitable[ApprovalAnswer]]


class ToolFace(Protocol):
    """What is known of a tool without running it."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""

    @property
    def needs(self) -> frozenset[Need] | None:
        """What a session must be allowed to know or use for the tool to be offered; empty for nothing of the kind. None
        does not say, and is refused wherever anything is."""

    @property
    def read_only(self) -> bool:
        """Whether a call changes nothing."""

    def title(self, arguments: dict[str, Any]) -> str:
        """One line that names a call, from arguments that nobody has checked yet. Never raises."""


class Tool(ToolFace, Protocol):
    """A tool that just runs. Whatever `run` raises becomes an error result for the model."""

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Do the call."""


@runtime_checkable
class AskingTool(ToolFace, Protocol):
    """A tool that may have to ask the user before it acts."""

    async def run_approved(self, arguments: dict[str, Any], approve: Approver) -> ToolOutcome:
        """Do the call, after asking `approve` where that is needed."""


AnyTool = Tool | AskingTool


@runtime_checkable
class SessionTool(Protocol):
    """A tool that does not show the same to all sessions."""

    def for_session(self, access: SessionAccess) -> AnyTool:
        """The tool as a session with `access` has it."""
