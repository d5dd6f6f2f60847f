"""The settings of what the model sees: bootstrap files, compaction, memory flush and pruning."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from clawbot.config.values import (
    Count,
    Duration,
    MinutesDuration,
    ModelRef,
    Positive,
    SettingsSection,
    Share,
    Size,
    Switch,
    expected,
)
from clawbot.extensions import installed

# Facts of both prompts: reference sheet section 8.3.
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
"""The entry point group of the strategies that installed packages offer."""


def _check_compaction(name: str) -> str:
    """`name`, when there is such a strategy. Raises ValueError."""
    if name != BUILTIN_COMPACTION and name not in (known := {each.name for each in installed(COMPACTION_GROUP)}):
        raise expected(f"a compaction that is installed ({', '.join([BUILTIN_COMPACTION, *sorted(known)])})")
    return name


class BootstrapSettings(SettingsSection):
    """How much of the workspace files is put into the system prompt."""

    max_chars: Positive = 20_000
    """Characters of one file; a longer one keeps its first 70 % and its last 20 %."""
    total_max_chars: Positive = 60_000
    """Characters of all files together."""


class StartupContextSettings(SettingsSection):
    """The newest notes, quoted to the model when a session begins."""

    enabled: Switch = True
    """Whether they are."""
    daily_memory_days: Annotated[Positive, Field(le=14)] = 2
    """Notes of how many days, today among them. The newest note of a conversation that ended comes along from up to 30
    days back."""
    max_chars: Annotated[Count, Field(le=50_000)] = 2_800
    """Characters of the whole quote."""
    max_file_chars: Annotated[Positive, Field(le=10_000)] = 1_200
    """Characters of one note."""


class MemoryFlushSettings(SettingsSection):
    """The silent turn that saves what matters before words leave the context."""

    enabled: Switch = True
    """Whether there is such a turn."""
    soft_threshold_tokens: Count = 4_000
    """How many tokens before the threshold of compaction the flush runs."""
    force_flush_transcript_bytes: Size = 2 * 1024**2
    """Growth of the transcript since the last flush that makes one in any case; 0 for never."""
    reset_min_tokens: Count = 0
    """How much must be left, when a conversation ends, that no note holds and no flush had taken, for one in the
    background; 0 for always."""
    quit_min_tokens: Count = 2_000
    """The same for one when the chat is left. The conversation goes on next time, so less is at stake."""
    quit_timeout: Duration = 20.0
    """How long leaving the chat may wait for it."""
    model: ModelRef | None = None
    """The model of this turn; null for the agent's own."""
    prompt: str = FLUSH_PROMPT
    """What the model is told. YYYY-MM-DD stands for today in the user's zone."""
    system_prompt: str = FLUSH_SYSTEM_PROMPT
    """What is added to the system prompt of this turn."""


class CompactionSettings(SettingsSection):
    """How a long conversation is summarised."""

    enabled: Switch = True
    """Whether it happens by itself. `/compact` works either way."""
    reserve_tokens: Count = 16_384
    """Tokens of the window kept free for the answer. The larger of this and the floor counts, 25 % of the window at
    most."""
    reserve_tokens_floor: Count = 20_000
    """The least reserve; 0 for no floor."""
    keep_recent_tokens: Positive = 20_000
    """Tokens at the end of the conversation that stay as they are."""
    strategy: Annotated[str, AfterValidator(_check_compaction)] = BUILTIN_COMPACTION
    """What decides the cut and makes the summary: builtin, or a strategy of an installed package, by name."""
    recent_turns_preserve: Count = 3
    """The last turns of the user, of those summarised, that are carried word for word if they are short."""
    model: ModelRef | None = None
    """The model that writes the summary; null for the agent's own."""
    timeout: Annotated[Duration, Field(gt=0)] = 180.0
    """How long a summary may take, and a silent turn for the memory."""
    memory_flush: MemoryFlushSettings = MemoryFlushSettings()
    """The silent turn that saves what matters before."""


class SoftTrimSettings(SettingsSection):
    """Old tool results that are shortened."""

    max_chars: Count = 4_000
    """Results up to this many characters stay whole."""
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
    """Old tool results that are replaced by a line."""

    enabled: Switch = True
    """Whether results are replaced when shortening is not enough."""
    placeholder: str = "[Old tool result content cleared]"
    """The line that replaces them."""


class PrunedToolsSettings(SettingsSection):
    """Whose results may be pruned, by name or pattern (`*`)."""

    allow: list[str] = Field([])
    """Only these tools; empty for all."""
    deny: list[str] = Field([])
    """Never these; it wins over `allow`."""


class ContextPruningSettings(SettingsSection):
    """Old tool results that are left out of what the model sees. The transcript keeps them."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`cache-ttl`: prune once the provider's cache has expired."""
    ttl: MinutesDuration = 300.0
    """How long the provider keeps its cache. A bare number means minutes here: 600 is ten hours."""
    keep_last_assistants: Count = 3
    """Nothing after this many last answers is pruned."""
    soft_trim_ratio: Share = 0.3
    """Share of the window in use from which results are shortened."""
    hard_clear_ratio: Share = 0.5
    """Share of the window in use from which results are replaced."""
    min_prunable_tool_chars: Count = 50_000
    """Results are replaced only when they have this many characters together."""
    soft_trim: SoftTrimSettings = SoftTrimSettings()
    """How results are shortened."""
    hard_clear: HardClearSettings = HardClearSettings()
    """How results are replaced."""
    tools: PrunedToolsSettings = PrunedToolsSettings()
    """Whose results."""
