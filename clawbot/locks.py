"""The only use of flock: locks of open files, which end with their process."""

from __future__ import annotations

import fcntl
from typing import Protocol


class HasDescriptor(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""
        ...


def try_lock(file: int | HasDescriptor, *, shared: bool = False) -> bool:
    """Lock `file` (a descriptor, or what has one) unless another opening of it is locked; returns whether it is now.

    With `shared`, others may share it. Raises OSError where the file system has no locks.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(file: int | HasDescriptor, *, shared: bool = False) -> None:
    """Lock `file` as soon as no other opening of it is locked. Blocks. Raises OSError as `try_lock` does."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def unlock(file: int | HasDescriptor) -> None:
    """Let others have the lock; closing the file does so, too."""
    fcntl.flock(file, fcntl.LOCK_UN)
