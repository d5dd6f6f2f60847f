"""The inputs and outputs of a memory: requests, hits, excerpts, progress and reports; and the paths of transcripts in
it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from clawbot.text.copies import More

Source = Literal["memory", "sessions"]
"""The origin of a text: Markdown files, or transcripts."""

EVERY_SOURCE: tuple[Source, ...] = ("memory", "sessions")

Mode = Literal["hybrid", "fts-only", "vector-only"]
"""How a search worked: with vectors and words, words alone, vectors alone."""

ChunkKind = Literal["prose", "dialogue", "item", "code", "heading", "table"]
"""The kind of a chunk. Its neighbours are its context in prose and dialogue, and hardly among items and rows."""


class Reranker(Protocol):
    """Orders texts by how well they answer a question."""

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int] | None:
        """The positions of `texts` (from 0), best first; None: unchanged. `queries` are a question and other wordings
        of it. Raises ClawbotError if it fails."""

    async def problem(self) -> str:
        """Why it can't work, with the remedy; empty if it can."""


Evidence = Literal["strong", "fair", "weak"]
"""The evidence of results for an answer in the notes; weak: probably there is none."""

MAX_QUERIES = 4
"""Maximum number of wordings per search."""


class Issue(Struct, frozen=True):
    """Why a file was not indexed: its `path` and one clear line."""

    path: str
    text: str


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A search.

    `queries` are one to four wordings of one question; their results are fused. `max_results` (a count), `max_chars`
    (characters of all snippets) and `min_score` (0 to 1) default to the settings. `after` and
    `before` are the first and last allowed date of a note. `path` is a path, a folder or a glob, relative to the
    workspace. `sources` are the allowed sources, `without` is an excluded transcript (`sessions/….jsonl`). `prefix`:
    the user is typing, so a word at the very end of a query may be incomplete (profile `lines`).
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
"""Who wrote a text: the author of a file; the user or the agent in a conversation. Tool output is not indexed."""


class MessageRef(Struct, frozen=True, omit_defaults=True):
    """The speaker and time of a message: the entry `entry` of a transcript, at `at` in the user's zone. `by` is the
    other program whose assistant spoke."""

    entry: str
    who: Literal["user", "agent"]
    at: datetime
    by: str = ""


class NoteLine(Struct, frozen=True):
    """A line of a note: its number, from 1, and its text."""

    line: int
    text: str


def indentation(above: Iterable[NoteLine]) -> str:
    """Return the blanks before a line that belongs to `above`: one for each that is no heading."""
    return " " * sum(not line.text.startswith("#") for line in above)


class Hit(Struct, frozen=True, rename="camel"):
    """A result: lines `start_line` to `end_line` (from 1, inclusive) of `path`, and their text.

    `score` is 0 to 1, `line` the best line. For transcripts the lines are those of the JSONL file, and `said` is the
    speaker and time of the best one. `origin` is the author. `earlier`: another result
    differs on the same subject, for a later day. `ended`: the day until which it held, before the time that was
    asked for. `more`: results with the same content that it represents. `above`:
    the headings, the lead line and the items that it belongs to, outermost first; `below`: the list
    that belongs to it, indented. Both are context, and in no snippet.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Source
    line: int = 0
    said: MessageRef | None = None
    origin: Origin = "file"
    earlier: bool = False
    ended: date | None = None
    more: More | None = None
    above: tuple[NoteLine, ...] = ()
    below: tuple[NoteLine, ...] = ()

    @property
    def shown_score(self) -> float:
        """The score with three decimals, rounded down: as a minimum score it keeps this hit."""
        return math.floor(self.score * 1_000 + 1e-6) / 1_000

    @property
    def location(self) -> str:
        """Its location for people and models: `path#L12-L20`, for transcripts `sessions/….jsonl#entry`."""
        if self.said is not None:
            return f"{self.path}#{self.said.entry}"
        end = f"-L{self.end_line}" if self.end_line != self.start_line else ""
        return f"{self.path}#L{self.start_line}{end}"


def without_copies(hits: Iterable[Hit]) -> list[Hit]:
    """Return `hits` without copies of an earlier one: a fork of a conversation holds the entries of its parent, too."""
    kept: dict[object, Hit] = {}
    for number, hit in enumerate(hits):
        kept.setdefault(number if hit.said is None else (hit.said, hit.snippet), hit)
    return list(kept.values())


class Fallback(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What could not be used and why: `from_` (`from` in JSON) is the provider of vectors; or the backend, instead
    of which the builtin index has answered `since` then."""

    from_: str = field(name="from")
    reason: str
    since: datetime | None = None

    @property
    def in_words(self) -> str:
        """What it means, as a sentence."""
        if self.since is None:
            return f"{self.from_} was not used: {self.reason}"
        return f"{self.from_} has not answered since {self.since:%H:%M}, the builtin index does: {self.reason}"


