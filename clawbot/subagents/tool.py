"""The tool `task`: what a model passes to a sub-agent, and its progress as events and as the details of the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from clawbot.agent.events import (
    Event,
    MessageFinished,
    ModelChanged,
    ModelLoading,
    ModelRetry,
    Notice,
    SubagentStep,
    ToolFinished,
    ToolStarted,
)
from clawbot.context.prompt import TASK
from clawbot.messages import ToolCallBlock, ToolSpec, Usage
from clawbot.text.visible import title_of
from clawbot.tools.arguments import Arguments, parse, schema_of
from clawbot.tools.permissions import Permissions
from clawbot.tools.protocol import Approver, Need, ToolError, ToolOutcome

DESCRIPTION = (
    "Hand a piece of work to a sub-agent, which has a fresh context, works in the same workspace and returns one "
    "report. For searching or reading much of which only the result matters; several calls in one answer run at the "
    "same time. It knows nothing of this talk, nor the notes: the prompt says all it needs, and what to report."
)


class TaskArguments(Arguments, frozen=True):
    """The arguments of `task`."""

    description: Annotated[str, Meta(description="In three to six words, for the user.", min_length=1)]
    prompt: Annotated[str, Meta(min_length=1)]


class Task(Struct, frozen=True):
    """A call of `task`: `description` names it on the screen, `prompt` is for the sub-agent, `approve` asks the user on
    its behalf."""

    call_id: str
    description: str
    prompt: str
    approve: Approver


class TaskTool:
    """Passes each call to `run_task`."""

    def __init__(self, run_task: Callable[[Task], Awaitable[ToolOutcome]]) -> None:
        self.spec = ToolSpec(TASK, DESCRIPTION, schema_of(TaskArguments))
        self._run_task = run_task

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing by itself: what a sub-agent may know is decided by its own session."""
        return frozenset()

    @property
    def read_only(self) -> bool:
        """No: nobody knows what a sub-agent will do."""
        return False

    def title(self, arguments: dict[str, Any]) -> str:
        """Return `task DESCRIPTION`."""
        return title_of(TASK, arguments.get("description", ""))

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Refused: without a conversation there is nobody who delegates. Raises ToolError."""
        raise ToolError("A sub-agent works for a conversation; there is none here.")

    async def run_delegated(self, call: ToolCallBlock, approve: Approver, permissions: Permissions) -> ToolOutcome:
        """Run it under the permissions of the conversation, which the sub-agent's tools share."""
        given = parse(TaskArguments, call.arguments)
        return await self._run_task(Task(call.id, " ".join(given.description.split()), given.prompt, approve))


MAX_OUTPUT_CHARS = 400  # of an output in a step
MAX_CALLS = 100  # saved with the result, for the unfolded card
STEPS = (ToolStarted, ToolFinished, MessageFinished, ModelRetry, ModelLoading, ModelChanged, Notice)


class Progress:
    """The calls and tokens of the sub-agent of the call `call_id`, which is about `description`."""

    def __init__(self, call_id: str, description: str, session_id: str) -> None:
        self._call_id = call_id
        self._description = description
        self._session_id = session_id
        self._calls: dict[str, dict[str, Any]] = {}
        self.calls = 0
        self.tokens = 0

    def take(self, event: Event) -> SubagentStep | None:
        """Return the step for `event`; None for one that is none. A step of a sub-agent of its own is passed on."""
        if isinstance(event, SubagentStep):
            return event
        if not isinstance(event, STEPS):
            return None
        match event:
            case ToolStarted(call_id=call_id, title=title):
                self.calls += 1
                self._calls[call_id] = {"title": title, "state": "stopped"}
            case ToolFinished(call_id=call_id) as done:
                self._finished(call_id, done)
                event = structs.replace(done, output=done.output[:MAX_OUTPUT_CHARS], details=None)
            case MessageFinished(usage=Usage() as usage):
                self.tokens += usage.input + usage.cache_write + usage.output
            case _:
                pass
        return SubagentStep(
            parent_call_id=self._call_id,
            session_id=self._session_id,
            description=self._description,
            calls=self.calls,
            tokens=self.tokens,
            step=event,
        )

    def _finished(self, call_id: str, done: ToolFinished) -> None:
        declined = isinstance(done.details, dict) and done.details.get("declined") is True
        state = "declined" if declined else "failed" if done.is_error else "done"
        self._calls.setdefault(call_id, {"title": done.name}).update(state=state, summary=done.summary)

    @property
    def details(self) -> dict[str, Any]:
        """The details of the result, for the screen."""
        calls = list(self._calls.values())[:MAX_CALLS]
        subagent = {"sessionId": self._session_id, "calls": calls, "count": self.calls, "tokens": self.tokens}
        return {"subagent": subagent}

    @property
    def summary(self) -> str:
        """`3 calls, 12,400 tokens`."""
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        return f"{calls}, {self.tokens:,} tokens" if self.tokens else calls
