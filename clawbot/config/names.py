"""Names in the settings that are known without the models: agents, and the memory backends of the program."""

from __future__ import annotations

import itertools
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.config.errors import config_error, nearest
from clawbot.config.paths import DEFAULTS, MAIN_AGENT, check_agent_id

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings

BUILTIN_BACKEND = "builtin"
MILVUS_BACKEND = "milvus"
OWN_BACKENDS = (BUILTIN_BACKEND, "qmd", MILVUS_BACKEND)
"""The backends that come with the program."""


def free_name(name: str, taken: Container[str]) -> str:
    """Return `name`, or the first of `name-2`, `name-3`, … that is not `taken`."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in names if each not in taken)


class AgentLookup:
    """The agents of settings, `agents` by id, and which of them there are."""

    if TYPE_CHECKING:
        agents: dict[str, AgentSettings]

    @property
    def agent_ids(self) -> list[str]:
        """All agents, main first."""
        return [MAIN_AGENT, *(name for name in self.agents if name not in (DEFAULTS, MAIN_AGENT))]

    @property
    def workspaces(self) -> list[Path]:
        return [self.agent(agent_id).workspace for agent_id in self.agent_ids]

    def allowed_agents(self, agent_id: str) -> list[str]:
        """Return the other agents whose workspace `agent_id` may read and whose memory it may search."""
        return [other for other in dict.fromkeys(self.agent(agent_id).tools.agents) if other != agent_id]

    def agent(self, agent_id: str) -> AgentSettings:
        """The settings of `agent_id`: its own entry over the defaults. Raises ConfigError for an unknown agent."""
        if agent_id in self.agents and agent_id != DEFAULTS:
            return self.agents[agent_id]
        check_agent_id(agent_id)
        near = nearest(agent_id, self.agent_ids)
        hint = f"Did you mean {near}?" if near else f"Add `agents: {{{agent_id}: {{}}}}` to your config.yaml first."
        raise config_error("", f"there is no agent {agent_id!r} (there are: {', '.join(self.agent_ids)})", hint=hint)