class SearchResult(Struct, frozen=True, rename="camel"):
    """The results of a search, best hit first.

    `provider` and `model` are the source of the vectors ("none" and "" without any). `partial`: results may be missing
    because the deadline passed or not all files are indexed. `warnings` (`notes` in JSON) are short sentences for
    people and models. `evidence`: whether the notes probably hold an answer.
    """

    hits: tuple[Hit, ...]
    mode: Mode
    provider: str
    model: str
    fallback: Fallback | None = None
    partial: bool = False
    warnings: tuple[str, ...] = field(default=(), name="notes")
    evidence: Evidence = "fair"


class Excerpt(Struct, frozen=True, rename="camel"):
    """Lines of a memory file as on disk.

    Lines `from_line` to `to_line` (from 1, inclusive) of `total_lines`. `truncated`: more follows, from line
    `next_from` on. For a missing file `found` is False, the text empty and the line numbers 0. `digest` identifies the
    version of the file (`version_of`).
    """

    path: str
    text: str
    from_line: int
    to_line: int
    total_lines: int
    truncated: bool = False
    next_from: int | None = None
    found: bool = True
    digest: str = ""


class Progress(Struct, frozen=True):
    """The progress of a sync: `done` of `total` units, `rate` per second. `seconds_left` is None while unknown."""

    phase: Literal["scan", "text", "vectors", "publish"]
    done: int
    total: int
    unit: Literal["files", "pieces"]
    rate: float = 0.0
    seconds_left: float | None = None


ReportProgress = Callable[[Progress], None]
"""Receives the progress of a sync."""


class SyncReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a sync.

    `added`, `changed`, `removed` and `unchanged` count files. `pieces_embedded` got a vector, `pending_vectors` still
    wait. `busy`: another process indexes, so nothing was done. `fallback` is why vectors are missing.
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
    """One source: `files` are indexed of `total_files` on disk, as `chunks`."""

    source: Source
    files: int
    total_files: int
    chunks: int


class Part(Struct, frozen=True, rename="camel"):
    """Whether a part of the index works, and why not."""

    available: bool
    error: str | None = None


class CacheStatus(Struct, frozen=True, rename="camel"):
    """The cached embeddings; `max_entries` None: no limit."""

    enabled: bool
    entries: int
    max_entries: int | None = None


class Probe(Struct, frozen=True, rename="camel"):
    """The test call to the embedding provider: whether it succeeded, why not, and its duration in seconds."""

    ok: bool
    error: str | None = None
    seconds: float = 0.0


class IndexStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The content and condition of a memory.

    `requested_provider` is the setting, `provider` the one in use ("none" without vectors), `remote` whether texts
    leave this machine. `tokens` approximates the indexed text in a model's context, `text_bytes` is its size,
    `disk_bytes` the size of the index. `dirty`: files changed since the last sync; `pending_vectors` chunks wait for
    their vector. `identity` describes how the index was built. Only a deep status sets `embedding_probe`.
    `rerank_problem`: why the configured model does not order results. `details` are facts of this backend, by their
    JSON names, as plain data.
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
    rerank_problem: str = ""
    details: Mapping[str, Any] = {}


class BuiltinDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """The `details` of the backend `builtin`: its database and profile, the `dimensions` of its vectors (0 without
    any), whether words and vectors can be searched, and the cached embeddings."""

    db_path: str
    profile: str
    dimensions: int = 0
    fts: Part = Part(available=True)
    vector: Part = Part(available=True)
    cache: CacheStatus | None = None


class Counts(Struct, frozen=True):
    """The numbers checked by a verification."""

    files: int = 0
    chunks: int = 0
    keywords: int = 0
    vectors: int = 0


class VerifyReport(Struct, frozen=True, rename="camel"):
    """Whether files, chunks, keywords and vectors agree.

    `problems` are the findings, one clear line each, `fixed` those repaired; `clean`: nothing is left to repair.
    """

    problems: tuple[str, ...]
    fixed: tuple[str, ...]
    checked: Counts
    clean: bool


TRANSCRIPTS = "sessions/"
"""The prefix of transcript paths, whatever their folder."""

_PART = re.compile(r"(?P<path>sessions/.+)@(?P<number>[1-9]\d{0,8})")

PART_GLOB = "sessions/*@[0-9]*"
"""Matches the names of all parts but the first, as SQLite GLOB."""


def part_path(path: str, number: int) -> str:
    """Return the path of the part `number` (from 0) of the transcript `path`; part 0 has that of the transcript."""
    return f"{path}@{number}" if number else path


def session_of(path: str) -> str:
    """Return the id of the session with the transcript `path`."""
    return path.rpartition("/")[2].partition(".")[0]


def split_part(path: str) -> tuple[str, int]:
    """Return the document that `path` is a part of, and the part's number; 0 if there are no parts."""
    found = _PART.fullmatch(path)
    return (found["path"], int(found["number"])) if found else (path, 0)
