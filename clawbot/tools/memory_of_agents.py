"""The memory tools of an agent that may look into the memory of others: the same tools with the argument `agent`.

Who these are is the user's decision (`tools.agents`). Where the settings name nobody, the argument does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.messages import ToolSpec
from clawbot.tools.arguments import one_line
from clawbot.tools.memory import MemoryGetTool, MemorySearchTool, Recall, memory_tools
from clawbot.tools.memory_output import Citations
from clawbot.tools.protocol import AnyTool, SessionAccess, ToolError, ToolOutcome

ARGUMENT = "agent"
_NAMED_CHARS = 100  # what naming the agent adds to an answer at most


class Memory(Struct, frozen=True):
    """The index of one agent, and `max_injected_chars` that one search may bring from it."""

    index: Recall
    max_injected_chars: int


def memory_tools_of_agents(
    own_id: str, memories: Mapping[str, Memory], *, output_max_chars: int, citations: Citations
) -> tuple[AnyTool, ...]:
    """`memory_search` and `memory_get` over `memories` by agent, of which that of `own_id` is searched when none is
    named. The other arguments are those of `memory_tools`."""
    room = output_max_chars if len(memories) == 1 else max(output_max_chars - _NAMED_CHARS, 1)
    tools = {
        agent_id: memory_tools(
            memory.index,
            max_injected_chars=memory.max_injected_chars,
            output_max_chars=room,
            citations=citations,
        )
        for agent_id, memory in memories.items()
    }
    if len(tools) == 1:
        return tools[own_id]
    searches = {agent_id: search for agent_id, (search, _) in tools.items()}
    readers = {agent_id: reader for agent_id, (_, reader) in tools.items()}
    return _ByAgent(own_id, searches), _ByAgent(own_id, readers)


class _ByAgent:
    """One of the memory tools of several agents. Implements `Tool` and `SessionTool`."""

    read_only = True

    def __init__(self, own_id: str, tools: Mapping[str, MemorySearchTool | MemoryGetTool]) -> None:
        self._own_id = own_id
        self._tools = tools
        self._own = tools[own_id]

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        own = self._own.spec
        others = ", ".join(agent_id for agent_id in self._tools if agent_id != self._own_id)
        argument = {
            "type": "string",
            "enum": list(self._tools),
            "default": self._own_id,
            "description": f"Whose memory: your own ({self._own_id}), or that of another agent ({others}).",
        }
        properties = own.parameters["properties"] | {ARGUMENT: argument}
        return ToolSpec(own.name, own.description, own.parameters | {"properties": properties})

    def for_session(self, access: SessionAccess) -> _ByAgent:
        """The tool as a session with `access` may use it."""
        tools = {
            agent_id: tool.for_session(access) if isinstance(tool, MemorySearchTool) else tool
            for agent_id, tool in self._tools.items()
        }
        return _ByAgent(self._own_id, tools)

    def title(self, arguments: dict[str, Any]) -> str:
        """The title of the call, and the agent where it is another one."""
        asked = arguments.get(ARGUMENT) or self._own_id
        title = self._own.title(arguments)
        return title if asked == self._own_id else one_line(f"{title} (agent {asked})")

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Ask the memory of the agent that is named. Raises ToolError for one that may not be asked."""
        asked = arguments.get(ARGUMENT) or self._own_id
        tool = self._tools.get(asked) if isinstance(asked, str) else None
        if tool is None:
            known = ", ".join(self._tools)
            raise ToolError(
                f"`{ARGUMENT}` is {one_line(repr(asked))}: its memory is not open to you. Possible: {known}."
            )
        outcome = await tool.run({name: value for name, value in arguments.items() if name != ARGUMENT})
        return outcome if asked == self._own_id else _named(outcome, asked)


def _named(outcome: ToolOutcome, agent_id: str) -> ToolOutcome:
    """`outcome` with the agent whose memory it is from, for the model and for the screen."""
    text = msgspec.json.encode({ARGUMENT: agent_id} | msgspec.json.decode(outcome.text)).decode()
    notes = [f"From the memory of agent {agent_id}.", *outcome.details["notes"]]
    return ToolOutcome(text, outcome.is_error, outcome.summary, outcome.details | {"notes": notes})
