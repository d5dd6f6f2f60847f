"""Opens the database of an index: creates and migrates its tables, detects damaged and foreign files, and reads its
metadata."""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from clawbot.distribution import pip_install
from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError, StoreError, StoreErrors, file_errors
from clawbot.memory.store.records import GENERATION_BITS, Identity, Totals
from clawbot.memory.values import PART_GLOB, Source
from clawbot.text.tokens import FTS5_TOKENIZER

if TYPE_CHECKING:
    import apsw

T = TypeVar("T")

APPLICATION_ID = 0x636C6177
"""Identifies the database as ours ("claw")."""

PAGE_BYTES = 8192
"""Twice SQLite's default: the keyword index and the vectors get a tenth smaller, and scans faster."""

# Chunks are looked up only by id, which contains that of the file: no further index is needed.
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    digest BLOB NOT NULL,
    day TEXT,
    chunks INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    mute INTEGER NOT NULL,
    chars INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    revision INTEGER NOT NULL
);
CREATE TABLE speakers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    heading INTEGER,
    speaker INTEGER,
    flags INTEGER NOT NULL,
    text TEXT NOT NULL
);
CREATE TABLE embedding_cache (
    identity TEXT NOT NULL,
    digest BLOB NOT NULL,
    vector BLOB NOT NULL,
    used INTEGER NOT NULL,
    UNIQUE (identity, digest)
);
CREATE INDEX embedding_cache_used ON embedding_cache (used);
"""

_KEYWORDS = f"""
CREATE VIRTUAL TABLE chunks_fts USING fts5(text, content='', contentless_delete=1, tokenize='{FTS5_TOKENIZER}');
"""

# A cold build then writes one sorted run per transaction; with SQLite's default of 1 MB it would be a dozen.
_LARGE_RUNS = "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('hashsize', 16777216);"

# Changes only the page format, see `_reserve_checksums`.
_CHECKSUMS = ""

# The days of a file's chunks as JSON, if there are several.
_DAYS = "ALTER TABLE files ADD COLUMN days TEXT;"

# Which files each generation changed, so that what is kept in memory follows at the cost of these alone; and what waits
# for vectors, without reading all files.
_CHANGES = """
CREATE TABLE changes (
    generation INTEGER NOT NULL, file_id INTEGER NOT NULL, PRIMARY KEY (generation, file_id)
) WITHOUT ROWID;
CREATE INDEX files_pending ON files (pending) WHERE pending > 0;
"""

MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("1-tables", _TABLES + _KEYWORDS + _LARGE_RUNS),
    ("2-checksums", _CHECKSUMS),
    ("3-days", _DAYS),
    ("4-changes", _CHANGES),
)
"""Name and SQL, in order. Never change a released one: add another."""

TABLES = frozenset({"meta", "files", "speakers", "chunks", "chunks_fts", "embedding_cache"})
"""A file without one of these is not an index. `chunks_vec` is created with the first vector, for its size."""


BUSY_SECONDS = 5.0
"""How long a statement waits for another process. Transactions take tenths of a second."""

_WRITING_CACHE_KIB = 16 * 1024
# A search reads nearly every page once. With a large cache each page goes to untouched memory, which costs more than
# rereading the few that are needed twice: 8 ms of a search in 1,000 notes.
_READING_CACHE_KIB = 2 * 1024
# Four times SQLite's default, with which a cold build writes each page of the keyword index several times.
_WAL_PAGES = 4000
CHECKSUM_BYTES = 8
"""Bytes at the end of each page for its checksum, so that damaged pages are detected."""

# Otherwise the log file remains large after a large build.
_WAL_BYTES = 1024 * 1024


def open_for_writing(path: Path) -> apsw.Connection:
    """Return the database at `path`, created or migrated if needed. Blocks.

    The caller holds the writer's lock. Raises DamagedIndexError if it should be quarantined, StoreError.
    """
    import apsw

    _create_private(path)
    with StoreErrors(path):
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE, vfs=_file_system())
        try:
            _prepare(connection, _WRITING_CACHE_KIB)
            _migrate(connection, path)
            _check_page_form(connection, path)
            connection.pragma("synchronous", "normal")
            connection.pragma("wal_autocheckpoint", _WAL_PAGES)
            connection.pragma("journal_size_limit", _WAL_BYTES)
        except BaseException:
            connection.close()
            raise
        return connection


def open_for_reading(path: Path) -> apsw.Connection:
    """Return the index at `path`, read-only. Blocks: 2 ms. The caller is inside `locks.opening`.

    Raises MissingIndexError, DamagedIndexError, StoreError.
    """
    import apsw

    with StoreErrors(path):
        connection = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY, vfs=_file_system())
        try:
            _prepare(connection, _READING_CACHE_KIB)
            applied = applied_migrations(connection, path)
            if len(applied) < len(MIGRATIONS):
                what = "is of an older version" if applied else "is empty"
                raise MissingIndexError(f"The memory index {path} {what}.", hint="`clawbot memory index` builds it.")
            _check_page_form(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def applied_migrations(connection: apsw.Connection, path: Path) -> tuple[str, ...]:
    """Return the names of the applied migrations, () for an empty database.

    Raises DamagedIndexError if it is not ours, lacks tables, or is from a newer version.
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
    """Create an empty file that only its owner can read; SQLite gives the side files the same mode."""
    # An existing file is not opened: closing a second descriptor would drop SQLite's locks on it.
    with file_errors(path), contextlib.suppress(FileExistsError):
        ensure_private_dir(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))


