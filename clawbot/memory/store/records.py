"""What goes into the store and comes out of it: files, pieces, and the rows of a search."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.documents.walking import FileState
from clawbot.memory.values import Source

if TYPE_CHECKING:
    from clawbot.memory.chunking.chunks import Kind

KINDS: tuple[Kind, ...] = ("prose", "dialogue", "item", "code", "heading", "table")
"""The kinds of pieces in the order of their numbers in the database: only ever add at the end."""

QUESTION, DATED, CJK = 1, 2, 4
"""Bits of `flags`: a question; words of date or time; Chinese, Japanese or Korean."""

ORDINAL_BITS = 20
MAX_PIECES = 1 << ORDINAL_BITS
"""Pieces of one file. The id of a piece is that of its file with its ordinal behind it."""


def piece_id(file_id: int, ordinal: int) -> int:
    """The id of the piece `ordinal` (from 0) of a file. Neighbours differ by 1."""
    return file_id << ORDINAL_BITS | ordinal


def file_of(chunk_id: int) -> int:
    """The id of the file that the piece is of."""
    return chunk_id >> ORDINAL_BITS


class Piece(Struct, frozen=True):
    """A piece of a file to be stored.

    Lines `start_line` to `end_line` (from 1, inclusive). `heading` is the ordinal of the piece that holds the nearest
    heading above, of a heading that of its parent. `indexed` is what the keyword index gets. What is embedded must
    follow from kind, text and the text of the heading: where these are the same, the vector is kept.
    """

    start_line: int
    end_line: int
    kind: Kind
    text: str
    indexed: str
    heading: int | None = None
    speaker: str | None = None
    flags: int = 0


class FileRecord(Struct, frozen=True):
    """A file as it was read: its state, the BLAKE2b-16 of its bytes, its date."""

    state: FileState
    digest: bytes
    day: dt.date | None = None


class KnownFile(Struct, frozen=True):
    """A file as the index holds it; `size` in bytes."""

    id: int
    source: Source
    size: int
    mtime_ns: int
    digest: bytes


class Written(Struct, frozen=True):
    """What became of a file's pieces: `kept` ones were not touched, `carried` ones of `written` have their vector."""

    written: int
    kept: int
    carried: int


class PendingChunk(Struct, frozen=True):
    """A piece without a vector. `above` is the text of its heading as it stands in the file, "" without one.

    `revision` is that of its file: what is embedded now must not be stored for what stands there later.
    """

    id: int
    revision: int
    kind: Kind
    text: str
    above: str


class FileRow(Struct, frozen=True):
    """A file as a search needs it."""

    id: int
    path: str
    source: Source
    day: dt.date | None
    chunks: int


class LineRow(Struct, frozen=True):
    """A piece without its text and lines; `heading` is the id of the piece that holds the heading above."""

    id: int
    kind: Kind
    heading: int | None
    speaker: int | None
    flags: int


class ChunkRow(Struct, frozen=True):
    """A piece as a search needs it; `heading` is the id of the piece that holds the heading above."""

    id: int
    start_line: int
    end_line: int
    kind: Kind
    heading: int | None
    speaker: int | None
    flags: int
    text: str


class Totals(Struct, frozen=True):
    """How much an index holds. `pending` pieces have no vector yet; `bytes` is the size of the files."""

    files: int = 0
    chunks: int = 0
    vectors: int = 0
    pending: int = 0
    chars: int = 0
    tokens: int = 0
    bytes: int = 0
