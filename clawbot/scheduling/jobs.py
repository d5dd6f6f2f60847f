"""The jobs of the schedule as values made from the settings, including the session reset, and those of other programs:
`cron/jobs.json` of OpenClaw (2026.1 to 2026.9) and its relatives, as settings.

Imported jobs are saved in `jobs.json` of the state folder, which is below the user's own settings.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from clawbot.config.errors import config_error, read_text, rewrite
from clawbot.config.mcp_file import problem_in
from clawbot.config.names import free_name
from clawbot.config.schema import Settings
from clawbot.config.schema_schedule import HEARTBEAT, RESET, HeartbeatSettings, JobSettings, parse_hours
from clawbot.config.values import format_duration
from clawbot.text.interface import _

Kind = Literal["prompt", "event", "heartbeat", "reset", "command"]
DREAM = "memory.dream"
"""The name of the job of dreams, which no job of the user can have; and the setting that decides on it."""


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
    times can't be predicted: each check of the schedule asks whether the session is over."""

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

    `prompt` is sent to the model ("" for the default heartbeat), `event` to the hooks; `command` is the slash command
    whose work for the schedule is done. `session_key` is the session of its turn. `zone` is the IANA zone of its times,
    None for the machine's. With `idle`, it waits until nobody has used the program for so many seconds.
    """

    name: str
    agent_id: str
    kind: Kind
    when: CronTime | Every | Once | Pause
    session_key: str
    prompt: str = ""
    event: str = ""
    command: str = ""
    idle: float = 0.0
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
    """Return all jobs of the schedule, including disabled ones: the resets, the dreams, the heartbeat, then the user's.

    Raises ConfigError for an unknown agent.
    """
    shipped = [make(settings, agent_id) for make in (_reset, _dream) for agent_id in settings.agent_ids]
    return shipped + [_job(settings, name, job) for name, job in settings.schedule.all_jobs.items()]


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
    """Return the reset of an agent's main session. The sessions package decides when a session ends."""
    reset = settings.session.reset_of("direct")
    daily = _daily(reset.at)
    return Job(
        name=RESET,
        agent_id=agent_id,
        kind="reset",
        when=CronTime(daily) if reset.pause is None else Pause(reset.pause, "" if reset.mode == "idle" else daily),
        session_key=f"agent:{agent_id}:main",
        enabled=reset.mode != "none",
        zone=settings.agent(agent_id).timezone,
    )


def _dream(settings: Settings, agent_id: str) -> Job:
    """Return the job of an agent's dreams."""
    dream = settings.memory.dream
    return Job(
        name=DREAM,
        agent_id=agent_id,
        kind="command",
        when=CronTime(_daily(dream.at)),
        session_key=f"agent:{agent_id}:main",
        command="dream",
        idle=dream.idle,
        enabled=dream.mode != "off",
        zone=settings.agent(agent_id).timezone,
    )


def _daily(at: str) -> str:
    """Return the cron expression of the time of the day `at`, as HH:MM."""
    hour, _, minute = at.partition(":")
    return f"{int(minute)} {int(hour)} * * *"


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


_MIN_SECONDS = 60
_NAME_CHARS = 48
_LEFT = ("model", "thinking", "timeoutSeconds", "channel", "to", "deliver")


class ImportedJob(Struct, frozen=True):
    """A job of another program. `settings` is the entry of `schedule`, without `enabled`; `agent` the one that ran it
    there, "" for the usual one; `enabled` whether it was on. `left_out` names keys without a counterpart. A job with a
    `problem` can't be taken."""

    name: str
    settings: dict[str, Any]
    agent: str = ""
    enabled: bool = True
    left_out: tuple[str, ...] = ()
    problem: str = ""


def jobs_from(data: Any, now: datetime | None = None) -> list[ImportedJob]:
    """The jobs in a decoded `jobs.json`, in their order, with names that are valid here and differ. What is no job is
    left out. Single moments before `now` are a problem."""
    listed = data.get("jobs") if isinstance(data, Mapping) else data
    entries = listed.values() if isinstance(listed, Mapping) else listed if isinstance(listed, list) else ()
    found: list[ImportedJob] = []
    for entry in entries:
        if isinstance(entry, Mapping):
            found.append(_imported(entry, {job.name for job in found}, now))
    return found


