"""The settings of one agent: its model, its tools and its workspace."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from clawbot.config.schema_context import (
    AttachmentSettings,
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
    expected,
)

Bytes = Annotated[Size, Field(ge=1)]
TildeGlob = Annotated[str, AfterValidator(lambda value: str(expand_tilde(value)))]


def _check_hidden(value: str) -> str:
    """Return `value`, a glob; raises ValueError if it covers the whole disk or workspace."""
    if set(PurePath(value).parts) <= {"/", "//", "*", "**"}:
        raise ValueError(f"{value!r} would hide everything that commands need; use a narrower path")
    return value


HiddenGlob = Annotated[TildeGlob, AfterValidator(_check_hidden)]


# The program sets these itself.
_OWN_ARGUMENTS = {
    *("model", "messages", "tools", "stream", "stream_options", "timeout", "api_base", "base_url", "api_key"),
    *("max_retries", "num_retries", "drop_params", "fallbacks", "mock_response"),
    *("max_tokens", "max_completion_tokens", "temperature", "reasoning_effort"),
}


def _check_options(value: dict[str, Any]) -> dict[str, Any]:
    """`value`; raises an error for an argument that the program sets itself."""
    if taken := sorted(name for name in value if name in _OWN_ARGUMENTS or name.startswith("_")):
        raise expected(f"no {', '.join(taken)}, which other settings decide", show=False)
    return value


ModelOptions = Annotated[dict[str, Any], AfterValidator(_check_options)]


class RetrySettings(SettingsSection):
    """How a model call is retried after a rate limit, a server error or a lost connection. A provider may ask
    for a wait of its own, of at most 90 seconds."""

    attempts: Positive = 4
    """Total calls; 1 for no retry."""
    first_wait: Duration = 1.0
    """The wait before the first retry; it doubles each time."""
    max_wait: Duration = 30.0
    """The longest wait between two calls."""


class LimitSettings(SettingsSection):
    """Limits of a sandboxed command. null for none; the system's own limits always apply."""

    processes: Positive | None = 2048
    """Processes and threads of one command. Requires Linux 5.14 or later; does not apply to root."""
    memory: Bytes | None = 8 * 1024**3
    """Memory of one process."""
    file_size: Bytes | None = 8 * 1024**3
    """The size of one file."""
    scratch: Bytes = 2 * 1024**3
    """The size of /tmp, which is private to each command and held in memory; the same for /dev/shm."""


class ShellSettings(SettingsSection):
    """The tool `shell`."""

    approval: Literal["ask", "allow", "deny"] = "ask"
    """`ask` before each command, `allow` all, or `deny` all."""
    ask: Literal["always", "risky"] = "always"
    """`risky`: read-only commands in the sandbox run without asking. Without a sandbox, every command asks."""
    allow: list[str] = Field([])
    """Commands that run without asking: a full command (`make test`), the read-only use of a program (`git log
    <reading>`), or any command with a prefix (`npm run <anything>`)."""
    timeout: Annotated[Duration, Field(gt=0)] = 120.0
    """Default time limit of a command; the model can request another."""
    sandbox: Literal["auto", "required", "off"] = "auto"
    """`auto`: use a sandbox where the system offers one; `required`: refuse commands without one; `off`."""
    network: list[str] = Field([])
    """Commands with network access in the sandbox, written as in `allow`; `*` alone means all. When asked, the user can
    also grant it for one command."""
    sandbox_hide: list[HiddenGlob] = Field([])
    """Paths to hide in the sandbox besides keys, browsers, histories and .env files; `*` is allowed, relative paths
    start at the workspace."""
    sandbox_show: list[TildeGlob] = Field([])
    """Exceptions to what the sandbox hides."""
    sandbox_write: list[TildeGlob] = Field([])
    """Writable paths in the sandbox besides the workspace, for example ~/.cache."""
    sandbox_folders: Positive = 20_000
    """Maximum number of workspace folders, without package folders, searched for .env files and repositories before
    each command. In a larger workspace commands are refused."""
    limits: LimitSettings = LimitSettings()
    """Limits of a sandboxed command."""


AskedWord = Literal["instructions", "all"]


class FileSettings(SettingsSection):
    """The tools that change files: `write`, `edit`, `append`."""

    ask: list[AskedWord] = Field(["instructions"])
    """Changes that need approval: `instructions` (AGENTS.md, SOUL.md, TOOLS.md, HEARTBEAT.md, BOOTSTRAP.md, BOOT.md and
    files that hooks add to the prompt), `all` (every file except MEMORY.md and memory/). Empty for none."""


class ToolSettings(SettingsSection):
    """What the model may do."""

    max_rounds: Positive = 40
    """Model calls in one turn; after that it ends without an answer."""
    max_calls: Positive = 100
    """Tool calls executed from one answer; the model is told to send the others again."""
    output_max_chars: Positive = 40_000
    """Characters of a tool result that the model sees."""
    deny: list[str] = Field([])
    """Names of tools that are not offered to the model."""
    agents: list[str] = Field([])
    """Ids of other agents whose workspace this one may read and whose memory it may search."""
    files: FileSettings = FileSettings()
    """The tools that change files: `write`, `edit`, `append`."""
    shell: ShellSettings = ShellSettings()
    """The tool `shell`."""


Mode = Literal["plan", "ask", "edits"]
MODES: tuple[Mode, ...] = ("plan", "ask", "edits")

_RULE = re.compile(r"(?P<tool>[A-Za-z0-9_*?-]{1,80})(?:\((?P<pattern>.{1,500})\))?")
_WITH_PATTERN = ("write", "edit", "append", "shell")


