"""What runs at the moment, in a word or two for the status line."""

from __future__ import annotations

from clawbot.agent.events import (
    CompactionFinished,
    Event,
    ModelRetry,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from clawbot.agent.slash import parse_command

THINKING = "thinking"
WRITING = "writing"
SUMMARISING = "summarising"
SAVING = "saving to memory"


def activity_of(event: Event) -> str:
    """What runs from `event` on, for the status line; empty when that does not change."""
    match event:
        case TurnStarted():
            command = parse_command(event.text)
            return f"/{command.name}" if command else THINKING
        case ReasoningDelta() | ToolFinished() | CompactionFinished():
            return THINKING
        case TextDelta():
            return WRITING
        case ToolStarted():
            return event.title
        case ModelRetry():
            return f"attempt {event.attempt} in {event.wait:.0f} s: {event.reason}"
    return ""
