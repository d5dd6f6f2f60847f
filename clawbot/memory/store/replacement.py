"""Puts one index in the place of another: publishes the one that was built beside it, so that a kill at any point
leaves one of the two whole, and quarantines what stands there and is none that can be used."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path

from msgspec import Struct

from clawbot.files import PRIVATE_FILE, sync_dir
from clawbot.memory.store.database import fetch, open_for_writing
from clawbot.memory.store.errors import BusyIndexError, DamagedIndexError, MissingIndexError, StoreErrors, file_errors
from clawbot.memory.store.locks import BUILDING, replacing
from clawbot.memory.store.verify import examine
from clawbot.memory.store.writer import IndexWriter

SIDE_FILES = ("-wal", "-shm")
"""What SQLite keeps beside a database: its log, and the index of the log that processes share."""


def building_path(path: Path) -> Path:
    """Where the index that is to replace the one at `path` is built."""
    return path.with_name(f"{path.name}{BUILDING}")


def publish(path: Path) -> None:
    """Put the index from `building_path` at `path`. Blocks.

    The caller holds the writer's lock and has no connection of its own to either. Readers go on with what they have
    open, and see the new one at their next snapshot. Raises BusyIndexError when a reader does not end in time: the
    new index stays where it is, to be published later; StoreError.
    """
    building = building_path(path)
    if not building.exists():
        raise MissingIndexError(f"There is no new memory index at {building}.")
    _settle(building)
    if path.exists():
        # A damaged one is no loss: it is what is replaced.
        with contextlib.suppress(DamagedIndexError):
            _settle(path)
    with replacing(path), file_errors(path):
        # Both logs are empty by now. They go before the database does: a log beside the wrong one would be played
        # into it.
        _remove_side_files(building)
        _remove_side_files(path)
        building.replace(path)
        sync_dir(path.parent)


def discard_building(path: Path) -> None:
    """Remove the index that is being built for `path`, if there is any. The caller holds the writer's lock. Blocks."""
    building = building_path(path)
    with file_errors(building):
        building.unlink(missing_ok=True)
        _remove_side_files(building)


def recover(path: Path) -> None:
    """Remove what a death left that is of no use: logs whose database is gone. The caller holds the lock. Blocks.

    An index that was being built stays: it goes on from where it was.
    """
    for database in (path, building_path(path)):
        if not database.exists() and any(side.exists() for side in _side_files(database)):
            with replacing(path), file_errors(database):
                _remove_side_files(database)


def _settle(database: Path) -> None:
    """Bring everything from the log into the database. Raises BusyIndexError, DamagedIndexError, StoreError."""
    connection = open_for_writing(database)
    try:
        with StoreErrors(database):
            [(blocked, *_)] = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    if blocked:
        raise BusyIndexError(
            f"The memory index {database} is being read for too long to be replaced.",
            hint="It is replaced with the next sync.",
        )


def _remove_side_files(database: Path) -> None:
    for side in _side_files(database):
        side.unlink(missing_ok=True)


def _side_files(database: Path) -> list[Path]:
    return [database.with_name(f"{database.name}{suffix}") for suffix in SIDE_FILES]


KEPT = 2
"""So many that were set aside stay; older ones are removed."""

_MARK = ".set-aside-"


class Quarantined(Struct, frozen=True):
    """Where a file is now, and why it was moved there: the end of a sentence about it."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"The memory index {self.reason}. It was set aside as {self.path.name} and is built anew."


def open_index(path: Path, now: dt.datetime, *, doubted: bool = False) -> tuple[IndexWriter, Quarantined | None]:
    """A writer for the index at `path`, and what was set aside for it. Blocks. Raises StoreError.

    The caller holds the writer's lock. An index that is `doubted` is examined before it is trusted.
    """
    recover(path)
    try:
        return open_trusted(path) if doubted else IndexWriter.open(path), None
    except DamagedIndexError as error:
        moved = quarantine(path, error.reason, now)
    return IndexWriter.open(path), moved


def open_trusted(path: Path) -> IndexWriter:
    """A writer for the index at `path`, which was examined. Blocks. Raises DamagedIndexError, StoreError."""
    writer = IndexWriter.open(path)
    try:
        examine(writer.connection, path)
    except BaseException:
        writer.close()
        raise
    return writer


def quarantine(path: Path, reason: str, now: dt.datetime) -> Quarantined:
    """Move the database at `path` out of the way, with what is beside it. Blocks. Raises StoreError.

    The caller holds the writer's lock and has closed its own connections.
    """
    stamp = now.astimezone(dt.UTC).strftime("%Y%m%dT%H%M%S%fZ")
    target = path.with_name(f"{path.name}{_MARK}{stamp}")
    with replacing(path), file_errors(path):
        path.replace(target)
        target.chmod(PRIVATE_FILE)
        for suffix in SIDE_FILES:
            side = path.with_name(f"{path.name}{suffix}")
            if side.exists():
                side.replace(target.with_name(f"{target.name}{suffix}"))
        sync_dir(path.parent)
        _remove_older(path)
    return Quarantined(target, reason)


def discard_quarantined(path: Path) -> None:
    """Remove all that was set aside of the index at `path`. Blocks. Raises StoreError."""
    with file_errors(path):
        _remove_older(path, kept=0)


def _remove_older(path: Path, kept: int = KEPT) -> None:
    found = sorted(path.parent.glob(f"{path.name}{_MARK}*Z"), reverse=True)
    for old in found[kept:]:
        for suffix in ("", *SIDE_FILES):
            old.with_name(f"{old.name}{suffix}").unlink(missing_ok=True)
