"""The events of a conversation: plain values that the TUI, `-p`, `--json` and the tests read alike; and the scope of a
submission, which decides who receives them.

Order within one submission: `message_queued`? (`note_kept`? `session_changed`)? `notes_quoted`? `turn_started`
(`text_delta` | `text_withdrawn` | `reasoning_delta` | `tool_started` (`approval_requested` | `tool_output` |
`subagent_step`)* `tool_finished` | `model_retry` | `model_changed` | `message_finished` | `context_used` |
`memory_written` | `compaction_running` | `compaction_finished` | `message_steered` | `notice` | `plan_ready`)*
`turn_ended`. Calls that somebody else does (`task`) run side by side: all begin before one has finished. What comes
before `turn_started` is the end of a session by the clock, and the quote with which one begins. A slash command yields
`turn_started`, then `command_output`, `session_changed`, `note_kept`, what memory and compaction emit, or `notice`, and
for `/new TEXT` the events of the text. `turn_ended` is always the last one. What belongs to no submission (a reset by
the clock, a note that got another name, a hook that failed) comes by `Runtime.on_event`. The JSON spelling (`clawbot
chat -p TEXT --json`) is one object a line with the tag in `type` and keys in camelCase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct, field

from clawbot.deadline import Cancellation
from clawbot.messages import StopReason, Usage
from clawbot.sessions.entries import MemoryWrite
from clawbot.text.interface import N_, _
from clawbot.text.secrets import kinds_text, left_out

TurnStatus = Literal["done", "interrupted", "failed", "stopped"]
Level = Literal["info", "warning", "error"]
CompactionTrigger = Literal["threshold", "overflow", "manual"]
ResetReason = Literal["/new", "/reset", "daily", "idle"]
NOTHING_TO_COMPACT = N_("There is nothing to compact yet.")
ALREADY_COMPACTED = N_("Nothing was said since the last compaction.")


class _Event(Struct, frozen=True, rename="camel", tag_field="type", kw_only=True):
    """What all events share: their JSON spelling."""


class MessageQueued(_Event, frozen=True, tag="message_queued"):
    """The text waits until the running turn ends, on disk as `unsent_id` (`Runtime.drop_unsent` takes it back).
    `position` 0: it is accepted, and waits until the session that is over has ended."""

    text: str
    position: int
    unsent_id: str = ""


class TurnStarted(_Event, frozen=True, tag="turn_started"):
    """The text is accepted. For a message: it is on disk, as the entry `entry_id`, with what it mentions `attached` (a
    line for each); a command has none."""

    text: str
    session_key: str
    session_id: str
    model: str
    entry_id: str = ""
    attached: tuple[str, ...] = ()


class MessageSteered(_Event, frozen=True, tag="message_steered"):
    """A text that waited, as `unsent_id`, is sent in the running turn: it is on disk as the entry `entry_id`, and the
    next call of the model has it. Its own submission ends with `turn_ended` when this turn has."""

    text: str
    entry_id: str
    unsent_id: str = ""


class TextDelta(_Event, frozen=True, tag="text_delta"):
    """The next part of the reply."""

    text: str


class TextWithdrawn(_Event, frozen=True, tag="text_withdrawn"):
    """What was streamed of this answer so far was the model's reasoning: `text`. The reply follows."""

    text: str


class ReasoningDelta(_Event, frozen=True, tag="reasoning_delta"):
    """The next part of the model's reasoning."""

    text: str


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    """A tool call is about to run. `title` is its one-line form (`edit AGENTS.md`)."""

    call_id: str
    name: str
    title: str
    arguments: dict[str, Any] = field(default_factory=dict)


class ApprovalRequested(_Event, frozen=True, tag="approval_requested"):
    """A tool asks before it acts; answered by `Runtime.answer(request_id, answer)`, and refused when nobody can.

    `pattern` is what the answer "always" would allow from now on; `reach` states what the command can touch, and
    `risks` what it seems to do beyond reading. With a `diff` it is the change of a file that `command` names.
    `network`: the command runs without the network, unless the answer gives it that. `asks` is the question in words
    where `command` is nothing that runs, and can't be changed. `by` names the
    sub-agent that asks, empty for the agent itself.
    """

    request_id: str
    call_id: str
    tool: str
    command: str
    folder: str
    pattern: str
    reach: str = ""
    risks: tuple[str, ...] = ()
    diff: str = ""
    network: bool = False
    asks: str = ""
    by: str = ""


