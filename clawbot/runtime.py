"""The composition root: builds the parts from the settings, owns their start and their end.

The front ends (tui, cli) talk to `Runtime` and read events.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from clawbot.agent.agent import Agent, AgentParts
from clawbot.agent.commands import COMMANDS
from clawbot.agent.complete import complete
from clawbot.agent.conversation import notices_of
from clawbot.agent.events import Event, Notice, SessionChanged
from clawbot.agent.views import CommandInfo, ContextReport, HistoryItem, RuntimeStatus
from clawbot.clock import SystemClock, epoch_ms
from clawbot.config.env import load_env, save_key
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home, shipped
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.workspace import seed_workspace
from clawbot.errors import ClawbotError
from clawbot.indexing import open_index
from clawbot.llm.factory import open_model
from clawbot.llm.models import find_models
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.llm.providers import PROVIDERS, Provider
from clawbot.llm.tokens import count_tokens
from clawbot.logs import setup_logging
from clawbot.memory.index import MemoryIndex
from clawbot.memory.search.rerank import model_reranker
from clawbot.memory.values import Progress, SearchRequest, SearchResult
from clawbot.sessions.listing import SessionSummary
from clawbot.sessions.names import MAIN
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from clawbot.tools.agent_fence import agent_fence
from clawbot.tools.fence import Fence
from clawbot.tools.memory_of_agents import Memory, memory_tools_of_agents
from clawbot.tools.protocol import AnyTool, Decision
from clawbot.tools.registry import build_toolbox
from clawbot.tools.workspace_files import list_workspace_files, read_workspace_file, write_workspace_file

# Of one result in the search screen: what the index returns for one range at most.
_RANGE_CHARS = 700


class RuntimeOptions(Struct, frozen=True, kw_only=True):
    """What the command line chose. `session` is a key, an id or the start of an id; `new` asks for a conversation of
    its own; `interactive` says that somebody can answer questions."""

    agent: str | None = None
    session: str | None = None
    new: bool = False
    model: str | None = None
    config_file: Path | None = None
    workspace: Path | None = None
    interactive: bool = True


class Runtime:
    """One running clawbot: one agent in one session at a time.

    `notices` is what was found while opening, `first_start` says that the workspace was made by this start. `memory` is
    the index over the notes, None when it is switched off; `memory_progress` is how far it is (None: it rests), and
    `on_memory_progress` is called on the event loop when that changes.
    """

    def __init__(self, agent: Agent, ground: _Ground) -> None:
        self.agent = agent
        self.paths = ground.paths
        self.settings = ground.loaded.settings
        self.notices = ground.notices
        self.first_start = ground.first_start
        self.memory = ground.memory
        self._other_memories = tuple(ground.other_memories.values())
        self.memory_progress: Progress | None = None
        self.on_memory_progress: Callable[[], None] | None = None
        self._clock = ground.clock
        if self.memory is not None:
            self.memory.on_progress = self._memory_progressed

    @classmethod
    async def open(cls, options: RuntimeOptions) -> Runtime:
        """Build everything for `options`. Raises ConfigError, SessionLockedError and other ClawbotErrors; nothing is
        left open then."""
        ground = await asyncio.to_thread(_Ground, options)
        session = await asyncio.to_thread(ground.store.open, options.session or MAIN, fresh=options.new)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, session.close)
            model, ref = await ground.open_first_model(session.record.model_override)
            undo.push_async_callback(model.aclose)
            ground.notices += notices_of(session)
            ground.agent = Agent(ground.parts, session, model, ref)
            runtime = cls(ground.agent, ground)
            await runtime.agent.count_notes()
            undo.pop_all()
        if runtime.memory is not None and options.interactive:
            runtime.memory.start()
        return runtime

    # -- the conversation ------------------------------------------------------------------------------------------

    @property
    def status(self) -> RuntimeStatus:
        """How the conversation stands."""
        return self.agent.status

    @property
    def commands(self) -> list[CommandInfo]:
        """The slash commands, in the order of `/help`."""
        return [command.info for command in COMMANDS.values()]

    def submit(self, text: str) -> AsyncGenerator[Event, None]:
        """Take up a message or a slash command; see `Agent.submit`."""
        return self.agent.submit(text)

    def interrupt(self) -> bool:
        """Stop the running turn, keeping what was said. False when nothing runs."""
        return self.agent.interrupt()

    def answer(self, request_id: str, decision: Decision, *, command: str | None = None) -> bool:
        """Answer an ApprovalRequested event; `command` runs in place of the one asked about."""
        return self.agent.answer(request_id, decision, command)

    async def history(self, *, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        """The last `limit` items of the conversation before the entry `before`, oldest first."""
        return await asyncio.to_thread(self.agent.conversation.session.transcript.history, before, limit)

    async def warm(self) -> None:
        """Load what the model's first call needs, so that the user does not wait for it then."""
        await self.agent.model.warm()

    async def export(self, form: Literal["md", "json"], path: Path | None, *, session: str | None = None) -> Path:
        """Write a conversation (this one, or the one that `session` names) to a file and return its path."""
        return await self.agent.export(form, path, session=session)

    async def context_report(self) -> ContextReport:
        """Where the tokens of the context window go, once the running turn has ended."""
        async with self.agent.exclusive():
            return await self.agent.context_report()

    async def measure(self) -> None:
        """Weigh what is in the context, once the running turn has ended, so that `status` knows it before the first
        turn counts it."""
        async with self.agent.exclusive():
            await self.agent.measure()

    @property
    def saving(self) -> bool:
        """Whether memory takes what was said right now, in a silent turn that yields no events."""
        return self.agent.saving

    @property
    def on_saving(self) -> Callable[[], None] | None:
        """Called on the event loop when `saving` changes."""
        return self.agent.on_saving

    @on_saving.setter
    def on_saving(self, tell: Callable[[], None] | None) -> None:
        self.agent.on_saving = tell

    @property
    def will_flush(self) -> bool:
        """Whether `close` takes a moment, because it saves to memory what was said."""
        return self.agent.will_flush

    async def close(self, *, hasty: bool = False) -> None:
        """End the running turn, save to memory what was said (not when it is `hasty`), write what is left, let go of
        the session, the model and the memory index."""
        try:
            await self.agent.close(hasty=hasty)
        finally:
            memories = [self.memory, *self._other_memories]
            await asyncio.gather(*(memory.close() for memory in memories if memory is not None))

    # -- sessions and models ---------------------------------------------------------------------------------------

    async def sessions(self) -> list[SessionSummary]:
        """All conversations of the agent, the last used first."""
        return await self.agent.sessions()

    async def preview(self, name: str, limit: int = 20) -> list[HistoryItem]:
        """The last items of another conversation: a key, an id or the start of an id."""
        return await asyncio.to_thread(self._preview, name, limit)

    def _preview(self, name: str, limit: int) -> list[HistoryItem]:
        store = self.agent.parts.store
        with Transcript.open(store.path_of(store.find(name)), clock=self._clock, writable=False) as transcript:
            return transcript.history(limit=limit)

    async def resume(self, name: str) -> SessionChanged:
        """Go on in another conversation, once the running turn has ended.

        Raises UnknownSessionError, SessionLockedError and SessionStoreError; the conversation stays as it is then.
        """
        async with self.agent.exclusive():
            record = await asyncio.to_thread(self.agent.parts.store.find, name)
            if record.session_id == self.agent.conversation.session_id:
                return SessionChanged(
                    session_key=self.agent.conversation.key, session_id=record.session_id, reason="resume"
                )
            return await self.agent.switch(await asyncio.to_thread(self.agent.parts.store.open, record.key))

    async def models(self) -> list[ModelInfo]:
        """The models that can be used here."""
        return await self.agent.models()

    @property
    def providers(self) -> Sequence[Provider]:
        """The makers of models whose keys are looked for."""
        return PROVIDERS

    async def set_model(self, ref: str) -> ModelInfo:
        """Answer with another model once the running turn has ended; remembered for the session."""
        async with self.agent.exclusive():
            return await self.agent.set_model(ref)

    async def save_key(self, name: str, value: str) -> None:
        """Keep a provider's key in `$CLAWBOT_HOME/.env` (0600), and use it from now on."""
        await asyncio.to_thread(save_key, self.paths, name, value)

    # -- workspace files -------------------------------------------------------------------------------------------

    async def workspace_files(self) -> list[str]:
        """The text files of the workspace, as paths relative to it."""
        return await asyncio.to_thread(list_workspace_files, self.status.workspace)

    async def read_workspace_file(self, name: str) -> str:
        """The text of a workspace file; empty when there is none of that name. Raises ClawbotError."""
        return await asyncio.to_thread(read_workspace_file, self.status.workspace, name)

    async def write_workspace_file(self, name: str, text: str) -> None:
        """Replace a workspace file, whole or not at all. Raises ClawbotError."""
        await asyncio.to_thread(write_workspace_file, self.status.workspace, name, text)

    # -- memory ----------------------------------------------------------------------------------------------------

    async def search_memory(self, query: str, limit: int = 30) -> SearchResult:
        """What is remembered about `query`, at most `limit` places, the best first; its last word may be typed half.

        Raises ClawbotError when the memory can't be searched.
        """
        if self.memory is None:
            raise ClawbotError("The memory index is off.", hint="Set memory_search.enabled in the settings.")
        request = SearchRequest(queries=(query,), max_results=limit, max_chars=limit * _RANGE_CHARS, prefix=True)
        return await self.memory.search(request)

    async def read_memory(self, path: str) -> str:
        """The text of a memory file as it is now; empty when there is none. Raises ClawbotError."""
        if self.memory is None:
            return await self.read_workspace_file(path)
        return await self.memory.text(path)

    @property
    def memory_generation(self) -> int:
        """Grows when there may be something else to find in the memory than before; `on_memory_progress` tells it."""
        return self.memory.generation if self.memory is not None else 0

    def _memory_progressed(self, progress: Progress | None) -> None:
        self.memory_progress = progress
        if self.on_memory_progress is not None:
            self.on_memory_progress()

    async def count_tokens(self, text: str) -> int:
        """How many tokens `text` takes in the context, exactly where a vocabulary is at hand."""
        return await count_tokens(text)


