"""Reads one memory file: a plain file of bounded size, as text, with the state that it had while it was read."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.memory.documents.walking import MAX_FILE_BYTES, change_time
from clawbot.memory.values import Issue

# Without O_NONBLOCK, opening a FIFO would wait for somebody at its other end.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# The clocks of file systems tick: every 10 ms at most on Linux, every 2 s on FAT and some network shares.
_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_500_000_000
_SECOND_NS = 1_000_000_000

UNSETTLED = -1
"""The time in a state that no listing ever gives: the file is to be looked at once more."""


class UnreadableDocumentError(ClawbotError):
    """A memory file can't be read. `issue` is the same for a report."""

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}.", hint=hint)
        self.issue = Issue(path, f"{reason}: {hint[0].lower()}{hint[1:].rstrip('.')}" if hint else reason)


class Content(Struct, frozen=True):
    """A file's text, the size in bytes and the time that tell this content from later ones, and its digest."""

    text: str
    size: int
    mtime_ns: int
    digest: bytes


def read_content(absolute: str, shown: str) -> Content | None:
    """The content of the file `absolute`, called `shown` in errors; None when it is not there. Blocks.

    The byte order mark goes, CRLF becomes LF and NUL becomes U+FFFD; the number of lines stays. Where the file was
    written so shortly before that a later write might leave its time as it is, `mtime_ns` is UNSETTLED.
    Raises UnreadableDocumentError.
    """
    try:
        data, found = _read(absolute, shown)
    except ValueError as error:
        raise UnreadableDocumentError(shown, "it is no usable path") from error
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _unreadable(shown, error) from error
    text = _decoded(data, shown)
    return Content(text, len(data), _settled_time(found), digest_of(data))


def digest_of(data: bytes) -> bytes:
    """The digest by which contents are compared: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _read(absolute: str, shown: str) -> tuple[bytes, os.stat_result]:
    descriptor = os.open(absolute, _OPEN)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableDocumentError(shown, "it is no plain file")
        if found.st_size > MAX_FILE_BYTES:
            raise UnreadableDocumentError(shown, f"it is larger than {MAX_FILE_BYTES >> 20} MB", hint="Split it.")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(), found
    finally:
        os.close(descriptor)


def _settled_time(found: os.stat_result) -> int:
    # The times of files come from the machine, so only the machine's own clock can be compared with them.
    changed = change_time(found)
    age = time.time_ns() - changed
    tick = _TICK_NS if changed % _SECOND_NS else _COARSE_TICK_NS
    return UNSETTLED if -tick < age < tick else changed


def _decoded(data: bytes, shown: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = "it is UTF-16" if data[:2] in _UTF16_MARKS else f"it is not UTF-8 (line {_line(data, error.start)})"
        raise UnreadableDocumentError(shown, reason, hint="Save it as UTF-8 to have it indexed.") from None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _unreadable(shown: str, error: OSError) -> UnreadableDocumentError:
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnreadableDocumentError(shown, "it is a symlink, and links are not followed")
    if isinstance(error, PermissionError):
        return UnreadableDocumentError(shown, "it can't be read", hint="Give yourself permission to read it.")
    return UnreadableDocumentError(shown, f"it can't be read ({error.strerror or type(error).__name__})")
