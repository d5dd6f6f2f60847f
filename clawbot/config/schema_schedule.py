"""The settings of the schedule: the agent's own jobs and their times."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from clawbot.config.paths import MAIN_AGENT
from clawbot.config.values import Duration, SettingsSection, Switch, ZoneName, expected
from clawbot.text.numbers import whole_number

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:\*|([a-z]+|\d+)(?:-([a-z]+|\d+))?)(?:/(\d{1,9}))?", re.ASCII)
_EXAMPLE = '"0 8 * * mon-fri"'
_MACROS = {
    "@hourly": "0 * * * *",
    **dict.fromkeys(("@daily", "@midnight"), "0 0 * * *"),
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    **dict.fromkeys(("@yearly", "@annually"), "0 0 1 1 *"),
}


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    first: int = 0

    @property
    def kind(self) -> str:
        """The allowed values, for an error."""
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.least} to {self.most}{named}"


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("weekday", 0, 7, _WEEKDAYS),
)
_WEEKDAY = _FIELDS[-1]
_SUNDAY = 7


class Cron(NamedTuple):
    """The times of a cron expression: the sorted numbers that each field allows. Weekdays: Sunday is 0.

    `every_day` and `every_weekday`: the field begins with `*`, so the other one alone chooses the days.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    every_day: bool
    every_weekday: bool


def parse_cron(text: str) -> Cron:
    """Parse a cron expression. Raises PydanticCustomError with what was expected."""
    words = _MACROS.get(text.strip().lower(), text).lower().split()
    if words[:1] and words[0].startswith("@"):
        raise expected(f"one of {', '.join(_MACROS)}")
    if len(words) != len(_FIELDS):
        raise expected(f"five fields, minute hour day month weekday, such as {_EXAMPLE}")
    minutes, hours, days, months, weekdays = (_numbers(word, field) for word, field in zip(words, _FIELDS, strict=True))
    cron = Cron(minutes, hours, days, months, weekdays, words[2].startswith("*"), words[4].startswith("*"))
    if (cron.every_day or cron.every_weekday) and min(days) > max(_DAYS_OF_MONTH[month - 1] for month in months):
        raise expected("a day that one of its months has")
    return cron


def check_cron(text: str) -> str:
    """`text` with single spaces, `@daily` and the like written out. Raises PydanticCustomError if it is not a cron
    expression."""
    parse_cron(text)
    return " ".join(_MACROS.get(text.strip().lower(), text).split())


