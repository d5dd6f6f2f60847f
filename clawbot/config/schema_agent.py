"""The settings of one agent: its model, its tools and its workspace."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from clawbot.config.schema_context import (
    BootstrapSettings,
    CompactionSettings,
    ContextPruningSettings,
    StartupContextSettings,
)
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.config.values import (
    Duration,
    ModelRef,
    Positive,
    Secret,
    SettingsSection,
    Size,
    StatePath,
    VariableName,
    ZoneName,
    expand_tilde,
)

Bytes = Annotated[Size, Field(ge=1)]
TildeGlob = Annotated[str, AfterValidator(lambda value: str(expand_tilde(value)))]


def _check_hidden(value: str) -> str:
    """`value`, a glob; raises ValueError where it is the whole disk or the whole workspace."""
    if set(PurePath(value).parts) <= {"/", "//", "*", "**"}:
        raise ValueError(f"{value!r} would hide everything that commands need; name folders or files in it")
    return value


HiddenGlob = Annotated[TildeGlob, AfterValidator(_check_hidden)]


class RetrySettings(SettingsSection):
    """How a call of a model is repeated after a rate limit, a server error or a lost connection."""

    attempts: Positive = 4
    """Calls altogether; 1 for no repetition."""
    first_wait: Duration = 1.0
    """The wait before the second call; it doubles each time."""
    max_wait: Duration = 30.0
    """The longest wait."""


class LimitSettings(SettingsSection):
    """Limits of a command in the sandbox. null for none; the system's own hold in any case."""

    processes: Positive | None = 2048
    """Processes and threads of one command. Holds on Linux from 5.14 on, and not for root."""
    memory: Bytes | None = 8 * 1024**3
    """What one process may fill."""
    file_size: Bytes | None = 8 * 1024**3
    """The size of one file."""
    scratch: Bytes = 2 * 1024**3
    """What /tmp holds, which each command has to itself and which is in memory; the same for /dev/shm."""


class ShellSettings(SettingsSection):
    """The tool `shell`."""

    approval: Literal["ask", "allow", "deny"] = "ask"
    """`ask` before each command, `allow` all, or `deny` all."""
    ask: Literal["always", "risky"] = "always"
    """`risky`: in the sandbox, commands that only read run unasked. Where there is none, all are asked about."""
    allow: list[str] = Field([])
    """Commands that run without asking: one in full (`make test`), a program where it only reads
    (`git log <reading>`), or the beginning of any command (`npm run <anything>`)."""
    timeout: Annotated[Duration, Field(gt=0)] = 120.0
    """How long a command may run, unless the model asks for another time."""
    sandbox: Literal["auto", "required", "off"] = "auto"
    """`auto`: commands run in a sandbox where the system offers one; `required`: elsewhere they don't run; `off`."""
    network: list[str] = Field([])
    """Commands that have the network in the sandbox: written as in `allow`; `*` alone is all. Who is asked can say so
    for one command."""
    sandbox_hide: list[HiddenGlob] = Field([])
    """More that the sandbox hides, beside keys, browsers, histories and .env files: paths, with `*`. Relative ones
    start at the workspace."""
    sandbox_show: list[TildeGlob] = Field([])
    """What it is not to hide of these."""
    sandbox_write: list[TildeGlob] = Field([])
    """Where commands in it may write beside the workspace, for example ~/.cache."""
    sandbox_folders: Positive = 20_000
    """Folders of the workspace, those of packages aside, that are searched before each command for .env files and
    repositories. In a workspace with more, commands are refused."""
    limits: LimitSettings = LimitSettings()
    """Limits of a command in the sandbox."""


AskedWord = Literal["instructions", "all"]


class FileSettings(SettingsSection):
    """The tools that change files: `write`, `edit`, `append`."""

    ask: list[AskedWord] = Field(["instructions"])
    """Changes that are shown before they are made: `instructions` (AGENTS.md, SOUL.md, TOOLS.md, HEARTBEAT.md,
    BOOTSTRAP.md, BOOT.md and what hooks put into the prompt), `all` (every file but MEMORY.md and memory/). Empty for
    none."""


class ToolSettings(SettingsSection):
    """What the model may do."""

    max_rounds: Positive = 40
    """Calls of the model in one turn; then it has to answer."""
    max_calls: Positive = 100
    """Tool calls that are run of one answer; the model is told of the others that it may send them again."""
    output_max_chars: Positive = 40_000
    """Characters of one tool result that the model sees."""
    deny: list[str] = Field([])
    """Tools that are not offered, by name."""
    agents: list[str] = Field([])
    """Ids of other agents whose workspace this one may read and whose memory it may search."""
    files: FileSettings = FileSettings()
    """The tools that change files: `write`, `edit`, `append`."""
    shell: ShellSettings = ShellSettings()
    """The tool `shell`."""


class AgentSettings(SettingsSection):
    """One agent. `agents.defaults` holds what all agents share, and each entry beside it overrides that."""

    workspace: StatePath = Field(Path("~/.clawbot/workspace"), validate_default=True)
    """The agent's folder. `~/.clawbot` stands for the state folder ($CLAWBOT_HOME), a relative path starts there.
    Agents other than main that name none have `workspace-<id>` there."""
    model: ModelRef = "auto"
    """auto, offline, provider/model as litellm spells it, or script:FILE.yaml. auto takes the first key found in the
    environment, then a local server that answers, then the offline model."""
    api_base: str | None = None
    """The address of the model's server; null for the provider's own."""
    api_key: Secret | None = None
    """The key of the model; better named by api_key_env."""
    api_key_env: VariableName | None = None
    """The environment variable that holds the key; null for the provider's usual one."""
    fallbacks: list[ModelRef] = Field([])
    """Models that are tried, in this order, when the model fails."""
    context_tokens: Positive | None = None
    """Caps the model's window, in tokens; null for the model's own."""
    timezone: ZoneName | None = None
    """The user's zone, an IANA name; null for the machine's."""
    request_timeout: Annotated[Duration, Field(gt=0)] = 120.0
    """How long the model may send nothing before the call counts as failed."""
    retries: RetrySettings = RetrySettings()
    """How a failed call is repeated."""
    bootstrap: BootstrapSettings = BootstrapSettings()
    """How much of AGENTS.md, SOUL.md and so on the model sees."""
    startup_context: StartupContextSettings = StartupContextSettings()
    """The newest notes, which a session begins with."""
    tools: ToolSettings = ToolSettings()
    """What the model may do."""
    compaction: CompactionSettings = CompactionSettings()
    """How a long conversation is summarised."""
    context_pruning: ContextPruningSettings = ContextPruningSettings()
    """Old tool results that are left out."""
    memory_search: MemorySearchSettings = MemorySearchSettings()
    """The index over the memory files."""