class ToolOutput(_Event, frozen=True, tag="tool_output"):
    """What the running call has printed since the last report: at most ten times a second, and of a flood only the
    end. The full output, within the limit of a result, comes with `tool_finished`."""

    call_id: str
    text: str


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """The result of a call, as the model sees it. `summary` is its short form (`+2 -0`, `2 notes`)."""

    call_id: str
    name: str
    output: str
    is_error: bool = False
    summary: str = ""
    duration_ms: int = 0
    details: Any = None


class MessageFinished(_Event, frozen=True, tag="message_finished"):
    """One answer of the model is complete and on disk: follows its last delta, comes before its tool calls. `reason`
    states why it was cut off, "" for the model's length limit."""

    entry_id: str
    text: str
    stop_reason: StopReason
    usage: Usage | None = None
    reason: str = ""


class ModelRetry(_Event, frozen=True, tag="model_retry"):
    """The call of the model is repeated after `wait` seconds."""

    attempt: int
    wait: float
    reason: str


class ModelLoading(_Event, frozen=True, tag="model_loading"):
    """The call waits while `model`, which is of this machine, is loaded; `done`: it waits no longer."""

    model: str
    done: bool = False


class PromptRead(_Event, frozen=True, tag="prompt_read"):
    """A model of this machine has read `share` per cent of the prompt; None when its server does not report it."""

    share: int | None = None


class ModelChanged(_Event, frozen=True, tag="model_changed"):
    """From here on another model answers: a fallback, or the user's choice. `discard`: text shown so far in this
    answer came from the model that failed."""

    model: str
    reason: str
    discard: bool = False


class ContextUsed(_Event, frozen=True, tag="context_used"):
    """How full the context is, in tokens; `window` 0 when unknown. `cost` is the session's so far, in US dollars,
    None where a price is unknown. `exact` is false while the figure is estimated."""

    tokens: int
    window: int
    exact: bool
    cost: float | None = None


class MemoryWritten(_Event, frozen=True, tag="memory_written"):
    """What mattered was written to memory before it left the context: lines `line` to `end_line` (from 1) of `path`, a
    file of the workspace, `bytes` long. A silent turn that had nothing to write is no event."""

    path: str
    line: int
    end_line: int
    bytes: int


class NotesQuoted(_Event, frozen=True, tag="notes_quoted"):
    """The session begins with a quote of notes, `text`, which precedes the user's first message: `files` of the
    workspace, the newest first. It is the entry `entry_id`. Or it precedes a message to a model without tools."""

    entry_id: str
    files: tuple[str, ...]
    text: str


class NoteKept(_Event, frozen=True, tag="note_kept"):
    """The conversation `session_id` was kept as a note, `path` in the workspace. Comes once more when the note was
    renamed: then `was` is what it was called before."""

    session_id: str
    path: str
    was: str = ""


class CompactionRunning(_Event, frozen=True, tag="compaction_running"):
    """Earlier turns are being summarised: `part` of `parts`, from 1. Comes for each part, and again for one that
    is asked for once more. `trigger` is why."""

    trigger: CompactionTrigger
    part: int = 1
    parts: int = 1


class CompactionFinished(_Event, frozen=True, tag="compaction_finished"):
    """Follows the last `compaction_running`. `done`: from the entry `entry_id` on, `summary` replaces what came
    before, and the context went from `tokens_before` to about `tokens_after`. Else the history is unchanged, and
    `error` states why."""

    trigger: CompactionTrigger
    status: Literal["done", "interrupted", "failed"]
    entry_id: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str = ""
    error: str = ""


class Notice(_Event, frozen=True, tag="notice"):
    """A line for the user about something that happened outside the turns; `path` and `line` give the location."""

    level: Level
    text: str
    path: str | None = None
    line: int | None = None


def warning(text: str) -> Notice:
    """A notice of what the user should see to."""
    return Notice(level="warning", text=text)


