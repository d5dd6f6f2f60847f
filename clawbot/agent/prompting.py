"""Making the request of a model call: the workspace read fresh, the system prompt, the history with whole pairs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from clawbot.agent.events import Notice
from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.bootstrap import Bootstrap, load_bootstrap
from clawbot.context.prompt import PromptInputs, SystemPrompt, build_system_prompt
from clawbot.llm.protocol import ChatRequest, ModelInfo
from clawbot.messages import Message
from clawbot.sessions.pairing import repair_pairs
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox

# Kinds of sessions that others than the user speak in (reference sheet 3.4 and 20): `agent:main:cron:<job>`.
_SHARED = {"group", "channel", "thread", "topic", "cron", "hook", "subagent", "acp"}
_FIGURES = re.compile(r"\d[\d,]*")


def is_private_session(key: str) -> bool:
    """Whether only the user talks in the session `key`, so that MEMORY.md may be shown to the model.

    That are all that the user can name: a session or an agent that is just called `topic` is nobody else's.
    """
    words = key.lower().split(":")
    kinds = words[2:] if words[0] == "agent" else words
    return len(kinds) < 2 or _SHARED.isdisjoint(kinds)


class Prompting:
    """What the model is shown. The workspace files are read once for each turn, so that an edit is seen by the next
    message and the prompt stays the same within a tool loop."""

    def __init__(
        self,
        workspace: Path,
        settings: AgentSettings,
        tools: Toolbox,
        clock: Clock,
        agent_id: str = "main",
        *,
        citations: Citations = "auto",
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._tools = tools
        self._clock = clock
        self._agent_id = agent_id
        self._citations = citations
        self.last_system = ""
        self._told: set[str] = set()

    def _build(self, model: ModelInfo, session_key: str) -> tuple[SystemPrompt, Bootstrap]:
        private = is_private_session(session_key)
        bootstrap = load_bootstrap(self._workspace, self._settings.bootstrap, main_session=private)
        inputs = PromptInputs(
            workspace=self._workspace,
            tools=self._tools.specs,
            bootstrap=bootstrap,
            now=self._clock.now(),
            model=model.ref,
            agent_id=self._agent_id,
            citations=self._citations == "on" or (self._citations == "auto" and private),
        )
        return build_system_prompt(inputs), bootstrap

    def _tell_new(self, notices: Sequence[str], tell: Callable[[Notice], None]) -> None:
        """Tell what is not in the prompt as it lies on disk: once, and again only after it was mended. Its figures
        don't count: a file that is cut and grows would be told with every message."""
        now = {_FIGURES.sub("", text): text for text in notices}
        for gist, text in now.items():
            if gist not in self._told:
                tell(Notice(level="warning", text=text))
        self._told = set(now)

    def for_turn(
        self, model: ModelInfo, session_key: str, tell: Callable[[Notice], None]
    ) -> Callable[[Sequence[Message]], Awaitable[ChatRequest]]:
        """The `prepare` of one turn. `tell` is given what the user should know of the workspace files."""
        prompt: SystemPrompt | None = None

        async def prepare(messages: Sequence[Message]) -> ChatRequest:
            nonlocal prompt
            if prompt is None:
                built, bootstrap = await asyncio.to_thread(self._build, model, session_key)
                prompt = built
                self.last_system = prompt.text
                self._tell_new(bootstrap.notices, tell)
            return ChatRequest(
                system=prompt.text,
                messages=tuple(repair_pairs(list(messages))),
                tools=self._tools.specs if model.supports_tools else (),
                stable_prefix=prompt.stable_prefix,
            )

        return prepare
