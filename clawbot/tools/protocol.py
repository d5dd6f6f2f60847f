"""The interface of tools to the rest of clawbot, and the approval they may ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.messages import ToolSpec
from clawbot.text.interface import N_

Decision = Literal["once", "always", "deny"]
IGNORED = "\n\n(Ignored: "  # begins the note after a result about arguments that the tool does not have
DECLINED = "The user declined."  # the reason of an answer without another one
Need = Literal["notes", "transcripts", "files", "shell"]
"""What a tool accesses: the user's notes, other conversations, files of the workspace, or commands."""


class ToolError(ClawbotError):
    """A call failed. The text is for the model: why, and what works instead; `details` are those of the outcome."""

    def __init__(self, message: str, *, hint: str = "", details: Any = None) -> None:
        super().__init__(message, hint=hint)
        self.details = details


class ToolDeclinedError(ToolError):
    """The user does not want it. That is no failure."""


class ToolOutcome(Struct, frozen=True):
    """The result of a call.

    `text` is what the model sees, `summary` its short form for the screen (`+2 -1`, `3 matches`), `details` plain data
    that it does not see (`{"diff": ...}` of a changed file, `{"declined": True}`, `{"seen": ...}` as in `seen.py`), and
    `notice` an additional line for the user. `structured` is the answer as plain data, for programs that call tools
    over HTTP and MCP; None: there is only the text.
    """

    text: str
    is_error: bool = False
    summary: str = ""
    details: Any = None
    notice: str = ""
    structured: Any = None


Danger = Literal["", "caution", "grave"]


class Risk(Enum):
    """What a command seems to do, in the words of the question; the worst first."""

    UNREADABLE = N_("this list may be incomplete")
    NETWORK_CODE = N_("runs code from the network")
    OTHER_USER = N_("runs as another user")
    DISKS = N_("writes to devices")
    POWER = N_("turns the machine off")
    SECRETS = N_("reaches for keys or passwords")
    DELETES = N_("deletes files")
    THROWS_AWAY = N_("throws away changes")
    OVERWRITES = N_("changes files in place")
    HISTORY = N_("changes git history")
    OUTSIDE = N_("writes outside the workspace")
    SOMEWHERE = N_("writes to a place that it works out first")
    PERMISSIONS = N_("changes permissions")
    INSTALLS = N_("installs software")
    MADE_UP = N_("runs a command that it makes up first")
    OTHER_CODE = N_("runs code of another language")
    CONTAINERS = N_("starts containers")
    LATER = N_("changes services or scheduled jobs")
    STOPS = N_("stops processes")
    ELSEWHERE = N_("runs commands on another machine")
    NETWORK = N_("uses the network")
    UNSEEN = N_("holds characters that are hard to see")
    ALIKE = N_("holds characters that only look like # $ & ; and quotes")


# What can't be taken back, reaches beyond the workspace, or can't be judged.
GRAVE = frozenset(
    risk.value
    for risk in (
        Risk.UNREADABLE, Risk.NETWORK_CODE, Risk.OTHER_USER, Risk.DISKS, Risk.POWER, Risk.SECRETS, Risk.DELETES,
        Risk.THROWS_AWAY, Risk.HISTORY, Risk.OUTSIDE, Risk.SOMEWHERE, Risk.UNSEEN, Risk.ALIKE,
    )
)  # fmt: skip


def danger_of(risks: Sequence[str]) -> Danger:
    """How grave `risks` are, the words of a question; those that are no `Risk` ask for caution."""
    if not risks:
        return ""
    return "grave" if any(risk in GRAVE for risk in risks) else "caution"


class ApprovalQuestion(Struct, frozen=True):
    """What the user is asked before a tool acts: the `command` as it would run in `folder`, or a change of a file,
    which `command` names and `diff` shows (a unified diff).

    `pattern` is what the answer "always" allows from then on, `reach` describes what the command can touch, and `risks`
    names in words what it seems to do beyond reading. `remedy` is what the user can do where nobody can be asked.
    `network`: it runs without the network, unless the answer allows it. `asks` is the question in words where
    `command` is nothing that runs. `by` names the sub-agent that asks, empty for the agent
    itself.
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
    asks: str = ""
    by: str = ""


class ApprovalAnswer(Struct, frozen=True):
    """What the user decided. `command`, when set, runs instead of the one that was asked about; `reason` is the
    user's word on a refusal, for the model. `network` lets it have the network, this time."""

    decision: Decision
    command: str | None = None
    reason: str = ""
    network: bool = False


class SessionAccess(Protocol):
    """What a session may know, as far as tools are concerned. Must be hashable: toolboxes are cached by it."""

    @property
    def transcripts(self) -> bool:
        """Whether recall may search other conversations."""

    @property
    def citations(self) -> bool:
        """Whether recall names its sources by default."""

    def offers(self, needs: frozenset[str] | None, *, narrows: bool) -> bool:
        """Whether the model may call a tool with these `needs` (None: undeclared). `narrows`: the tool is a
        `SessionTool` and enforces `hidden` itself."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Top-level workspace files and folders that don't exist for file tools."""


Approver = Callable[[ApprovalQuestion], Awaitable[ApprovalAnswer]]
OnOutput = Callable[[str], None]
"""Receives the next output of a running call."""


def refused(answer: ApprovalAnswer, what: str, otherwise: str) -> ToolError:
    """The error of a call that was not allowed: `what` did not happen, and what to do `otherwise`. One that nobody
    could be asked about fails; one that the user does not want is declined."""
    reason = answer.reason or DECLINED
    return (ToolDeclinedError if reason == DECLINED else ToolError)(f"{what} {reason} {otherwise}")


def to_nobody(_text: str) -> None:
    """Ignore the output of a call."""


class ToolFace(Protocol):
    """The properties of a tool."""

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""

    @property
    def needs(self) -> frozenset[Need] | None:
        """What a session must be allowed to access for the tool to be offered; empty for nothing. None means
        undeclared: refused in any restricted session."""

    @property
    def read_only(self) -> bool:
        """Whether a call changes nothing."""

    def title(self, arguments: dict[str, Any]) -> str:
        """One line that describes a call, from unchecked arguments. Never raises."""


class Tool(ToolFace, Protocol):
    """A tool that runs without approval. Whatever `run` raises becomes an error result for the model."""

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Do the call."""


@runtime_checkable
class AskingTool(ToolFace, Protocol):
    """A tool that may ask for approval before it acts."""

    async def run_approved(self, arguments: dict[str, Any], approve: Approver) -> ToolOutcome:
        """Run the call, after asking `approve` if necessary."""


AnyTool = Tool | AskingTool


@runtime_checkable
class SessionTool(Protocol):
    """A tool that depends on the session."""

    def for_session(self, access: SessionAccess) -> AnyTool:
        """The tool for a session with `access`."""
