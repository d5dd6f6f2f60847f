"""Making the request of a model call: the workspace read fresh, the system prompt, the history with whole pairs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.bootstrap import load_bootstrap
from clawbot.context.prompt import PromptInputs, SystemPrompt, build_system_prompt
from clawbot.llm.protocol import ChatRequest, ModelInfo
from clawbot.messages import Message
from clawbot.sessions.pairing import repair_pairs
from clawbot.tools.registry import Toolbox

# Sessions that others than the user speak in (reference sheet 3.4 and 20).
_SHARED = {"group", "channel", "thread", "topic", "cron", "hook", "subagent"}


def is_private_session(key: str) -> bool:
    """Whether only the user talks in the session `key`, so that MEMORY.md may be shown to the model."""
    return _SHARED.isdisjoint(key.lower().split(":"))


class Prompting:
    """What the model is shown. The workspace files are read once for each turn, so that an edit is seen by the next
    message and the prompt stays the same within a tool loop."""

    def __init__(self, workspace: Path, settings: AgentSettings, tools: Toolbox, clock: Clock) -> None:
        self._workspace = workspace
        self._settings = settings
        self._tools = tools
        self._clock = clock
        self.last_system = ""
        self.notices: tuple[str, ...] = ()

    def _build(self, model: ModelInfo, session_key: str) -> SystemPrompt:
        bootstrap = load_bootstrap(
            self._workspace, self._settings.bootstrap, main_session=is_private_session(session_key)
        )
        self.notices = bootstrap.notices
        return build_system_prompt(
            PromptInputs(
                workspace=self._workspace,
                tools=self._tools.specs,
                bootstrap=bootstrap,
                now=self._clock.now(),
                model=model.ref,
            )
        )

    def for_turn(self, model: ModelInfo, session_key: str) -> Callable[[Sequence[Message]], Awaitable[ChatRequest]]:
        """The `prepare` of one turn."""
        prompt: SystemPrompt | None = None

        async def prepare(messages: Sequence[Message]) -> ChatRequest:
            nonlocal prompt
            if prompt is None:
                prompt = await asyncio.to_thread(self._build, model, session_key)
                self.last_system = prompt.text
            return ChatRequest(
                system=prompt.text,
                messages=tuple(repair_pairs(list(messages))),
                tools=self._tools.specs if model.supports_tools else (),
                stable_prefix=prompt.stable_prefix,
            )

        return prepare
