"""The errors of the index on disk, and their mapping from SQLite's."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from clawbot.errors import ClawbotError

_FULL_HINT = "Free some disk space; indexing then continues, and nothing is lost."
_DISK_HINT = "Check whether the disk is full or failing, and whether the path is a regular file."
_IOERR_DATA = 8202
"""SQLITE_IOERR_DATA: a page has a wrong checksum. A number, because apsw is imported lazily."""
_IOERR_SHMSIZE = 4874
"""SQLITE_IOERR_SHMSIZE: the shared index of the log can't be extended."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ACCESS_HINT = "Check the permissions of the folder and the file."


class StoreError(ClawbotError):
    """The index could not be read or written. Its source files are untouched."""


class MissingIndexError(StoreError):
    """There is no index yet."""


class BusyIndexError(StoreError):
    """Another process has locked it for too long."""


class DamagedIndexError(StoreError):
    """The file is not an index, is damaged, or is from a newer version: quarantine it and rebuild.

    `reason` is the end of a sentence.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The memory index {path} {reason}.", hint="`clawbot memory index` quarantines it and builds a new one."
        )
        self.reason = reason


class InterruptedSearchError(StoreError):
    """`IndexReader.interrupt` stopped the query."""


class TooManyChunksError(StoreError):
    """A file has more chunks than can be numbered."""


class WrongDimensionsError(StoreError):
    """Vectors of another size than those in the index."""


class StoreErrors:
    """A context that converts SQLite's errors about `path` to ours."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # SQLite's errors come from a module that is already imported; otherwise this is a dict lookup.
        if kind is not None and error is not None and (kind.__module__ == "apsw" or kind is UnicodeDecodeError):
            raise _translated(self._path, error) from error


@contextlib.contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """A context that raises the system's errors about the files of `path` as StoreError."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path) from error
        reason = error.strerror or type(error).__name__
        raise StoreError(f"The memory index {path} can't be opened or moved: {reason}.", hint=_ACCESS_HINT) from error


def _full(path: Path) -> StoreError:
    return StoreError(f"The disk of the memory index {path} is full.", hint=_FULL_HINT)


def _is_damage(error: BaseException) -> bool:
    """Return whether `error` means damaged pages or a foreign schema.

    The statements are fixed and tested, so an SQLError means wrong tables.
    """
    name = type(error).__name__
    wrong_checksum = getattr(error, "extendedresult", 0) == _IOERR_DATA
    return wrong_checksum or name in {"CorruptError", "NotADBError", "FormatError", "SQLError", "UnicodeDecodeError"}


def _translated(path: Path, error: BaseException) -> StoreError:
    reason = str(error)
    name = type(error).__name__
    if _is_damage(error):
        return DamagedIndexError(path, f"is damaged ({reason})")
    if name in {"BusyError", "LockedError"}:
        return BusyIndexError(f"The memory index {path} is in use by another process.", hint="Try again in a moment.")
    if name == "InterruptError":
        return InterruptedSearchError("The search was stopped.")
    if name == "FullError" or getattr(error, "extendedresult", 0) == _IOERR_SHMSIZE:
        return _full(path)
    if name == "IOError":
        return StoreError(f"The memory index {path} can't be written or read ({reason}).", hint=_DISK_HINT)
    if name in {"ReadOnlyError", "CantOpenError", "PermissionsError"}:
        return StoreError(f"The memory index {path} can't be opened for writing ({reason}).", hint=_ACCESS_HINT)
    return StoreError(f"The memory index {path} can't be used ({reason}).")
