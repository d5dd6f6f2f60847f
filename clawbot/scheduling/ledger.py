"""The state of each job in `schedule.json`: each due time is claimed once, by one process.

The complete file is read and written under a lock. An unreadable file is moved aside with a notice, and every job
starts from now: runs may be missed, but none is repeated. All methods block; they raise ScheduleError if the file can't
be locked or written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct, structs

from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic
from clawbot.scheduling.jobs import Job

# Every use of the file takes milliseconds: a longer hold means that the process hangs.
LOCK_TIMEOUT = 10.0

Status = Literal["", "running", "done", "failed", "skipped", "interrupted"]


class ScheduleError(ClawbotError):
    """The ledger can't be used."""


class Record(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The state of a job. `timing` are its times when it was armed, "" while it is disabled; everything due up to
    `since` is done.

    `started` is the last run and `due` its due time (None: run by hand); `error` is why it failed or was skipped.
    `reply_digest` and `replied` describe the last reply shown.
    """

    timing: str
    since: datetime
    due: datetime | None = None
    started: datetime | None = None
    status: Status = ""
    error: str = ""
    duration_ms: int = 0
    reply_digest: str = ""
    replied: datetime | None = None


Records: TypeAlias = dict[str, Record]
Arm = Callable[[Job, Record | None, datetime], Record | None]


class Ledger:
    """The ledger in the file `path`. `notices` are the problems survived while using it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[str] = []
        self._threads = threading.Lock()

    def take_notices(self) -> list[str]:
        """Return `notices` and empty them."""
        taken, self.notices = self.notices, []
        return taken

    def read(self) -> Mapping[str, Record]:
        """Return all records by `Job.key`, read-only; empty for an invalid file."""
        return self._read() or {}

    def arm(self, jobs: Sequence[Job], now: datetime, arm: Arm) -> Mapping[str, Record]:
        """Update the records of `jobs` after changes of the settings, as `arm` decides; returns all records."""
        with self._edit() as records:
            for job in jobs:
                record = arm(job, records.get(job.key), now)
                if record is not None:
                    records[job.key] = record
            return records

    def claim(self, job: Job, due: datetime, now: datetime) -> bool:
        """Claim the run of `job` for the time `due`. True for exactly one caller among all processes."""
        with self._edit() as records:
            record = records.get(job.key)
            if record is None or due <= record.since:
                return False
            records[job.key] = structs.replace(
                record, since=due, due=due, started=now, status="running", error="", duration_ms=0
            )
            return True

    def begin(self, job: Job, now: datetime) -> None:
        """Record a run by hand, which claims no due time."""
        with self._edit() as records:
            known = records.get(job.key) or Record(timing=job.timing if job.enabled else "", since=now)
            records[job.key] = structs.replace(known, due=None, started=now, status="running", error="", duration_ms=0)

    def release(self, job: Job, started: datetime, since: datetime, reason: str) -> None:
        """Undo the run that began at `started`, so that it is due again; `since` is the previous mark."""
        self._end(job, started, since=since, status="skipped", error=reason)

    def finish(
        self, job: Job, started: datetime, status: Status, *, error: str = "", duration_ms: int = 0, digest: str = ""
    ) -> None:
        """Record the end of the run that began at `started`; `digest` is that of the reply shown ("": none)."""
        replied = {"reply_digest": digest, "replied": started} if digest else {}
        self._end(job, started, status=status, error=error, duration_ms=duration_ms, **replied)

    def _end(self, job: Job, started: datetime, **changes: object) -> None:
        with self._edit() as records:
            record = records.get(job.key)
            # Another run may have started since, by hand or in another process. Compare in UTC: during an hour that
            # clocks show twice, times of two zones are never equal.
            if record is not None and record.started and record.started.astimezone(UTC) == started.astimezone(UTC):
                records[job.key] = structs.replace(record, **changes)

    @contextmanager
    def _edit(self) -> Iterator[Records]:
        """Read, let the caller change, write: exclusive among all threads and processes."""
        with self._alone():
            before = self._read()
            records = dict(before or {})
            yield records
            if before is None:
                self._put_aside()
            if before is None or records != before:
                with self._translated("written"):
                    data = msgspec.json.format(msgspec.json.encode(records), indent=2) + b"\n"
                    write_atomic(self.path, data, mode=PRIVATE_FILE)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = FileLock(self.path.with_name(f"{self.path.name}.lock"), timeout=LOCK_TIMEOUT, mode=PRIVATE_FILE)
        with self._threads:
            with self._translated("locked"):
                ensure_private_dir(self.path.parent)
                try:
                    lock.acquire()
                except Timeout:
                    raise ScheduleError(
                        f"{self.path} has been locked for {LOCK_TIMEOUT:.0f} seconds by another process.",
                        hint="Find the clawbot process that hangs, and stop it.",
                    ) from None
            try:
                yield
            finally:
                lock.release()

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ScheduleError(f"{self.path} can't be {what}: {error.strerror or error}.") from error

    def _read(self) -> Records | None:
        """Return the records; None if the file is invalid."""
        with self._translated("read"):
            try:
                data = self.path.read_bytes()
            except FileNotFoundError:
                return {}
        try:
            records = msgspec.json.decode(data, type=Records)
        except (ValueError, RecursionError):
            return None
        return records if all(_is_possible(record) for record in records.values()) else None

    def _put_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.bad")
        number = 2
        while aside.exists():
            aside, number = self.path.with_name(f"{self.path.name}.bad-{number}"), number + 1
        with self._translated("put aside"):
            self.path.rename(aside)
            aside.chmod(PRIVATE_FILE)
        self.notices.append(
            f"The schedule's ledger could not be read and is {aside.name} now. Every job starts again: what was due "
            "since then is not caught up."
        )


def _is_possible(record: Record) -> bool:
    """Return whether the times of `record` have zones and can be converted to any other zone."""
    moments = [moment for moment in (record.since, record.due, record.started, record.replied) if moment is not None]
    return all(moment.tzinfo is not None and MINYEAR < moment.year < MAXYEAR for moment in moments)
