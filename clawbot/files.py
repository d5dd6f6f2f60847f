"""Durable and private writes of files where only the user and the program write, reads of such files, and digests.

Links are followed: they are the user's. Where commands write, too, `clawbot/guarded.py` reads and writes.

All functions block: call them in a thread from the event loop. They raise OSError with the file name set.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from clawbot.guarded import (
    PRIVATE_FILE,
    GuardedFolder,
    ensure_private_dir,
    is_aside,
    naming,
    reached,
    regular_content,
    sync,
)
from clawbot.locks import wait_for_lock

__all__ = [
    "LEFT_SECONDS", "PRIVATE_FILE", "append_lines", "create_complete", "digest_of", "ensure_private_dir", "is_aside",
    "locked", "read_plain", "sweep_asides", "sync_dir", "version_of", "write_atomic", "write_out",
]  # fmt: skip
LEFT_SECONDS = 3_600.0  # a temporary file of this age is nobody's work any more: its writer was killed


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of the bytes as hex, which identifies a version of a file."""
    return hashlib.sha256(data).hexdigest()


def version_of(data: bytes) -> str:
    """The BLAKE2b digest of 16 bytes as hex, by which a version of a file is compared with what was indexed or seen."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def sweep_asides(folder: Path, name: str = "", *, age: float = LEFT_SECONDS) -> None:
    """Remove the temporary files that are older than `age` seconds, of all files in `folder` or of the one called
    `name`. Blocks; what can't be removed remains."""
    for left in folder.glob(f".{glob.escape(name) or '*'}.*.tmp"):
        with contextlib.suppress(OSError):
            found = left.lstat()
            if is_aside(left.name) and stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > age:
                left.unlink()


def write_atomic(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    lasting: bool = True,
    check: Callable[[], None] | None = None,
    held: bool = False,
) -> None:
    """Replace `path` with `data`, as `GuardedFolder.replace`. A symlink is followed and remains a link. Raises
    FileNotFoundError if its folder is missing."""
    with naming(path):
        target = path.resolve()
        folder = GuardedFolder(target.parent, real=True)
        folder.replace(target.name, data, mode=mode, lasting=lasting, check=check, held=held)


def append_lines(path: Path, lines: bytes, *, lasting: bool = False) -> None:
    """Append `lines` to a file of the program in one write, behind the end of a line that a kill has truncated.
    `lasting`: wait until they are on disk. For the holder of a lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        size = os.fstat(handle).st_size
        partial = size and os.pread(handle, 1, size - 1) != b"\n"
        rest = memoryview(b"\n" * bool(partial) + lines)
        while rest:
            rest = rest[os.write(handle, rest) :]
        if lasting:
            os.fsync(handle)
    finally:
        os.close(handle)


def write_out(path: Path, data: bytes, workspace: Path) -> None:
    """Write `data` to a path given by the user: into an existing device or pipe outside `workspace`, else as a file.
    Blocks; raises OSError."""
    folder, name = reached(path, workspace)
    try:
        written_through = folder.root != workspace and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    except FileNotFoundError:
        written_through = False
    if not written_through:
        folder.replace(name, data) if folder.root == workspace else write_atomic(path, data)
        return
    with naming(path), path.open("wb", buffering=0) as stream:
        rest = memoryview(data)
        while rest:
            rest = rest[stream.write(rest) or 0 :]


def read_plain(path: Path, limit: int) -> bytes:
    """Return the content of the regular file at `path`. Blocks.

    Raises OSError, also for more than `limit` bytes, and for a device or a pipe (without waiting for it).
    """
    with naming(path), os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        return regular_content(stream, limit)


def create_complete(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
    """Write `data` to a new file, as `GuardedFolder.create`. Returns False and changes nothing if `path` exists."""
    with naming(path):
        return GuardedFolder(path.parent.resolve(), real=True).create(path.name, data, mode=mode)


def unreported(file: Path, lines: Sequence[str], now: datetime) -> Sequence[str]:
    """Return `lines`, or none if they are the ones reported last, today; `file` holds their digest."""
    reported = f"{now.date()} {digest_of(repr(lines).encode(errors='replace'))}\n".encode()
    with contextlib.suppress(OSError):
        if not lines or (file.is_file() and read_plain(file, limit=1024) == reported):
            return ()
        write_atomic(file, reported, mode=PRIVATE_FILE)
    return lines


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for and hold the system's lock of `path`: a folder, or a file, which is created if missing and kept. For
    locks held for milliseconds; use filelock to give up after a time or to report the holder."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if path.is_dir() else os.O_CREAT), PRIVATE_FILE)
    try:
        wait_for_lock(handle)
        yield
    finally:
        os.close(handle)


def sync_dir(folder: Path) -> None:
    """Make a rename or a new name in `folder` survive a power cut; does nothing on file systems that can't."""
    with GuardedFolder(folder).folder() as descriptor:
        sync(descriptor)