class _Ground:
    """What a runtime stands on before there is a session: settings, log, workspace, the sessions' folder. Blocks."""

    def __init__(self, options: RuntimeOptions) -> None:
        self.options = options
        self.paths = Paths(find_home())
        self.agent_id = options.agent or MAIN_AGENT
        self.paths.ensure_home()
        load_env(self.paths)
        self.loaded = self._load()
        self.agent_settings: AgentSettings = self.loaded.settings.agent(self.agent_id)
        self.notices = [Notice(level="warning", text=text) for text in self.loaded.notices]
        self._start_log()
        zone = self.agent_settings.timezone
        self.clock = SystemClock(ZoneInfo(zone) if zone else None)
        self.workspace = self.agent_settings.workspace
        self.first_start = not os.access(self.workspace, os.F_OK)
        seed_workspace(self.workspace, shipped("workspace_template"), self.clock)
        self.store = SessionStore(
            self.paths.sessions(self.agent_id), self.clock, agent_id=self.agent_id, cwd=self.workspace
        )
        self.usual_model = options.model or self.agent_settings.model
        self.agent: Agent | None = None
        self.memory = self._open_memory()
        self.other_memories = self._open_other_memories()
        self.parts = self._parts()

    def _load(self) -> LoadedSettings:
        overrides: dict[str, str] = {}
        if self.options.workspace is not None:
            overrides[f"agents.{self.agent_id}.workspace"] = str(self.options.workspace.expanduser().absolute())
        return load_settings(self.paths, config_file=self.options.config_file, overrides=overrides)

    def _start_log(self) -> None:
        logging = self.loaded.settings.logging
        problem = setup_logging(self.paths.log_file, logging.level, logging.max_bytes, logging.backups)
        if problem:
            self.notices.append(Notice(level="warning", text=problem))

    async def open_model(self, ref: str) -> ChatModel:
        """Open the model that `ref` names. Raises ModelError."""
        return await open_model(ref, self.agent_settings, clock=self.clock, log_path=self.paths.log_file)

    async def open_first_model(self, chosen: str | None) -> tuple[ChatModel, str]:
        """The model that answers first, and the reference it was opened by: the command line's, else the one `chosen`
        for the session, else that of the settings.

        A choice that has become impossible (a script that is gone) is told and passed over: it was made in the chat,
        which would not open any more. Raises ModelError for the others.
        """
        if chosen and self.options.model is None:
            try:
                return await self.open_model(chosen), chosen
            except ClawbotError as error:
                text = f"{chosen}, chosen for this session, can't be used ({error}), so {self.usual_model} answers."
                self.notices.append(Notice(level="warning", text=text))
        return await self.open_model(self.usual_model), self.usual_model

    async def find_models(self) -> list[ModelInfo]:
        """The models that can be used here."""
        return await find_models(self.agent_settings)

    def _open_memory(self) -> MemoryIndex | None:
        wanted = self.agent_settings.memory_search.query.rerank == "model"
        return open_index(
            self.loaded.settings,
            self.agent_id,
            self.paths,
            self.clock,
            long_lived=self.options.interactive,
            rerank=model_reranker(self._ask_model) if wanted else None,
        )

    async def _ask_model(self, system: str, prompt: str) -> str:
        """What the model that answers now says to `prompt`. Raises ModelError."""
        if self.agent is None:
            return ""
        now = epoch_ms(self.clock.now())
        return await complete(self.agent.model, system, prompt, purpose="rerank", timestamp=now)

    def _memory_tools(self) -> tuple[AnyTool, ...]:
        if self.memory is None:
            return ()
        settings = self.loaded.settings
        memories = {
            agent_id: Memory(index, settings.agent(agent_id).memory_search.query.max_injected_chars)
            for agent_id, index in {self.agent_id: self.memory, **self.other_memories}.items()
        }
        return memory_tools_of_agents(
            self.agent_id,
            memories,
            output_max_chars=self.agent_settings.tools.output_max_chars,
            citations=settings.memory.citations,
        )

    def _open_other_memories(self) -> dict[str, MemoryIndex]:
        """The memories of other agents that this one may search; none of them is looked at before it is asked."""
        settings = self.loaded.settings
        opened = {
            other: open_index(settings, other, self.paths, self.clock)
            for other in settings.allowed_agents(self.agent_id)
        }
        return {other: index for other, index in opened.items() if index is not None}

    def _fence(self) -> Fence:
        return agent_fence(self.loaded.settings, self.agent_id, self.paths)

    def _parts(self) -> AgentParts:
        return AgentParts(
            agent_id=self.agent_id,
            settings=self.agent_settings,
            workspace=self.workspace,
            store=self.store,
            tools=build_toolbox(
                self.workspace, self.agent_settings, self.clock, self._memory_tools(), fence=self._fence()
            ),
            clock=self.clock,
            open_model=self.open_model,
            find_models=self.find_models,
            usual_model=self.usual_model,
            interactive=self.options.interactive,
            recall=self.memory,
            citations=self.loaded.settings.memory.citations,
        )