def split_rule(text: str) -> tuple[str, str]:
    """The tool of a rule and its pattern, "" without one. Raises ValueError for what is no rule."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise expected("a tool (`write`, `mcp__*`), or one with a pattern: `write(src/**)`, `shell(git push)`")
    if match["pattern"] and match["tool"] not in _WITH_PATTERN:
        raise expected(f"a pattern with {', '.join(_WITH_PATTERN)} only; other tools are named without one")
    return match["tool"], match["pattern"] or ""


def _check_rule(text: str) -> str:
    split_rule(text)
    return text


ToolRule = Annotated[str, AfterValidator(_check_rule)]


class PermissionSettings(SettingsSection):
    """What tools may do unasked. Of the rules that fit a call `deny` wins over `ask`, and `ask` over `allow`. A rule is
    a tool or a pattern of names (`mcp__*`), with a glob of files for write, edit and append (`write(src/**)`), and a
    command for shell (`shell(git push)`)."""

    mode: Mode = "edits"
    """The mode at the start: `plan` changes nothing, `ask` asks before each change but those of notes, `edits` as the
    settings say. `--mode`, `/mode` and Shift+Tab change it."""
    allow: list[ToolRule] = Field([])
    """Calls that run unasked; commands as in `tools.shell.allow`. Instruction files are asked about all the same."""
    ask: list[ToolRule] = Field([])
    """Calls that always ask, in any mode."""
    deny: list[ToolRule] = Field([])
    """Calls that never run. A command is searched for what it starts; where that can't be read in full, it asks."""


class SubagentSettings(SettingsSection):
    """The tool `task`: a sub-agent does a piece of the work in a context of its own, and reports."""

    enabled: Literal["auto", "on", "off"] = "auto"
    """`auto`: offered unless the model is the offline one or has a window below 32,000 tokens; `on`; `off`."""
    model: ModelRef | None = None
    """The model of sub-agents, for example a cheaper one; null for that of the conversation."""
    max_concurrent: Positive = 3
    """Sub-agents at work at once; others wait."""
    max_depth: Positive = 1
    """1: a sub-agent has no sub-agents of its own; 2: it may have some, and so on."""
    timeout: Annotated[Duration, Field(gt=0)] = 900.0
    """How long a sub-agent may work, without the time that it waits for the user's answers."""
    max_tokens: Positive = 500_000
    """Tokens that a sub-agent may read and write in all its model calls, without those from the provider's cache."""
    max_total: Positive = 30
    """Sub-agents that may work on one message of yours, with those below them."""
    max_total_tokens: Positive = 3_000_000
    """Tokens that all of these may use together."""
    deny: list[str] = Field([])
    """Names of tools that sub-agents don't have, besides those that no agent has."""


class AgentSettings(SettingsSection):
    """One agent. `agents.defaults` holds what all agents share; the other entries override it."""

    workspace: StatePath = Field(Path("~/.clawbot/workspace"), validate_default=True)
    """The agent's folder. `~/.clawbot` stands for the state folder ($CLAWBOT_HOME), where relative paths start too.
    Default for agents other than main: `workspace-<id>` in the state folder."""
    model: ModelRef = "auto"
    """auto, offline, provider/model in litellm's notation, or script:FILE.yaml. auto uses the first API key found in
    the environment, else a local server that answers, else the offline model."""
    api_base: str | None = None
    """The URL of the model's server; null for the provider's default."""
    api_key: Secret | None = None
    """The model's API key; api_key_env is the better choice."""
    api_key_env: VariableName | None = None
    """The environment variable with the key; null for the provider's usual one."""
    fallbacks: list[ModelRef] = Field([])
    """Models to try, in this order, when the model fails; those without their key are skipped."""
    context_tokens: Positive | None = None
    """Upper limit of the context window, in tokens; null for the model's own."""
    max_output_tokens: Positive | None = None
    """Upper limit of one answer, in tokens; null for the model's own, with a server on this machine the reserve of
    compaction."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The sampling temperature; null for the model's default."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    """How much the model reasons before it answers, if it can; null for its default."""
    options: ModelOptions = Field({})
    """Extra arguments of every model call, passed on to litellm: {top_p: 0.9, keep_alive: 30m,
    chat_template_kwargs: {enable_thinking: false}}."""
    timezone: ZoneName | None = None
    """The user's time zone, an IANA name; null for the machine's."""
    request_timeout: Annotated[Duration, Field(gt=0)] = 120.0
    """How long a model call may stay without data before it counts as failed."""
    retries: RetrySettings = RetrySettings()
    """How a failed call is retried."""
    keep_client: Annotated[Duration, Field(ge=0)] = 300.0
    """How long the process that calls the model stays after `clawbot chat -p`, for the next command; 0 for not at all.
    """
    bootstrap: BootstrapSettings = BootstrapSettings()
    """How much of AGENTS.md, SOUL.md and the like the model sees."""
    startup_context: StartupContextSettings = StartupContextSettings()
    """The latest notes, quoted at the start of a session."""
    permissions: PermissionSettings = PermissionSettings()
    """What tools may do unasked."""
    attachments: AttachmentSettings = AttachmentSettings()
    """What `@path` in a message attaches to it."""
    tools: ToolSettings = ToolSettings()
    """What the model may do."""
    skills: list[str] | None = None
    """Names of the skills that the agent has; null for all."""
    subagents: SubagentSettings = SubagentSettings()
    """The tool `task`: a sub-agent does a piece of the work in a context of its own, and reports."""
    compaction: CompactionSettings = CompactionSettings()
    """How a long conversation is summarised."""
    context_pruning: ContextPruningSettings = ContextPruningSettings()
    """Removal of old tool results from the context."""
    memory_search: MemorySearchSettings = MemorySearchSettings()
    """The index over the memory files."""
