"""The composition root: builds the parts from the settings, owns their start and their end.

The front ends (tui, cli) talk to `Runtime` and read events.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.commands import COMMANDS
from clawbot.agent.conversation import notices_of
from clawbot.agent.events import Event, Notice, SessionChanged
from clawbot.agent.notes import locate_note
from clawbot.agent.views import AgentInfo, CommandInfo, ContextReport, HistoryItem, HookStatus, RuntimeStatus
from clawbot.background import Background, BackgroundParts, jobs_for, run_here, take_turn
from clawbot.config.env import save_key
from clawbot.config.paths import MAIN_AGENT
from clawbot.errors import ClawbotError
from clawbot.ground import Ground, RuntimeOptions
from clawbot.hooks.dispatch import LastRun
from clawbot.hooks.events import RuntimeStart, SessionStart
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import PROVIDERS, Provider
from clawbot.llm.tokens import count_tokens
from clawbot.memory.values import Progress, SearchRequest, SearchResult
from clawbot.scheduling.jobs import Job, jobs_of
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import Schedule
from clawbot.sessions.listing import SessionSummary
from clawbot.sessions.names import MAIN
from clawbot.sessions.store import OpenSession
from clawbot.sessions.transcript import Transcript
from clawbot.tools.protocol import Decision
from clawbot.tools.workspace_files import list_workspace_files, read_workspace_file, write_workspace_file

__all__ = ["Runtime", "RuntimeOptions"]

log = logging.getLogger(__name__)

# Of one result in the search screen: what the index returns for one range at most.
_RANGE_CHARS = 700


class Runtime:
    """One running clawbot: one agent in one session at a time.

    `notices` is what was found while opening, `first_start` says that the workspace was made by this start. `memory` is
    the index over the notes, None when it is switched off; `memory_progress` is how far it is (None: it rests), and
    `on_memory_progress` is called on the event loop when that changes.
    """

    def __init__(self, agent: Agent, ground: Ground) -> None:
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
        self._ground = ground
        self._background: Background | None = None
        self._hook_errors: dict[str, str] = {}
        if self.memory is not None:
            self.memory.on_progress = self._memory_progressed
        if ground.hooks is not None:
            ground.hooks.on_failure = self._hook_failed

    @classmethod
    async def open(cls, options: RuntimeOptions) -> Runtime:
        """Build everything for `options`. Raises ConfigError, SessionLockedError and other ClawbotErrors; nothing is
        left open then."""
        ground = await asyncio.to_thread(Ground, options)
        session = await asyncio.to_thread(ground.store.open, options.session or MAIN, fresh=options.new)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, session.close)
            model, ref = await ground.open_first_model(session.record.model_override)
            undo.push_async_callback(model.aclose)
            ground.notices += notices_of(session)
            run_prompt = functools.partial(_take_turn_in, options)
            ground.agent = Agent(ground.parts(run_prompt), session, model, ref)
            runtime = cls(ground.agent, ground)
            await runtime.agent.count_notes()
            await runtime._start(session)
            undo.pop_all()
        return runtime

    async def _start(self, session: OpenSession) -> None:
        """Let the rest begin: the index, the hooks, and, where somebody sits at a screen, what is done by the clock."""
        ground, options, hooking = self._ground, self._ground.options, self.agent.hooking
        if self.memory is not None and options.interactive:
            self.memory.start()
        if ground.hooks is not None:
            await ground.hooks.load()
        if session.is_new:
            hooking.tell(hooking.make(SessionStart, reason="new"))
        hooking.tell(hooking.make(RuntimeStart, interactive=options.interactive))
        if options.interactive:
            schedule = Schedule(
                jobs_for(jobs_of(self.settings), ground.agent_id), Ledger(self.paths.schedule_file), self._clock
            )
            run = functools.partial(_do_job_in, options)
            self._background = Background(BackgroundParts(self.agent, schedule, self._clock, run, self.agent.announce))
            await self._background.start()

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

    @property
    def on_event(self) -> Callable[[Event], None] | None:
        """Called on the event loop with what belongs to nothing that was submitted: a reset by the clock, a note that
        got another name, a hook that failed."""
        return self.agent.on_event

    @on_event.setter
    def on_event(self, tell: Callable[[Event], None] | None) -> None:
        self.agent.on_event = tell

    async def hooks(self) -> list[HookStatus]:
        """The hooks as they are now, and how each did last."""
        return await self.agent.hooks()

    @property
    def agents(self) -> list[AgentInfo]:
        """The agents of the settings."""
        return self.agent.agents

    async def run_job(self, job: Job) -> str:
        """Do what `job` asks for in the session that is open, and return the reply. Raises JobSkippedError when there
        is nothing to do, ClawbotError when it failed."""
        return await run_here(self.agent, job)

    def _hook_failed(self, name: str, run: LastRun) -> None:
        """Tell the user, and of the same failure only once."""
        if run.status != "cancelled" and self._hook_errors.get(name) != run.error:
            self._hook_errors[name] = run.error
            self.agent.announce(Notice(level="warning", text=f"The hook {name} failed at {run.topic}: {run.error}"))

    async def close(self, *, hasty: bool = False) -> None:
        """End the running turn and the jobs, save to memory what was said and wait a little for the hooks (not when it
        is `hasty`), write what is left, let go of the session, the model and the memory index."""
        try:
            if self._background is not None:
                await self._background.stop()
        finally:
            await self._close(hasty=hasty)

    async def _close(self, *, hasty: bool) -> None:
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
            store = self.agent.parts.store
            session = await asyncio.to_thread(store.open, record.key)
            changed = await self.agent.switch(session)
            self.agent.conversation.session.record = await asyncio.to_thread(store.resumed, session.record)
            return changed

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

    async def note_place(self, path: str) -> str:
        """Where the note `path` is that this conversation tells of: it may have been given another name since."""
        record, workspace = self.agent.conversation.session.record, self.status.workspace
        since = (record.session_started_at or 0) / 1000
        return await asyncio.to_thread(locate_note, workspace, path, record.session_id, since)

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


async def _take_turn_in(options: RuntimeOptions, prompt: str, session: str) -> str:
    """Let the agent answer `prompt` in another session, and return the reply. Raises ClawbotError."""
    runtime = await Runtime.open(structs.replace(options, session=session, new=False, interactive=False))
    try:
        return await take_turn(runtime.agent, prompt)
    finally:
        await runtime.close()


async def _do_job_in(options: RuntimeOptions, job: Job) -> str:
    """Do `job` in its own session, maybe of another agent. Raises ClawbotError, JobSkippedError."""
    own = job.agent_id == (options.agent or MAIN_AGENT)
    there = structs.replace(options, agent=job.agent_id, session=job.session_key, new=False, interactive=False)
    # The command line chose a model and a folder for its own agent.
    runtime = await Runtime.open(there if own else structs.replace(there, model=None, workspace=None))
    try:
        return await runtime.run_job(job)
    finally:
        await runtime.close()
