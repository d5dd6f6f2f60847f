"""What goes into a memory and comes out of it: requests, hits, excerpts, progress and reports; and how transcripts are
named in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from msgspec import Struct, field

Source = Literal["memory", "sessions"]
"""Where a text comes from: the Markdown files, or the transcripts."""

EVERY_SOURCE: tuple[Source, ...] = ("memory", "sessions")

Mode = Literal["hybrid", "fts-only", "vector-only"]
"""How a search looked: by meaning and word, by word alone, by meaning alone."""

ChunkKind = Literal["prose", "dialogue", "item", "code", "heading", "table"]
"""What a chunk is. What stands beside an item or a row of a table says little about it; beside prose and talk, much."""

Reranker = Callable[[str, Sequence[str]], Awaitable[Sequence[int] | None]]
"""A question and texts go in, the numbers of the texts (from 0) come out, the best first; None: as they were."""

MAX_QUERIES = 4
"""Variants of a question that one search takes at most."""


class Issue(Struct, frozen=True):
    """Something that kept a file from being indexed: its `path` and one clear line."""

    path: str
    text: str


class SearchRequest(Struct, frozen=True, kw_only=True):
    """What to look for.

    `queries` are one to four wordings of one question; their results are fused. `max_results` (a count), `max_chars`
    (characters of all snippets together) and `min_score` (0 to 1) are the settings' own where they are None. `after`
    and `before` are the first and the last date that a note may have. `path` is a path, a folder or a glob, relative
    to the workspace. `sources` are where a hit may come from, `without` is a transcript (`sessions/….jsonl`) that it
    may not come from. `prefix` says that somebody is typing: a word at the very end of a query, without a blank behind
    it, may be the beginning of a longer one (profile `lines`).
    """

    queries: tuple[str, ...]
    max_results: int | None = None
    max_chars: int | None = None
    min_score: float | None = None
    after: date | None = None
    before: date | None = None
    path: str | None = None
    sources: tuple[Source, ...] = EVERY_SOURCE
    without: str | None = None
    prefix: bool = False


Origin = Literal["file", "user", "agent"]
"""Whose words a text is: those of a file that somebody wrote; what the user or the agent said in a conversation. What
tools print is not indexed."""


class SaidBy(Struct, frozen=True):
    """Who said something, and when: in the entry `entry` of a transcript, at `at` in the user's zone."""

    entry: str
    who: Literal["user", "agent"]
    at: datetime


