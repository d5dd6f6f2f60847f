"""What an agent does while nobody speaks: the end of a session by the clock, and the jobs of the schedule."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, MessageFinished, NoteKept, Notice, ToolStarted, TurnEnded
from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.files import RefusedFileError, read_guarded
from clawbot.hooks.events import ScheduledJob
from clawbot.scheduling.heartbeat import BUSY, FILE_NAME, prompt_of, skip_reason
from clawbot.scheduling.jobs import Job
from clawbot.scheduling.runner import JobSkippedError, Ran, Schedule
from clawbot.scheduling.timer import Timer
from clawbot.sessions.errors import SessionLockedError

log = logging.getLogger(__name__)

_LINE_CHARS = 240  # of a job's reply in the line that tells of it
Elsewhere = Callable[[Job], Awaitable[str]]
"""Does a job of another session or agent, and returns the reply."""


class BackgroundParts(Struct, frozen=True):
    """What it works with. `announce` shows the user an event."""

    agent: Agent
    schedule: Schedule
    clock: Clock
    elsewhere: Elsewhere
    announce: Callable[[Event], None]


class Background:
    """The work of one open agent beside its turns. Each look does what is due by the wall clock."""

    def __init__(self, parts: BackgroundParts) -> None:
        self._parts = parts
        self._timer = Timer(parts.clock, self.look, self._failed)
        self._told = ""

    async def start(self) -> None:
        """Begin to look."""
        await self._timer.start()

    async def stop(self) -> None:
        """End; a job that runs is cancelled."""
        await self._timer.stop()

    async def look(self) -> datetime | None:
        """Do what is due, and say when to look next."""
        parts = self._parts
        # A turn may last for hours, when it waits for an answer of the user: the jobs of other sessions go on, and the
        # next look sees to the clock.
        moments = [] if parts.agent.status.busy else [await self._look_at_clock()]
        for ran in await parts.schedule.run_due(self._run, parts.clock.now()):
            self._tell(ran)
        moments.append(await asyncio.to_thread(parts.schedule.next_moment, parts.clock.now()))
        return min((moment for moment in moments if moment is not None), default=None)

    async def _look_at_clock(self) -> datetime | None:
        """End the open session if it is over. That it can't be ended stops no job."""
        try:
            return await self._parts.agent.look_at_clock()
        except ClawbotError as error:
            log.warning("a session that is over could not be ended: %s", error)
            self._tell_once(f"The session goes on, though it should have ended: {error}")
            return None

    async def _run(self, job: Job) -> str:
        agent = self._parts.agent
        if job.kind == "reset" and job.agent_id == agent.parts.agent_id:
            # The look at the clock has done it, for whatever session is open.
            return ""
        if job.agent_id == agent.parts.agent_id and job.session_key == agent.conversation.session.record.key:
            if agent.status.busy:
                raise JobSkippedError(BUSY, postponed=True)
            return await run_here(agent, job)
        try:
            return await self._parts.elsewhere(job)
        except SessionLockedError as error:
            raise JobSkippedError(str(error), postponed=True) from error

    def _tell(self, ran: Ran) -> None:
        agent, job = self._parts.agent, ran.job
        if ran.status == "failed":
            self._parts.announce(Notice(level="warning", text=f"The job {job.name} failed: {ran.error}"))
        elif ran.reply and job.session_key != agent.conversation.session.record.key:
            said = " ".join(ran.reply.split())
            cut = said if len(said) <= _LINE_CHARS else f"{said[:_LINE_CHARS].rstrip()}…"
            self._parts.announce(Notice(level="info", text=f"{job.name}: {cut} (/sessions has the whole of it)"))

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, ClawbotError) else f"{type(error).__name__} (the log has the details)"
        self._tell_once(f"The schedule could not be looked at: {text}")

    def _tell_once(self, text: str) -> None:
        """Tell of a failure that comes again with each look."""
        if text != self._told:
            self._told = text
            self._parts.announce(Notice(level="warning", text=text))


async def run_here(agent: Agent, job: Job) -> str:
    """Do what `job` asks for in the session that is open, and return the reply, "" for a silent one.

    Raises JobSkippedError when a heartbeat has nothing to do, ClawbotError when the turn failed.
    """
    match job.kind:
        case "reset":
            await agent.look_at_clock()
            return ""
        case "event":
            hooking = agent.hooking
            await hooking.ask(hooking.make(ScheduledJob, job=job.name, name=job.event))
            return ""
        case "heartbeat":
            text = await asyncio.to_thread(_heartbeat_file, agent.parts.workspace)
            if reason := skip_reason(text, busy=agent.status.busy):
                raise JobSkippedError(reason, postponed=agent.status.busy)
    return await take_turn(agent, prompt_of(job, agent.parts.clock.now()))


async def take_turn(agent: Agent, prompt: str) -> str:
    """Let `agent` answer `prompt`, which nobody said, and return the reply. Its events are shown when there is one.

    Raises ClawbotError when the turn failed.
    """
    events: list[Event] = []
    reply = ""
    async with aclosing(agent.submit(prompt, "schedule")) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, MessageFinished):
                reply = event.text
            elif isinstance(event, ToolStarted):
                reply = ""
    last = events[-1]
    failed = last if isinstance(last, TurnEnded) and last.status != "done" else None
    is_shown = failed is None and reply.strip()
    for event in events:
        if is_shown and agent.on_event is not None:
            agent.on_event(event)
        elif isinstance(event, Notice | NoteKept):
            # It went by here only because a turn ran, and is for the user whether that had something to say or not.
            agent.announce(event)
    if failed is not None:
        raise ClawbotError(failed.error or "The turn was interrupted.", hint=failed.hint)
    return reply


def _heartbeat_file(workspace: Path) -> str | None:
    """Blocks."""
    try:
        return read_guarded(workspace, FILE_NAME)
    except RefusedFileError as error:
        raise ClawbotError(f"{FILE_NAME} is not read: it {error}.") from error


def jobs_for(jobs: Sequence[Job], agent_id: str) -> list[Job]:
    """Those that an open chat of `agent_id` looks after: all but the resets of others."""
    return [job for job in jobs if job.kind != "reset" or job.agent_id == agent_id]
