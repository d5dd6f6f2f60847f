"""The settings of the model's context: bootstrap files, compaction, memory flush and pruning."""

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
    """Characters of one file or folder; the rest is left out, which is said."""
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
    """The prompt. YYYY-MM-DD stands for today in the user's zone."""
    system_prompt: str = FLUSH_SYSTEM_PROMPT
    """Added to the prompt; the system prompt stays that of the conversation."""


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
    """Results up to this many characters are kept whole."""
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
