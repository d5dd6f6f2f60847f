"""The fence of one agent: which paths belong to other agents, to the program, to its configuration, or to hooks.

Each agent has its own workspace, sessions and index; this is enforced here in code, not by prompts.
"""

from __future__ import annotations

import glob
import itertools
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

import clawbot
from clawbot.config.paths import Paths, shipped
from clawbot.config.schema import Settings
from clawbot.config.schema_extensions import HookSettings
from clawbot.llm.models import SCRIPT
from clawbot.tools.fence import RUNNING_HOOK, SKILL, Barred, Fence
from clawbot.tools.sandbox.journal import FOLDER as JOURNALS

_STATE = "it belongs to the state of the program, which file tools don't touch"
_CONFIGURATION = "it is configuration of the program, which only the user reads and changes"
_SCRIPT = "it plays a model by the settings, so only the user changes it"
_PROGRAM = "it belongs to the program that runs, so only the user changes it"


class Neighbour(Struct, frozen=True):
    """Another agent with its own workspace; `allowed`: listed in `tools.agents`."""

    agent_id: str
    workspace: Path
    sessions: Path
    allowed: bool


def neighbours(settings: Settings, agent_id: str, paths: Paths) -> list[Neighbour]:
    """The other agents, except those that share the same workspace. Blocks."""
    own = settings.agent(agent_id).workspace
    allowed = settings.allowed_agents(agent_id)
    others = [(other, settings.agent(other).workspace) for other in settings.agent_ids if other != agent_id]
    return [
        Neighbour(other, workspace, paths.sessions(other), other in allowed)
        for other, workspace in others
        if not _same_folder(workspace, own)
    ]


def agent_fence(
    settings: Settings,
    agent_id: str,
    paths: Paths,
    hook_folders: Callable[[], Collection[Path]] = tuple,
    *,
    skill_folders: Callable[[], Collection[Path]] = tuple,
    config_file: Path | None = None,
    model: str | None = None,
) -> Fence:
    """The fence for the file tools of `agent_id`. Blocks.

    Another agent's workspace is denied, or readable if `tools.agents` lists that agent. The state folder is denied
    except for workspaces in it, and so is configuration anywhere: `config_file` is the one of the command line.
    `hook_folders` returns, at each call, the folders of enabled hooks, which are read-only; so are the program itself
    and the scripts of scripted models: from the settings, or `model` from the command line. `skill_folders` does the
    same for enabled skills, which can be read in the state folder too.
    """
    others = neighbours(settings, agent_id, paths)
    readable = tuple(other.workspace for other in others if other.allowed)
    foreign = [
        _foreign(agent_id, other.agent_id, other.workspace)
        for other in others
        # If two others share a workspace, only one of them may be allowed.
        if not any(_same_folder(other.workspace, folder) for folder in readable)
    ]
    workspace = settings.agent(agent_id).workspace
    files = [file for file in (paths.config_file, paths.env_file, config_file) if file is not None]
    return Fence(
        readable=readable,
        denied=(*foreign, *_state(settings, paths, workspace), *_configuration(files)),
        unwritable=(
            *(Barred(folder, RUNNING_HOOK) for folder in hook_places(settings.hooks, workspace)),
            *(Barred(folder, SKILL) for folder in (paths.skills, *settings.skills.dirs)),
            *_scripts(settings, model),
            *_program(workspace),
        ),
        hook_folders=hook_folders,
        skill_folders=skill_folders,
    )


def foreign_fence(settings: Settings, agent_id: str, paths: Paths) -> Fence:
    """Files of other agents that the memory of `agent_id` must not index: workspaces and sessions of agents not listed
    in `tools.agents`. Blocks."""
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


def _state(settings: Settings, paths: Paths, workspace: Path) -> Iterator[Barred]:
    if not _same_folder(paths.home, workspace):
        # Only the following entries are worth detecting by other names (hard links).
        yield Barred(paths.home, _STATE, twins=False)
    folders = (paths.agents, paths.hooks, paths.logs, paths.mcp_tools, paths.workspaces, paths.home / JOURNALS)
    yield from (Barred(place, _STATE) for place in folders)
    # Including editors' backup copies and lock files.
    programs = (paths.config_file, paths.switches_file, paths.skills_file, paths.mcp_file)
    files = (paths.env_file, *programs, paths.schedule_file, paths.history_file)
    yield from (Barred(paths.home, _STATE, pattern=f"{file.name}*") for file in files)
    # If an agent's workspace is the state folder, its notes lie beside the indexes.
    yield Barred(paths.memory_db("main").parent, _STATE, pattern="*.sqlite*")
    # A workspace may lie inside `agents`; list the sessions again, so that they are the inner rule.
    yield from (Barred(paths.sessions(agent_id), _STATE) for agent_id in settings.agent_ids)


def _configuration(files: Iterable[Path]) -> Iterator[Barred]:
    """Each of `files`, with links in its path resolved at each call, and its copies."""
    for file in files:
        yield Barred(file, _CONFIGURATION)
        real = Path(os.path.realpath(file))
        name = glob.escape(real.name)
        # Editors' copies: `config.yaml~`, `config.yaml.bak`, `.config.yaml.swp`.
        yield from (Barred(real.parent, _CONFIGURATION, pattern=copy) for copy in (f"{name}[.~]*", f".{name}.*"))


def _scripts(settings: Settings, model: str | None) -> Iterator[Barred]:
    """The scripts of scripted models, which the model must not write: those of all agents, since one agent may be able
    to write where another's script lies."""
    for text in (model, *_texts(settings.model_dump())):
        if text and text.startswith(SCRIPT):
            yield Barred(Path(text.removeprefix(SCRIPT)).expanduser().absolute(), _SCRIPT)


def _texts(value: Any) -> Iterator[str]:
    """All strings in nested data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from itertools.chain.from_iterable(map(_texts, value.values()))
    elif isinstance(value, list | tuple):
        yield from itertools.chain.from_iterable(map(_texts, value))


def _program(workspace: Path) -> Iterator[Barred]:
    """The code of the next start: the package, its settings, and the Python environment, possibly inside the
    workspace."""
    places = (Path(clawbot.__file__).parent, shipped("config.yaml"), Path(sys.prefix))
    yield from (Barred(place, _PROGRAM) for place in places if not _same_folder(place, workspace))


def hook_places(hooks: HookSettings, workspace: Path) -> list[Path]:
    """The locations of hook code: the configured folders, and in `workspace` the hooks enabled by name, existing or
    not."""
    entries = hooks.entries.__pydantic_extra__
    return [*hooks.dirs, *(workspace / "hooks" / name for name, entry in entries.items() if entry.enabled)]


def _same_folder(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False  # one of them does not exist
