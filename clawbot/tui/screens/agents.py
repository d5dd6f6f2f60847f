"""The agents of the settings: one is talked to, another can be chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from clawbot.tui.render.sanitize import clean_line
from clawbot.tui.screens.parts import Key
from clawbot.tui.screens.picker import PickerScreen, Row

if TYPE_CHECKING:
    from clawbot.agent.views import AgentInfo
    from clawbot.runtime import Runtime

# The id of the row that is no agent; no id starts with a space.
HOW_TO_ADD = " add"


class AgentsScreen(PickerScreen[str]):
    """Gives the id of the agent to go on with, or None."""

    heading = "agent"
    keys: ClassVar = (Key("enter", "talk to it", "screen.choose"), Key("esc", "back", "screen.back"))

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self.runtime = runtime

    async def load(self) -> list[Row]:
        """The agents, main first."""
        return [agent_row(agent) for agent in self.runtime.agents]

    def fixed_rows(self, query: str) -> list[Row]:
        """How there can be another one, where there is but one."""
        if query or len(self.runtime.agents) > 1:
            return []
        how = f"write `agents: {{work: {{}}}}` into {clean_line(str(self.runtime.paths.config_file))}, then /agent work"
        return [Row(HOW_TO_ADD, "this is the only agent; another one …", how, mark="+")]

    def first_choice(self, query: str) -> int:
        """The agent that is talked to."""
        current = next((agent.agent_id for agent in self.runtime.agents if agent.current), "")
        return next((index for index, row in enumerate(self.shown) if row.id == current and not query), 0)

    def chosen(self, row: Row) -> None:
        """Give the agent back; nothing changes for the one that is talked to."""
        if row.id != HOW_TO_ADD:
            self.dismiss(None if row.mark == "●" else row.id)


def agent_row(agent: AgentInfo) -> Row:
    """An agent as a row: where it works, which model answers."""
    details = ["this one" if agent.current else "", clean_line(agent.model), clean_line(str(agent.workspace))]
    mark = "●" if agent.current else "○"
    return Row(agent.agent_id, agent.agent_id, " · ".join(part for part in details if part), mark=mark)
