"""The system prompt of a turn: the workspace read fresh, and told once what of it is not in the prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.agent.events import Notice
from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.bootstrap import Bootstrap, BootstrapLimits, load_bootstrap
from clawbot.context.prompt import PromptInputs, SystemPrompt, build_system_prompt
from clawbot.llm.protocol import ModelInfo
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox

# Kinds of sessions that others than the user speak in (reference sheet 3.4 and 20): `agent:main:cron:<job>`.
_SHARED = {"group", "channel", "thread", "topic", "cron", "hook", "subagent", "acp"}
# Characters of workspace files for each token of the window: a fifth of it in English, three quarters in Chinese.
_FILES_PER_TOKEN = 0.75
_FIGURES = re.compile(r"\d[\d,]*")


def is_private_session(key: str) -> bool:
    """Whether only the user talks in the session `key`, so that MEMORY.md may be shown to the model.

    That are all that the user can name: a session or an agent that is just called `topic` is nobody else's.
    """
    words = key.lower().split(":")
    kinds = words[2:] if words[0] == "agent" else words
    return len(kinds) < 2 or _SHARED.isdisjoint(kinds)


class Built(Struct, frozen=True):
    """A system prompt and what it was made of."""

    prompt: SystemPrompt
    inputs: PromptInputs

    @property
    def bootstrap(self) -> Bootstrap:
        """The workspace files in it."""
        return self.inputs.bootstrap


class _Limits(Struct, frozen=True):
    max_chars: int
    total_max_chars: int


def _limits(wanted: BootstrapLimits, window: int) -> BootstrapLimits:
    """`wanted`, less where the files would leave no room in the window for a conversation."""
    total = min(wanted.total_max_chars, int(window * _FILES_PER_TOKEN))
    return _Limits(min(wanted.max_chars, total), total)


class Prompting:
    """The system prompt. It is built once for each turn, so that an edit of a workspace file is seen by the next
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
        self.workspace = workspace
        self._settings = settings
        self._tools = tools
        self._clock = clock
        self._agent_id = agent_id
        self._citations = citations
        self._told: set[str] = set()

    def _build(self, model: ModelInfo, session_key: str, window: int) -> Built:
        private = is_private_session(session_key)
        bootstrap = load_bootstrap(self.workspace, _limits(self._settings.bootstrap, window), main_session=private)
        inputs = PromptInputs(
            workspace=self.workspace,
            tools=self._tools.specs,
            bootstrap=bootstrap,
            now=self._clock.now(),
            model=model.ref,
            agent_id=self._agent_id,
            citations=self._citations == "on" or (self._citations == "auto" and private),
        )
        return Built(build_system_prompt(inputs), inputs)

    def _tell_new(self, notices: Sequence[str], tell: Callable[[Notice], None]) -> None:
        """Tell what is not in the prompt as it lies on disk: once, and again only after it was mended. Its figures
        don't count: a file that is cut and grows would be told with every message."""
        now = {_FIGURES.sub("", text): text for text in notices}
        for gist, text in now.items():
            if gist not in self._told:
                tell(Notice(level="warning", text=text))
        self._told = set(now)

    async def build(
        self, model: ModelInfo, session_key: str, tell: Callable[[Notice], None] | None, window: int
    ) -> Built:
        """The system prompt as the workspace stands now, for a model with a window of so many tokens. `tell` is given
        what the user should know of its files; None when nobody listens."""
        built = await asyncio.to_thread(self._build, model, session_key, window)
        if tell is not None:
            self._tell_new(built.bootstrap.notices, tell)
        return built
