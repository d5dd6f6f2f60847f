"""What a front end is shown of a conversation: plain values, no live parts."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from clawbot.context.budget import Budget
from clawbot.context.report import ContextReport, LastFlush
from clawbot.llm.protocol import ModelInfo
from clawbot.sessions.conversation import HistoryItem

__all__ = ["CommandInfo", "ContextReport", "HistoryItem", "RuntimeStatus"]


class RuntimeStatus(Struct, frozen=True):
    """How the conversation stands. `tokens` and `window` (0: unknown) are in tokens, `cost` in US dollars; `exact` is
    false while `tokens` is estimated, `stale` when nothing was reported since the last compaction; `notes` counts the
    memory files. `budget` has the marks of the window (None: unknown); `compactions` counts those of the session;
    `window_source` says where the window is known from, as a half sentence."""

    agent_id: str
    session_key: str
    session_id: str
    model: ModelInfo
    workspace: Path
    tokens: int
    window: int
    exact: bool
    cost: float | None
    busy: bool
    notes: int
    budget: Budget | None = None
    stale: bool = False
    compactions: int = 0
    last_flush: LastFlush | None = None
    window_source: str = ""


class CommandInfo(Struct, frozen=True):
    """A slash command as completion, `/help` and the README show it: `name` with its slash."""

    name: str
    arguments: str
    help: str
