"""Opens the database of an index: makes it, brings it up to date, and tells a damaged or foreign one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError, StoreError, StoreErrors
from clawbot.memory.store.schema import APPLICATION_ID, MIGRATIONS, PAGE_BYTES, TABLES

if TYPE_CHECKING:
    import apsw

BUSY_SECONDS = 5.0
"""How long a statement waits for another process. Transactions take tenths of a second."""

_WRITING_CACHE_KIB = 16 * 1024
# A search reads nearly every page once. Over a large cache each goes to memory that the process has not touched yet,
# which takes longer than to read the few again that are needed twice: 8 ms of a search in 1,000 notes.
_READING_CACHE_KIB = 2 * 1024
# SQLite's own limit is a quarter: a cold build then writes each page of the keyword index several times.
_WAL_PAGES = 4000
# After a large build the file of the log would stay large.
_WAL_BYTES = 1024 * 1024


def open_for_writing(path: Path) -> apsw.Connection:
    """The database at `path`, made and brought up to date where that is needed. Blocks.

    The caller holds the writer's lock. Raises DamagedIndexError for what is to be set aside, StoreError.
    """
    import apsw

    _create_private(path)
    with StoreErrors(path):
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)
        try:
            _prepare(connection, _WRITING_CACHE_KIB)
            _migrate(connection, path)
            connection.pragma("synchronous", "normal")
            connection.pragma("wal_autocheckpoint", _WAL_PAGES)
            connection.pragma("journal_size_limit", _WAL_BYTES)
        except BaseException:
            connection.close()
            raise
        return connection


def open_for_reading(path: Path) -> apsw.Connection:
    """The index at `path`, to be read alone. Blocks: 2 ms. The caller is inside of `locks.opening`.

    Raises MissingIndexError, DamagedIndexError, StoreError.
    """
    import apsw

    with StoreErrors(path):
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
        try:
            _prepare(connection, _READING_CACHE_KIB)
            applied = applied_migrations(connection, path)
            if len(applied) < len(MIGRATIONS):
                what = "is of an older version" if applied else "is empty"
                raise MissingIndexError(f"The memory index {path} {what}.", hint="`clawbot memory index` builds it.")
        except BaseException:
            connection.close()
            raise
        return connection


def applied_migrations(connection: apsw.Connection, path: Path) -> tuple[str, ...]:
    """The names of the migrations that the database went through, () for an empty one.

    Raises DamagedIndexError when it is not ours, lacks tables, or knows more than we do.
    """
    tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    application = connection.pragma("application_id")
    if not tables and not application:
        return ()
    if application != APPLICATION_ID:
        raise DamagedIndexError(path, "is a database of another program")
    if not tables:
        return ()
    if "meta" not in tables:
        raise DamagedIndexError(path, "lacks its tables")
    row = connection.execute("SELECT value FROM meta WHERE key = 'migrations'").fetchone()
    names = tuple(str(row[0]).split()) if row else ()
    known = tuple(name for name, _ in MIGRATIONS)
    if names != known[: len(names)]:
        raise DamagedIndexError(path, "is from a newer version of clawbot")
    if missing := TABLES - tables:
        raise DamagedIndexError(path, f"lacks the table {min(missing)}")
    return names


def _create_private(path: Path) -> None:
    """Make an empty file that only its owner can read; the files beside it get the same rights from SQLite."""
    try:
        ensure_private_dir(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))
    except FileExistsError:
        # Not opened otherwise: closing a second descriptor would drop the locks that SQLite holds on the file.
        return
    except OSError as error:
        raise StoreError(
            f"The memory index {path} can't be made: {error.strerror}.", hint="Check the folder's permissions."
        ) from error


def _prepare(connection: apsw.Connection, cache_kib: int) -> None:
    _be_patient(connection)
    connection.enable_load_extension(True)
    connection.load_extension(_vector_library())
    connection.enable_load_extension(False)
    connection.pragma("cache_size", -cache_kib)
    _keep_log(connection)


def empty_log(connection: apsw.Connection) -> bool:
    """Bring the log into the database and cut it to nothing, waiting for nobody; whether that was possible."""
    connection.set_busy_timeout(0)
    try:
        [(blocked, *_)] = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        _be_patient(connection)
    return not blocked


def _be_patient(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(round(BUSY_SECONDS * 1000))


def _keep_log(connection: apsw.Connection) -> None:
    """Never remove the write-ahead log when the connection closes.

    SQLite removes it by its name. After a publish that is the name of another database's log, with its last changes.
    """
    import apsw

    keep = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))


def _migrate(connection: apsw.Connection, path: Path) -> None:
    applied = applied_migrations(connection, path)
    if len(applied) == len(MIGRATIONS):
        return
    if not applied:
        connection.pragma("page_size", PAGE_BYTES)
    connection.pragma("journal_mode", "wal")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for _, statements in MIGRATIONS[len(applied) :]:
            connection.execute(statements)
        if not applied:
            connection.pragma("application_id", APPLICATION_ID)
            # Another index never has the same generations, so that what is kept of one can't pass for the other's.
            first = int.from_bytes(os.urandom(4), "big") << 24
            set_meta(connection, "generation", first)
        set_meta(connection, "migrations", " ".join(name for name, _ in MIGRATIONS))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def file_mark(path: Path) -> tuple[int, ...]:
    """What tells the file at `path`, with its log, from another one that takes its place; () when it is not there."""
    mark: list[int] = []
    for name in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = name.stat()
        except OSError:
            break
        mark += found.st_dev, found.st_ino
    return tuple(mark)


def fetch(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """All rows of a query, as tuples."""
    return connection.execute(sql, values).fetchall()


def get_meta(connection: apsw.Connection, key: str) -> Any:
    """The value of `key` in the table meta; None without one."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


def set_meta(connection: apsw.Connection, key: str, value: str | int) -> None:
    """Store a value in the table meta."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


@cache
def _vector_library() -> str:
    """Where the library of sqlite-vec is. Its package would import numpy, so it is only looked for."""
    spec = find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("The package sqlite-vec is not installed.", hint="Install clawbot again.")
    return str(Path(next(iter(spec.submodule_search_locations))) / "vec0")
