"""What can go wrong with sessions, and what is only worth telling: the errors of this package and `Problem`."""

from __future__ import annotations

import errno
from pathlib import Path

from msgspec import Struct

from clawbot.errors import ClawbotError


class SessionStoreError(ClawbotError):
    """A transcript or the index can't be read or written. The message names the file, the hint the remedy."""


class UnknownSessionError(SessionStoreError):
    """No session has that name."""


class ForgottenSessionError(SessionStoreError):
    """The session was forgotten: nobody can go on in it."""


class AmbiguousSessionError(SessionStoreError):
    """More than one session has an id that begins like that."""


class SessionLockedError(ClawbotError):
    """Another live process holds the session.

    `pid` is None while the holder has not said who it is; `since` is ISO 8601 in UTC, `command` and `tty` as the
    holder gave them.
    """

    def __init__(self, name: str, *, pid: int | None, since: str = "", command: str = "", tty: str = "") -> None:
        self.name = name
        self.pid = pid
        self.since = since
        self.command = command
        self.tty = tty
        super().__init__(
            f"Session {name} is open in {self._holder()}.",
            hint="Go on there, take another one with --session NAME, or start a fresh one with --new.",
        )

    def _holder(self) -> str:
        if self.pid is None:
            return "another process"
        parts = [f"process {self.pid}"]
        if self.command:
            parts.append(f"({self.command})")
        if self.tty:
            parts.append(f"on {self.tty}")
        if self.since:
            parts.append(f"since {self.since[:16].replace('T', ' ')} UTC")
        return " ".join(parts)


class Problem(Struct, frozen=True):
    """Something in a file that was survived: nothing was lost by it that the file still holds.

    `line` counts from 1; None when the problem is the file's as a whole.
    """

    path: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.text}"


REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space and send it again.",
    errno.EDQUOT: "The disk quota is used up: free some space and send it again.",
    errno.EFBIG: "The file may not grow further (a size limit): raise the limit, or start a fresh session with /new.",
    errno.EROFS: "The file system is read-only: mount it writable, or set CLAWBOT_HOME to another folder.",
    errno.EACCES: "Give yourself write permission there, or set CLAWBOT_HOME to another folder.",
    errno.EPERM: "Give yourself write permission there, or set CLAWBOT_HOME to another folder.",
    errno.ENOTDIR: "A file stands where a folder should be: move it away, or set CLAWBOT_HOME to another folder.",
    errno.EEXIST: "A file stands where a folder should be: move it away, or set CLAWBOT_HOME to another folder.",
    errno.EIO: "The disk reports an error: check it, and copy the file to another one.",
}


def store_error(what: str, path: Path, error: OSError) -> SessionStoreError:
    """The error for `what` (a verb phrase: "write", "open") that failed on `path`."""
    reason = error.strerror or str(error) or type(error).__name__
    return SessionStoreError(
        f"Could not {what} {path}: {reason}.",
        hint=REMEDIES.get(error.errno or 0, "Check the file and the disk; `clawbot doctor` shows what it finds."),
    )
