"""The fence around one agent: what of the disk is another agent's, the program's own, or code that runs as a hook.

Reference sheet 18: each agent has a workspace, sessions and an index of its own. Held here in code, not by prompts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct

from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.tools.fence import RUNNING_HOOK, Barred, Fence

_STATE = "it belongs to the state of the program, which file tools don't touch"


class Neighbour(Struct, frozen=True):
    """Another agent with a workspace of its own; `allowed`: named in `tools.agents`."""

    agent_id: str
    workspace: Path
    sessions: Path
    allowed: bool


def neighbours(settings: Settings, agent_id: str, paths: Paths) -> list[Neighbour]:
    """The other agents, without those that the settings give the same workspace: these share it. Blocks."""
    own = settings.agent(agent_id).workspace
    allowed = settings.allowed_agents(agent_id)
    others = [(other, settings.agent(other).workspace) for other in settings.agent_ids if other != agent_id]
    return [
        Neighbour(other, workspace, paths.sessions(other), other in allowed)
        for other, workspace in others
        if not _same_folder(workspace, own)
    ]


def agent_fence(
    settings: Settings, agent_id: str, paths: Paths, hook_folders: Callable[[], Collection[Path]] | None = None
) -> Fence:
    """What the file tools of `agent_id` may reach. Blocks.

    Another agent's workspace is out of reach, or can be read where `tools.agents` names that agent. The state folder
    is out of reach but for workspaces in it. `hook_folders` tells at each call the folders of the hooks that are
    enabled, which can be read only.
    """
    others = neighbours(settings, agent_id, paths)
    readable = tuple(other.workspace for other in others if other.allowed)
    foreign = [
        _foreign(agent_id, other.agent_id, other.workspace)
        for other in others
        # Of two others that share a workspace, one may be allowed.
        if not any(_same_folder(other.workspace, folder) for folder in readable)
    ]
    return Fence(
        readable=readable,
        denied=(*foreign, *_state(settings, paths)),
        unwritable=tuple(_hooks(settings, agent_id)),
        hook_folders=hook_folders,
    )


def foreign_fence(settings: Settings, agent_id: str, paths: Paths) -> Fence:
    """What of other agents the memory of `agent_id` must not take in: workspaces and sessions, of all that
    `tools.agents` does not name. Blocks."""
    others = neighbours(settings, agent_id, paths)
    barred = [
        _foreign(agent_id, other.agent_id, folder)
        for other in others
        if not other.allowed
        for folder in (other.workspace, other.sessions)
    ]
    return Fence(readable=tuple(other.workspace for other in others if other.allowed), denied=tuple(barred))


def _foreign(agent_id: str, other: str, folder: Path) -> Barred:
    return Barred(folder, f"it belongs to agent {other} (agents.{agent_id}.tools.agents: [{other}] lets it be read)")


def _state(settings: Settings, paths: Paths) -> Iterator[Barred]:
    yield from (Barred(place, _STATE) for place in (paths.agents, paths.hooks, paths.logs))
    # With the copies that editors keep of them.
    yield from (Barred(paths.home, _STATE, pattern=f"{file.name}*") for file in (paths.env_file, paths.config_file))
    # Where the workspace of an agent is the state folder, its notes lie beside the indexes.
    yield Barred(paths.memory_db("main").parent, _STATE, pattern="*.sqlite*")
    # A workspace may lie in `agents`; what is kept there is named once more, so that it is further in.
    yield from (Barred(paths.sessions(agent_id), _STATE) for agent_id in settings.agent_ids)


def _hooks(settings: Settings, agent_id: str) -> Iterator[Barred]:
    """Where code is taken from that runs: the folders of the settings, and in the workspace the hooks enabled by name,
    also those that are not written yet."""
    yield from (Barred(folder, RUNNING_HOOK) for folder in settings.hooks.dirs)
    own = settings.agent(agent_id).workspace / "hooks"
    entries = settings.hooks.entries.__pydantic_extra__
    yield from (Barred(own / name, RUNNING_HOOK) for name, entry in entries.items() if entry.enabled)


def _same_folder(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False  # one of them is not there
