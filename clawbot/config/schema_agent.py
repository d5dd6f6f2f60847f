"""The settings of one agent: its model, its tools and its workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from clawbot.config.schema_context import (
    BootstrapSettings,
    CompactionSettings,
    ContextPruningSettings,
    StartupContextSettings,
)
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.config.section import Section
from clawbot.config.values import Duration, ModelRef, Positive, Secret, StatePath, VariableName, ZoneName


class RetrySettings(Section):
    """How a call of a model is repeated after a rate limit, a server error or a lost connection."""

    attempts: Positive = 4
    """Calls altogether; 1 for no repetition."""
    first_wait: Duration = 1.0
    """The wait before the second call; it doubles each time."""
    max_wait: Duration = 30.0
    """The longest wait."""


class ShellSettings(Section):
    """The tool `shell`."""

    approval: Literal["ask", "allow", "deny"] = "ask"
    """`ask` before each command, `allow` all, or `deny` all."""
    allow: list[str] = Field([])
    """Commands that run without asking: patterns such as `git status*`."""
    timeout: Annotated[Duration, Field(gt=0)] = 120.0
    """How long a command may run, unless the model asks for another time."""


class ToolSettings(Section):
    """What the model may do."""

    max_rounds: Positive = 40
    """Calls of the model in one turn; then it has to answer."""
    output_max_chars: Positive = 40_000
    """Characters of one tool result that the model sees."""
    deny: list[str] = Field([])
    """Tools that are not offered, by name."""
    agents: list[str] = Field([])
    """Ids of other agents whose workspace this one may read and whose memory it may search."""
    shell: ShellSettings = ShellSettings()
    """The tool `shell`."""


class AgentSettings(Section):
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
