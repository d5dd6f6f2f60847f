"""What a front end is shown of a conversation: plain values, no live parts."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from clawbot.config.schema_agent import Mode
from clawbot.context.prefix import CacheUse
from clawbot.context.report import ContextReport, LastFlush
from clawbot.context.window import WindowBudget
from clawbot.llm.protocol import ModelInfo
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.unsent import Unsent
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line

_STAMP = re.compile(r"(?:.*-)?\d{8}-\d{4}(?:-\d+)?")
__all__ = ["ContextReport", "HistoryItem", "RuntimeStatus", "Unsent"]


class RuntimeStatus(Struct, frozen=True):
    """How the conversation stands. `tokens` and `window` (0: unknown) are in tokens, `cost` in US dollars; `exact` is
    false while `tokens` is estimated, `stale` when nothing was reported since the last compaction; `notes` counts the
    memory files. `budget` has the marks of the window (None: unknown); `compactions` counts those of the session;
    `window_source` says where the window is known from, as a half sentence; `unsent` counts what was typed and not
    sent before the program ended last; `memory_problem` says why notes are found by words alone; `cache` is
    None until a provider reported a call; `mode` says what tools may change unasked; `answered_before` is the model
    of the last answer, where it is not the one that answers now; `title` is the session's, "" while it has none."""

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
    budget: WindowBudget | None = None
    stale: bool = False
    compactions: int = 0
    last_flush: LastFlush | None = None
    window_source: str = ""
    unsent: int = 0
    memory_problem: str = ""
    cache: CacheUse | None = None
    mode: Mode = "edits"
    answered_before: str = ""
    title: str = ""

    @property
    def label(self) -> str:
        """The title; before there is one the key, unless that is a time stamp."""
        return clean_line(self.title) or (
            _("new conversation") if _STAMP.fullmatch(self.session_key) else self.session_key
        )


class HookStatus(Struct, frozen=True, rename="camel", kw_only=True):
    """A hook as `/hooks` shows it. `source` is where it was found, `missing` what it needs and is not there, `problem`
    why it can't run at all, `off_because` why it is off although the user switched it on; `topic`, `status` ("" for
    never run; ok, failed, timeout, exited), `error`, `duration_ms` and `at` are of its last run."""

    name: str
    description: str
    source: str
    folder: str
    events: tuple[str, ...]
    enabled: bool
    ready: bool
    missing: tuple[str, ...] = ()
    problem: str = ""
    off_because: str = ""
    topic: str = ""
    status: str = ""
    error: str = ""
    duration_ms: int = 0
    at: datetime | None = None


class McpStatus(Struct, frozen=True, rename="camel", kw_only=True):
    """An MCP server as `/mcp` shows it. `target` is its program or address; `state` is stopped, starting, ready or
    failed; `known`: its tools were listed once. `tools` name the approval of each, `warnings` say which are left out,
    `problem` what went wrong last, as the end of a sentence that begins with the name."""

    name: str
    target: str
    state: str
    known: bool
    tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    problem: str = ""


class AgentInfo(Struct, frozen=True):
    """An agent of the settings, as a picker shows it. `model` is the setting, `current` says that it is talked to."""

    agent_id: str
    workspace: Path
    model: str
    current: bool
