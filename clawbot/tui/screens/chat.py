"""The conversation: the page, the prompt under it, and one quiet line. Events become what is seen in `show`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static, TextArea

from clawbot.agent.events import (
    ApprovalRequested,
    CommandOutput,
    ContextUsed,
    Event,
    MessageFinished,
    ModelChanged,
    ModelRetry,
    Notice,
    ReasoningDelta,
    SessionChanged,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from clawbot.clock import Clock
from clawbot.tui.completion import Choice, Wanted, best, wanted
from clawbot.tui.input import (
    AgentCommand,
    ChatMessage,
    Nothing,
    ScreenCommand,
    UnknownCommand,
    classify,
)
from clawbot.tui.turns import Turns
from clawbot.tui.widgets.approval import Approval
from clawbot.tui.widgets.bars import Header, NewBelow, QueueLines, StatusLine
from clawbot.tui.widgets.completions import Completions
from clawbot.tui.widgets.prompt import Prompt
from clawbot.tui.widgets.transcript import Transcript
from clawbot.tui.writer import TranscriptWriter

if TYPE_CHECKING:
    from clawbot.runtime import Runtime