def secrets_left_out(write: MemoryWrite) -> Notice:
    """A notice that secrets of what was written were left out, and how the user keeps one all the same."""
    text = _("{secrets} from {file}.").format(secrets=left_out(write.secrets), file=write.path)
    if write.kinds:
        keep = _("It looks like {kinds}; `remember --keep …` keeps it.").format(kinds=kinds_text(write.kinds))
        text = f"{text} {keep}"
    return Notice(level="info", text=text)


class SubagentStep(_Event, frozen=True, tag="subagent_step"):
    """What the sub-agent of the call `parent_call_id` does, which is about `description`: `step`, an event of its own
    session, `session_id`. Of outputs only the start. `calls` and `tokens` are what it called and used so far; tokens
    of a cache don't count. Comes between `tool_started` and `tool_finished` of that call, which may be one of several
    that run side by side, or one of a sub-agent."""

    parent_call_id: str
    session_id: str
    description: str
    calls: int
    tokens: int
    step: ToolStarted | ToolFinished | MessageFinished | ModelRetry | ModelLoading | ModelChanged | Notice


class CommandOutput(_Event, frozen=True, tag="command_output"):
    """The output of a slash command, as Markdown. `data` is the same for programs. `screen` is that of an installed
    package (entry points `clawbot.screens`) which shows it in place of the text, "" for none."""

    command: str
    text: str
    data: Any = None
    screen: str = ""


class SessionChanged(_Event, frozen=True, tag="session_changed"):
    """The conversation goes on in another session (`/new`, a resume)."""

    session_key: str
    session_id: str
    reason: str


class SessionTitled(_Event, frozen=True, tag="session_titled"):
    """The model gave the session a title."""

    session_id: str
    title: str


class PlanReady(_Event, frozen=True, tag="plan_ready"):
    """The turn, in plan mode, ended with a plan: `plan`, as the last answer has it (Markdown). Nothing was changed. Who
    accepts it changes the mode (`Runtime.set_mode`) and sends `acceptance`."""

    plan: str
    acceptance: str


class TurnEnded(_Event, frozen=True, tag="turn_ended"):
    """The submission is over. `error` and `hint` are set when it failed. `stopped`: the limit of tool calls ended it
    before an answer, which a notice reported and `error` repeats."""

    status: TurnStatus
    duration_ms: int = 0
    error_kind: str | None = None
    error: str = ""
    hint: str = ""


Event = (
    MessageQueued
    | TurnStarted
    | MessageSteered
    | TextDelta
    | TextWithdrawn
    | ReasoningDelta
    | ToolStarted
    | ApprovalRequested
    | ToolOutput
    | ToolFinished
    | MessageFinished
    | ModelRetry
    | ModelLoading
    | PromptRead
    | ModelChanged
    | ContextUsed
    | MemoryWritten
    | NotesQuoted
    | NoteKept
    | CompactionRunning
    | CompactionFinished
    | Notice
    | SubagentStep
    | CommandOutput
    | SessionChanged
    | SessionTitled
    | PlanReady
    | TurnEnded
)

Emit = Callable[[Event], None]
Origin = Literal["user", "schedule"]


@dataclass
class Scope:
    """One submission, or one end of the program. `rounds` counts how often its context was made smaller because a
    request did not fit; `compaction_failed`: one failed in it, which is not tried again by itself. `origin` is
    `user` or `schedule`: what a job sends keeps no session alive and ends none. `unsent_id` is the
    one under which its text is kept until a transcript holds it, empty while it is not. `sent`: its text is in the
    transcript, or a command that has begun. `left`: nobody reads its events any more."""

    emit: Emit
    cancel: Cancellation
    rounds: int = 0
    compaction_failed: bool = False
    origin: Origin = "user"
    unsent_id: str = ""
    sent: bool = False
    left: bool = False

    def go_on(self) -> None:
        """What was stopped was not all of it: what comes next may be stopped by itself."""
        self.cancel = Cancellation()


@dataclass(eq=False)
class Waiting:
    """A text that waits for the running turn. `reported`: its reader knows; `sent`: it was sent in that turn, and is
    not accepted by itself."""

    text: str
    scope: Scope
    reported: bool = False
    sent: bool = False


def silent_scope() -> Scope:
    """For what happens while nobody reads events."""
    return Scope(lambda _event: None, Cancellation())
