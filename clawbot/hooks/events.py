"""The events that hooks receive: one value type for each moment of a session, documented in docs/writing-hooks.md.

An event describes what happens; `event.hook` offers what a hook can do (`api.py`). The fields that a hook may change
are documented; changes of others are ignored. Secrets are redacted (`text/secrets.py`) except in changeable fields.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, cast
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from clawbot.hooks.api import Hook


class HookEvent(Struct, kw_only=True, rename="camel", tag_field="type", dict=True):
    """The fields of all events. `timestamp` is in the user's zone, called `zone` ("Europe/Berlin"); `workspace` and
    `home` (the state folder) are absolute paths; the session fields are "" if the event is about none."""

    agent_id: str
    workspace: str
    home: str
    timestamp: datetime
    zone: str = ""
    session_key: str = ""
    session_id: str = ""

    changeable: ClassVar[tuple[str, ...]] = ()
    """The fields that a hook may change."""

    @property
    def topic(self) -> str:
        """The name to subscribe to in HOOK.md: this, or its part before the colon for the entire family."""
        return cast("str", self.__struct_config__.tag)

    @property
    def hook(self) -> Hook:
        """What the hook that handles the event can do."""
        return cast("Hook", self.__dict__["hook"])


def common_fields(agent_id: str, workspace: Path, home: Path, now: datetime) -> dict[str, Any]:
    """Return the fields of an event at `now`, without those of its session."""
    zone = now.tzinfo.key if isinstance(now.tzinfo, ZoneInfo) else now.tzname() or ""
    return {"agent_id": agent_id, "workspace": str(workspace), "home": str(home), "timestamp": now, "zone": zone}


class AwaitedEvent(HookEvent, kw_only=True):
    """The program waits for the hooks, because they may change something or must finish first."""


class PassingEvent(HookEvent, kw_only=True):
    """The program goes on at once; the hooks are notified in the background."""


class CommandNew(AwaitedEvent, kw_only=True, tag="command:new"):
    """The user typed `/new`. The ending session is still open: `event.hook.said()` reads it. `text` follows the command
    and becomes the first message of the next session."""

    text: str = ""


class CommandReset(AwaitedEvent, kw_only=True, tag="command:reset"):
    """The user typed `/reset`. Like `CommandNew`."""

    text: str = ""


class SessionAutoReset(AwaitedEvent, kw_only=True, tag="session:auto-reset"):
    """A session ends automatically: `reason` is `daily` or `idle`. It is still open, as with `CommandNew`."""

    reason: str


class SessionStart(PassingEvent, kw_only=True, tag="session:start"):
    """A session begins: `reason` is `new` (the first one of its name), `/new`, `/reset`, `daily`, `idle` or `fork`.
    `previous_id` is the session before it ("" for none)."""

    reason: str
    previous_id: str = ""


class SessionEnd(PassingEvent, kw_only=True, tag="session:end"):
    """A session has ended for good: `reason` is `/new`, `/reset`, `daily` or `idle`. `transcript` is its file."""

    reason: str
    transcript: str = ""


class InjectedFile(Struct, rename="camel"):
    """A workspace file to be added to the system prompt: `name` is its path relative to the workspace."""

    name: str
    text: str


class AgentBootstrap(AwaitedEvent, kw_only=True, tag="agent:bootstrap"):
    """The system prompt of a turn is being built. Hooks may edit, add and remove `files`; size limits and the privacy
    rules of the session type are applied afterwards. A file without a name is ignored."""

    files: list[InjectedFile] = field(default_factory=list)
    changeable: ClassVar[tuple[str, ...]] = ("files",)


class MessageReceived(PassingEvent, kw_only=True, tag="message:received"):
    """A message was stored and goes to the model. `origin` is `user`, or `schedule` for a job's prompt."""

    text: str
    entry_id: str
    origin: str = "user"


class MessageSent(PassingEvent, kw_only=True, tag="message:sent"):
    """An answer is complete. Not emitted for silent replies and for text before a tool call."""

    text: str
    entry_id: str
    model: str


class ToolBefore(AwaitedEvent, kw_only=True, tag="tool:before"):
    """A tool is about to run. `refuse` prevents it."""

    call_id: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    refusal: str = ""
    changeable: ClassVar[tuple[str, ...]] = ("refusal",)

    def refuse(self, reason: str) -> None:
        """Prevent the call; the model gets `reason`."""
        self.refusal = reason or "A hook refused it."


class ToolAfter(PassingEvent, kw_only=True, tag="tool:after"):
    """A tool has run. `output` is what the model sees."""

    call_id: str
    tool: str
    output: str
    arguments: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False
    duration_ms: int = 0


class ContextFlush(PassingEvent, kw_only=True, tag="context:flush"):
    """Memory was offered the text that is about to leave the context. `exit` is why (threshold, overflow, manual,
    reset, quit), `by` who took it, `result` the outcome (written, nothing, failed, interrupted), `files` where it was
    written."""

    exit: str
    by: str
    result: str
    files: list[str] = field(default_factory=list)
    error: str = ""


class CompactBefore(PassingEvent, kw_only=True, tag="context:compact:before"):
    """Earlier turns are about to be summarised. `trigger` is threshold, overflow or manual."""

    trigger: str
    tokens: int


class CompactAfter(PassingEvent, kw_only=True, tag="context:compact:after"):
    """Earlier turns were summarised, or summarising failed: `status` is done, interrupted or failed."""

    trigger: str
    status: str
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str = ""
    error: str = ""


class RuntimeStart(PassingEvent, kw_only=True, tag="runtime:start"):
    """The program is ready. `interactive`: a user is at a screen."""

    interactive: bool


class RuntimeStop(AwaitedEvent, kw_only=True, tag="runtime:stop"):
    """The program is exiting. It waits briefly for the hooks."""


class ScheduledJob(AwaitedEvent, kw_only=True, tag="schedule"):
    """A scheduled job with an event is due; the topic is `schedule:NAME`."""

    job: str
    name: str

    @property
    def topic(self) -> str:
        return f"schedule:{self.name}"


AnyEvent = (
    CommandNew
    | CommandReset
    | SessionAutoReset
    | SessionStart
    | SessionEnd
    | AgentBootstrap
    | MessageReceived
    | MessageSent
    | ToolBefore
    | ToolAfter
    | ContextFlush
    | CompactBefore
    | CompactAfter
    | RuntimeStart
    | RuntimeStop
    | ScheduledJob
)
