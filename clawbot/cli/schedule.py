"""`clawbot schedule`: list the scheduled jobs, and run one now or all that are due."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from clawbot.background import check_heartbeat
from clawbot.cli.completion import job_names
from clawbot.cli.one_turn import print_notice
from clawbot.cli.output import answer, echo, echo_content, fail, fitted, options, print_json, shared_options, warn
from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.config.schema import Settings
from clawbot.errors import ClawbotError
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.scheduling.idle import ON_BATTERY, on_battery
from clawbot.scheduling.jobs import Job, Pause, change_jobs, jobs_from, jobs_of, read_jobs
from clawbot.scheduling.ledger import Ledger, Record
from clawbot.scheduling.runner import NOTHING_OVER, JobSkippedError, JobState, Ran, RunJob, Schedule
from clawbot.sessions.errors import SessionLockedError, UnknownSessionError
from clawbot.sessions.reset import expiry, policy_of, type_of
from clawbot.sessions.store import SessionStore
from clawbot.signals import on_interruption
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line

log = logging.getLogger(__name__)

job_options = options(
    click.option("--agent", "agent_id", metavar="ID", help="Only the jobs of this agent."), shared_options
)


@click.group()
def command() -> None:
    """List the scheduled jobs; run those that are due."""


@command.command("list")
@job_options
def list_jobs(agent_id: str | None, file: Path | None, as_json: bool) -> None:
    """List the jobs with their next due time and last run.

    With --json: an array of objects with name, agent, kind (prompt, event, heartbeat, reset, command), when, zone
    (null: the machine's), session, enabled, catchUp, nextDue (ISO 8601 or null) and last (null, or due, started,
    status, error, durationMs).
    """
    states = _schedule(file, agent_id).states(SystemClock().now())
    answer(as_json, [_plain_state(state) for state in states], fitted(map(_row, states), sys.maxsize, 0))


@command.command()
@click.argument("name", required=False, shell_complete=job_names)
@job_options
def run(name: str | None, agent_id: str | None, file: Path | None, as_json: bool) -> None:
    """Run the job NAME now, due or not, enabled or not, and print its reply; without NAME, all jobs that are due.

    Without NAME it may be called every minute by cron or systemd: each due time is run once, whoever checks. Exits with
    1 if a job failed. With --json: an object (without NAME an array of them) with name, agent, due, started (ISO 8601),
    status (done, failed, skipped, interrupted), reply, error, durationMs.
    """
    Paths(find_home()).ensure_home()
    schedule = _schedule(file, agent_id)
    job = _named(schedule.jobs, name) if name else None
    try:
        ran = asyncio.run(_run(schedule, job, _runner(file, by_hand=job is not None)))
    except asyncio.CancelledError:
        fail("Interrupted; the text so far is kept.")
    warn(*schedule.ledger.take_notices())
    if as_json:
        plain = [
            {"name": each.job.name, "agent": each.job.agent_id, "reply": each.reply, **_plain_result(each.job, each)}
            for each in ran
        ]
        print_json(plain[0] if job else plain)
    elif job is None:
        _print_lines(ran)
    else:
        if ran[0].reply:
            echo_content(ran[0].reply)
        if ran[0].status != "done":
            warn(f"{job.name}: {ran[0].status}: {ran[0].error}")
    if any(each.status == "failed" for each in ran):
        sys.exit(1)


@command.command("import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--on", is_flag=True, help="Switch on those that were on.")
@shared_options
def import_jobs(source: Path, on: bool, file: Path | None, as_json: bool) -> None:
    """Add the jobs of another program's cron/jobs.json, switched off. Those of a known name are left out.

    `schedule: {NAME: {enabled: true}}` in your settings switches one on. With --json: an array of objects with name,
    enabled, settings, leftOut and problem ("": added).
    """
    paths = Paths(find_home())
    rows = add_jobs(paths, load_settings(paths, config_file=file).settings, source, on=on)
    lines = [f"{row['name']}  {row['problem'] or (_('on') if row['enabled'] else _('off'))}" for row in rows]
    answer(as_json, rows, lines or [_("There are no jobs in it.")])


def add_jobs(
    paths: Paths, settings: Settings, source: Path, *, on: bool = False, dry_run: bool = False
) -> list[dict[str, Any]]:
    """Add the jobs in `source`, those that were on switched on if `on`; returns what became of each, as `import --json`
    prints it, or would become of it if `dry_run`. Blocks. Raises ConfigError."""
    added: dict[str, dict[str, Any]] = {}
    rows = []
    for job in jobs_from(read_jobs(source), SystemClock().now()):
        problem = job.problem or (_("there is a job of this name") if job.name in settings.schedule.all_jobs else "")
        entry = job.settings | {"enabled": on and job.enabled}
        entry |= {"agent": job.agent} if job.agent in settings.agent_ids else {}
        row = {"name": job.name, "enabled": entry["enabled"], "settings": entry, "leftOut": job.left_out}
        rows.append(row | {"problem": problem})
        added |= {} if problem else {job.name: entry}
    if added and not dry_run:
        change_jobs(paths.jobs_file, added)
    return rows


def _schedule(file: Path | None, agent_id: str | None) -> Schedule:
    """Return the configured jobs, only those of `agent_id` if given. Raises ConfigError for an unknown agent."""
    paths = Paths(find_home())
    settings = load_settings(paths, config_file=file).settings
    if agent_id is not None:
        settings.agent(agent_id)
    jobs = [job for job in jobs_of(settings) if agent_id in (None, job.agent_id)]
    is_over = functools.partial(session_is_over, settings, paths)
    return Schedule(jobs, Ledger(paths.schedule_file), SystemClock(), is_over)


def session_is_over(settings: Settings, paths: Paths, job: Job) -> bool:
    """Return whether the session of `job` has expired, according to the session index. Blocks."""
    clock = SystemClock(ZoneInfo(job.zone) if job.zone else None)
    try:
        record = SessionStore(paths.sessions(job.agent_id), clock, agent_id=job.agent_id).find(job.session_key)
    except UnknownSessionError:
        return False
    except ClawbotError as error:
        log.warning("whether the session of %s is over is not known: %s", job.key, error)
        return False
    policy = policy_of(settings.session.reset_of(type_of(job.session_key)))
    return expiry(policy, clock.now(), started_ms=record.began_at, last_ms=record.last_interaction_at) is not None


def _named(jobs: Sequence[Job], name: str) -> Job:
    """Return the job `name`; if several agents have one, the main agent's. Raises ClawbotError."""
    found = [job for job in jobs if job.name == name]
    if not found:
        known = ", ".join(dict.fromkeys(job.name for job in jobs))
        raise ClawbotError(
            f"There is no job {name!r} (there are: {known}).", hint="`schedule:` in the settings adds one."
        )
    return next((job for job in found if job.agent_id == MAIN_AGENT), found[0])


