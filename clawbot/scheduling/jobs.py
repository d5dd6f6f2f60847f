"""The jobs of the schedule as values made from the settings, including the session reset."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from clawbot.config.schema import Settings
from clawbot.config.schema_schedule import HEARTBEAT, RESET, HeartbeatSettings, JobSettings, parse_hours
from clawbot.config.values import format_duration

Kind = Literal["prompt", "event", "heartbeat", "reset"]


class CronTime(Struct, frozen=True, tag="cron"):
    """Runs at the times of a cron expression, by the wall clock."""

    expression: str

    def __str__(self) -> str:
        return self.expression


class Every(Struct, frozen=True, tag="every"):
    """Runs every `seconds`, at multiples of them since the epoch."""

    seconds: int

    def __str__(self) -> str:
        return f"every {format_duration(self.seconds)}"


class Once(Struct, frozen=True, tag="at"):
    """Runs one time: at `moment` in ISO 8601, by the wall clock if it names no zone."""

    moment: str

    def __str__(self) -> str:
        return f"at {self.moment}"


class Pause(Struct, frozen=True, tag="pause"):
    """Runs after `minutes` without a user message, and at the times of the cron expression `daily` ("": none). Its
    times can't be predicted: each look at the schedule asks whether the session is over."""

    minutes: int
    daily: str = ""

    def __str__(self) -> str:
        paused = f"after {format_duration(self.minutes * 60)} of silence"
        return f"{self.daily}, {paused}" if self.daily else paused


class Hours(Struct, frozen=True):
    """From `start` until before `end`, in minutes of the day; past midnight if `end` is smaller, never if both are
    equal."""

    start: int
    end: int

    def __contains__(self, minute: int) -> bool:
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


class Job(Struct, frozen=True, kw_only=True):
    """A scheduled job of the agent `agent_id`.

    `prompt` is sent to the model ("" for the default heartbeat), `event` to the hooks. `session_key` is the session of
    its turn. `zone` is the IANA zone of its times, None for the machine's.
    """

    name: str
    agent_id: str
    kind: Kind
    when: CronTime | Every | Once | Pause
    session_key: str
    prompt: str = ""
    event: str = ""
    catch_up: Literal["once", "skip"] = "once"
    enabled: bool = True
    hours: Hours | None = None
    zone: str | None = None

    @property
    def key(self) -> str:
        """A name unique among all jobs of all agents."""
        return f"{self.agent_id}/{self.name}"

    @property
    def timing(self) -> str:
        """The times as text for users; also used to detect changes."""
        hours = f", {_clock(self.hours.start)}-{_clock(self.hours.end)}" if self.hours else ""
        return f"{self.when}{hours}"


def jobs_of(settings: Settings) -> list[Job]:
    """All jobs of the schedule, including disabled ones: the resets, the heartbeat, then the user's.

    Raises ConfigError for an unknown agent.
    """
    resets = [_reset(settings, agent_id) for agent_id in settings.agent_ids]
    return resets + [_job(settings, name, job) for name, job in settings.schedule.all_jobs.items()]


def _job(settings: Settings, name: str, entry: JobSettings | HeartbeatSettings) -> Job:
    agent = settings.agent(entry.agent)
    event = entry.event or "" if isinstance(entry, JobSettings) else ""
    return Job(
        name=name,
        agent_id=entry.agent,
        kind="heartbeat" if name == HEARTBEAT else "event" if event else "prompt",
        when=_when(entry),
        session_key=f"agent:{entry.agent}:{entry.session or f'cron:{name}'}",
        prompt=entry.prompt or "",
        event=event,
        catch_up=entry.catch_up,
        enabled=entry.enabled,
        hours=Hours(*parse_hours(entry.active_hours)) if entry.active_hours else None,
        zone=entry.tz or agent.timezone,
    )


def _when(entry: JobSettings | HeartbeatSettings) -> CronTime | Every | Once:
    if isinstance(entry, JobSettings) and entry.at:
        return Once(entry.at)
    return CronTime(entry.cron) if entry.cron else Every(int(entry.every or 0))


def _reset(settings: Settings, agent_id: str) -> Job:
    """The reset of an agent's main session. The sessions package decides when a session ends."""
    reset = settings.session.reset_of("direct")
    hour, _, minute = reset.at.partition(":")
    daily = f"{int(minute)} {int(hour)} * * *"
    return Job(
        name=RESET,
        agent_id=agent_id,
        kind="reset",
        when=CronTime(daily) if reset.pause is None else Pause(reset.pause, "" if reset.mode == "idle" else daily),
        session_key=f"agent:{agent_id}:main",
        enabled=reset.mode != "none",
        zone=settings.agent(agent_id).timezone,
    )


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
