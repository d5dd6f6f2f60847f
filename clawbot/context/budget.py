"""What a window is divided into, in tokens: its size, where that is known from, and the marks that derive from it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from clawbot.llm.protocol import CAPPED, ModelInfo

DEFAULT_WINDOW = 128_000
"""Tokens, when nothing is known of the model."""
ASSUMED = "assumed: neither the model's data nor its server says"
# The most that a summary may take, in tokens: some 16,000 characters.
_SUMMARY = 4_000
_LEAST_SUMMARY = 200


class Budget(NamedTuple):
    """The marks of a window, in tokens. `limit` is where compaction comes (the window without the `reserve`), `flush`
    where the silent turn comes before it (0: never); `keep_recent` stays word for word at a compaction, whose summary
    takes `summary` at most."""

    window: int
    reserve: int
    limit: int
    flush: int
    keep_recent: int
    summary: int


class FlushLimits(Protocol):
    """The settings of the memory flush, in tokens."""

    @property
    def enabled(self) -> bool:
        """Whether there is one."""
        ...

    @property
    def soft_threshold_tokens(self) -> int:
        """How long before the limit it comes."""
        ...


class CompactionLimits(Protocol):
    """The settings of compaction that the marks derive from, in tokens."""

    @property
    def reserve_tokens(self) -> int:
        """What is kept free."""
        ...

    @property
    def reserve_tokens_floor(self) -> int:
        """The least of it."""
        ...

    @property
    def keep_recent_tokens(self) -> int:
        """What stays word for word."""
        ...

    @property
    def memory_flush(self) -> FlushLimits:
        """The flush before."""
        ...


class Window(NamedTuple):
    """A window in tokens, where it is known from (a half sentence), and whether nobody knows it."""

    tokens: int
    source: str
    assumed: bool


def window_of(info: ModelInfo, cap: int | None) -> Window:
    """The window to work with: the model's, made smaller by `cap` (`context_tokens`) but never larger; where nobody
    knows it is the cap, else 128k (reference sheet 6.1)."""
    if info.window is None:
        return Window(cap, CAPPED, False) if cap else Window(DEFAULT_WINDOW, ASSUMED, True)
    if cap and cap < info.window:
        return Window(cap, CAPPED, False)
    return Window(info.window, info.window_source, False)


def plan_budget(window: int, settings: CompactionLimits, fixed: int = 0) -> Budget:
    """The marks of a window of `window` tokens, of which prompt and tools take `fixed`.

    Flush and compaction derive from one reserve, a quarter of the window at most, and the flush comes half of the way
    before the limit at the earliest: so it precedes compaction, and small windows work (reference sheet 6.5). What a
    compaction leaves is below the mark of the flush, or each would call for the next. The marks are there when
    compaction is switched off, too; callers decide what they do with them.
    """
    reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 4)
    limit = window - reserve
    room = max(0, limit - fixed)
    flush = settings.memory_flush
    summary = max(_LEAST_SUMMARY, min(_SUMMARY, room // 6))
    return Budget(
        window=window,
        reserve=reserve,
        limit=limit,
        flush=limit - min(flush.soft_threshold_tokens, room // 2) if flush.enabled else 0,
        keep_recent=max(1, min(settings.keep_recent_tokens, room * 3 // 8 - summary)),
        summary=summary,
    )
