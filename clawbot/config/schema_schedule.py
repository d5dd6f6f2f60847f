"""The settings of the schedule: what the agent does by itself, and when."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from clawbot.config.cron import check_cron
from clawbot.config.paths import MAIN_AGENT
from clawbot.config.section import Section
from clawbot.config.values import Duration, Switch, expected

HEARTBEAT = "heartbeat"
# The name under which the daily reset of `session.reset` is listed and run.
RESET = "reset"

_SHORTEST = 60
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SESSION = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.IGNORECASE)
_EVENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_HOURS = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_DAY = 24 * 60


def _check_every(seconds: float) -> float:
    if seconds < _SHORTEST or seconds != int(seconds):
        raise expected("a duration of whole seconds, 1m at least")
    return seconds


def parse_hours(value: Any) -> tuple[int, int]:
    """Start and end of `08:00-22:00` in minutes of the day; the end may be 24:00."""
    found = _HOURS.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        raise expected('hours such as "08:00-22:00"')
    numbers = [int(part) for part in found.groups()]
    start, end = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
    if start >= _DAY or end > _DAY or max(numbers[1], numbers[3]) > 59:
        raise expected("hours from 00:00 to 24:00")
    return start, end


def _hours(value: Any) -> str:
    return "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in parse_hours(value))


def _check_session(name: str) -> str:
    if not _SESSION.fullmatch(name):
        raise expected("the name of a session: letters, digits, dots, dashes and underscores, 100 at most")
    return name.lower()


def _check_event(name: str) -> str:
    if not _EVENT.fullmatch(name):
        raise expected("the name of an event: a-z, 0-9, dots, dashes and underscores, 64 at most")
    return name


def check_job_name(name: str) -> str:
    """Return `name`, or raise when no job may have it: it becomes a part of a session's key."""
    if name == RESET:
        raise expected("another name: `reset` is the daily reset, set by session.reset")
    if not _NAME.fullmatch(name):
        raise expected("the name of a job: a letter or digit, then a-z, 0-9, _ or -; 64 at most")
    return name


Interval = Annotated[Duration, AfterValidator(_check_every)]
CronText = Annotated[str, AfterValidator(check_cron)]
SessionName = Annotated[str, AfterValidator(_check_session)]
EventName = Annotated[str, AfterValidator(_check_event)]
Hours = Annotated[str, BeforeValidator(_hours)]
Text = Annotated[str, Field(min_length=1)]
CatchUp = Literal["once", "skip"]


class JobSettings(Section):
    """One job. Either `cron` or `every` says when, either `prompt` or `event` says what."""

    enabled: Switch = True
    """Whether it runs by itself. `clawbot schedule run NAME` works either way."""
    cron: CronText | None = None
    """When: minute, hour, day, month and weekday in the agent's zone."""
    every: Interval | None = None
    """When: each time that so much time has passed, counted from the epoch."""
    prompt: Text | None = None
    """What the agent is told, in a turn of its own."""
    event: EventName | None = None
    """What the hooks are told: the event `schedule:NAME`."""
    agent: str = MAIN_AGENT
    """Whose job it is."""
    session: SessionName | None = None
    """The session of that turn, by its name; null for one of the job's own."""
    catch_up: CatchUp = "once"
    """What happens when its time was missed: one run, however often it was, or none."""
    active_hours: Hours | None = None
    """Only in these hours, such as 08:00-22:00, in the agent's zone; null for all."""

    @model_validator(mode="after")
    def _says_when_and_what(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise expected("either cron or every in a job", show=False)
        if (self.prompt is None) == (self.event is None):
            raise expected("either prompt or event in a job", show=False)
        return self


class HeartbeatSettings(Section):
    """The shipped job that has the agent look at HEARTBEAT.md."""

    enabled: Switch = False
    """Whether it runs by itself."""
    cron: CronText | None = None
    """When, in place of `every`."""
    every: Interval = 1800.0
    """How often."""
    prompt: Text | None = None
    """What the agent is told; null for the shipped text."""
    agent: str = MAIN_AGENT
    """Whose heartbeat it is."""
    session: SessionName | None = None
    """The session of its turns, by its name; null for one of its own."""
    catch_up: CatchUp = "skip"
    """What happens when its time was missed."""
    active_hours: Hours | None = None
    """Only in these hours, such as 08:00-22:00, in the agent's zone; null for all."""


class ScheduleSettings(Section):
    """What the agent does by itself: jobs by name. docs/schedule.md has examples."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Annotated[str, AfterValidator(check_job_name)], JobSettings] = Field(init=False)

    heartbeat: HeartbeatSettings = HeartbeatSettings()
    """The shipped job that has the agent look at HEARTBEAT.md."""

    @property
    def jobs(self) -> dict[str, JobSettings]:
        """The user's own jobs by name."""
        return dict(self.__pydantic_extra__)

    @property
    def all_jobs(self) -> dict[str, JobSettings | HeartbeatSettings]:
        """All jobs by name, the heartbeat first."""
        return {HEARTBEAT: self.heartbeat, **self.jobs}