def _prepare(connection: apsw.Connection, cache_kib: int) -> None:
    _be_patient(connection)
    # Against a race with another process that creates the file: half of its first page would be taken for a complete
    # one with a wrong checksum.
    connection.pragma("page_size", PAGE_BYTES)
    connection.enable_load_extension(True)
    connection.load_extension(_vector_library())
    connection.enable_load_extension(False)
    connection.pragma("cache_size", -cache_kib)
    _keep_log(connection)


def empty_log(connection: apsw.Connection, *, patient: bool = False) -> bool:
    """Checkpoint and truncate the log, waiting for readers only if `patient`; returns whether that was possible."""
    if not patient:
        connection.set_busy_timeout(0)
    try:
        [(blocked, *_)] = fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        _be_patient(connection)
    return not blocked


def _be_patient(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(round(BUSY_SECONDS * 1000))


def _keep_log(connection: apsw.Connection) -> None:
    """Keep the write-ahead log when the connection closes.

    SQLite removes it by name. After a publish that is another database's log, with its last changes.
    """
    import apsw

    keep = ctypes.c_int(1)
    connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))


def _migrate(connection: apsw.Connection, path: Path) -> None:
    applied = applied_migrations(connection, path)
    if len(applied) == len(MIGRATIONS):
        return
    if _file_system() and _reserve_checksums(connection) != CHECKSUM_BYTES:
        _reserve_checksums(connection, CHECKSUM_BYTES)
        if applied:
            # Rewrites each page with its checksum: 0.4 seconds for 100 MB.
            connection.execute("VACUUM")
    connection.pragma("journal_mode", "wal")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for _, statements in MIGRATIONS[len(applied) :]:
            connection.execute(statements)
        if not applied:
            connection.pragma("application_id", APPLICATION_ID)
            # Start at a random number, so that caches of one index can't be mistaken for another's.
            first = int.from_bytes(os.urandom(4), "big") << GENERATION_BITS
            set_meta(connection, "generation", first)
        set_meta(connection, "migrations", " ".join(name for name, _ in MIGRATIONS))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _reserve_checksums(connection: apsw.Connection, size: int = -1) -> int:
    """Reserve `size` bytes in each page written from now on (-1: unchanged); returns the number reserved."""
    import apsw

    reserved = ctypes.c_int(size)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(reserved))
    return reserved.value


def _check_page_form(connection: apsw.Connection, path: Path) -> None:
    """Raise DamagedIndexError if pages have no room for checksums: a flipped bit there would disable them."""
    if _file_system() and _reserve_checksums(connection) != CHECKSUM_BYTES:
        raise DamagedIndexError(path, "has lost its checksums")


def file_mark(path: Path) -> tuple[int, ...]:
    """Return the identity of the file at `path` and its log, which changes when it is replaced; () if it is missing."""
    mark: list[int] = []
    for name in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = name.stat()
        except OSError:
            break
        mark += found.st_dev, found.st_ino
    return tuple(mark)


