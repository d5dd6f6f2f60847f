"""What the sessions of one agent share in a process: settings, log, workspace, session store, memory, hooks, jobs."""

from __future__ import annotations

import asyncio
import functools
import logging
import resource
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from clawbot.agent.agent import Agent
from clawbot.agent.deps import CurrentModel
from clawbot.agent.events import Notice
from clawbot.background import Background
from clawbot.clock import SystemClock, epoch_ms
from clawbot.config.env import load_env
from clawbot.config.errors import ConfigError
from clawbot.config.keys import KeyMap
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home, shipped
from clawbot.config.schema_agent import AgentSettings, Mode
from clawbot.config.switches import NOTHING
from clawbot.context.workspace import bent_paths, seed_workspace
from clawbot.errors import ClawbotError
from clawbot.files import unreported
from clawbot.history import Noticer, history_of
from clawbot.hooks.discovery import GUARDED, FoundHook, find_hooks, trusted_hooks
from clawbot.hooks.dispatch import LOADING, Dispatcher, LastRun
from clawbot.indexing.memories import AgentMemories, Memory
from clawbot.llm.factory import open_model
from clawbot.llm.models import find_models, skipped_fallbacks
from clawbot.llm.protocol import ChatModel, complete
from clawbot.llm.servers import ServerConsent
from clawbot.logs import setup_logging
from clawbot.mcp.client import McpClient
from clawbot.memory.values import Progress
from clawbot.sessions.store import SessionStore
from clawbot.skills.discovery import SkillCatalog
from clawbot.text.interface import _
from clawbot.tools.sandbox.recovery import recover

log = logging.getLogger(__name__)


class RuntimeOptions(Struct, frozen=True, kw_only=True):
    """The choices of a front end. `session` is a key, an id or a prefix of an id; `new` asks for a new conversation.

    `approvals`: somebody can answer questions. `mentions`: `@path` in a message attaches a file. `watch`: keep the
    index up to date by watching the files (for more than one search). `background`: run the schedule and automatic
    session ends. `titles`: let the model give sessions their titles, if the settings do. `flush_at_end`: save the
    conversation to memory when the session is closed. `warm`: load what a call of the model needs while the session is
    opened, since one follows at once. `estimates`: estimate tokens while they are few, as counting takes a vocabulary
    (0.3 s, 70 MB) that one turn can do without. `approved`: tools whose questions are answered with yes where nobody
    can be asked. `client`: what the program in front of the user asks for at the moment, for the prompt.
    `mode` replaces that of the settings.
    """

    agent: str | None = None
    session: str | None = None
    new: bool = False
    model: str | None = None
    config_file: Path | None = None
    workspace: Path | None = None
    approvals: bool = True
    mentions: bool = True
    watch: bool = True
    background: bool = True
    titles: bool = True
    flush_at_end: bool = True
    warm: bool = False
    estimates: bool = False
    approved: frozenset[str] = frozenset()
    client: Callable[[], str] = str
    mode: Mode | None = None

    def unattended(self) -> RuntimeOptions:
        """The same for a single turn with nobody there to answer."""
        return structs.replace(self, approvals=False, watch=False, background=False, titles=False, flush_at_end=False)

    def elsewhere(self, session: str) -> RuntimeOptions:
        """The same for a turn that the program itself takes in another session."""
        return structs.replace(self.unattended(), session=session, new=False, approved=frozenset(), client=str)


MIN_MEMORY = 512 * 1024**2
"""Bytes of address space. With 400 MB or less, threads and libraries fail in the middle of a conversation; some abort
the process, so nothing can be reported."""


