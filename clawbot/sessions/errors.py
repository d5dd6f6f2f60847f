"""The errors of this package, and `Problem` for damage that was survived."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.text.interface import _


class SessionStoreError(ClawbotError):
    """A transcript or the index can't be read or written. The message names the file, the hint a remedy."""


class UnknownSessionError(SessionStoreError):
    """There is no session of that name."""


class ForgottenSessionError(SessionStoreError):
    """The session was forgotten and can't be continued."""


class AmbiguousSessionError(SessionStoreError):
    """Several sessions have an id with that prefix."""


class SessionLockedError(ClawbotError):
    """Another live process holds the session. `pid` is None until the holder has recorded itself; `since` is ISO 8601
    in UTC, `command` and `tty` are as the holder recorded them."""

    def __init__(self, name: str, *, pid: int | None, since: str = "", command: str = "", tty: str = "") -> None:
        self.name = name
        self.pid = pid
        self.since = since
        self.command = command
        self.tty = tty
        super().__init__(
            _("Conversation {name} is open in {holder}.").format(name=name, holder=self._holder()),
            hint=_("Continue there, use another one with --session NAME, or start a new one with --new."),
        )

    def _holder(self) -> str:
        if self.pid is None:
            return _("another process")
        parts = [_("process {pid}").format(pid=self.pid)]
        if self.command:
            parts.append(f"({self.command})")
        if self.tty:
            parts.append(_("on {terminal}").format(terminal=self.tty))
        if self.since:
            parts.append(_("since {time} UTC").format(time=self.since[:16].replace("T", " ")))
        return " ".join(parts)


class Problem(Struct, frozen=True):
    """Damage in a file that was survived; nothing that the file still holds is lost. `line` counts from 1; None for the
    file itself."""

    path: str
    text: str
    line: int | None = None

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.text}"


REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space and send it again.",
    errno.EDQUOT: "The disk quota is used up: free some space and send it again.",
    errno.EFBIG: "The file has reached a size limit: raise the limit, or start a fresh session with /new.",
    errno.EROFS: "The file system is read-only: mount it writable, or set CLAWBOT_HOME to another folder.",
    errno.EACCES: "Give yourself write permission there, or set CLAWBOT_HOME to another folder.",
    errno.EPERM: "Give yourself write permission there, or set CLAWBOT_HOME to another folder.",
    errno.ENOTDIR: "A file is where a folder should be: move it away, or set CLAWBOT_HOME to another folder.",
    errno.EEXIST: "A file is where a folder should be: move it away, or set CLAWBOT_HOME to another folder.",
    errno.EIO: "The disk reports an error: check it, and copy the file to another one.",
}


def store_error(what: str, path: Path, error: OSError) -> SessionStoreError:
    """The error for `what` (a verb: "write", "open") that failed on `path`."""
    reason = error.strerror or str(error) or type(error).__name__
    return SessionStoreError(
        f"Could not {what} {path}: {reason}.",
        hint=REMEDIES.get(error.errno or 0, "Check the file and the disk; `clawbot doctor` shows what it finds."),
    )


@contextlib.contextmanager
def store_errors(what: str, path: Path) -> Iterator[None]:
    """A context that raises the system's errors as `store_error(what, path, ...)`."""
    try:
        yield
    except OSError as error:
        raise store_error(what, path, error) from error
