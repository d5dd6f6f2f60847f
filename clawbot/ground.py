"""What a runtime stands on before there is a session: settings, log, workspace, sessions, index, hooks, tools."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from clawbot.agent.agent import Agent
from clawbot.agent.complete import complete
from clawbot.agent.events import Notice
from clawbot.agent.hook_services import RunPrompt
from clawbot.agent.parts import AgentParts
from clawbot.agent.views import AgentInfo
from clawbot.clock import SystemClock, epoch_ms
from clawbot.config.env import load_env
from clawbot.config.errors import ConfigError
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home, shipped
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.workspace import seed_workspace
from clawbot.errors import ClawbotError
from clawbot.hooks.discovery import FoundHook, discover
from clawbot.hooks.dispatch import Dispatcher
from clawbot.hooks.places import places_of
from clawbot.indexing import open_index
from clawbot.llm.factory import open_model
from clawbot.llm.models import find_models
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.logs import setup_logging
from clawbot.memory.index import MemoryIndex
from clawbot.memory.search.rerank import model_reranker
from clawbot.sessions.reset import policy_of
from clawbot.sessions.store import SessionStore
from clawbot.tools.agent_fence import agent_fence
from clawbot.tools.fence import Fence
from clawbot.tools.memory_of_agents import Memory, memory_tools_of_agents
from clawbot.tools.protocol import AnyTool
from clawbot.tools.registry import build_toolbox

log = logging.getLogger(__name__)


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


class Ground:
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
        self.hooks = self._make_hooks()

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
        return agent_fence(self.loaded.settings, self.agent_id, self.paths, self._hook_folders)

    def _make_hooks(self) -> Dispatcher | None:
        settings = self.loaded.settings.hooks
        return Dispatcher(self._find_hooks, self.clock, timeout=settings.timeout) if settings.enabled else None

    def _find_hooks(self) -> list[FoundHook]:
        """Those that there are now, with the settings as they are now. Blocks."""
        try:
            settings = self._load().settings.hooks
        except ConfigError as error:
            log.warning("the settings of the hooks are those of the start: %s", error)
            settings = self.loaded.settings.hooks
        return discover(places_of(self.paths, settings, self.workspace), settings)

    def _hook_folders(self) -> list[Path]:
        """Where the code of the hooks lies that are switched on."""
        return [hook.folder for hook in self.hooks.hooks if hook.enabled] if self.hooks else []

    def _agents(self) -> Iterator[AgentInfo]:
        settings = self.loaded.settings
        for agent_id in settings.agent_ids:
            agent = settings.agent(agent_id)
            yield AgentInfo(agent_id, agent.workspace, agent.model, agent_id == self.agent_id)

    def parts(self, run_prompt: RunPrompt) -> AgentParts:
        """What the agent is built of. `run_prompt` takes a turn in another session."""
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
            hooks=self.hooks,
            hooks_patience=self.loaded.settings.hooks.quit_timeout,
            home=self.paths.home,
            agents=tuple(self._agents()),
            run_prompt=run_prompt,
            reset=policy_of(self.loaded.settings.session.reset),
        )
