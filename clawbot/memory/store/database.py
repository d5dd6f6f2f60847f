"""Opens the database of an index: makes its tables by named migrations, brings it up to date, tells a damaged or
foreign one, and reads what it says of itself."""

from __future__ import annotations

import ctypes
import datetime as dt
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.memory.store.errors import DamagedIndexError, MissingIndexError, StoreError, StoreErrors
from clawbot.memory.store.records import Identity, Totals
from clawbot.memory.values import PART_GLOB, Source
from clawbot.text.tokens import FTS5_TOKENIZER

if TYPE_CHECKING:
    import apsw

T = TypeVar("T", bound=msgspec.Struct)

APPLICATION_ID = 0x636C6177
"""Marks the database as ours ("claw")."""

PAGE_BYTES = 8192
"""Twice SQLite's own: the keyword index and the vectors are a tenth smaller, and scans of them faster."""

# Chunks are found by their id alone, which holds that of the file: no index over them is needed.
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

# A cold build then writes one sorted run for each transaction, where SQLite's own limit of 1 MB would make a dozen.
_LARGE_RUNS = "INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('hashsize', 16777216);"

# The pages themselves are of another form, see `database.py`.
_CHECKSUMS = ""

# Which chunks of a file are of which days, as JSON, where these are several.
_DAYS = "ALTER TABLE files ADD COLUMN days TEXT;"

MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("1-tables", _TABLES + _KEYWORDS + _LARGE_RUNS),
    ("2-checksums", _CHECKSUMS),
    ("3-days", _DAYS),
)
"""Name and SQL, in their order. Never change one that was released: add another."""

TABLES = frozenset({"meta", "files", "speakers", "chunks", "chunks_fts", "embedding_cache"})
"""Without one of these the file is no index. `chunks_vec` comes with the first vector, whose size it is made for."""


BUSY_SECONDS = 5.0
"""How long a statement waits for another process. Transactions take tenths of a second."""

_WRITING_CACHE_KIB = 16 * 1024
# A search reads nearly every page once. Over a large cache each goes to memory that the process has not touched yet,
# which takes longer than to read the few again that are needed twice: 8 ms of a search in 1,000 notes.
_READING_CACHE_KIB = 2 * 1024
# SQLite's own limit is a quarter: a cold build then writes each page of the keyword index several times.
_WAL_PAGES = 4000
CHECKSUM_BYTES = 8
"""At the end of each page, for its checksum: a damaged page is never taken for a sound one."""

# After a large build the file of the log would stay large.
_WAL_BYTES = 1024 * 1024


def open_for_writing(path: Path) -> apsw.Connection:
    """The database at `path`, made and brought up to date where that is needed. Blocks.

    The caller holds the writer's lock. Raises DamagedIndexError for what is to be set aside, StoreError.
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
    """The index at `path`, to be read alone. Blocks: 2 ms. The caller is inside of `locks.opening`.

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
    # Of a file that was empty as it was opened and is made by another process before it is read: half of its first page
    # would be taken for a whole one, whose checksum is wrong.
    connection.pragma("page_size", PAGE_BYTES)
    connection.enable_load_extension(True)
    connection.load_extension(_vector_library())
    connection.enable_load_extension(False)
    connection.pragma("cache_size", -cache_kib)
    _keep_log(connection)


def empty_log(connection: apsw.Connection, *, patient: bool = False) -> bool:
    """Bring the log into the database and cut it to nothing, waiting for nobody unless `patient`; whether that was
    possible."""
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
    if _file_system() and _reserve_checksums(connection) != CHECKSUM_BYTES:
        _reserve_checksums(connection, CHECKSUM_BYTES)
        if applied:
            # Each page is written anew, with its checksum: 0.4 seconds for 100 MB.
            connection.execute("VACUUM")
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


def _reserve_checksums(connection: apsw.Connection, size: int = -1) -> int:
    """Reserve `size` bytes of each page that is written from now on (-1: as it is); returns what was reserved."""
    import apsw

    reserved = ctypes.c_int(size)
    connection.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(reserved))
    return reserved.value


def _check_page_form(connection: apsw.Connection, path: Path) -> None:
    """Raises DamagedIndexError when pages have no room for checksums: a flipped bit there would switch them off."""
    if _file_system() and _reserve_checksums(connection) != CHECKSUM_BYTES:
        raise DamagedIndexError(path, "has lost its checksums")


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


_TOTALS = """
SELECT
    source, count(*) FILTER (WHERE path NOT GLOB ?), sum(chunks), sum(chunks - pending - mute), sum(pending),
    sum(chars), sum(tokens), sum(size)
FROM files GROUP BY source
"""


def read_identity(connection: apsw.Connection) -> Identity | None:
    """What the index was built with; None for a new one. Raises DamagedIndexError."""
    stored = get_meta(connection, "identity")
    try:
        return None if stored is None else msgspec.json.decode(stored, type=Identity)
    except (msgspec.DecodeError, TypeError) as error:
        raise DamagedIndexError(Path(connection.filename), f"does not know what it is ({error})") from error


def write_identity(connection: apsw.Connection, identity: Identity) -> None:
    """Note what the index is built with."""
    set_meta(connection, "identity", msgspec.json.encode(identity).decode())


def read_generation(connection: apsw.Connection) -> int:
    """A number that is another one after each change of what a search may find. Raises DamagedIndexError."""
    stored = get_meta(connection, "generation")
    if not isinstance(stored, int):
        raise DamagedIndexError(Path(connection.filename), "does not know its generation")
    return stored


def read_last_sync(connection: apsw.Connection) -> dt.datetime | None:
    """When the last complete sync was; None before the first. Raises DamagedIndexError."""
    stored = get_meta(connection, "last_sync")
    try:
        return None if stored is None else dt.datetime.fromisoformat(stored)
    except (TypeError, ValueError) as error:
        raise DamagedIndexError(Path(connection.filename), f"has no moment of its last sync ({error})") from error


def read_totals(connection: apsw.Connection) -> dict[Source, Totals]:
    """How much there is of each source. Raises DamagedIndexError."""
    rows = connection.execute(_TOTALS, (PART_GLOB,))
    path = Path(connection.filename)
    return {source: valid(Totals, counts, path) for source, *counts in rows}


def valid(kind: type[T], values: Sequence[Any], path: Path) -> T:
    """The struct of `values` out of the database at `path`. Raises DamagedIndexError where they can't be."""
    try:
        return msgspec.convert(dict(zip(kind.__struct_fields__, values, strict=True)), kind)
    except msgspec.ValidationError as error:
        raise DamagedIndexError(path, f"holds what can't be ({error})") from error


@cache
def _file_system() -> str | None:
    """The name of the file layer that checks each page as it is read; None where this apsw was built without it.

    It is SQLite's own extension `cksumvfs`, and stays loaded for the process.
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
    """Where the library of sqlite-vec is. Its package would import numpy, so it is only looked for."""
    spec = find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("The package sqlite-vec is not installed.", hint="Install clawbot again.")
    return str(Path(next(iter(spec.submodule_search_locations))) / "vec0")