def _demand_memory() -> None:
    """Raise ClawbotError if this process is limited to too little memory for a conversation."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < MIN_MEMORY:
        raise ClawbotError(
            f"This process may use {limit >> 20:,} MiB of memory (ulimit -v); {MIN_MEMORY >> 20} MiB are needed.",
            hint="Raise the limit, for example with `ulimit -v unlimited`.",
        )


class SharedServices:
    """What the sessions of the agent `options.agent` share; `notices` are the problems found while creating it.

    Each session is added before its first turn and removed before it is closed; the creator of the services closes them
    after the last one. Progress of the index and failures of hooks are reported to all open sessions.
    """

    background: Background | None = None
    _started = False

    def __init__(self, options: RuntimeOptions) -> None:
        """Read the settings, and create the home and workspace if needed. Blocks. Raises ConfigError and other
        ClawbotErrors."""
        _demand_memory()
        self.options = options
        self.paths = Paths(find_home())
        self.agent_id = options.agent or MAIN_AGENT
        self.paths.ensure_home()
        left_out = load_env(self.paths).notices(self.paths.env_file)
        self.loaded = self._load()
        self.agent_settings: AgentSettings = self.loaded.settings.agent(self.agent_id)
        zone = self.agent_settings.timezone
        self.clock = SystemClock(ZoneInfo(zone) if zone else None)
        news = unreported(self.paths.home / "env.told", left_out, self.clock.now())
        self.notices = [Notice(level="warning", text=text) for text in (*news, *self.loaded.notices)]
        self._start_log()
        self.consent = ServerConsent(self.paths.servers_file)
        self.workspace = self.agent_settings.workspace
        self.history = history_of(self.loaded.settings, self.paths, self.agent_id, self.clock)
        self._noticer = Noticer(self.history)
        self._prepare_workspace()
        self.store = SessionStore(
            self.paths.sessions(self.agent_id), self.clock, agent_id=self.agent_id, cwd=self.workspace
        )
        self.usual_model = options.model or self.agent_settings.model
        self.sessions: dict[Agent, Memory] = {}
        self.memories = AgentMemories(
            self.loaded.settings,
            self.agent_id,
            self.paths,
            self.clock,
            long_lived=options.watch,
            open_sessions=lambda: frozenset(agent.conversation.session_id for agent in self.sessions),
            ask=self._ask_model,
        )
        self.memory = self.memories.own
        self.hooks = self._make_hooks()
        self.skills = SkillCatalog(self.paths, self.loaded.settings.skills, self.workspace, self.agent_settings.skills)
        self.mcp = self._make_mcp()
        self._hook_reports: dict[str, str] = {}

    def _prepare_workspace(self) -> None:
        """Create what is missing in the workspace, and restore what an interrupted command had swapped."""
        if left := recover(self.paths.home, self.workspace):
            self.notices.append(Notice(level="warning", text=left))
        self.history.warn = lambda text: self.notices.append(Notice(level="warning", text=text))
        record = self.paths.workspace_record(self.workspace)
        seed_workspace(self.workspace, shipped("workspace_template"), self.clock, record, self.history)
        self.notices += _bent_notices(self.workspace)

    async def add(self, agent: Agent, memory: Memory) -> None:
        """Add the open session of `agent`, whose front end searches with `memory`. The first one starts the background
        work."""
        self.sessions[agent] = memory
        await self.start()

    async def start(self) -> None:
        """Start following the files and load the hooks, once."""
        if self._started:
            return
        self._started = True
        loop = asyncio.get_running_loop()
        self.history.warn = lambda text: loop.call_soon_threadsafe(self._warn, text)
        if self.memory is not None:
            self.memory.on_progress = self._progressed
            if self.options.watch:
                self.memory.start()
                self.probe_vectors(deep=True)
        if self.options.watch:
            self._noticer.wake(self.memory.generation if self.memory is not None else 0)
        if self.hooks is not None:
            self.hooks.on_failure = self._hook_failed
            self.hooks.on_load = self._hooks_found
            await self.hooks.load()
            self.hooks.prepare(GUARDED)
        if self.mcp is not None:
            self.mcp.warn = self._warn
            # Nobody waits before a screen; a single turn has no next one in which the tools could come.
            self.mcp.discover_later() if self.options.approvals else await self.mcp.discover()

    def remove(self, agent: Agent) -> None:
        """Remove the session of `agent`, which is about to be closed."""
        self.sessions.pop(agent, None)

    def probe_vectors(self, *, deep: bool) -> None:
        """Check in the background whether the embedding provider works, and report once if it does not. `deep`: send it
        one word."""
        self.memories.vectors.start(self._warn, deep=deep)

    async def close(self) -> None:
        """Stop the hooks and close the memory, also when the caller is cancelled. All sessions must be closed."""
        await asyncio.shield(asyncio.get_running_loop().create_task(self._close()))

    async def _close(self) -> None:
        try:
            for part in (self.hooks, self.memories.vectors, self.mcp, self._noticer):
                if part is not None:
                    await part.close()
        finally:
            await self.memories.close()

    def _progressed(self, progress: Progress | None) -> None:
        if progress is None and self.options.watch and self.memory is not None:
            self._noticer.wake(self.memory.generation)
        for memory in self.sessions.values():
            memory.progressed(progress)

    def _hooks_found(self, hooks: tuple[FoundHook, ...]) -> None:
        """Report once each hook that can't run although the user wants it."""
        agent = "" if self.agent_id == MAIN_AGENT else f" --agent {self.agent_id}"
        off = _("The hook {name} is off: {reason}. Read {folder}, then `clawbot hooks enable {name}{agent}`.")
        broken = _("The hook {name} does not run (`clawbot hooks check{agent}` lists what to do): {reason}")
        for hook in (hook for hook in hooks if hook.off_because or hook.blocked):
            reason = _(hook.off_because) or hook.reason()
            text = off if hook.off_because else broken
            text = text.format(name=hook.name, reason=reason, folder=hook.folder, agent=agent)
            self._report_hook(hook.name, f"{reason}{hook.digest}", text, guards=hook.required)

    def _hook_failed(self, name: str, run: LastRun) -> None:
        if run.status != "cancelled":
            text = _("The hook {name} failed at {event}: {error}").format(name=name, event=run.topic, error=run.error)
            required = {hook.name for hook in self.hooks.hooks if hook.required} if self.hooks is not None else ()
            self._report_hook(name, run.error, text, guards=name in required and run.topic in (GUARDED, LOADING))

    def _report_hook(self, name: str, reason: str, text: str, *, guards: bool) -> None:
        """Report a hook that does not work, unless the last report on it had the same `reason`."""
        if self._hook_reports.get(name) != reason:
            self._hook_reports[name] = reason
            refused = _("Tool calls are refused without the hook {name}, which is required.").format(name=name)
            self._warn(f"{refused} {text}" if guards else text)

    def _warn(self, text: str) -> None:
        log.warning("%s", text)
        for agent in self.sessions:
            agent.notify(Notice(level="warning", text=text))

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
        """Raises ModelError, also for a provider that litellm does not know, but for the usual model."""
        return await open_model(
            ref,
            self.agent_settings,
            clock=self.clock,
            log_path=self.paths.log_file,
            consent=self.consent,
            keys=KeyMap(self.loaded.settings.tui.keys),
            checked=ref != self.usual_model,
        )

    async def open_first_model(self, chosen: str | None, notices: list[Notice]) -> CurrentModel:
        """The initial model: from the command line, else the one `chosen` for the session, else from the settings.

        If the chosen one is no longer available (for example a deleted script), it is skipped with a warning in
        `notices`; otherwise the chat could not be opened any more. Fallbacks without a key are named there, too. Raises
        ModelError for the others.
        """
        notices += [Notice(level="warning", text=text) for text in skipped_fallbacks(self.agent_settings)]
        chat, ref = None, self.usual_model
        if chosen and self.options.model is None:
            try:
                chat, ref = await self.open_model(chosen), chosen
            except ClawbotError as error:
                text = _("{model}, chosen for this conversation, can't be used ({error}), so {other} answers.")
                text = text.format(model=chosen, error=error, other=self.usual_model)
                notices.append(Notice(level="warning", text=text))
        chat = chat or await self.open_model(ref)
        find = functools.partial(find_models, self.agent_settings)
        return CurrentModel(self.open_model, chat, ref, find=find, usual=self.usual_model, consent=self.consent)

    async def _ask_model(self, system: str, prompt: str) -> str:
        """Ask the model of the first opened session. Raises ModelError."""
        first = next(iter(self.sessions), None)
        if first is None:
            return ""
        now = epoch_ms(self.clock.now())
        return await complete(first.deps.model.chat, system, prompt, purpose="rerank", timestamp=now)

    def _make_hooks(self) -> Dispatcher | None:
        settings = self.hook_settings = self.loaded.settings.hooks
        is_needed = settings.enabled or any(entry.required for entry in settings.named().values())
        return Dispatcher(self._find_hooks, self.clock, timeout=settings.timeout) if is_needed else None

    def _make_mcp(self) -> McpClient | None:
        settings = self.loaded.settings.mcp
        if not settings.named():
            return None
        client = McpClient(settings, self.paths, self.clock)
        if client.missing:
            self.notices.append(Notice(level="warning", text=client.how_to_install))
        return client

    def _find_hooks(self) -> list[FoundHook]:
        """Discover hooks, re-reading the settings. Blocks."""
        try:
            settings = self._load().settings.hooks
        except ConfigError as error:
            log.warning("hooks keep the settings read at the start: %s", error)
            settings = self.loaded.settings.hooks
        self.hook_settings = settings
        try:
            trusted = trusted_hooks(self.paths.switches_file, self.loaded.settings.workspaces)
        except ConfigError as error:
            log.warning("no hook of the workspace is trusted: %s", error)
            trusted = NOTHING
        return find_hooks(self.paths, settings, self.workspace, trusted)


def _bent_notices(workspace: Path) -> list[Notice]:
    """One line about what is in the way of the program in the workspace, if anything is. Blocks."""
    if not (bent := bent_paths(workspace)):
        return []
    text = _("Not used in the workspace: {places}. `clawbot doctor --fix` mends what can be mended.")
    return [Notice(level="warning", text=text.format(places="; ".join(map(str, bent))))]
