"""The dependencies shared by all parts of an agent, assembled once when it is opened."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from pathlib import Path

from msgspec import Struct

from clawbot.agent.status_types import AgentInfo, McpStatus
from clawbot.agent.summary import BuiltinCompaction, Compaction
from clawbot.attachments.reading import Attachments
from clawbot.clock import Clock
from clawbot.config.paths import DEFAULTS
from clawbot.config.schema_agent import AgentSettings
from clawbot.deadline import Cancellation
from clawbot.hooks.dispatch import Dispatcher
from clawbot.llm.consent import ServerConsent
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.memory.backend import MemoryBackend
from clawbot.sessions.reset import ResetPolicy
from clawbot.sessions.store import SessionStore
from clawbot.skills.discovery import SkillShelf
from clawbot.tools.changing import AskedFiles
from clawbot.tools.memory_output import Citations
from clawbot.tools.registry import Toolbox

OpenModel = Callable[[str], Awaitable[ChatModel]]
"""Opens a model by its reference. Raises ModelError."""


class CurrentModel:
    """The current model `chat`, opened by the reference `ref`; `open` opens others."""

    def __init__(self, open_model: OpenModel, chat: ChatModel, ref: str) -> None:
        self.open = open_model
        self.chat = chat
        self.ref = ref

    @property
    def info(self) -> ModelInfo:
        """The properties of the current model."""
        return self.chat.info

    @asynccontextmanager
    async def borrow(self, ref: str | None, cancel: Cancellation | None = None) -> AsyncIterator[ChatModel]:
        """The model `ref`, closed at the end of the context; without a reference the current one. Raises ModelError,
        and InterruptedTurnError if `cancel` is requested while it is opened."""
        if not ref:
            yield self.chat
            return
        model = await (cancel or Cancellation()).run(functools.partial(self.open, ref))
        try:
            yield model
        finally:
            await model.aclose()

    async def replace(self, model: ChatModel, ref: str) -> None:
        """Use `model` from now on, and close the previous one."""
        old, self.chat, self.ref = self.chat, model, ref
        await old.aclose()


RunPrompt = Callable[[str, str], Awaitable[str]]
"""Lets the agent take a turn: takes the prompt and the session's name, returns the reply."""


class AgentDeps(Struct, frozen=True):
    """The dependencies of an agent. `model` answers, and opens others; `find_models` lists what can be used here;
    `usual_model` answers in sessions for which no other was chosen; `consent` says which servers
    found here may be used. `approvals`: somebody can answer questions; else
    those of the tools `approved` are allowed; `client` is what the program through which the user talks asks for now;
    `flush_at_end`: memory is offered what was said when the session is closed; `titles`: the model
    gives sessions their titles. `recall` is the memory index, None when
    it is switched off; `skills` finds the skills, None where there can be none; `citations` is `memory.citations`.
    `hooks` runs the hooks, None when there are none, and the end waits `hooks_patience` seconds for them; `asked` is
    told which files stand in the prompt; `home` is the state folder; `attachments` reads what messages mention, None
    where `@` is talk; `agents` are those of the settings; `run_prompt` takes a turn in another session, None where none
    can be opened; `forget` takes words out of notes and memory, or only says where they are unless it is `sure`, and
    returns lines; `compaction` makes room in the context; `reset` says when sessions end by the clock; `memory_problem`
    why notes are found by words alone now, empty while they are not; `mcp` how the MCP servers stand; `warnings` say
    what of packages is not used; `origins` are those of the settings, by key."""

    agent_id: str
    settings: AgentSettings
    workspace: Path
    store: SessionStore
    tools: Toolbox
    clock: Clock
    model: CurrentModel
    find_models: Callable[[], Awaitable[list[ModelInfo]]]
    usual_model: str
    consent: ServerConsent | None = None
    approvals: bool = True
    approved: frozenset[str] = frozenset()
    client: Callable[[], str] = str
    flush_at_end: bool = True
    titles: bool = False
    skills: SkillShelf | None = None
    recall: MemoryBackend | None = None
    citations: Citations = "auto"
    hooks: Dispatcher | None = None
    hooks_patience: float = 0.0
    asked: AskedFiles | None = None
    home: Path = Path()
    attachments: Attachments | None = None
    agents: tuple[AgentInfo, ...] = ()
    run_prompt: RunPrompt | None = None
    forget: Callable[[str, bool], Awaitable[list[str]]] | None = None
    compaction: Compaction = BuiltinCompaction()
    reset: ResetPolicy = ResetPolicy(daily_at=None, idle_minutes=None)
    memory_problem: Callable[[], str] = str
    mcp: Callable[[], tuple[McpStatus, ...]] = tuple
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = {}

    def origin(self, key: str) -> str:
        """Where the value of `key` of the agent's settings comes from: `FILE:LINE`, `default` or `command line`."""
        owners = (self.agent_id, DEFAULTS)
        found = (self.origins.get(f"agents.{owner}.{key}") for owner in owners)
        return next(filter(None, found), "default")

    @property
    def zone(self) -> tzinfo | None:
        """The user's time zone."""
        return self.clock.now().tzinfo
