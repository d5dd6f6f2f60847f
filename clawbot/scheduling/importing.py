"""Jobs of other programs: `cron/jobs.json` of OpenClaw (2026.1 to 2026.9) and its relatives, as settings of jobs.

They are kept in `jobs.json` of the state folder, which lies below the user's own settings.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from clawbot.config.errors import config_error, read_text, rewrite
from clawbot.config.mcp_file import problem_in
from clawbot.config.names import free_name
from clawbot.config.schema_schedule import HEARTBEAT, RESET, JobSettings
from clawbot.text.interface import _

_SHORTEST = 60
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
            found.append(_job(entry, {job.name for job in found}, now))
    return found


def _job(entry: Mapping[str, Any], taken: Container[str], now: datetime | None) -> ImportedJob:
    payload, agent = entry.get("payload"), entry.get("agentId")
    said = {**entry, **(payload if isinstance(payload, Mapping) else {})}
    texts = (said.get(key) for key in ("message", "text", "prompt"))
    prompt = next((text for text in texts if isinstance(text, str) and text), "")
    settings = {**dict(_times(entry.get("schedule"))), "prompt": prompt}
    return ImportedJob(
        _name(str(entry.get("name", "")), str(entry.get("id", "")), taken),
        settings,
        agent=agent if isinstance(agent, str) else "",
        enabled=entry.get("enabled") is not False,
        left_out=tuple(key for key in _LEFT if said.get(key) not in (None, "", False)),
        problem=_problem(settings, now),
    )


def _times(schedule: Any) -> Iterator[tuple[str, str]]:
    """The keys of a job that say when. Seconds of an expression are dropped, and intervals are a minute at least."""
    plain = schedule if isinstance(schedule, Mapping) else {"expr": schedule}
    expression, every = plain.get("expr") or plain.get("cron"), plain.get("everyMs")
    moment = plain.get("at") or plain.get("atMs") or plain.get("run_at")
    every = plain["minutes"] * 60_000 if isinstance(plain.get("minutes"), int) else every
    if isinstance(expression, str):
        fields = expression.split()
        yield "cron", " ".join(fields[1:] if len(fields) > 5 and fields[0].isdigit() else fields)
    elif isinstance(every, int | float) and every > 0:
        yield "every", f"{max(round(every / 1000), _SHORTEST)}s"
    elif isinstance(moment, int | float):
        yield "at", datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="seconds")
    elif isinstance(moment, str):
        yield "at", moment
    if isinstance(plain.get("tz"), str):
        yield "tz", plain["tz"]


def _name(wanted: str, job_id: str, taken: Container[str]) -> str:
    """A name of letters and digits; that of the id where nothing of it is left, as in Chinese."""
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
