"""The system prompt of a turn: the workspace read fresh, and told once what of it is not in the prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.agent.events import Notice
from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.bootstrap import (
    Bootstrap,
    BootstrapFile,
    BootstrapLimits,
    NamedText,
    apply_hooked,
    cap_bootstrap,
    read_bootstrap,
)
from clawbot.context.privacy import Privacy, privacy_of
from clawbot.context.prompt import PromptInputs, SystemPrompt, build_system_prompt
from clawbot.llm.protocol import ModelInfo
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox

# Characters of workspace files for each token of the window: a fifth of it in English, three quarters in Chinese.
_FILES_PER_TOKEN = 0.75
_FIGURES = re.compile(r"\d[\d,]*")


OnBootstrap = Callable[[Sequence[BootstrapFile]], Awaitable[Sequence[NamedText]]]
"""Gives hooks the workspace files of a prompt; returns them as the hooks left them."""


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
    message and the prompt stays the same within a tool loop. `on_bootstrap` may change the files in it."""

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
        self.on_bootstrap: OnBootstrap | None = None

    async def _read(self, privacy: Privacy) -> Bootstrap:
        read = await asyncio.to_thread(read_bootstrap, self.workspace, privacy)
        if self.on_bootstrap is None:
            return read
        hooked = await self.on_bootstrap(read.files)
        return await asyncio.to_thread(apply_hooked, read, hooked, self.workspace, privacy)

    def _build(self, model: ModelInfo, privacy: Privacy, read: Bootstrap, window: int) -> Built:
        inputs = PromptInputs(
            workspace=self.workspace,
            tools=self._tools.for_session(privacy).specs,
            bootstrap=cap_bootstrap(read, _limits(self._settings.bootstrap, window)),
            now=self._clock.now(),
            model=model.ref,
            agent_id=self._agent_id,
            notes=privacy.memory_tools,
            citations=self._citations == "on" or (self._citations == "auto" and privacy.citations),
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
        privacy = privacy_of(session_key)
        built = self._build(model, privacy, await self._read(privacy), window)
        if tell is not None:
            self._tell_new(built.bootstrap.notices, tell)
        return built