def fetch(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return all rows of a query, as tuples."""
    return connection.execute(sql, values).fetchall()


def as_json(values: Iterable[int] | Iterable[str]) -> str:
    """Return a list for `json_each` in a query."""
    return msgspec.json.encode(list(values)).decode()


def get_meta(connection: apsw.Connection, key: str) -> Any:
    """Return the value of `key` in the table meta; None if missing."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


def set_meta(connection: apsw.Connection, key: str, value: str | int) -> None:
    """Store a value in the table meta."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


_TOTALS = """
SELECT
    source, count(*) FILTER (WHERE path NOT GLOB ?), sum(chunks), sum(chunks - pending - mute), sum(pending),
    sum(chars), sum(tokens), sum(size)
FROM files GROUP BY source
"""


def read_identity(connection: apsw.Connection) -> Identity | None:
    """Return how the index was built; None for a new one. Raises DamagedIndexError."""
    stored = get_meta(connection, "identity")
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Identity)
    except (msgspec.DecodeError, TypeError) as error:
        raise DamagedIndexError(Path(connection.filename), f"does not know what it is ({error})") from error


def write_identity(connection: apsw.Connection, identity: Identity) -> None:
    """Record how the index is built."""
    set_meta(connection, "identity", msgspec.json.encode(identity).decode())


def read_generation(connection: apsw.Connection) -> int:
    """Return a number that grows with everything that a search may find, see `is_before`. Raises DamagedIndexError."""
    stored = get_meta(connection, "generation")
    if not isinstance(stored, int):
        raise DamagedIndexError(Path(connection.filename), "does not know its generation")
    return stored


ANY_FILE = -1
"""Represents in `changes` more than single files, such as another size of the vectors."""

_KEPT_GENERATIONS = 256


def note_changes(connection: apsw.Connection, generation: int, files: Iterable[int]) -> None:
    """Record that `generation` changed `files`, and forget the oldest records."""
    connection.executemany("INSERT INTO changes VALUES (?, ?)", [(generation, one) for one in files])
    connection.execute("DELETE FROM changes WHERE generation <= ?", (generation - _KEPT_GENERATIONS,))


def changed_files(connection: apsw.Connection, before: int | None, now: int) -> set[int] | None:
    """Return the files that changed after the generation `before`, up to the current one, `now`; None if that is no
    longer known, or `before` is None or of another index."""
    if before is None or not 0 <= now - before <= _KEPT_GENERATIONS:
        return None
    found = {one for (one,) in fetch(connection, "SELECT file_id FROM changes WHERE generation > ?", (before,))}
    return None if ANY_FILE in found else found


def read_last_sync(connection: apsw.Connection) -> dt.datetime | None:
    """Return the time of the last complete sync; None before the first. Raises DamagedIndexError."""
    stored = get_meta(connection, "last_sync")
    try:
        return None if stored is None else dt.datetime.fromisoformat(stored)
    except (TypeError, ValueError) as error:
        raise DamagedIndexError(Path(connection.filename), f"has an invalid time of its last sync ({error})") from error


def read_totals(connection: apsw.Connection) -> dict[Source, Totals]:
    """Return the size of each source. Raises DamagedIndexError."""
    rows = connection.execute(_TOTALS, (PART_GLOB,))
    path = Path(connection.filename)
    return {source: valid(Totals, counts, path) for source, *counts in rows}


def valid(kind: type[T], values: Sequence[Any], path: Path) -> T:
    """Return `kind`, an `array_like` struct or a list of them, of `values` of the database at `path`. Raises
    DamagedIndexError if they are invalid."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise DamagedIndexError(path, f"holds what can't be ({error})") from error


@cache
def _file_system() -> str | None:
    """Return the name of the VFS that verifies pages on reading; None if this apsw was built without it.

    It is SQLite's extension `cksumvfs`, and remains loaded for the process.
    """
    import apsw

    library = Path(apsw.__file__).parent / "sqlite_extra_binaries" / "cksumvfs"
    connection = apsw.Connection(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(library))
    except apsw.ExtensionLoadingError:
        return None
    finally:
        connection.close()
    return "cksmvfs"


@cache
def _vector_library() -> str:
    """Return the path of the sqlite-vec library. Its package is not imported, because it would import numpy."""
    spec = find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("The package sqlite-vec is not installed.", hint=pip_install("sqlite-vec"))
    return str(Path(next(iter(spec.submodule_search_locations))) / "vec0")
