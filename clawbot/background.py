"""The background work of an agent: automatic ends of sessions, and scheduled jobs."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Literal

from clawbot.agent.agent import Agent
from clawbot.agent.events import Event, MessageFinished, NoteKept, Notice, ToolStarted, TurnEnded
from clawbot.authors import JOB
from clawbot.clock import Clock
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.guarded import RefusedFileError, read_guarded
from clawbot.hooks.events import ScheduledJob
from clawbot.scheduling.idle import on_battery, wait_reason
from clawbot.scheduling.jobs import Job
from clawbot.scheduling.runner import BUSY, FILE_NAME, JobSkippedError, Ran, Schedule, Timer, prompt_of, skip_reason
from clawbot.sessions.errors import SessionLockedError
from clawbot.text.interface import _

log = logging.getLogger(__name__)

STOPPED = "a message came"
_LINE_CHARS = 240  # characters of a job's reply shown in its notice
Elsewhere = Callable[[Job], Awaitable[str]]
"""Runs a job of another session or agent, and returns the reply."""


class Background:
    """The background work for the open sessions of the agent `agent_id`. Each `check` does what is due by the wall
    clock; `elsewhere` runs the jobs of sessions that are not open."""

    def __init__(self, agent_id: str, schedule: Schedule, clock: Clock, elsewhere: Elsewhere) -> None:
        self.agents: list[Agent] = []
        self._agent_id = agent_id
        self._schedule = schedule
        self._clock = clock
        self._elsewhere = elsewhere
        self._timer = Timer(clock, self.check, self._failed)
        self._reported = ""

    async def add(self, agent: Agent) -> None:
        """Include the session of `agent`; the first one starts the timer."""
        self.agents.append(agent)
        await self._timer.start()
        self._timer.wake()

    async def remove(self, agent: Agent) -> None:
        """Exclude the session of `agent`, which is about to close. The last one stops the timer and cancels a running
        job."""
        if agent in self.agents:
            self.agents.remove(agent)
            if not self.agents:
                await self._timer.stop()

    async def check(self) -> datetime | None:
        """Do what is due; returns when to check next."""
        # Skip busy sessions: a turn may wait for the user for hours, and jobs of other sessions must not wait for it.
        moments = [await self._check_clock(agent) for agent in list(self.agents) if not agent.status.busy]
        for agent in [agent for agent in self.agents if not agent.status.busy]:
            await agent.idle.remind()
        for ran in await self._schedule.run_due(self._run, self._clock.now(), self._waits):
            self._report(ran)
        for text in self._schedule.ledger.take_notices():
            self._report_once(text)
        moments.append(await asyncio.to_thread(self._schedule.next_moment, self._clock.now()))
        return min((moment for moment in moments if moment is not None), default=None)

    async def _check_clock(self, agent: Agent) -> datetime | None:
        """End the open session if it is over. A failure does not stop the jobs."""
        try:
            return await agent.check_clock()
        except ClawbotError as error:
            log.warning("an expired session could not be ended: %s", error)
            self._report_once(
                _("The conversation should have ended, but could not be closed: {error}").format(error=error)
            )
            return None

    async def _waits(self, job: Job) -> str:
        """Return why `job` does not run yet, which waits until nobody uses the open sessions."""
        busy = any(agent.status.busy for agent in self.agents)
        quiet = min((agent.idle.quiet for agent in self.agents), default=0.0)
        return wait_reason(job.idle, busy=busy, quiet=quiet, battery=await on_battery())

    async def _run(self, job: Job) -> str:
        if job.kind == "reset" and job.agent_id == self._agent_id:
            # `_check_clock` has already done it for the open sessions.
            return ""
        agent = self._open_in(job)
        if agent is not None:
            if agent.status.busy:
                raise JobSkippedError(BUSY, postponed=True)
            return await run_here(agent, job)
        try:
            return await self._elsewhere(job)
        except SessionLockedError as error:
            raise JobSkippedError(str(error), postponed=True) from error

    def _open_in(self, job: Job) -> Agent | None:
        """The agent whose open session `job` belongs to; that of a command may be any."""
        own = self.agents if job.agent_id == self._agent_id else []
        fits = (job.kind == "command" or each.conversation.session.record.key == job.session_key for each in own)
        return next(itertools.compress(own, fits), None)

    def _report(self, ran: Ran) -> None:
        job = ran.job
        if ran.status == "failed":
            self._notify("warning", _("The job {name} failed: {error}").format(name=job.name, error=ran.error))
        elif ran.reply and job.kind == "command":
            self._notify("info", ran.reply)
        elif ran.reply and self._open_in(job) is None:
            reply = " ".join(ran.reply.split())
            cut = reply if len(reply) <= _LINE_CHARS else f"{reply[:_LINE_CHARS].rstrip()}…"
            self._notify("info", _("{name}: {text} (full text: /sessions)").format(name=job.name, text=cut))

    def _notify(self, level: Literal["info", "warning"], text: str) -> None:
        for agent in self.agents:
            agent.notify(Notice(level=level, text=text))

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, ClawbotError) else f"{type(error).__name__} (see the log for details)"
        self._report_once(_("The schedule could not be checked: {error}").format(error=text))

    def _report_once(self, text: str) -> None:
        """Report a failure that would otherwise be repeated at each check."""
        if text != self._reported:
            self._reported = text
            self._notify("warning", text)


async def run_here(agent: Agent, job: Job) -> str:
    """Run `job` in the open session and return the reply ("" if silent).

    Raises JobSkippedError when a heartbeat has nothing to do or a message stops a command, ClawbotError on failure.
    """
    match job.kind:
        case "reset":
            await agent.check_clock()
            return ""
        case "event":
            await agent.hooks.ask(agent.hooks.event(ScheduledJob, job=job.name, name=job.event))
            return ""
        case "heartbeat":
            await check_heartbeat(agent.deps.workspace, busy=agent.status.busy)
        case "command":
            try:
                return await agent.idle.run(job.command)
            except InterruptedTurnError as error:
                raise JobSkippedError(STOPPED, postponed=True) from error
    token = JOB.set(job.name)
    try:
        return await take_turn(agent, prompt_of(job, agent.deps.clock.now()))
    finally:
        JOB.reset(token)


async def check_heartbeat(workspace: Path, *, busy: bool = False) -> None:
    """Raise JobSkippedError if there is nothing to do, ClawbotError if HEARTBEAT.md can't be read. Before a session is
    opened for it, so that none is left behind."""
    if reason := skip_reason(await asyncio.to_thread(_heartbeat_file, workspace), busy=busy):
        raise JobSkippedError(reason, postponed=busy)


async def take_turn(agent: Agent, prompt: str) -> str:
    """Let `agent` answer `prompt`, which does not come from the user, and return the reply. The turn's events are shown
    only if there is a reply.

    Raises ClawbotError when the turn fails.
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
            # These concern the user even if the turn itself has nothing to show.
            agent.notify(event)
    if failed is not None:
        raise ClawbotError(failed.error or "The turn was interrupted.", hint=failed.hint)
    return reply


def _heartbeat_file(workspace: Path) -> str | None:
    """The text of HEARTBEAT.md, if it exists; "" for a workspace that is not made yet. Blocks; raises ClawbotError if
    it can't be read."""
    try:
        return read_guarded(workspace, FILE_NAME) if workspace.exists() else ""
    except RefusedFileError as error:
        raise ClawbotError(f"{FILE_NAME} is not read: it {error}.") from error


def jobs_for(jobs: Sequence[Job], agent_id: str) -> list[Job]:
    """The jobs that an open chat of `agent_id` runs: all except the session resets and commands of other agents."""
    return [job for job in jobs if job.kind not in ("reset", "command") or job.agent_id == agent_id]