async def _run(schedule: Schedule, job: Job | None, runner: RunJob) -> list[Ran]:
    """Run `job`, or what is due. A signal interrupts the running job, which is recorded."""
    task = asyncio.current_task()
    if task is not None:
        on_interruption(task.cancel)
    now = SystemClock().now()
    return [await schedule.run_now(job, runner, now)] if job else await schedule.run_due(runner, now, _waits)


def _runner(file: Path | None, *, by_hand: bool) -> RunJob:
    """Runs a job in a Runtime of its own, if it has anything to do. Due jobs of a busy session are postponed."""
    paths = Paths(find_home())
    settings = load_settings(paths, config_file=file).settings

    async def run_job(job: Job) -> str:
        if job.kind == "reset" and not by_hand and not await asyncio.to_thread(session_is_over, settings, paths, job):
            raise JobSkippedError(NOTHING_OVER)
        if job.kind == "heartbeat":
            await check_heartbeat(settings.agent(job.agent_id).workspace)
        chosen = RuntimeOptions(agent=job.agent_id, session=job.session_key, config_file=file, estimates=True)
        options = chosen.unattended()
        try:
            runtime = await Runtime.open(options)
        except SessionLockedError as error:
            if by_hand:
                raise
            raise JobSkippedError(str(error), postponed=True) from error
        runtime.agent.listen(print_notice)
        try:
            return await runtime.run_job(job)
        finally:
            await runtime.close()

    return run_job


async def _waits(_job: Job) -> str:
    """Return why a job does not run yet that waits for the machine; one whose session is open is postponed."""
    return ON_BATTERY if await on_battery() else ""


def _print_lines(ran: Sequence[Ran]) -> None:
    for each in ran:
        text = each.error or each.reply.strip().partition("\n")[0]
        line = f"{each.job.key}  {each.status}  {each.duration_ms / 1000:.1f} s"
        echo(f"{line}  {clean_line(text)}".rstrip())
    if not ran and sys.stdout.isatty():
        echo("Nothing is due.")


def _row(state: JobState) -> tuple[str, str, str, str, str]:
    job = state.job
    never = "when its time has come" if isinstance(job.when, Pause) else "never due"
    due = f"{'due since' if state.is_due else 'next'} {_local(job, state.next_due)}" if state.next_due else never
    return job.name, job.agent_id, job.timing, due if job.enabled else "off", _last(job, state.record)


def _last(job: Job, record: Record | None) -> str:
    if record is None or record.started is None:
        return "not run yet"
    # A killed process could not record its end.
    status = "did not finish" if record.status == "running" else record.status
    error = f": {record.error}" if record.error else ""
    return f"last {_local(job, record.started)} {status}{error}"


def _local(job: Job, moment: datetime) -> str:
    return f"{_in_zone(job, moment):%Y-%m-%d %H:%M}"


def _iso(job: Job, moment: datetime | None) -> str | None:
    return _in_zone(job, moment).isoformat() if moment else None


def _in_zone(job: Job, moment: datetime) -> datetime:
    return moment.astimezone(ZoneInfo(job.zone) if job.zone else None)


def _plain_state(state: JobState) -> dict[str, Any]:
    job, record = state.job, state.record
    return {
        "name": job.name,
        "agent": job.agent_id,
        "kind": job.kind,
        "when": job.timing,
        "zone": job.zone,
        "session": job.session_key,
        "enabled": job.enabled,
        "catchUp": job.catch_up,
        "nextDue": _iso(job, state.next_due),
        "last": _plain_result(job, record) if record and record.started else None,
    }


def _plain_result(job: Job, result: Ran | Record) -> dict[str, Any]:
    return {
        "due": _iso(job, result.due),
        "started": _iso(job, result.started),
        "status": result.status,
        "error": result.error,
        "durationMs": result.duration_ms,
    }
