"""The values stored and read: files, chunks, rows of a search, and how an index is built."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from clawbot.memory.documents.days import DayMark
from clawbot.memory.documents.walking import FileState
from clawbot.memory.values import Origin, Source

if TYPE_CHECKING:
    from clawbot.memory.values import ChunkKind

KINDS: tuple[ChunkKind, ...] = ("prose", "dialogue", "item", "code", "heading", "table")
"""The kinds of chunks by their number in the database: only append."""

QUESTION, DATED, CJK = 1, 2, 4
"""Bits of `flags`: a question; words of date or time; Chinese, Japanese or Korean."""

BY_USER, BY_AGENT = 8, 16
"""Bits of `flags`: of the user, of the agent; neither for text written in a file."""

NUMBERED = 32
"""Bit of `flags`: a number, in digits or as a word."""

DEPTH_SHIFT, MAX_DEPTH = 8, 7
"""Bits of `flags` from this one on: how far an item is indented, in steps of two columns, up to a maximum."""

ORDINAL_BITS = 20
MAX_CHUNKS = 1 << ORDINAL_BITS
"""Maximum chunks of one file. A chunk id is the file id followed by the chunk's ordinal."""


IdRange = tuple[int, int]
"""The chunk ids of one source, end exclusive: notes and transcripts are searched separately."""

MAX_FILES = 1 << 42
"""Upper bound (exclusive) of file ids, so that chunk ids fit in SQLite's integers."""

EVERYWHERE: IdRange = (0, (1 << 63) - 1)
"""All chunks of any source."""

FIRST_TRANSCRIPT = 1 << 32
"""The first id of transcripts. Ids of notes are below, so that both have separate ranges."""


def id_range_of(source: Source) -> IdRange:
    """Return the chunk ids of `source`, end exclusive."""
    if source == "sessions":
        return id_of(FIRST_TRANSCRIPT, 0), id_of(MAX_FILES, 0)
    return 0, id_of(FIRST_TRANSCRIPT, 0)


def origin_of(flags: int) -> Origin:
    """Return the origin of a chunk; the agent if both spoke."""
    if flags & BY_AGENT:
        return "agent"
    return "user" if flags & BY_USER else "file"


def depth_of(flags: int) -> int:
    """Return how far an item is indented."""
    return flags >> DEPTH_SHIFT & MAX_DEPTH


def id_of(file_id: int, ordinal: int) -> int:
    """Return the id of the chunk `ordinal` (from 0) of a file. Neighbours differ by 1."""
    return file_id << ORDINAL_BITS | ordinal


def file_of(chunk_id: int) -> int:
    """Return the id of the chunk's file."""
    return chunk_id >> ORDINAL_BITS


GENERATION_BITS = 24
"""The lower bits of a generation count the changes of one index; those above are its own number."""


def is_before(generation: int, other: int) -> bool:
    """Return whether `generation` is an earlier one of the same index than `other`."""
    return generation < other and generation >> GENERATION_BITS == other >> GENERATION_BITS


Profile = Literal["lines", "classic"]

VECTOR_FORM = 1
"""Version of the stored vector formats: an index of another one is rebuilt."""


class Identity(Struct, frozen=True, kw_only=True):
    """What chunks and vectors depend on.

    `chunker` and `tokenizer` are versions with their parameters. `provider` and `model` are for display ("none" and ""
    without vectors); `vectors` is the embedder's identity with the version of the embedded text ("" without).
    `dimensions` is 0 until the first vector. `sources` is for display: a sync adds and removes files itself. `form` is
    that of the stored vectors.
    """

    profile: Profile
    chunker: str
    tokenizer: str
    provider: str = "none"
    model: str = ""
    vectors: str = ""
    dimensions: int = 0
    sources: tuple[Source, ...] = ("memory",)
    form: int = VECTOR_FORM

    @property
    def text_part(self) -> tuple[str, ...]:
        """If this changes, chunks and words change."""
        return (self.profile, self.chunker, self.tokenizer)

    @property
    def vector_part(self) -> tuple[str, ...]:
        """If this changes, vectors change. Each profile stores them in another format."""
        return (self.profile, self.provider, self.model, self.vectors, str(self.form))


