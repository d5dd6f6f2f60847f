"""Which jobs are due: pure decisions from a job, what the ledger holds of it, and the time (list B 15).

Every record has a mark, `since`: what was due up to it is done with. A job that is seen for the first time, was
switched on or got other times begins at now, so nothing is ever due for a past that it was no part of. While the clock
is set back the mark lies ahead and nothing is due twice; a mark that lies ahead by more than a day was written by a
clock that was wrong, and the job begins anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct, structs

from clawbot.scheduling.jobs import Job
from clawbot.scheduling.ledger import Record
from clawbot.scheduling.triggers import is_active, last_fire, next_fire

# For `catch_up: skip`: what is late by no more than this is not missed. A system's cron may look once in ten minutes.
GRACE = timedelta(minutes=10)
# A mark that lies further ahead than this was not set before the clock was set back, but by a clock that was wrong.
WRONG_CLOCK = timedelta(days=1)


class Due(Struct, frozen=True):
    """A job and the moment (in UTC) for which it is to run; of several that were missed the last one."""

    job: Job
    moment: datetime


def armed(job: Job, record: Record | None, now: datetime) -> Record | None:
    """What the ledger must hold of `job` before it is asked about: `record` itself when nothing is to be changed."""
    timing = job.timing if job.enabled else ""
    if record is None:
        return Record(timing=timing, since=now) if job.enabled else None
    if record.timing == timing and record.since <= now + WRONG_CLOCK:
        return record
    return structs.replace(record, timing=timing, since=now)


def due_moment(job: Job, record: Record | None, now: datetime) -> datetime | None:
    """The moment for which `job` is to run now, in UTC; None when it is not due, is off, or rests in these hours."""
    if record is None or not job.enabled or not is_active(job, now):
        return None
    moment = last_fire(job, record.since, now)
    late = moment is not None and now - moment > GRACE
    return None if late and job.catch_up == "skip" else moment


def next_moment(job: Job, record: Record | None, now: datetime) -> datetime | None:
    """When `job` is due next after `now`, in UTC; None for never."""
    return next_fire(job, max(now, record.since) if record else now) if job.enabled else None
