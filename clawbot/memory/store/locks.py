"""Locks for writing and replacing an index: the system releases them when their process dies."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.locks import try_lock, wait_for_lock
from clawbot.memory.store.errors import BusyIndexError, file_errors

BUILDING = ".building"
"""The suffix of an index being built to replace the one without it. Both share their locks."""

_POLL_SECONDS = 0.02
_SEAL = struct.Struct("<3q")
_SEAL_BYTES = 2 * _SEAL.size


class WriterLock:
    """The exclusive right to write the index at `path`, as `<path>.lock`. The file is kept: removing it would admit two
    writers.

    Uses flock directly: importing filelock takes longer than syncing one file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, seconds: float = 0.0) -> None:
        """Acquire the lock, waiting at most `seconds`. Blocks. Raises BusyIndexError if another process holds it,
        StoreError."""
        if self.held:
            return
        descriptor = _open_lock(self._path, ".lock")
        try:
            with file_errors(self._path):
                taken = _taken(descriptor, seconds)
            if not taken:
                raise BusyIndexError(
                    f"Another process is writing the memory index {self._path}.", hint="Wait until it is done."
                )
            self._descriptor = descriptor
        finally:
            if not self.held:
                os.close(descriptor)

    def seal(self) -> None:
        """Record that the index is valid as its files are now. All connections of this process are closed."""
        if self._descriptor is not None:
            with file_errors(self._path):
                os.pwrite(self._descriptor, _seal_of(self._path), 0)

    def break_seal(self) -> None:
        """Require an examination before the index is trusted again."""
        if self._descriptor is not None:
            with file_errors(self._path):
                os.ftruncate(self._descriptor, 0)

    def is_sealed(self) -> bool:
        """Return whether the files are unchanged since a writer sealed them."""
        if self._descriptor is None:
            return False
        with file_errors(self._path):
            return os.pread(self._descriptor, _SEAL_BYTES, 0) == _seal_of(self._path)

    def release(self) -> None:
        """Release the lock; idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def may_be_unsound(path: Path) -> bool:
    """Return whether the index files differ from what the last writer sealed: it died, or the files were changed.

    False while somebody writes, and if nothing can be checked: readers of the index report why. Blocks briefly.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(_lock_path(path, ".lock"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.pread(descriptor, _SEAL_BYTES, 0) == _seal_of(path):
                return False
            # This fails while a writer works, which may have been about to seal the index.
            return try_lock(descriptor, shared=True) and os.pread(descriptor, _SEAL_BYTES, 0) != _seal_of(path)
        finally:
            os.close(descriptor)
    return False


@contextlib.contextmanager
def opening(path: Path) -> Iterator[None]:
    """Prevent the database at `path` from being replaced while it is opened. Blocks for milliseconds.

    In a read-only folder there may be no lock; nobody can replace anything there either.
    """
    lock = _lock_path(path, ".swap")
    if os.access(lock if lock.exists() else lock.parent, os.W_OK) or not path.exists():
        with _locked(path, shared=True):
            yield
    else:
        yield


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[None]:
    """Prevent the database at `path` from being opened. Blocks for milliseconds."""
    with _locked(path, shared=False):
        yield


@contextlib.contextmanager
def _locked(path: Path, *, shared: bool) -> Iterator[None]:
    descriptor = _open_lock(path, ".swap")
    try:
        with file_errors(path):
            wait_for_lock(descriptor, shared=shared)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int, seconds: float) -> bool:
    for again in range(round(seconds / _POLL_SECONDS), -1, -1):
        if try_lock(descriptor):
            return True
        if again:
            time.sleep(_POLL_SECONDS)
    return False


def _seal_of(path: Path) -> bytes:
    """Return the size and times of the database and its log: a kill, a copy or a stray write changes them."""
    seal = b""
    for name in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            found = name.stat()
            # Readers create an empty log if there is none.
            if found.st_size:
                seal += _SEAL.pack(found.st_ino, found.st_size, found.st_mtime_ns)
    return seal.ljust(_SEAL_BYTES, b"\0")


def _lock_path(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name.removesuffix(BUILDING)}{suffix}")


def _open_lock(path: Path, suffix: str) -> int:
    lock = _lock_path(path, suffix)
    with file_errors(path):
        ensure_private_dir(lock.parent)
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