class ChunkRecord(Struct, frozen=True, gc=False):
    """A chunk of a file to be stored.

    Lines `start_line` to `end_line` (from 1, inclusive). `heading` is the ordinal of the chunk with the nearest heading
    above, for a heading that of its parent. `indexed` is the text for the keyword index. What is embedded must be
    determined by kind, text and the text of the heading: if these are equal, the vector is kept.
    """

    start_line: int
    end_line: int
    kind: ChunkKind
    text: str
    indexed: str
    heading: int | None = None
    speaker: str | None = None
    flags: int = 0


class DayRun(Struct, frozen=True, array_like=True):
    """From the chunk `first` (an ordinal) on, the file is of `days`; empty if none are known."""

    first: int
    days: tuple[dt.date, ...]


class FileRecord(Struct, frozen=True):
    """A file as read: its state, the BLAKE2b-16 of its bytes, its date, and where lines of other days begin."""

    state: FileState
    digest: bytes
    day: dt.date | None = None
    marks: tuple[DayMark, ...] = ()


class KnownFile(Struct, frozen=True, array_like=True):
    """A file in the index; `size` is in bytes."""

    id: int
    source: Source
    size: int
    mtime_ns: int
    digest: bytes


class PendingChunk(Struct, frozen=True):
    """A chunk without a vector. `above` is the text of its heading as written in the file, "" without one.

    `revision` is that of its file: a vector computed now must not be stored for later text.
    """

    id: int
    revision: int
    kind: ChunkKind
    text: str
    above: str


class FileRow(Struct, frozen=True, array_like=True):
    """A file for a search. `day` is that of the file; `days` has details if there are several."""

    id: int
    path: str
    source: Source
    day: dt.date | None
    chunks: int
    days: tuple[DayRun, ...] = ()

    @property
    def runs(self) -> tuple[DayRun, ...]:
        """The days of its chunks; () for a file without a date."""
        return self.days or ((DayRun(0, (self.day,)),) if self.day is not None else ())

    def day_at(self, ordinal: int) -> dt.date | None:
        """Return the day of the chunk `ordinal`; the last of several."""
        if not self.days:
            return self.day
        days = next((run.days for run in reversed(self.runs) if run.first <= ordinal), ())
        return max(days, default=None)


def ranges_of(files: Iterable[FileRow], chunks: int) -> Iterator[IdRange]:
    """Ranges that together hold all chunks of `files`, which are in the order of their ids: each ends with the file
    that reaches `chunks`."""
    first, last, count = 0, -1, 0
    for file in files:
        last, count = file.id, count + file.chunks
        if count >= chunks:
            yield id_of(first, 0), id_of(last + 1, 0)
            first, count = last + 1, 0
    if count:
        yield id_of(first, 0), id_of(last + 1, 0)


class LineRow(Struct, frozen=True):
    """A chunk without text and lines; `heading` is the id of the chunk with the heading above."""

    id: int
    kind: ChunkKind
    heading: int | None
    speaker: int | None
    flags: int


class ChunkRow(Struct, frozen=True):
    """A chunk for a search; `heading` is the id of the chunk with the heading above."""

    id: int
    start_line: int
    end_line: int
    kind: ChunkKind
    heading: int | None
    speaker: int | None
    flags: int
    text: str


class Totals(Struct, frozen=True, array_like=True):
    """The size of an index. `pending` chunks have no vector yet; `bytes` is the size of the files."""

    files: int = 0
    chunks: int = 0
    vectors: int = 0
    pending: int = 0
    chars: int = 0
    tokens: int = 0
    bytes: int = 0