def _imported(entry: Mapping[str, Any], taken: Container[str], now: datetime | None) -> ImportedJob:
    payload, agent = entry.get("payload"), entry.get("agentId")
    fields = {**entry, **(payload if isinstance(payload, Mapping) else {})}
    texts = (fields.get(key) for key in ("message", "text", "prompt"))
    prompt = next((text for text in texts if isinstance(text, str) and text), "")
    settings = {**dict(_times(entry.get("schedule"))), "prompt": prompt}
    return ImportedJob(
        _name(str(entry.get("name", "")), str(entry.get("id", "")), taken),
        settings,
        agent=agent if isinstance(agent, str) else "",
        enabled=entry.get("enabled") is not False,
        left_out=tuple(key for key in _LEFT if fields.get(key) not in (None, "", False)),
        problem=_problem(settings, now),
    )


def _times(schedule: Any) -> Iterator[tuple[str, str]]:
    """Return the time keys of a job. Seconds of an expression are dropped, and intervals are a minute at least."""
    plain = schedule if isinstance(schedule, Mapping) else {"expr": schedule}
    expression, every = plain.get("expr") or plain.get("cron"), plain.get("everyMs")
    moment = plain.get("at") or plain.get("atMs") or plain.get("run_at")
    every = plain["minutes"] * 60_000 if isinstance(plain.get("minutes"), int) else every
    if isinstance(expression, str):
        fields = expression.split()
        yield "cron", " ".join(fields[1:] if len(fields) > 5 and fields[0].isdigit() else fields)
    elif isinstance(every, int | float) and every > 0:
        yield "every", f"{max(round(every / 1000), _MIN_SECONDS)}s"
    elif isinstance(moment, int | float):
        yield "at", datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="seconds")
    elif isinstance(moment, str):
        yield "at", moment
    if isinstance(plain.get("tz"), str):
        yield "tz", plain["tz"]


def _name(wanted: str, job_id: str, taken: Container[str]) -> str:
    """Return a name of letters and digits; that of the id where nothing of it is left, as in Chinese."""
    plain = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")[:_NAME_CHARS]
    if not re.search(r"[a-z]{2}", plain) or plain in (HEARTBEAT, RESET):
        plain = f"job-{re.sub(r'[^a-z0-9]+', '', job_id.lower())[:8] or plain or 'x'}"
    return free_name(plain, taken)


def _problem(settings: Mapping[str, Any], now: datetime | None) -> str:
    if not settings["prompt"]:
        return _("it has no prompt")
    if not {"cron", "every", "at"} & settings.keys():
        return _("it does not say when")
    try:
        job = JobSettings.model_validate(settings)
    except ValidationError as error:
        return problem_in(error, secret=False)
    moment = datetime.fromisoformat(job.at) if job.at else None
    return _("its time is past") if moment and now and moment.astimezone() < now else ""


def read_jobs(file: Path) -> Any:
    """The decoded `file` of another program. Blocks. Raises FileNotFoundError, and ConfigError if it is no JSON."""
    return _decoded(read_text(file, limit=16 * 1024**2), file)


def _decoded(text: str, file: Path) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise config_error(str(file), f"is no JSON: {error}") from None


def change_jobs(file: Path, added: Mapping[str, Mapping[str, Any]], removed: Container[str] = ()) -> None:
    """Write jobs as settings to `jobs.json` (`file`), without replacing any, and take out those `removed`. Concurrent
    callers wait. Blocks; raises ConfigError."""

    def changed(before: str) -> str:
        known = _decoded(before, file).get("schedule", {}) if before else {}
        jobs = {name: job for name, job in {**added, **known}.items() if name not in removed}
        return f"{msgspec.json.format(msgspec.json.encode({'schedule': jobs})).decode()}\n"

    rewrite(file, changed)