def check_moment(text: str) -> str:
    """Return `text` in ISO 8601, with or without a zone. Raises PydanticCustomError if it is not a day with a time."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if ":" not in text or not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
            raise ValueError
    except ValueError:
        raise expected('a moment such as "2027-03-01 08:00", or with a zone "2027-03-01T08:00+01:00"') from None
    return moment.isoformat(sep=" " if moment.tzinfo is None else "T", timespec="seconds")


def _numbers(word: str, field: _Field) -> tuple[int, ...]:
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _wrong(field)
        found.update(_range(match, field))
    if field is _WEEKDAY:
        found = {number % _SUNDAY for number in found}
    return tuple(sorted(found))


def _range(match: re.Match[str], field: _Field) -> range:
    low, high, step = match[1], match[2], int(match[3] or 1)
    if step < 1:
        raise expected(f"a step of at least 1 in the {field.name} of a cron expression")
    start = field.least if low is None else _number(low, field)
    # `5/10` starts at 5, as in many crons.
    open_end = low is None or (high is None and match[3] is not None)
    end = (field.most if field is not _WEEKDAY else _SUNDAY - 1) if open_end else _number(high or low, field)
    if end < start and field is _WEEKDAY:
        end += _SUNDAY
    if end < start:
        raise expected(f"a range from the smaller to the larger in the {field.name} of a cron expression")
    return range(start, end + 1, step)


def _number(word: str, field: _Field) -> int:
    if word in field.names:
        return field.names.index(word) + field.first
    number = whole_number(word)
    if number is None or not field.least <= number <= field.most:
        raise _wrong(field)
    return number


def _wrong(field: _Field) -> Exception:
    return expected(f"{field.kind} as the {field.name} of a cron expression; *, ranges, steps and lists too")


HEARTBEAT = "heartbeat"
# The job name of the daily reset set by `session.reset`.
RESET = "reset"

_SHORTEST = 60
_FIRST_YEAR, _LAST_YEAR = 1970, 9000
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SESSION = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.IGNORECASE)
_EVENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_HOURS = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_DAY = 24 * 60


def _check_every(seconds: float) -> float:
    if seconds < _SHORTEST or seconds != int(seconds):
        raise expected("a duration of full seconds, 1m at least")
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
    """Return `name`, or raise if it is not a valid job name: it becomes part of a session key."""
    if name == RESET:
        raise expected("another name: `reset` is the daily reset, set by session.reset")
    if not _NAME.fullmatch(name):
        raise expected("the name of a job: a letter or digit, then a-z, 0-9, _ or -; 64 at most")
    return name


Interval = Annotated[Duration, AfterValidator(_check_every)]
CronText = Annotated[str, AfterValidator(check_cron)]
Moment = Annotated[str, AfterValidator(check_moment)]
SessionName = Annotated[str, AfterValidator(_check_session)]
EventName = Annotated[str, AfterValidator(_check_event)]
Hours = Annotated[str, BeforeValidator(_hours)]
Text = Annotated[str, Field(min_length=1)]
CatchUp = Literal["once", "skip"]


class JobSettings(SettingsSection):
    """One job. One of `cron`, `every` and `at` is its time, either `prompt` or `event` its text."""

    enabled: Switch = True
    """Whether it runs automatically. `clawbot schedule run NAME` works either way."""
    cron: CronText | None = None
    """When: minute, hour, day, month and weekday in the job's zone; or `@hourly`, `@daily`, `@weekly`, `@monthly`,
    `@yearly`."""
    every: Interval | None = None
    """When: an interval, counted from the epoch."""
    at: Moment | None = None
    """When: one time, in the job's zone unless it names another (`2027-03-01T08:00+01:00`)."""
    tz: ZoneName | None = None
    """The job's zone, an IANA name; null for the agent's."""
    prompt: Text | None = None
    """The prompt of the agent's turn."""
    event: EventName | None = None
    """The event `schedule:NAME` for hooks."""
    agent: str = MAIN_AGENT
    """The agent that runs it."""
    session: SessionName | None = None
    """The name of the turn's session; null for one of the job's own."""
    catch_up: CatchUp = "once"
    """After missed runs: `once` runs it a single time, `skip` not at all."""
    active_hours: Hours | None = None
    """Only in these hours, such as 08:00-22:00, in the job's zone; null for all."""

    @model_validator(mode="after")
    def _check_time_and_text(self) -> Self:
        if [self.cron, self.every, self.at].count(None) != 2:
            raise expected("one of cron, every and at in a job", show=False)
        if (self.prompt is None) == (self.event is None):
            raise expected("either prompt or event in a job", show=False)
        return self


class HeartbeatSettings(SettingsSection):
    """The shipped job in which the agent checks HEARTBEAT.md."""

    enabled: Switch = False
    """Whether it runs automatically."""
    cron: CronText | None = None
    """When, in place of `every`."""
    every: Interval = 1800.0
    """How often."""
    tz: ZoneName | None = None
    """The zone of its times, an IANA name; null for the agent's."""
    prompt: Text | None = None
    """The prompt; null for the shipped text."""
    agent: str = MAIN_AGENT
    """The agent that runs it."""
    session: SessionName | None = None
    """The name of the session of its turns; null for one of its own."""
    catch_up: CatchUp = "skip"
    """After missed runs, see the jobs."""
    active_hours: Hours | None = None
    """Only in these hours, such as 08:00-22:00, in its zone; null for all."""


class ScheduleSettings(SettingsSection):
    """Scheduled jobs by name. docs/schedule.md has examples."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Annotated[str, AfterValidator(check_job_name)], JobSettings] = Field(init=False)

    heartbeat: HeartbeatSettings = HeartbeatSettings()
    """The shipped job in which the agent checks HEARTBEAT.md."""

    @property
    def jobs(self) -> dict[str, JobSettings]:
        """The user's own jobs by name."""
        return dict(self.__pydantic_extra__)

    @property
    def all_jobs(self) -> dict[str, JobSettings | HeartbeatSettings]:
        """All jobs by name, the heartbeat first."""
        return {HEARTBEAT: self.heartbeat, **self.jobs}
