"""The schedule at work: which jobs are due by the ledger and the time, and the runs of what is due.

Every record has a mark, `since`: what was due up to it is done with. A job that is seen for the first time, was
switched on or got other times begins at now, so nothing is ever due for a past that it was no part of.

Also what a job tells the model, and when a heartbeat is not worth a turn (reference sheet 21).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, structs

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.scheduling.jobs import Job, Pause
from clawbot.scheduling.ledger import Ledger, Record, ScheduleError, Status
from clawbot.scheduling.triggers import is_active, last_fire, next_fire
from clawbot.text.secrets import redact

FILE_NAME = "HEARTBEAT.md"
HEARTBEAT_PROMPT = (
    "This is a heartbeat: nobody has said anything. Read HEARTBEAT.md in the workspace if it is there, and follow it "
    "strictly. Do not infer tasks from earlier conversations and do not repeat old ones. "
    "If nothing needs attention, reply with NO_REPLY."
)
BUSY = "a turn is running"
NO_FILE = f"there is no {FILE_NAME}"
EMPTY_FILE = f"{FILE_NAME} holds no tasks"
DUPLICATE = "the same reply as last time"
# The same words within this time are news no more.
DUPLICATE_FOR = timedelta(hours=24)

# Blank, a heading, a list item or a checkbox with nothing behind it, a rule, a comment on a line of its own.
_NOTHING = re.compile(r"\s*(?:#{1,6}(?:\s.*)?|(?:[-*+]|\d+[.)])(?:\s+\[[ xX]?\])?\s*|[-*_]{3,}\s*|<!--.*-->\s*)?")


def prompt_of(job: Job, now: datetime) -> str:
    """What the model is told for `job` at `now` (in the user's zone): its prompt, and what time it is."""
    text = job.prompt or HEARTBEAT_PROMPT
    zone = job.zone or now.tzname() or "UTC"
    return f"{text}\n\nCurrent time: {now:%A}, {now.day} {now:%B %Y}, {now:%H:%M} ({zone})"


def skip_reason(text: str | None, *, busy: bool) -> str:
    """Why a heartbeat is left out, "" when it is not. `text` is that of HEARTBEAT.md, None without such a file; `busy`
    says that a turn is running.

    That it is switched off, or not in its hours, is seen before (`planner.due_moment`).
    """
    if busy:
        return BUSY
    if text is None:
        return NO_FILE
    return EMPTY_FILE if is_empty(text) else ""


def is_empty(text: str) -> bool:
    """Whether a HEARTBEAT.md asks for nothing: blank lines, headings, list items without words."""
    return all(_NOTHING.fullmatch(line) for line in text.removeprefix("\ufeff").splitlines())


def digest_of(reply: str) -> str:
    """By what a reply is known again, however it is broken into lines; "" for an empty one."""
    words = " ".join(reply.split())
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest() if words else ""


def is_duplicate(record: Record | None, reply: str, now: datetime) -> bool:
    """Whether `reply` says what was shown within the last 24 hours."""
    if record is None or record.replied is None or record.reply_digest != digest_of(reply):
        return False
    return timedelta(0) <= now - record.replied < DUPLICATE_FOR


# For `catch_up: skip`: what is late by no more than this is not missed. A system's cron may look once in ten minutes.
GRACE = timedelta(minutes=10)
# A mark that lies further ahead than this was not set before the clock was set back, but by a clock that was wrong.
WRONG_CLOCK = timedelta(days=1)
# A reset is daily, and the longest day of a zone that moves across the date line has 48 hours.
_LAST_RESET = timedelta(days=2)


class Due(Struct, frozen=True):
    """A job and the moment (in UTC) for which it is to run; of several that were missed the last one."""

    job: Job
    moment: datetime


def armed(job: Job, record: Record | None, now: datetime) -> Record | None:
    """What the ledger must hold of `job` before it is asked about: `record` itself when nothing is to be changed."""
    timing = job.timing if job.enabled else ""
    if record is None:
        return Record(timing=timing, since=_begin(job, now)) if job.enabled else None
    if record.timing == timing and record.since <= now + WRONG_CLOCK:
        return record
    return structs.replace(record, timing=timing, since=_begin(job, now))


def due_moment(job: Job, record: Record | None, now: datetime) -> datetime | None:
    """The moment for which `job` is to run now, in UTC; None when it is not due, is off, or rests in these hours."""
    if record is None or not job.enabled or not is_active(job, now):
        return None
    if isinstance(job.when, Pause):
        return now if now > record.since else None
    moment = last_fire(job, record.since, now)
    late = moment is not None and now - moment > GRACE
    return None if late and job.catch_up == "skip" else moment


def next_moment(job: Job, record: Record | None, now: datetime) -> datetime | None:
    """When `job` is due next after `now`, in UTC; None for never."""
    return next_fire(job, max(now, record.since) if record else now) if job.enabled else None


def _begin(job: Job, now: datetime) -> datetime:
    """From when on a job counts that is seen anew."""
    return now - _LAST_RESET if job.kind == "reset" else now


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
    """The jobs `jobs` with their ledger. `is_over` says whether a job that waits for a pause is to run now; where
    somebody else sees to the pauses, it never is. What is no coroutine blocks: call it from a thread."""

    def __init__(
        self, jobs: Sequence[Job], ledger: Ledger, clock: Clock, is_over: Callable[[Job], bool] | None = None
    ) -> None:
        self.jobs = tuple(jobs)
        self.ledger = ledger
        self._clock = clock
        self._is_over = is_over

    def due(self, now: datetime) -> list[Due]:
        """What is to run at `now`, in the order of the jobs. New and changed jobs begin to count here."""
        now = now.astimezone(UTC)
        records = self.ledger.arm(self.jobs, now, armed)
        moments = [(job, due_moment(job, records.get(job.key), now)) for job in self.jobs]
        return [Due(job, moment) for job, moment in moments if moment is not None and self._may_run(job)]

    def _may_run(self, job: Job) -> bool:
        return not isinstance(job.when, Pause) or (self._is_over is not None and self._is_over(job))

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
    due = None if isinstance(job.when, Pause) else due_moment(job, as_armed, now)
    return JobState(job, record, due or next_moment(job, as_armed, now))
