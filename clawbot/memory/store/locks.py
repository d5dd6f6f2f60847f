"""Who may write an index, and when its file may be replaced: locks of the system, which die with their process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.memory.store.errors import BusyIndexError, file_errors


class WriterLock:
    """The right to write the index at `path`, as `<path>.lock`. The file stays: removed, it would let in two."""

    def __init__(self, path: Path) -> None:
        # Deferred: to import it takes longer than all that a command does which finds nothing to write.
        from filelock import FileLock

        self._path = path
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), mode=PRIVATE_FILE, thread_local=False)

    @property
    def held(self) -> bool:
        """Whether it is ours."""
        return self._lock.is_locked

    def acquire(self, seconds: float = 0.0) -> None:
        """Take it, waiting for at most `seconds`. Blocks. Raises BusyIndexError when another has it, StoreError."""
        from filelock import Timeout

        with file_errors(self._path):
            ensure_private_dir(self._path.parent)
            try:
                self._lock.acquire(timeout=seconds, poll_interval=0.02)
            except Timeout:
                raise BusyIndexError(
                    f"Another process is writing the memory index {self._path}.", hint="Wait until it is done."
                ) from None

    def release(self) -> None:
        """Give it back. Twice does no harm."""
        if self.held:
            self._lock.release()


@contextlib.contextmanager
def opening(path: Path) -> Iterator[None]:
    """Inside, nobody replaces the database at `path`: what is opened belongs together. Blocks for milliseconds."""
    with _locked(path, fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[None]:
    """Inside, nobody opens the database at `path`. Blocks for milliseconds."""
    with _locked(path, fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    with file_errors(path):
        descriptor = os.open(path.with_name(f"{path.name}.swap"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)
