"""Session locks: at most one live process per session. The system releases the lock of a dead process; a note names the
holder."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct

from clawbot.clock import Clock, iso_utc
from clawbot.files import PRIVATE_FILE, write_atomic
from clawbot.sessions.errors import SessionLockedError, store_error

# Long enough to outlast a process that only checks the lock, short enough not to be noticed.
PATIENCE = 0.25
_POLL = 0.02
LOCK_SUFFIX = ".lock"
HOLDER_SUFFIX = ".lock.json"


class Holder(Struct, frozen=True):
    """The holder of a session. `started` is ISO 8601 in UTC; `command` contains no user input."""

    pid: int
    command: str = ""
    started: str = ""
    tty: str = ""

    def refusal(self, name: str) -> SessionLockedError:
        """The error for another process that wants the session `name`."""
        return SessionLockedError(name, pid=self.pid, since=self.started, command=self.command, tty=self.tty)


class SessionLock:
    """The lock of the transcript `path`, `<path>.lock`; the holder is recorded in `<path>.lock.json`. The lock file
    remains when the lock is released: removing it would let two processes lock two files of the same name."""

    def __init__(self, path: Path) -> None:
        self._lock_file = lock_file(path)
        self._holder_file = holder_file(path)
        self._lock = FileLock(self._lock_file, timeout=PATIENCE, mode=PRIVATE_FILE, thread_local=False)

    @property
    def held(self) -> bool:
        return self._lock.is_locked

    def acquire(self, name: str, clock: Clock) -> None:
        """Acquire the lock. Raises SessionLockedError (with `name`) if it is held, SessionStoreError if it can't be
        created."""
        try:
            self._lock.acquire(poll_interval=_POLL)
        except Timeout:
            holder = _live_holder(self._holder_file)
            raise (holder.refusal(name) if holder else SessionLockedError(name, pid=None)) from None
        except OSError as error:
            raise store_error("lock", self._lock_file, error) from error
        holder = Holder(pid=os.getpid(), command=_command(), started=iso_utc(clock.now()), tty=_tty())
        try:
            write_atomic(self._holder_file, msgspec.json.encode(holder), mode=PRIVATE_FILE, lasting=False)
        except OSError:
            # The lock works without the note; a full disk must not prevent reading a session.
            self._holder_file.unlink(missing_ok=True)

    def release(self) -> None:
        """Release the lock; idempotent."""
        if self.held:
            with contextlib.suppress(OSError):
                self._holder_file.unlink(missing_ok=True)
            self._lock.release()


def lock_file(path: Path) -> Path:
    """The lock file of the transcript `path`."""
    return path.with_name(path.name + LOCK_SUFFIX)


def holder_file(path: Path) -> Path:
    """The file that names the holder of the transcript `path`."""
    return path.with_name(path.name + HOLDER_SUFFIX)


def holder_of(path: Path) -> Holder | None:
    """The live process that holds the transcript `path`; None if there is none. Tries the lock only if the recorded
    holder is alive, so that checking never blocks another process."""
    holder = _live_holder(holder_file(path))
    return holder if holder is not None and not is_free(path) else None


def is_free(path: Path) -> bool:
    """Whether the transcript `path` is not locked; acquires the lock for a moment to check."""
    if not lock_file(path).exists():
        return True
    try:
        with FileLock(lock_file(path), mode=PRIVATE_FILE).acquire(timeout=0):
            return True
    except (Timeout, OSError):
        return False


def is_left_over(path: Path) -> bool:
    """Whether the lock of the transcript `path` belongs to a dead process or a deleted transcript. A lock file alone is
    normal: it remains after a session was closed."""
    there = holder_file(path).exists() or (lock_file(path).exists() and not path.exists())
    return there and is_free(path)


def remove_left_over(path: Path) -> bool:
    """Remove what `is_left_over` finds, if nobody holds the lock; returns whether anything was removed. The lock file
    of an existing transcript is kept. Raises SessionStoreError."""
    if not is_left_over(path):
        return False
    try:
        with FileLock(lock_file(path), mode=PRIVATE_FILE).acquire(timeout=0):
            holder_file(path).unlink(missing_ok=True)
            if not path.exists():
                lock_file(path).unlink(missing_ok=True)
    except Timeout:
        return False
    except OSError as error:
        raise store_error("remove", lock_file(path), error) from error
    return True


def _live_holder(path: Path) -> Holder | None:
    """The holder in the file `path`, if its process is alive."""
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, ValueError):
        return None
    try:
        if holder.pid > 0:
            os.kill(holder.pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        return holder
    return holder if holder.pid > 0 else None


def _command() -> str:
    """The program and its subcommand (`clawbot chat`): what follows may contain the user's words."""
    words = [Path(sys.argv[0]).name] if sys.argv and sys.argv[0] else []
    return " ".join([*words, *(word for word in sys.argv[1:2] if word.isalpha())])


def _tty() -> str:
    try:
        return os.ttyname(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return ""
