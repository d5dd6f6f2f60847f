"""The program's paths: the state folder ($CLAWBOT_HOME) and the shipped files."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

import clawbot
from clawbot.config.errors import config_error
from clawbot.files import digest_of, ensure_private_dir, sweep_asides
from clawbot.text.names import fold_name

MAIN_AGENT = "main"
# The entry of `agents` shared by all agents; no agent may have this name.
DEFAULTS = "defaults"

_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
# With a prefix such as `workspace-` an id is below the file system's limit of 255 bytes.
_MAX_ID_CHARS = 64


def check_agent_id(agent_id: str) -> str:
    """Return `agent_id`, or raise ConfigError if it is not a valid id: it becomes part of paths."""
    if agent_id == DEFAULTS:
        raise config_error("", f"`{DEFAULTS}` holds what all agents share and is not an agent")
    if not _AGENT_ID.fullmatch(agent_id) or len(agent_id) > _MAX_ID_CHARS:
        raise config_error(
            "",
            f"{agent_id!r} is no agent id: expected a letter or digit, then a-z, 0-9, _ or -; {_MAX_ID_CHARS} at most",
        )
    return agent_id


def find_home() -> Path:
    """The state folder: $CLAWBOT_HOME, or ~/.clawbot, as an absolute path. It may not exist yet. Raises ConfigError."""
    named = os.environ.get("CLAWBOT_HOME", "").strip()
    try:
        return Path(named or "~/.clawbot").expanduser().absolute()
    except RuntimeError as error:
        raise config_error(
            "CLAWBOT_HOME", f"the home folder cannot be found ({error})", hint="Set CLAWBOT_HOME to a folder."
        ) from error
    except FileNotFoundError as error:
        raise config_error(
            "CLAWBOT_HOME",
            f"{named} is relative, and the current folder is gone",
            hint="Change to another folder, or use an absolute path.",
        ) from error


class Paths:
    """All paths in the state folder `home`. Agent ids are checked; only `ensure_home` creates anything."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config_file = home / "config.yaml"
        self.env_file = home / ".env"
        self.logs = home / "logs"
        self.log_file = self.logs / "clawbot.log"
        self.agents = home / "agents"
        self.hooks = home / "hooks"
        self.switches_file = home / "hooks.json"
        self.skills = home / "skills"
        self.skills_file = home / "skills.json"
        self.mcp_file = home / "mcp.json"
        self.mcp_tools = home / "mcp-tools"
        self.schedule_file = home / "schedule.json"
        self.jobs_file = home / "jobs.json"
        self.history_file = home / "history.jsonl"
        self.theme_file = home / "look.json"
        self.drafts_file = home / "drafts.json"
        self.run = home / "run"
        self.workspaces = home / "workspaces"
        self.models = home / "models"
        self.local_file = home / "local.json"
        self.imports = home / "imports"
        self.servers_file = home / "servers.json"
        self.serve_token = home / "serve.token"
        self.local_log = self.logs / "local-model.log"

    def ensure_home(self) -> None:
        """Create the state folder, and remove what killed processes left in it. Raises ConfigError if it can't be
        created or written. Blocks."""
        try:
            ensure_private_dir(self.home)
            if not os.access(self.home, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "not writable", str(self.home))
        except OSError as error:
            what = "" if error.filename == str(self.home) else f"{error.filename}: "
            raise config_error(
                str(self.home),
                f"the state folder cannot be used: {what}{error.strerror or error}",
                hint="Fix that, or set CLAWBOT_HOME to a writable folder.",
            ) from error
        own = (self.home, self.models, self.imports, self.run, self.workspaces, self.mcp_tools)
        for folder in (*own, *self.agents.glob("*/sessions")):
            sweep_asides(folder)

    def sessions(self, agent_id: str) -> Path:
        """Return the folder of an agent's transcripts and their index."""
        return self.agents / check_agent_id(agent_id) / "sessions"

    def workspace(self, agent_id: str) -> Path:
        """Return the default workspace of an agent."""
        return self.home / ("workspace" if agent_id == MAIN_AGENT else f"workspace-{check_agent_id(agent_id)}")

    def workspace_record(self, workspace: Path) -> Path:
        """The record of the first run of `workspace`, named by its real path, relative to the state folder if it is in
        there. Blocks."""
        real, home = Path(os.path.realpath(workspace)), Path(os.path.realpath(self.home))
        name = real.relative_to(home) if real.is_relative_to(home) else real
        return self.workspaces / f"{digest_of(os.fsencode(name))[:24]}.json"

    def memory_db(self, agent_id: str) -> Path:
        """Return the memory index of an agent."""
        return self.home / "memory" / f"{check_agent_id(agent_id)}.sqlite"

    def memory_history(self, agent_id: str) -> Path:
        """Return the folder with the history of an agent's memory files."""
        return self.home / "memory" / ".history" / check_agent_id(agent_id)


def shipped(name: str) -> Path:
    """Return the file or folder `name` shipped with the program (`config.yaml`, `hooks`, `workspace_template`).

    A wheel has them inside the package, a checkout at its top. Raises ConfigError if neither has it.
    """
    package = Path(clawbot.__file__).parent
    for found in (package / "shipped" / name, package.parent / name):
        if found.exists():
            return found
    raise config_error(str(package), f"the installation lacks {name}", hint="Repeat the installation from its folder.")


INSTRUCTIONS = ("AGENTS.md", "SOUL.md", "TOOLS.md", "HEARTBEAT.md", "BOOTSTRAP.md", "BOOT.md")
"""Files with instructions. They are part of the system prompt, except HEARTBEAT.md (read by heartbeats) and BOOT.md
(followed by the hook boot-md). IDENTITY.md, USER.md, MEMORY.md and the notes are not among them: their content is
information rather than orders, and the agent writes it itself."""
UNASKED = ("IDENTITY.md", "USER.md", "MEMORY.md")
"""The other workspace files in the prompt; they are written without asking."""

_INSTRUCTIONS = frozenset(map(fold_name, INSTRUCTIONS))


def is_instruction(parts: Iterable[str]) -> bool:
    """Whether the path `parts`, relative to a workspace, is named like an instruction file, in any folder and any case:
    hooks add such files of other folders to the prompt. Folders with such a name count too: they would block the file.
    """
    return any(fold_name(part) in _INSTRUCTIONS for part in parts)
