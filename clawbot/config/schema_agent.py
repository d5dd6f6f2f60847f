"""The settings of one agent: its model, tools and workspace; the model's context: bootstrap files, compaction, memory
flush and pruning."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.config.values import (
    Count,
    Duration,
    MinutesDuration,
    ModelRef,
    Positive,
    Secret,
    SettingsSection,
    Share,
    Size,
    StatePath,
    Switch,
    VariableName,
    ZoneName,
    expand_tilde,
    expected,
)
from clawbot.entry_points import installed

FLUSH_PROMPT = (
    "Pre-compaction memory flush. Store durable memories now in memory/YYYY-MM-DD.md (create memory/ if needed). "
    "If the file exists, append to it only; never overwrite what is there. "
    "If there is nothing to store, reply with NO_REPLY."
)
FLUSH_SYSTEM_PROMPT = (
    "This is a memory flush turn: the conversation is about to be compacted. Capture what must be remembered "
    "(decisions, facts, preferences, open tasks) on disk, in memory/YYYY-MM-DD.md alone; "
    "every other file is read-only in this turn. You may reply, but usually NO_REPLY is right."
)


BUILTIN_COMPACTION = "builtin"
COMPACTION_GROUP = "clawbot.compactions"
"""The entry point group for compaction strategies of installed packages."""


def _check_compaction(name: str) -> str:
    """Return `name` if there is such a strategy. Raises ValueError."""
    if name != BUILTIN_COMPACTION and name not in (known := {each.name for each in installed(COMPACTION_GROUP)}):
        raise expected(f"a compaction that is installed ({', '.join([BUILTIN_COMPACTION, *sorted(known)])})")
    return name


class BootstrapSettings(SettingsSection):
    """How much of the workspace files goes into the system prompt."""

    max_chars: Positive = 20_000
    """Characters of one file; of a longer one the first 70 % and the last 20 % are kept."""
    total_max_chars: Positive = 60_000
    """Characters of all files together."""


class AttachmentSettings(SettingsSection):
    """What `@path` in a message attaches to it: files, ranges of lines (`@a.py:10-40`), folders, pictures."""

    enabled: Switch = True
    """Whether anything is attached."""
    max_chars: Positive = 40_000
    """Characters of one file or folder; the rest is left out with a note."""
    total_max_chars: Positive = 120_000
    """Characters of all that one message attaches; never more than half of the model's window."""
    folder_entries: Positive = 200
    """Entries that are listed of a folder."""
    image_max_bytes: Annotated[Size, Field(ge=1)] = 5 * 1024**2
    """Size of a picture; a larger one is not attached."""


class StartupContextSettings(SettingsSection):
    """The latest notes, quoted to the model when a session begins."""

    enabled: Switch = True
    """Whether notes are quoted."""
    daily_memory_days: Annotated[Positive, Field(le=14)] = 2
    """The number of days, including today, whose notes are quoted. The latest note of an ended conversation is added if
    it is at most 30 days old."""
    max_chars: Annotated[Count, Field(le=50_000)] = 2_800
    """Characters of all quotes together."""
    max_file_chars: Annotated[Positive, Field(le=10_000)] = 1_200
    """Characters of one note."""


class MemoryFlushSettings(SettingsSection):
    """The silent turn that saves what matters before text leaves the context."""

    enabled: Switch = True
    """Whether such turns are taken."""
    soft_threshold_tokens: Count = 4_000
    """How many tokens before the compaction threshold the flush runs."""
    force_flush_transcript_bytes: Size = 2 * 1024**2
    """Growth of the transcript since the last flush that forces one; 0 for never."""
    reset_min_tokens: Count = 0
    """Minimum unsaved tokens (in no note and in no flush yet) at the end of a conversation for a flush in the
    background; 0 for always."""
    quit_min_tokens: Count = 2_000
    """The same when leaving the chat. The conversation continues next time, so less is at stake."""
    quit_timeout: Duration = 20.0
    """How long leaving the chat may wait for the flush."""
    model: ModelRef | None = None
    """The model of this turn; null for the agent's own."""
    prompt: str = FLUSH_PROMPT
    """The prompt. YYYY-MM-DD means today in the user's zone."""
    system_prompt: str = FLUSH_SYSTEM_PROMPT
    """Added to the prompt; the system prompt remains that of the conversation."""


