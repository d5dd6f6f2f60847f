"""Replaces an index by one built separately, so that a kill at any point leaves one of them complete; examines indexes,
and quarantines unusable ones."""

from __future__ import annotations

import contextlib
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.files import PRIVATE_FILE, sync_dir
from clawbot.memory.store.database import fetch, open_for_writing, read_generation, read_identity, read_last_sync
from clawbot.memory.store.errors import BusyIndexError, DamagedIndexError, MissingIndexError, StoreErrors, file_errors
from clawbot.memory.store.locks import BUILDING, replacing
from clawbot.memory.store.records import KINDS, ORDINAL_BITS
from clawbot.memory.store.vectors import table_of
from clawbot.memory.store.writer import IndexWriter

if TYPE_CHECKING:
    import apsw

SIDE_FILES = ("-wal", "-shm")
"""SQLite's files next to a database: the write-ahead log, and its shared index."""


def building_path(path: Path) -> Path:
    """Return the path at which the replacement of the index at `path` is built."""
    return path.with_name(f"{path.name}{BUILDING}")


def publish(path: Path) -> None:
    """Move the index from `building_path` to `path`. Blocks.

    The caller holds the writer's lock and has closed its connections to both. Readers keep their open files, and see
    the new index at their next snapshot. Raises BusyIndexError if a reader does not finish in time (the new index then
    remains, to be published later), StoreError.
    """
    building = building_path(path)
    if not building.exists():
        raise MissingIndexError(f"There is no new memory index at {building}.")
    _settle(building)
    if path.exists():
        # A damaged one is no loss: it is being replaced.
        with contextlib.suppress(DamagedIndexError):
            _settle(path)
    with replacing(path), file_errors(path):
        # Both logs are empty by now. Remove them first: a log next to the wrong database would be replayed into it.
        _remove_side_files(building)
        _remove_side_files(path)
        building.replace(path)
        sync_dir(path.parent)


def discard_building(path: Path) -> None:
    """Remove an unfinished replacement for `path`. The caller holds the writer's lock. Blocks."""
    building = building_path(path)
    with file_errors(building):
        building.unlink(missing_ok=True)
        _remove_side_files(building)


def recover(path: Path) -> None:
    """Remove useless remains of a killed process: logs without a database. The caller holds the lock. Blocks.

    An index being built is kept and continued.
    """
    for database in (path, building_path(path)):
        if not database.exists() and any(side.exists() for side in _side_files(database)):
            with replacing(path), file_errors(database):
                _remove_side_files(database)


def _settle(database: Path) -> None:
    """Checkpoint the complete log. Raises BusyIndexError, DamagedIndexError, StoreError."""
    connection = open_for_writing(database)
    try:
        with StoreErrors(database):
            [(blocked, *_)] = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    if blocked:
        raise BusyIndexError(
            f"The memory index {database} can't be replaced: a reader keeps it open for too long.",
            hint="The next sync replaces it.",
        )


def _remove_side_files(database: Path) -> None:
    for side in _side_files(database):
        side.unlink(missing_ok=True)


def _side_files(database: Path) -> list[Path]:
    return [database.with_name(f"{database.name}{suffix}") for suffix in SIDE_FILES]


KEPT = 2
"""Quarantined files to keep; older ones are removed."""

_MARK = ".set-aside-"


class Quarantined(Struct, frozen=True):
    """The new path of a file, and the reason as the end of a sentence."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"The memory index {self.reason}. It was quarantined as {self.path.name} and is rebuilt."


def open_index(path: Path, now: dt.datetime, *, doubted: bool = False) -> tuple[IndexWriter, Quarantined | None]:
    """Return a writer for the index at `path`, and what was quarantined for it. Blocks. Raises StoreError.

    The caller holds the writer's lock. A `doubted` index is examined first.
    """
    recover(path)
    try:
        return open_trusted(path) if doubted else IndexWriter.open(path), None
    except DamagedIndexError as error:
        moved = quarantine(path, error.reason, now)
    return IndexWriter.open(path), moved


def open_trusted(path: Path) -> IndexWriter:
    """Return a writer for the already examined index at `path`. Blocks. Raises DamagedIndexError, StoreError."""
    writer = IndexWriter.open(path)
    try:
        examine(writer.connection, path)
    except BaseException:
        writer.close()
        raise
    return writer


def quarantine(path: Path, reason: str, now: dt.datetime) -> Quarantined:
    """Move the database at `path` with its side files out of the way. Blocks. Raises StoreError.

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
    """Remove all quarantined files of the index at `path`. Blocks. Raises StoreError."""
    with file_errors(path):
        _remove_older(path, kept=0)


def _remove_older(path: Path, kept: int = KEPT) -> None:
    found = sorted(path.parent.glob(f"{path.name}{_MARK}*Z"), reverse=True)
    for old in found[kept:]:
        for suffix in ("", *SIDE_FILES):
            old.with_name(f"{old.name}{suffix}").unlink(missing_ok=True)


_MAX_SHOWN = 3
_BOUNDS = {"bits": ORDINAL_BITS, "last_kind": len(KINDS) - 1}
_CONTRADICTIONS = {
    "files have wrong counts of their passages": """
        SELECT count(*) FROM files
        LEFT JOIN (SELECT id >> :bits AS file, count(*) AS found FROM chunks GROUP BY file) ON file = files.id
        WHERE chunks != coalesce(found, 0)""",
    "passages belong to no file": "SELECT count(*) FROM chunks WHERE id >> :bits NOT IN (SELECT id FROM files)",
    "passages are of no kind": "SELECT count(*) FROM chunks WHERE kind NOT BETWEEN 0 AND :last_kind",
    "passages have no words": "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT rowid FROM chunks_fts)",
    "words belong to no passage": "SELECT count(*) FROM chunks_fts WHERE rowid NOT IN (SELECT id FROM chunks)",
    "passages have an unknown speaker": """
        SELECT count(*) FROM chunks WHERE speaker NOT NULL AND speaker NOT IN (SELECT id FROM speakers)""",
}


def examine_pages(connection: apsw.Connection, path: Path) -> None:
    """Run SQLite's own checks of all pages, tables and the keyword index. Blocks.

    Raises DamagedIndexError, StoreError.
    """
    with StoreErrors(path):
        found = [str(line) for (line,) in fetch(connection, f"PRAGMA integrity_check({_MAX_SHOWN})")]
        if found != ["ok"]:
            raise DamagedIndexError(path, f"is damaged ({'; '.join(found)})")


def examine(connection: apsw.Connection, path: Path) -> None:
    """Run all checks that need no files: 0.3 seconds for 100,000 chunks. Blocks.

    Raises DamagedIndexError, StoreError.
    """
    examine_pages(connection, path)
    with StoreErrors(path):
        for what, sql in _CONTRADICTIONS.items():
            count = int(connection.execute(sql, _BOUNDS).get)
            if count:
                raise DamagedIndexError(path, f"contradicts itself ({count:,} {what})")
        read_generation(connection)
        read_last_sync(connection)
        table = table_of(connection, read_identity(connection))
        if table is not None:
            _examine_vectors(connection, path, set(table.ids()))


def _examine_vectors(connection: apsw.Connection, path: Path, vectors: set[int]) -> None:
    chunks = {one for (one,) in fetch(connection, "SELECT id FROM chunks")}
    waiting = int(connection.execute("SELECT coalesce(sum(chunks - pending - mute), 0) FROM files").get)
    if not vectors <= chunks or waiting != len(vectors):
        raise DamagedIndexError(path, "is inconsistent (its vectors don't match its passages)")
