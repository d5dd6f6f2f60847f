"""Computes when a job is due next: cron expressions and intervals with APScheduler, clock changes with our own rules.

The library counts weekdays from Monday, requires day and weekday to match both, and fires at 02:30 twice in autumn. So
it gets weekday names, separate triggers for day and weekday, and naive wall-clock times, which are converted to the
user's zone here:

- a time that occurs twice counts once, at its first occurrence;
- a time that is skipped counts at the first moment after the gap;
- for schedules that match every hour (`*/10 * * * *`) real hours count: the repeated hour runs twice, the skipped one
  not at all.

The first call imports the library (160 ms): call it in a thread, or after `load`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from clawbot.config.schema_schedule import Cron, parse_cron
from clawbot.scheduling.jobs import CronTime, Every, Hours, Job, Once, Pause

_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_HOURS_OF_DAY = 24
# A job whose times don't fall into its hours within this many days never runs: cron repeats after 28 years at most, but
# nobody waits that long.
_MAX_DAYS = 800


def load() -> None:
    """Import the library (160 ms, once), so that later calls are fast. Blocks."""
    _triggers(parse_cron("* * * * *"))
    _interval(60)


def next_fire(job: Job, after: datetime) -> datetime | None:
    """Return the first time after `after` at which `job` is due, in UTC and full seconds; None if there is none.

    Times outside the job's hours are left out.
    """
    if isinstance(job.when, Pause):
        return None
    zone = ZoneInfo(job.zone) if job.zone else None
    fire = _next(job.when, zone, after.astimezone(UTC))
    if job.hours is None:
        return fire
    for _ in range(_MAX_DAYS):
        if fire is None or is_active(job, fire):
            return fire
        fire = _next(job.when, zone, _next_start(job.hours, zone, fire) - _SECOND)
    return None


def last_fire(job: Job, after: datetime, until: datetime) -> datetime | None:
    """The last time after `after`, up to and including `until`, at which `job` was due, in UTC; None if there is none.

    Uses bisection, so years of being disabled cost no more than a minute.
    """
    found = next_fire(job, after)
    if found is None or found > until:
        return None
    early, late = found - _SECOND, _floor(until.astimezone(UTC))
    while late - early > _SECOND:
        middle = early + (late - early) // _SECOND // 2 * _SECOND
        fire = next_fire(job, middle)
        if fire is None or fire > until:
            late = middle
        else:
            found, early = fire, fire - _SECOND
    return found


def is_active(job: Job, moment: datetime) -> bool:
    """Return whether `moment` is within the hours of `job`."""
    local = moment.astimezone(ZoneInfo(job.zone) if job.zone else None)
    return job.hours is None or local.hour * 60 + local.minute in job.hours


def _next(when: CronTime | Every | Once, zone: tzinfo | None, after: datetime) -> datetime | None:
    if isinstance(when, Once):
        moment = datetime.fromisoformat(when.moment)
        start = moment.astimezone(UTC) if moment.tzinfo else _first_shown(moment.replace(tzinfo=UTC), zone)
        return start if start > after else None
    if isinstance(when, Every):
        fire: datetime | None = _interval(when.seconds).get_next_fire_time(None, _floor(after) + _SECOND)
        return fire
    cron = parse_cron(when.expression)
    every_hour = len(cron.hours) == _HOURS_OF_DAY
    return _next_passing(cron, zone, after) if every_hour else _next_shown(cron, zone, after)


def _next_shown(cron: Cron, zone: tzinfo | None, after: datetime) -> datetime | None:
    """Return the next matching wall-clock time; the first of a repeated time, the end of the gap for a skipped one."""
    shown = _next_wall(cron, after + _offset(after, zone))
    while shown is not None:
        moment = _first_shown(shown, zone)
        if moment > after:
            return moment
        shown = _next_wall(cron, shown)
    return None


def _next_passing(cron: Cron, zone: tzinfo | None, after: datetime) -> datetime | None:
    """Return the next matching time in real hours, from one change of the UTC offset to the next."""
    offset = _offset(after, zone)
    while (shown := _next_wall(cron, after + offset)) is not None:
        moment = shown - offset
        if _offset(moment, zone) == offset:
            return moment
        change = _first_change(after, moment, zone)
        after, offset = change - _SECOND, _offset(change, zone)
    return None


def _first_shown(wall: datetime, zone: tzinfo | None) -> datetime:
    """Return the first time at which the clock of `zone` shows `wall` (stored as if in UTC) or has skipped it."""
    plain = wall.replace(tzinfo=zone)
    # Not `astimezone`: it moves a time in a gap of the machine's zone before the gap.
    moment, other = (datetime.fromtimestamp(plain.replace(fold=fold).timestamp(), UTC) for fold in (0, 1))
    if moment + _offset(moment, zone) == wall:
        return moment
    return _first_change(other, moment, zone)


def _first_change(early: datetime, late: datetime, zone: tzinfo | None) -> datetime:
    """Return the time between `early` and `late` from which the UTC offset of `zone` differs from that at `early`."""
    before = _offset(early, zone)
    while late - early > _SECOND:
        middle = early + (late - early) // _SECOND // 2 * _SECOND
        if _offset(middle, zone) == before:
            early = middle
        else:
            late = middle
    return late


def _next_start(hours: Hours, zone: tzinfo | None, after: datetime) -> datetime:
    """Return the first start of `hours` at or after `after`."""
    wall = after + _offset(after, zone)
    start = wall.replace(hour=hours.start // 60, minute=hours.start % 60, second=0)
    for day in range(3):
        moment = _first_shown(start + timedelta(days=day), zone)
        if moment >= after:
            return moment
    return after + timedelta(days=1)


def _offset(moment: datetime, zone: tzinfo | None) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _floor(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _next_wall(cron: Cron, after: datetime) -> datetime | None:
    fires = [trigger.get_next_fire_time(None, _floor(after) + _SECOND) for trigger in _triggers(cron)]
    return min((fire for fire in fires if fire is not None), default=None)


@lru_cache
def _triggers(cron: Cron) -> tuple[Any, ...]:
    """Return the triggers of which one must fire; two if either the day or the weekday is sufficient."""
    from apscheduler.triggers.cron import CronTrigger

    times = {"minute": _listed(cron.minutes), "hour": _listed(cron.hours), "month": _listed(cron.months)}
    days = {"day": _listed(cron.days)}
    weekdays = {"day_of_week": ",".join(_WEEKDAYS[number] for number in cron.weekdays)}
    chosen = [days | weekdays] if cron.every_day or cron.every_weekday else [days, weekdays]
    return tuple(CronTrigger(**times, **each, second=0, timezone=UTC) for each in chosen)


@lru_cache
def _interval(seconds: int) -> Any:
    from apscheduler.triggers.interval import IntervalTrigger

    return IntervalTrigger(seconds=seconds, start_date=_EPOCH, timezone=UTC)


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(str(number) for number in numbers)
