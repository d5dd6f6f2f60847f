"""One open session and its front end: opening it, on services of its own or shared ones, and closing it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from contextlib import AsyncExitStack

from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.commands import installed_commands
from clawbot.agent.conversation import Conversation, notices_of
from clawbot.agent.events import Notice
from clawbot.agent.slash import CommandInfo
from clawbot.agent.status import AgentInfo
from clawbot.background import Background, check_heartbeat, jobs_for, run_here, take_turn
from clawbot.config.env import save_key
from clawbot.hooks.events import RuntimeStart, SessionStart
from clawbot.indexing.memories import Memory
from clawbot.llm.process import keep_worker
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import PROVIDERS, Provider
from clawbot.local_model.offers import LocalModels
from clawbot.scheduling.jobs import Job, jobs_of
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import Schedule
from clawbot.services import RuntimeOptions, SharedServices
from clawbot.session_access import Sessions, Workspace
from clawbot.session_deps import open_agent
from clawbot.sessions.names import MAIN
from clawbot.sessions.store import OpenSession

__all__ = ["Runtime", "RuntimeOptions"]


class Runtime:
    """An agent in one session at a time. Implements RuntimeApi."""

    providers: Sequence[Provider] = PROVIDERS

    def __init__(
        self, agent: Agent, services: SharedServices, notices: Sequence[Notice], *, owns_services: bool = True
    ) -> None:
        self.agent = agent
        self.services = services
        self.paths = services.paths
        self.settings = services.loaded.settings
        self.notices = [*services.notices, *notices]
        self.memory = Memory(services.memory, services.workspace)
        self.sessions = Sessions(agent, services.history)
        self.workspace = Workspace(agent)
        self.local_models = LocalModels(services.paths)
        self._owns_services = owns_services
        self._warming: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, options: RuntimeOptions, services: SharedServices | None = None) -> Runtime:
        """Open a session. With `services`, the agent, model, settings and `watch` of `options` are ignored in favour of
        those the services were made with, and the caller closes the services.

        Raises ConfigError, SessionLockedError and other ClawbotErrors, after closing everything it opened.
        """
        async with AsyncExitStack() as undo:
            owned = services is None
            if services is None:
                services = await asyncio.to_thread(SharedServices, options)
                undo.push_async_callback(services.close)
            session = await asyncio.to_thread(services.store.open, options.session or MAIN, fresh=options.new)
            undo.push_async_callback(asyncio.to_thread, session.close)
            notices: list[Notice] = []
            model = await services.open_first_model(session.record.model_override, notices)
            undo.push_async_callback(model.chat.aclose)
            if options.warm:
                keep_worker(services.agent_settings.keep_client)
            warming = asyncio.create_task(model.chat.warm()) if options.warm else None
            commands = await asyncio.to_thread(installed_commands)
            conversation = await asyncio.to_thread(Conversation, services.store, session, services.clock)
            run_prompt = functools.partial(_take_turn_in, options, services)
            agent, problems = await open_agent(services, options, conversation, model, run_prompt)
            notices += notices_of(session)
            notices += [Notice(level="warning", text=text) for text in (*commands.problems, *problems)]
            runtime = cls(agent, services, notices, owns_services=owned)
            runtime._warming = warming
            undo.callback(services.remove, runtime.agent)
            await runtime._start(options, session)
            undo.pop_all()
        return runtime

    async def _start(self, options: RuntimeOptions, session: OpenSession) -> None:
        """Start the index, the hooks and the background work."""
        await self.agent.count_notes()
        await self.agent.find_unsent()
        await self.services.add(self.agent, self.memory)
        if session.is_new:
            self.agent.hooks.emit(SessionStart, reason="new")
        self.agent.hooks.emit(RuntimeStart, interactive=options.approvals)
        if session.others_pending:
            self.agent.ended.wake()
        if options.background:
            await self._background().add(self.agent)

    def _background(self) -> Background:
        """The background work of the services, created for the first session that wants it."""
        services = self.services
        if services.background is None:
            jobs = jobs_for(jobs_of(self.settings), services.agent_id)
            schedule = Schedule(jobs, Ledger(self.paths.schedule_file), services.clock)
            services.background = Background(services.agent_id, schedule, services.clock, self._do_elsewhere)
        return services.background

    async def _do_elsewhere(self, job: Job) -> str:
        """Run `job` in a session of its own, possibly of another agent. Raises ClawbotError, JobSkippedError."""
        if job.kind == "heartbeat":
            is_own = job.agent_id == self.services.agent_id
            await check_heartbeat(self.services.workspace if is_own else self.settings.agent(job.agent_id).workspace)
        runtime = await _open_for(job, self.services)
        try:
            return await runtime.run_job(job)
        finally:
            await runtime.close()

    async def close(self, *, hasty: bool = False) -> None:
        try:
            if self.services.background is not None:
                await self.services.background.remove(self.agent)
        except asyncio.CancelledError:
            hasty = True
            raise
        finally:
            await self._close(hasty=hasty)

    async def _close(self, *, hasty: bool) -> None:
        try:
            await self.agent.close(hasty=hasty, last=self._owns_services)
        finally:
            self.services.remove(self.agent)
            if self._owns_services:
                await self.services.close()

    @property
    def commands(self) -> list[CommandInfo]:
        return installed_commands().infos

    @property
    def agents(self) -> list[AgentInfo]:
        return list(self.agent.deps.profile.agents)

    async def run_job(self, job: Job) -> str:
        return await run_here(self.agent, job)

    async def models(self) -> list[ModelInfo]:
        return await self.agent.deps.model.find()

    async def skills(self) -> dict[str, str]:
        found = await asyncio.to_thread(self.services.skills.scan)
        return {skill.name: skill.manifest.description for skill in found if skill.offered}

    async def save_key(self, name: str, value: str) -> None:
        await asyncio.to_thread(save_key, self.paths, name, value)


async def _take_turn_in(options: RuntimeOptions, services: SharedServices, prompt: str, session: str) -> str:
    """Let the agent answer `prompt` in another session and return the reply. Raises ClawbotError."""
    runtime = await Runtime.open(options.elsewhere(session), services)
    try:
        return await take_turn(runtime.agent, prompt)
    finally:
        await runtime.close()


async def _open_for(job: Job, services: SharedServices) -> Runtime:
    """A runtime for `job`, on the same services if the agent is the same. Raises ClawbotError."""
    options = services.options.elsewhere(job.session_key)
    if job.agent_id == services.agent_id:
        return await Runtime.open(options, services)
    # The model and workspace given on the command line apply to its own agent only.
    return await Runtime.open(structs.replace(options, agent=job.agent_id, model=None, workspace=None))
