"""The dependencies shared by all parts of an agent, assembled once when it is opened."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import tzinfo
from pathlib import Path

from msgspec import Struct

from clawbot.agent.status import Profile
from clawbot.agent.summary import BuiltinCompaction, Compaction
from clawbot.attachments.reading import Attachments
from clawbot.authors import Author, Recorder
from clawbot.clock import Clock
from clawbot.config.schema import MemorySettings
from clawbot.config.schema_agent import AgentSettings
from clawbot.deadline import Cancellation
from clawbot.hooks.dispatch import Dispatcher
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.llm.servers import ServerConsent
from clawbot.memory.backend import MemoryBackend
from clawbot.sessions.reset import ResetPolicy
from clawbot.sessions.store import SessionStore
from clawbot.skills.discovery import SkillCatalog
from clawbot.tools.changing import AskedFiles
from clawbot.tools.registry import Toolbox

Text = Callable[[], str]
OpenModel = Callable[[str], Awaitable[ChatModel]]
"""Opens a model by its reference. Raises ModelError."""


class CurrentModel:
    """The current model `chat`, opened by the reference `ref`; `open` opens others, `find` lists what can be used here.
    `usual` answers in sessions for which no other was chosen; `consent`: which detected servers may be used."""

    def __init__(
        self,
        open_model: OpenModel,
        chat: ChatModel,
        ref: str,
        *,
        find: Callable[[], Awaitable[list[ModelInfo]]],
        usual: str = "",
        consent: ServerConsent | None = None,
    ) -> None:
        self.open = open_model
        self.chat = chat
        self.ref = ref
        self.find = find
        self.usual = usual or ref
        self.consent = consent

    def instead(self, chat: ChatModel, ref: str) -> CurrentModel:
        """Return the same models with `chat` as the current one."""
        return CurrentModel(self.open, chat, ref or self.ref, find=self.find, usual=self.usual, consent=self.consent)

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


class FrontEnd(Struct, frozen=True):
    """What the program around a session allows and adds. `approvals`: somebody can answer questions; else those of the
    tools `approved` are allowed. `client` is the current request of the program in front of the user, for the
    prompt. `flush_at_end`: closing the session offers it to memory. `titles`: the model gives sessions their titles.
    `estimates`: tokens are estimated while they are few. `attachments` reads what messages mention, None where `@` has
    no meaning; `asked` gets the names of the files in the prompt; `run_prompt` takes a turn in another session, None
    where none can be opened."""

    approvals: bool = True
    approved: frozenset[str] = frozenset()
    client: Text = str
    flush_at_end: bool = True
    titles: bool = False
    estimates: bool = False
    attachments: Attachments | None = None
    asked: AskedFiles | None = None
    run_prompt: RunPrompt | None = None


class MemoryAccess(Struct, frozen=True):
    """The memory of the agent. `index` is None when it is switched off; `settings` are `memory`. `forget` removes words
    from notes and index, or only lists where they are unless it is `sure`, and returns lines; None where nobody can be
    asked. `recorder` records changes of memory files; `undo` takes the last one back, and returns what to show."""

    index: MemoryBackend | None = None
    settings: MemorySettings = MemorySettings()
    forget: Callable[[str, bool], Awaitable[list[str]]] | None = None
    recorder: Recorder | None = None
    undo: Callable[[Author], Awaitable[str]] | None = None


class SessionRules(Struct, frozen=True):
    """How sessions shrink and end: `compaction` makes room in the context, `reset` is when they end by the clock, and
    the end waits `hooks_patience` seconds for hooks."""

    compaction: Compaction = BuiltinCompaction()
    reset: ResetPolicy = ResetPolicy(daily_at=None, idle_minutes=None)
    hooks_patience: float = 0.0


class AgentDeps(Struct, frozen=True):
    """The dependencies of an agent. `hooks` runs the hooks, None when there are none; `skills` finds the skills, None
    where there can be none."""

    profile: Profile
    settings: AgentSettings
    workspace: Path
    store: SessionStore
    tools: Toolbox
    clock: Clock
    model: CurrentModel
    front: FrontEnd = FrontEnd()
    memory: MemoryAccess = MemoryAccess()
    rules: SessionRules = SessionRules()
    skills: SkillCatalog | None = None
    hooks: Dispatcher | None = None

    @property
    def zone(self) -> tzinfo | None:
        """The user's time zone."""
        return self.clock.now().tzinfo
