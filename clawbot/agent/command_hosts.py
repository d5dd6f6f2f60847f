"""What slash commands may ask of the conversation that they run in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import CompactionFinished, Event, ResetReason, SessionChanged
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.status import RuntimeStatus
from clawbot.agent.submissions import Outbox
from clawbot.context.report import ContextReport
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import ToolSpec


class CommandHost(Protocol):
    """What a command may ask of the conversation. It runs between turns."""

    @property
    def status(self) -> RuntimeStatus:
        """The state of the conversation."""

    @property
    def tool_specs(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""

    async def reset(self, reason: ResetReason, text: str = "") -> SessionChanged:
        """Go on in a fresh session under the same key; `text` is the user's first message in it."""

    async def fork(self, title: str = "", at: str = "") -> tuple[SessionChanged, str]:
        """Go on in a new session that begins with the messages of this one, which is unchanged."""

    async def compact(self, focus: str) -> CompactionFinished:
        """Summarise the earlier turns now."""

    async def context_report(self) -> ContextReport:
        """Where the tokens of the window go."""

    async def set_model(self, ref: str) -> ModelInfo:
        """Answer with another model from now on."""

    async def export(self, form: str, path: Path | None, *, with_secrets: bool = False) -> Path:
        """Write the conversation to a file and return its path."""


class AgentHost(CommandHost, Protocol):
    """What the commands of clawbot itself use besides."""

    deps: AgentDeps
    conversation: Conversation
    hooks: SessionHooks
    outbox: Outbox

    def notify(self, event: Event) -> None:
        """Show the user `event`, by itself."""
