"""The tool `task`: what a model hands to a sub-agent, and what it gets back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from clawbot.context.prompt import TASK
from clawbot.messages import ToolCallBlock, ToolSpec
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
    """A piece of work."""

    description: Annotated[str, Meta(description="In three to six words, for the user.", min_length=1)]
    prompt: Annotated[str, Meta(min_length=1)]


class Errand(Struct, frozen=True):
    """A call of `task`: `description` names it on the screen, `prompt` is what the sub-agent is told, `approve` asks
    the user on its behalf."""

    call_id: str
    description: str
    prompt: str
    approve: Approver


class TaskTool:
    """`do` has an errand done."""

    def __init__(self, do: Callable[[Errand], Awaitable[ToolOutcome]]) -> None:
        self.spec = ToolSpec(TASK, DESCRIPTION, schema_of(TaskArguments))
        self._do = do

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing by itself: what a sub-agent may know is decided by its own session."""
        return frozenset()

    @property
    def read_only(self) -> bool:
        """No: nobody knows what a sub-agent will do."""
        return False

    def title(self, arguments: dict[str, Any]) -> str:
        """`task DESCRIPTION`."""
        return title_of(TASK, arguments.get("description", ""))

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Refused: without a conversation there is nobody who delegates. Raises ToolError."""
        raise ToolError("A sub-agent works for a conversation; there is none here.")

    async def run_delegated(self, call: ToolCallBlock, approve: Approver, permissions: Permissions) -> ToolOutcome:
        """Have it done, under the permissions of the conversation, which the sub-agent's tools share."""
        given = parse(TaskArguments, call.arguments)
        return await self._do(Errand(call.id, " ".join(given.description.split()), given.prompt, approve))
