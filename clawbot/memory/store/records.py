"""What goes into the store and comes out of it: files, chunks, the rows of a search, and what an index is built
with."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from clawbot.memory.documents.days import DayMark
from clawbot.memory.documents.walking import FileState
from clawbot.memory.values import Origin, Source

if TYPE_CHECKING:
    from clawbot.memory.values import ChunkKind

KINDS: tuple[ChunkKind, ...] = ("prose", "dialogue", "item", "code", "heading", "table")
"""The kinds of chunks in the order of their numbers in the database: only ever add at the end."""

QUESTION, DATED, CJK = 1, 2, 4
"""Bits of `flags`: a question; words of date or time; Chinese, Japanese or Korean."""

SAID_BY_USER, SAID_BY_AGENT = 8, 16
"""Bits of `flags`: words of the user, of the agent; neither of what somebody wrote into a file."""

ORDINAL_BITS = 20
MAX_CHUNKS = 1 << ORDINAL_BITS
"""Chunks of one file. The id of a chunk is that of its file with its ordinal behind it."""


IdRange = tuple[int, int]
"""The ids of the chunks of one source, without the second: notes and talks are searched apart."""

MAX_FILES = 1 << 42
"""What no id of a file reaches: a chunk's has room in SQLite's integers."""

EVERYWHERE: IdRange = (0, (1 << 63) - 1)
"""All chunks, whatever their source."""

FIRST_TALK = 1 << 32
"""The id of the first transcript. Those of notes are below, so that chunks of notes and of talks lie apart."""


def id_range_of(source: Source) -> IdRange:
    """The ids of chunks of `source`: from the first up to the second, without it."""
    if source == "sessions":
        return id_of(FIRST_TALK, 0), id_of(MAX_FILES, 0)
    return 0, id_of(FIRST_TALK, 0)


def origin_of(flags: int) -> Origin:
    """Where a chunk comes from; of one with words of both, the agent's."""
    if flags & SAID_BY_AGENT:
        return "agent"
    return "user" if flags & SAID_BY_USER else "file"


def id_of(file_id: int, ordinal: int) -> int:
    """The id of the chunk `ordinal` (from 0) of a file. Neighbours differ by 1."""
    return file_id << ORDINAL_BITS | ordinal


def file_of(chunk_id: int) -> int:
    """The id of the file that the chunk is of."""
    return chunk_id >> ORDINAL_BITS


Profile = Literal["lines", "classic"]

VECTOR_FORM = 1
"""Changes with the bits in which the profiles store vectors: an index of another form is built anew."""


class Identity(Struct, frozen=True, kw_only=True):
    """What chunks and vectors depend on.

    `chunker` and `tokenizer` are versions with their parameters. `provider` and `model` are for people ("none" and ""
    without vectors), `vectors` is the embedder's own identity with the version of what is embedded ("" without).
    `dimensions` is 0 until the first vector came. `sources` is for people: a sync adds and removes files by itself.
    `form` is that of the stored vectors.
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
        """Another one means: other chunks and words."""
        return (self.profile, self.chunker, self.tokenizer)

    @property
    def vector_part(self) -> tuple[str, ...]:
        """Another one means: other vectors. They are stored in another form in each profile."""
        return (self.profile, self.provider, self.model, self.vectors, str(self.form))


class ChunkRecord(Struct, frozen=True):
    """A chunk of a file to be stored.

    Lines `start_line` to `end_line` (from 1, inclusive). `heading` is the ordinal of the chunk that holds the nearest
    heading above, of a heading that of its parent. `indexed` is what the keyword index gets. What is embedded must
    follow from kind, text and the text of the heading: where these are the same, the vector is kept.
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
    """From the chunk `first` on (its ordinal), what a file says is of `days`; of none that is known when empty."""

    first: int
    days: tuple[dt.date, ...]


class FileRecord(Struct, frozen=True):
    """A file as it was read: its state, the BLAKE2b-16 of its bytes, its date, and where lines of other days begin."""

    state: FileState
    digest: bytes
    day: dt.date | None = None
    marks: tuple[DayMark, ...] = ()


class KnownFile(Struct, frozen=True):
    """A file as the index holds it; `size` in bytes."""

    id: int
    source: Source
    size: int
    mtime_ns: int
    digest: bytes


class PendingChunk(Struct, frozen=True):
    """A chunk without a vector. `above` is the text of its heading as it stands in the file, "" without one.

    `revision` is that of its file: what is embedded now must not be stored for what stands there later.
    """

    id: int
    revision: int
    kind: ChunkKind
    text: str
    above: str


class FileRow(Struct, frozen=True):
    """A file as a search needs it. `day` is that of the whole file; `days` says more where there are several."""

    id: int
    path: str
    source: Source
    day: dt.date | None
    chunks: int
    days: tuple[DayRun, ...] = ()

    @property
    def runs(self) -> tuple[DayRun, ...]:
        """Which of its chunks are of which days; () for a file without a date."""
        return self.days or ((DayRun(0, (self.day,)),) if self.day is not None else ())

    def day_at(self, ordinal: int) -> dt.date | None:
        """The day of the chunk `ordinal`; the last one of several."""
        days = next((run.days for run in reversed(self.runs) if run.first <= ordinal), ())
        return max(days, default=None)


class LineRow(Struct, frozen=True):
    """A chunk without its text and lines; `heading` is the id of the chunk that holds the heading above."""

    id: int
    kind: ChunkKind
    heading: int | None
    speaker: int | None
    flags: int


class ChunkRow(Struct, frozen=True):
    """A chunk as a search needs it; `heading` is the id of the chunk that holds the heading above."""

    id: int
    start_line: int
    end_line: int
    kind: ChunkKind
    heading: int | None
    speaker: int | None
    flags: int
    text: str


class Totals(Struct, frozen=True):
    """How much an index holds. `pending` chunks have no vector yet; `bytes` is the size of the files."""

    files: int = 0
    chunks: int = 0
    vectors: int = 0
    pending: int = 0
    chars: int = 0
    tokens: int = 0
    bytes: int = 0
