"""The tables of the index, as named migrations: what was applied is noted, so that a newer index is known as such."""

from __future__ import annotations

from clawbot.memory.text import FTS5_TOKENIZER

APPLICATION_ID = 0x636C6177
"""Marks the database as ours ("claw")."""

PAGE_BYTES = 8192
"""Twice SQLite's own: the keyword index and the vectors are a tenth smaller, and scans of them faster."""

# Pieces are found by their id alone, which holds that of the file: no index over them is needed.
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

MIGRATIONS: tuple[tuple[str, str], ...] = (("1-tables", _TABLES + _KEYWORDS + _LARGE_RUNS),)
"""Name and SQL, in their order. Never change one that was released: add another."""

TABLES = frozenset({"meta", "files", "speakers", "chunks", "chunks_fts", "embedding_cache"})
"""Without one of these the file is no index. `chunks_vec` comes with the first vector, whose size it is made for."""