class CompactionSettings(SettingsSection):
    """How a long conversation is summarised."""

    enabled: Switch = True
    """Whether it runs automatically. `/compact` works either way."""
    reserve_tokens: Count = 16_384
    """Tokens of the window kept free for the answer. The larger of this and the floor applies, up to 25 % of the
    window."""
    reserve_tokens_floor: Count = 20_000
    """The minimum reserve; 0 for no floor."""
    keep_recent_tokens: Positive = 20_000
    """Tokens at the end of the conversation that are kept unchanged."""
    strategy: Annotated[str, AfterValidator(_check_compaction)] = BUILTIN_COMPACTION
    """What chooses the cut and writes the summary: builtin, or the name of an installed package's strategy."""
    recent_turns_preserve: Count = 3
    """Number of last summarised user turns kept word for word if they are short."""
    model: ModelRef | None = None
    """The model that writes the summary; null for the agent's own."""
    timeout: Annotated[Duration, Field(gt=0)] = 180.0
    """Time limit of a summary, and of a memory flush."""
    memory_flush: MemoryFlushSettings = MemoryFlushSettings()
    """The silent turn that saves what matters before."""


class SoftTrimSettings(SettingsSection):
    """Truncation of old tool results."""

    max_chars: Count = 4_000
    """Results up to this many characters are kept complete."""
    head_chars: Count = 1_500
    """Characters kept at the start."""
    tail_chars: Count = 1_500
    """Characters kept at the end."""

    @model_validator(mode="after")
    def _keeps_less_than_it_takes(self) -> Self:
        if self.head_chars + self.tail_chars > self.max_chars:
            raise expected("head_chars and tail_chars that are together at most max_chars", show=False)
        return self


class HardClearSettings(SettingsSection):
    """Replacement of old tool results by a placeholder."""

    enabled: Switch = True
    """Whether results are replaced when truncation is not enough."""
    placeholder: str = "[Old tool result content cleared]"
    """The text that replaces them."""


class PrunedToolsSettings(SettingsSection):
    """The tools whose results may be pruned, by name or pattern (`*`)."""

    allow: list[str] = Field([])
    """Only these tools; empty for all."""
    deny: list[str] = Field([])
    """Never these; takes precedence over `allow`."""


class ContextPruningSettings(SettingsSection):
    """Removal of old tool results from the context. The transcript keeps them."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`cache-ttl`: prune once the provider's cache has expired."""
    ttl: MinutesDuration = 300.0
    """How long the provider keeps its cache. A bare number means minutes here: 600 is ten hours."""
    keep_last_assistants: Count = 3
    """Results after the last this many answers are not pruned."""
    soft_trim_ratio: Share = 0.3
    """Share of the window in use above which results are truncated."""
    hard_clear_ratio: Share = 0.5
    """Share of the window in use above which results are replaced."""
    min_prunable_tool_chars: Count = 50_000
    """Results are replaced only if together they have at least this many characters."""
    soft_trim: SoftTrimSettings = SoftTrimSettings()
    """How results are truncated."""
    hard_clear: HardClearSettings = HardClearSettings()
    """How results are replaced."""
    tools: PrunedToolsSettings = PrunedToolsSettings()
    """The tools whose results may be pruned."""


Bytes = Annotated[Size, Field(ge=1)]
TildeGlob = Annotated[str, AfterValidator(lambda value: str(expand_tilde(value)))]


def _check_hidden(value: str) -> str:
    """Return `value`, a glob; raises ValueError if it covers the entire disk or workspace."""
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
    """Return `value`; raises an error for an argument that the program sets itself."""
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
    """Tool calls executed from one answer; the model is asked to send the others again."""
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
    """Return the tool of a rule and its pattern, "" without one. Raises ValueError for what is no rule."""
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
    settings set. `--mode`, `/mode` and Shift+Tab change it."""
    allow: list[ToolRule] = Field([])
    """Calls that run unasked; commands as in `tools.shell.allow`. Instruction files are asked about all the same."""
    ask: list[ToolRule] = Field([])
    """Calls that always ask, in any mode."""
    deny: list[ToolRule] = Field([])
    """Calls that never run. A command is searched for what it starts; where that can't be read in full, it asks."""


class SubagentSettings(SettingsSection):
    """The tool `task`: a sub-agent does a part of the work in a context of its own, and reports."""

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
    """The agent's folder. `~/.clawbot` means the state folder ($CLAWBOT_HOME), where relative paths start too.
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
    """How long a model call may be without data before it counts as failed."""
    retries: RetrySettings = RetrySettings()
    """How a failed call is retried."""
    keep_client: Annotated[Duration, Field(ge=0)] = 300.0
    """How long the process that calls models remains after `clawbot chat -p`, for the next command; 0 for not at all.
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
    """The tool `task`: a sub-agent does a part of the work in a context of its own, and reports."""
    compaction: CompactionSettings = CompactionSettings()
    """How a long conversation is summarised."""
    context_pruning: ContextPruningSettings = ContextPruningSettings()
    """Removal of old tool results from the context."""
    memory_search: MemorySearchSettings = MemorySearchSettings()
    """The index over the memory files."""
