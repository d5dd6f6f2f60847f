"""Runs the schedule: decides from the ledger and the time which jobs are due, and runs them.

Everything due up to a record's `since` is done. A job that is new, newly enabled or has new times starts from now, so
nothing is due for a past in which it did not exist. Also the prompts of jobs, and when a heartbeat is skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct, structs

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.scheduling.jobs import Job, Pause
from clawbot.scheduling.ledger import Ledger, Record, ScheduleError, Status
from clawbot.scheduling.triggers import is_active, last_fire, load, next_fire
from clawbot.text.secrets import redact

FILE_NAME = "HEARTBEAT.md"
HEARTBEAT_PROMPT = (
    "This is a heartbeat: nobody has said anything. Read HEARTBEAT.md in the workspace if it is there, and follow it "
    "strictly. Do not infer tasks from earlier conversations and do not repeat old ones. "
    "If nothing needs attention, reply with NO_REPLY."
)
BUSY = "a turn is running"
NO_FILE = f"there is no {FILE_NAME}"
NOTHING_OVER = "the session is not over"
EMPTY_FILE = f"{FILE_NAME} holds no tasks"
DUPLICATE = "the same reply as last time"
# An identical reply within this time is not shown again.
DUPLICATE_FOR = timedelta(hours=24)

# A blank line, a heading, an empty list item or checkbox, a rule, a comment on its own line.
_NOTHING = re.compile(r"\s*(?:#{1,6}(?:\s.*)?|(?:[-*+]|\d+[.)])(?:\s+\[[ xX]?\])?\s*|[-*_]{3,}\s*|<!--.*-->\s*)?")


def prompt_of(job: Job, now: datetime) -> str:
    """Return the model's prompt for `job` at `now`, including the current time in the job's zone."""
    text, now = job.prompt or HEARTBEAT_PROMPT, now.astimezone(ZoneInfo(job.zone)) if job.zone else now
    zone = job.zone or now.tzname() or "UTC"
    return f"{text}\n\nCurrent time: {now:%A}, {now.day} {now:%B %Y}, {now:%H:%M} ({zone})"


def skip_reason(text: str | None, *, busy: bool) -> str:
    """Why a heartbeat is skipped, "" if it is not. `text` is HEARTBEAT.md (None: no such file); `busy`: a turn is
    running.

    Disabled heartbeats and inactive hours are handled before (`due_moment`).
    """
    if busy:
        return BUSY
    if text is None:
        return NO_FILE
    return EMPTY_FILE if is_empty(text) else ""


def is_empty(text: str) -> bool:
    """Return whether a HEARTBEAT.md contains no instructions: only blank lines, headings and empty list items."""
    return all(_NOTHING.fullmatch(line) for line in text.removeprefix("\ufeff").splitlines())


def digest_of(reply: str) -> str:
    """Return a digest of the reply that ignores line breaks; "" for an empty one."""
    words = " ".join(reply.split())
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest() if words else ""


def is_duplicate(record: Record | None, reply: str, now: datetime) -> bool:
    """Return whether `reply` was already shown within the last 24 hours."""
    if record is None or record.replied is None or record.reply_digest != digest_of(reply):
        return False
    return timedelta(0) <= now - record.replied < DUPLICATE_FOR


# For `catch_up: skip`: a run that is this late still counts as on time. A system's cron may check every ten minutes.
GRACE = timedelta(minutes=10)
# A mark further in the future than this was set by a wrong clock, rather than before the clock was set back.
WRONG_CLOCK = timedelta(days=1)
# A reset is daily, and a day lasts up to 48 hours when a zone moves across the date line.
_LAST_RESET = timedelta(days=2)


class Due(Struct, frozen=True):
    """A job and its due time (UTC); of several missed ones the last."""

    job: Job
    moment: datetime


def armed(job: Job, record: Record | None, now: datetime) -> Record | None:
    """The record that the ledger must hold for `job` before it is evaluated: `record` itself if nothing changes."""
    timing = job.timing if job.enabled else ""
    if record is None:
        return Record(timing=timing, since=_begin(job, now)) if job.enabled else None
    if record.timing == timing and record.since <= now + WRONG_CLOCK:
        return record
    return structs.replace(record, timing=timing, since=_begin(job, now))


def due_moment(job: Job, record: Record | None, now: datetime) -> datetime | None:
    """Return the time (UTC) for which `job` is to run now; None if it is not due, disabled or outside its hours."""
    if record is None or not job.enabled or not is_active(job, now):
        return None
    if isinstance(job.when, Pause):
        return now if now > record.since else None
    moment = last_fire(job, record.since, now)
    late = moment is not None and now - moment > GRACE
    return None if late and job.catch_up == "skip" else moment


def next_moment(job: Job, record: Record | None, now: datetime) -> datetime | None:
    """Return the next due time of `job` after `now`, in UTC; None for never."""
    return next_fire(job, max(now, record.since) if record else now) if job.enabled else None


def _begin(job: Job, now: datetime) -> datetime:
    """Return the time from which a new job counts."""
    return now - _LAST_RESET if job.kind == "reset" else now


log = logging.getLogger(__name__)

RunJob = Callable[[Job], Awaitable[str]]
"""Runs a job and returns the text to show ("" for none). Raises ClawbotError on failure, JobSkippedError if there is
nothing to do."""


WaitReason = Callable[[Job], Awaitable[str]]
"""Returns why a job with `idle` does not run yet, "" if it may."""


class JobSkippedError(Exception):
    """A job was skipped. `postponed`: its time remains due, and the next check tries again."""

    def __init__(self, reason: str, *, postponed: bool = False) -> None:
        super().__init__(reason)
        self.postponed = postponed


class Ran(Struct, frozen=True, kw_only=True):
    """The result of one run. `due` is its due time (None: by hand) and `started` its start, in UTC; `reply` is the text
    to show, `error` is why it failed or was skipped."""

    job: Job
    due: datetime | None
    started: datetime
    status: Status
    reply: str = ""
    error: str = ""
    duration_ms: int = 0


class JobState(Struct, frozen=True):
    """A job, its record, its next due time (UTC; None: never), and whether that has come."""

    job: Job
    record: Record | None
    next_due: datetime | None
    is_due: bool = False


class Schedule:
    """The jobs `jobs` with their ledger. `is_over` decides whether a job with a Pause is to run now, and whether a
    reset has anything to do; without it (when the caller ends sessions itself) jobs with a Pause never run. Sync
    methods block: call them in a thread."""

    def __init__(
        self, jobs: Sequence[Job], ledger: Ledger, clock: Clock, is_over: Callable[[Job], bool] | None = None
    ) -> None:
        self.jobs = tuple(jobs)
        self.ledger = ledger
        self._clock = clock
        self._is_over = is_over

    def due(self, now: datetime) -> list[Due]:
        """Return the jobs to run at `now`, in their order. New and changed jobs start to count here."""
        now = now.astimezone(UTC)
        records = self.ledger.arm(self.jobs, now, armed)
        moments = [(job, due_moment(job, records.get(job.key), now)) for job in self.jobs]
        return [Due(job, moment) for job, moment in moments if moment is not None and self._may_run(job)]

    def _may_run(self, job: Job) -> bool:
        return not isinstance(job.when, Pause) or (self._is_over is not None and self._is_over(job))

    def next_moment(self, now: datetime) -> datetime | None:
        """The next due time after `now`, the last check's time, in UTC. Postponed jobs wait for the regular check of
        each minute."""
        records, now = self.ledger.read(), now.astimezone(UTC)
        moments = (next_moment(job, records.get(job.key), now) for job in self.jobs)
        return min((moment for moment in moments if moment is not None), default=None)

    def states(self, now: datetime) -> list[JobState]:
        """Return the state of every job at `now`; changes nothing."""
        records, now = self.ledger.read(), now.astimezone(UTC)
        return [self._state(job, records.get(job.key), now) for job in self.jobs]

    def _state(self, job: Job, record: Record | None, now: datetime) -> JobState:
        as_armed = armed(job, record, now)
        has_work = job.kind != "reset" or self._is_over is None or self._is_over(job)
        due = due_moment(job, as_armed, now) if has_work and not isinstance(job.when, Pause) else None
        return JobState(job, record, due or next_moment(job, as_armed, now), is_due=due is not None)

    async def run_due(self, run: RunJob, now: datetime, waits: WaitReason | None = None) -> list[Ran]:
        """Run the due jobs one after the other; a failure does not stop the others. Jobs claimed by another process are
        left out. Those that wait until nobody uses the program remain due as long as `waits` has a reason."""
        ran, now = [], now.astimezone(UTC)
        for due in await asyncio.to_thread(self.due, now):
            if due.job.idle and (waits is None or await waits(due.job)):
                continue
            record = (await asyncio.to_thread(self.ledger.read)).get(due.job.key)
            if record is not None and await asyncio.to_thread(self.ledger.claim, due.job, due.moment, now):
                ran.append(await self._run(due.job, run, (due.moment, now, record)))
        return ran

    async def run_now(self, job: Job, run: RunJob, now: datetime) -> Ran:
        """Run `job` by hand, whether or not it is due or enabled."""
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
        """Record the end of a run, or release it (`since`: the previous mark). If the ledger can't be written, the
        reply is still shown: the claim was written before the run."""
        try:
            if since is not None:
                self.ledger.release(job, started, since, end.error)
            else:
                digest = digest_of(end.reply)
                self.ledger.finish(job, started, end.status, error=end.error, duration_ms=took, digest=digest)
        except ScheduleError as error:
            log.exception("the result of the job %s could not be recorded", job.key)
            self.ledger.notices.append(str(error))


class _End(Struct, frozen=True):
    """The end of a run."""

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


MAX_PAUSE = 60.0
# Delay if the due time passed while the last check was still running.
_AGAIN = 1.0

Check = Callable[[], Awaitable[datetime | None]]
"""Does what is due, and returns the next due time; None if none is known."""


class Timer:
    """Calls `check` at the next due time and at least once a minute, never concurrently. Its exceptions are logged and
    passed to `on_error`, and the timer continues.

    The minute is measured with a monotonic clock, and due times are compared with the wall clock: a suspended machine
    or a changed clock is noticed within a minute.
    """

    def __init__(self, clock: Clock, check: Check, on_error: Callable[[Exception], None] | None = None) -> None:
        self._clock = clock
        self._check = check
        self._on_error = on_error
        self._alone = asyncio.Lock()
        self._woken = asyncio.Event()
        self._next: datetime | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start in the background with a first check. The scheduling library is imported in a thread first."""
        if self._task is None:
            await asyncio.to_thread(load)
            self._task = asyncio.create_task(self._run(), name="schedule")

    def wake(self) -> None:
        """Check soon: the next due time may have changed."""
        self._woken.set()

    async def stop(self) -> None:
        """Stop; a running check is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            # Not `await task`: its cancellation could not be distinguished from the caller's own.
            await asyncio.wait([task])

    async def check(self) -> None:
        """Check now, or after a running check."""
        async with self._alone:
            try:
                self._next = await self._check()
            except Exception as error:
                log.exception("a check of the schedule failed")
                self._next = None
                if self._on_error is not None:
                    self._on_error(error)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            await self.check()
            # Python 3.11's `wait_for` would lose a cancellation that coincides with the wake-up.
            with contextlib.suppress(TimeoutError):
                async with deadline(pause(self._clock.now(), self._next)):
                    await self._woken.wait()


def pause(now: datetime, moment: datetime | None) -> float:
    """Return seconds to wait until the next check if the next due time is `moment`."""
    seconds = (moment - now).total_seconds() if moment else MAX_PAUSE
    return min(seconds, MAX_PAUSE) if seconds > 0 else _AGAIN
