"""The schedule at work: jobs, ledger and planner together, and the runs of what is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.logs import redact
from clawbot.scheduling.heartbeat import DUPLICATE, digest_of, is_duplicate
from clawbot.scheduling.jobs import Job
from clawbot.scheduling.ledger import Ledger, Record, ScheduleError, Status
from clawbot.scheduling.planner import Due, armed, due_moment, next_moment

log = logging.getLogger(__name__)

RunJob = Callable[[Job], Awaitable[str]]
"""Does what a job asks for, and returns what is to be shown, "" for nothing. Raises ClawbotError when it failed, and
JobSkippedError when there was nothing to do."""


class JobSkippedError(Exception):
    """There is nothing to do for a job, or not now: `postponed` leaves its moment due, so that the next look tries
    again."""

    def __init__(self, reason: str, *, postponed: bool = False) -> None:
        super().__init__(reason)
        self.postponed = postponed


class Ran(Struct, frozen=True, kw_only=True):
    """What came of one run. `due` is the moment that it was for (None: by hand) and `started` when it ran, in UTC;
    `reply` is what is to be shown, `error` what failed or why it was skipped."""

    job: Job
    due: datetime | None
    started: datetime
    status: Status
    reply: str = ""
    error: str = ""
    duration_ms: int = 0


class JobState(Struct, frozen=True):
    """A job, what the ledger holds of it, and when it is due next (in UTC; None: never)."""

    job: Job
    record: Record | None
    next_due: datetime | None


class Schedule:
    """The jobs `jobs` with their ledger. What is no coroutine blocks: call it from a thread."""

    def __init__(self, jobs: Sequence[Job], ledger: Ledger, clock: Clock) -> None:
        self.jobs = tuple(jobs)
        self.ledger = ledger
        self._clock = clock

    def due(self, now: datetime) -> list[Due]:
        """What is to run at `now`, in the order of the jobs. New and changed jobs begin to count here."""
        now = now.astimezone(UTC)
        records = self.ledger.arm(self.jobs, now, armed)
        moments = [(job, due_moment(job, records.get(job.key), now)) for job in self.jobs]
        return [Due(job, moment) for job, moment in moments if moment is not None]

    def next_moment(self, now: datetime) -> datetime | None:
        """When a job is due after `now`, the time of the last look, in UTC. What was due then and was put off is left
        to the look of each minute."""
        records, now = self.ledger.read(), now.astimezone(UTC)
        moments = (next_moment(job, records.get(job.key), now) for job in self.jobs)
        return min((moment for moment in moments if moment is not None), default=None)

    def states(self, now: datetime) -> list[JobState]:
        """Every job and how it stands at `now`; changes nothing."""
        records, now = self.ledger.read(), now.astimezone(UTC)
        return [_state(job, records.get(job.key), now) for job in self.jobs]

    async def run_due(self, run: RunJob, now: datetime) -> list[Ran]:
        """Run what is due at `now`, one job after the other; a failure stops none of the others. What another process
        has taken is left out."""
        ran, now = [], now.astimezone(UTC)
        for due in await asyncio.to_thread(self.due, now):
            record = (await asyncio.to_thread(self.ledger.read)).get(due.job.key)
            if record is not None and await asyncio.to_thread(self.ledger.claim, due.job, due.moment, now):
                ran.append(await self._run(due.job, run, (due.moment, now, record)))
        return ran

    async def run_now(self, job: Job, run: RunJob, now: datetime) -> Ran:
        """Run `job` by hand, whether it is due, switched on or not."""
        now = now.astimezone(UTC)
        record = (await asyncio.to_thread(self.ledger.read)).get(job.key)
        await asyncio.to_thread(self.ledger.begin, job, now)
        return await self._run(job, run, (None, now, record))

    async def _run(self, job: Job, run: RunJob, claimed: tuple[datetime | None, datetime, Record | None]) -> Ran:
        due, now, record = claimed
        began = self._clock.monotonic()
        end = _End("interrupted")
        try:
            end = await _attempt(job, run)
            if job.kind == "heartbeat" and due is not None and is_duplicate(record, end.reply, now):
                end = _End("done", error=DUPLICATE)
        finally:
            took = int((self._clock.monotonic() - began) * 1000)
            since = record.since if record is not None and due is not None and end.postponed else None
            await asyncio.to_thread(self._note, job, now, end, took, since)
        return Ran(job=job, due=due, started=now, status=end.status, reply=end.reply, error=end.error, duration_ms=took)

    def _note(self, job: Job, started: datetime, end: _End, took: int, since: datetime | None) -> None:
        """Write down how a run ended, or give it back (`since`: the mark before). A ledger that can't be written costs
        nobody the reply: the run itself was noted before it began."""
        try:
            if since is not None:
                self.ledger.release(job, started, since, end.error)
            else:
                digest = digest_of(end.reply)
                self.ledger.finish(job, started, end.status, error=end.error, duration_ms=took, digest=digest)
        except ScheduleError as error:
            log.exception("How the job %s ended could not be noted", job.key)
            self.ledger.notices.append(str(error))


class _End(Struct, frozen=True):
    """How a run ended."""

    status: Status
    reply: str = ""
    error: str = ""
    postponed: bool = False


async def _attempt(job: Job, run: RunJob) -> _End:
    try:
        return _End("done", reply=await run(job))
    except JobSkippedError as skip:
        return _End("skipped", error=str(skip), postponed=skip.postponed)
    except ClawbotError as failure:
        return _End("failed", error=redact(str(failure)))
    except Exception as failure:
        log.exception("The job %s failed", job.key)
        return _End("failed", error=redact(f"{type(failure).__name__}: {failure}"))


def _state(job: Job, record: Record | None, now: datetime) -> JobState:
    as_armed = armed(job, record, now)
    return JobState(job, record, due_moment(job, as_armed, now) or next_moment(job, as_armed, now))