class Hit(Struct, frozen=True, rename="camel"):
    """A place that fits: lines `start_line` to `end_line` (from 1, inclusive) of `path`, and their text.

    `score` is 0 to 1, `line` the line that fits best. Of transcripts the lines are those of the JSONL file, and `said`
    tells of the best one who said it and when. `origin` says whose words it is.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Source
    line: int = 0
    said: SaidBy | None = None
    origin: Origin = "file"

    @property
    def place(self) -> str:
        """Where it stands, as people and models name it: `path#L12-L20`, of a talk `sessions/….jsonl#entry`."""
        if self.said is not None:
            return f"{self.path}#{self.said.entry}"
        end = f"-L{self.end_line}" if self.end_line != self.start_line else ""
        return f"{self.path}#L{self.start_line}{end}"


class Fallback(Struct, frozen=True, rename="camel"):
    """What could not be used and why: `from_` is the provider (`from` in JSON)."""

    from_: str = field(name="from")
    reason: str


class SearchResult(Struct, frozen=True, rename="camel"):
    """What a search found, the best hit first.

    `provider` and `model` are where the vectors came from ("none" and "" without any). `partial` says that
    something may be missing: the deadline came first, or not all files are indexed. `warnings` (`notes` in JSON) are
    short sentences for people and models.
    """

    hits: tuple[Hit, ...]
    mode: Mode
    provider: str
    model: str
    fallback: Fallback | None = None
    partial: bool = False
    warnings: tuple[str, ...] = field(default=(), name="notes")


class Excerpt(Struct, frozen=True, rename="camel"):
    """Lines of a memory file as they are on disk.

    Lines `from_line` to `to_line` (from 1, inclusive) of `total_lines`. `truncated` says that more follows, from line
    `next_from` on. A file that is not there: `found` is False, the text empty, the line numbers 0.
    """

    path: str
    text: str
    from_line: int
    to_line: int
    total_lines: int
    truncated: bool = False
    next_from: int | None = None
    found: bool = True


class Progress(Struct, frozen=True):
    """How far a sync is: `done` of `total` units, `rate` of them a second. `seconds_left` is None while unknown."""

    phase: Literal["scan", "text", "vectors", "publish"]
    done: int
    total: int
    unit: Literal["files", "pieces"]
    rate: float = 0.0
    seconds_left: float | None = None


class SyncReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a sync did.

    `added`, `changed`, `removed` and `unchanged` count files. `pieces_embedded` got their vector now,
    `pending_vectors` still wait for one. `busy`: another process indexes, so this one did nothing. `fallback` is why
    there are no vectors, or not all of them.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    pieces_written: int = 0
    pieces_embedded: int = 0
    pending_vectors: int = 0
    rebuilt: bool = False
    busy: bool = False
    fallback: Fallback | None = None
    issues: tuple[Issue, ...] = ()
    seconds: float = 0.0


class SourceCount(Struct, frozen=True, rename="camel"):
    """What one source gave: `files` are indexed of `total_files` on disk, as `chunks`."""

    source: Source
    files: int
    total_files: int
    chunks: int


class Part(Struct, frozen=True, rename="camel"):
    """Whether a part of the index works, and why not."""

    available: bool
    error: str | None = None


class CacheStatus(Struct, frozen=True, rename="camel"):
    """The embeddings that are kept; `max_entries` None: without a limit."""

    enabled: bool
    entries: int
    max_entries: int | None = None


class Probe(Struct, frozen=True, rename="camel"):
    """The answer of the embedding provider to one word: whether it came, why not, and after how many seconds."""

    ok: bool
    error: str | None = None
    seconds: float = 0.0


class IndexStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a memory holds and how well it is.

    `requested_provider` is the setting, `provider` what is used ("none" without vectors), `remote` whether texts
    leave this process for it, `address` where they go when that is not the provider's own. `tokens` is about what the
    indexed text takes in a model's context, `text_bytes` its size, `disk_bytes` the size of what was made of it.
    `dirty`: files changed since the last sync; `pending_vectors` chunks wait for their vector. `identity` names what
    the index was built with, in words.
    `embedding_probe` is set by a deep status alone. `details` are facts that only this backend has, by their names in
    JSON, as plain data.
    """

    provider: str
    requested_provider: str
    model: str
    remote: bool
    mode: Mode
    files: int
    total_files: int
    chunks: int
    vectors: int
    tokens: int
    text_bytes: int
    disk_bytes: int
    workspace_dir: str
    identity: str
    address: str = ""
    dirty: bool = False
    rebuilding: bool = False
    busy: bool = False
    pending_vectors: int = 0
    last_sync: datetime | None = None
    sources: tuple[Source, ...] = ("memory",)
    extra_paths: tuple[str, ...] = ()
    source_counts: tuple[SourceCount, ...] = ()
    fallback: Fallback | None = None
    issues: tuple[Issue, ...] = ()
    embedding_probe: Probe | None = None
    details: Mapping[str, Any] = {}


class BuiltinDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """The `details` of the backend `builtin`: its database, its profile, the `dimensions` of its vectors (0 without
    any), whether words and vectors can be searched, and the embeddings of a remote provider that are kept."""

    db_path: str
    profile: str
    dimensions: int = 0
    fts: Part = Part(available=True)
    vector: Part = Part(available=True)
    cache: CacheStatus | None = None


class Counts(Struct, frozen=True):
    """How many of each a verification looked at."""

    files: int = 0
    chunks: int = 0
    keywords: int = 0
    vectors: int = 0


class VerifyReport(Struct, frozen=True, rename="camel"):
    """Whether files, chunks, keywords and vectors agree.

    `problems` are what was found, one clear line each, `fixed` what was repaired of it; `clean` says that nothing is
    left to repair.
    """

    problems: tuple[str, ...]
    fixed: tuple[str, ...]
    checked: Counts
    clean: bool


TRANSCRIPTS = "sessions/"
"""What the paths of transcripts begin with, whatever folder they are in."""

_PART = re.compile(r"(?P<path>sessions/.+)@(?P<number>[1-9]\d{0,8})")

PART_GLOB = "sessions/*@[0-9]*"
"""Fits the names of all parts but the first, in SQLite's GLOB."""


def part_path(path: str, number: int) -> str:
    """The name of the part `number` (from 0) of the transcript `path`; the first one is called like the whole."""
    return f"{path}@{number}" if number else path


def session_of(path: str) -> str:
    """The id of the session whose transcript is called `path`."""
    return path.rpartition("/")[2].partition(".")[0]


def split_part(path: str) -> tuple[str, int]:
    """The document that `path` is a part of, and the number of the part; 0 for what has no parts."""
    found = _PART.fullmatch(path)
    return (found["path"], int(found["number"])) if found else (path, 0)
