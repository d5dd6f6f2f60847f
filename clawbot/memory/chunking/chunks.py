"""Cuts a document into the pieces that are searched, in the profiles `lines` and `classic`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from clawbot.memory.chunking.classic import classic_spans
from clawbot.memory.chunking.markdown import HEADING_CHARS, Block, blocks_of
from clawbot.memory.chunking.paragraphs import LONG_CHARS, line_groups, paragraph_cuts

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings

CHUNKER_VERSION = 1
"""To be counted up when the same text gives other pieces than before."""

CODE_CHARS = 2_000
"""Code that is longer is split between lines, in characters."""

Kind = Literal["prose", "dialogue", "item", "code", "heading", "table"]
"""What a piece is. What stands beside an item or a row of a table says little about it; beside prose and talk, much."""


class Chunk(Struct, frozen=True):
    """A piece: the lines from `start_line` to `end_line` (from 1, inclusive), and their text without blank edges.

    `headings` are those that it stands under, the outermost first, without "#"; for a row of a table the header row
    comes last.
    """

    start_line: int
    end_line: int
    text: str
    kind: Kind
    headings: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
    """From which size on, in characters, pieces are split between lines: code, and everything else."""

    piece: int = LONG_CHARS
    code: int = CODE_CHARS


USUAL = Limits()


class _Piece(Struct):
    start: int
    end: int
    kind: Kind
    headings: tuple[str, ...]


def chunk(text: str, settings: MemorySearchSettings) -> list[Chunk]:
    """The pieces of `text` in the profile of the settings."""
    if settings.profile == "classic":
        return chunk_classic(text, settings.chunking.tokens, settings.chunking.overlap)
    return chunk_lines(text, Limits(settings.chunking.piece_chars, settings.chunking.code_chars))


def chunk_classic(text: str, tokens: int, overlap: int) -> list[Chunk]:
    """Pieces of `tokens` (of four characters) that share `overlap`, as reference sheet 12.3 says."""
    return [Chunk(first, last, part, "prose") for first, last, part in classic_spans(text, tokens, overlap)]


def chunk_lines(text: str, limits: Limits = USUAL) -> list[Chunk]:
    """Small pieces by the structure of Markdown.

    Their line ranges are a partition of the file's lines: blank lines and thematic breaks belong to the piece before
    them, at the top of the file to the first. A final line break begins no line. Text that is blank has no pieces.
    """
    lines = document_lines(text)
    shown = [(piece, said) for piece in _pieces(lines, limits) if (said := _said(lines, piece))]
    if not shown:
        # Nothing but thematic breaks, or nothing at all.
        return [Chunk(1, len(lines), text.strip(), "prose")] if text.strip() else []
    starts = [0, *(piece.start for piece, _ in shown[1:]), len(lines)]
    return [
        Chunk(start + 1, end, said, piece.kind, piece.headings)
        for (piece, said), start, end in zip(shown, starts, starts[1:], strict=False)
    ]


def document_lines(text: str) -> list[str]:
    """The lines of `text`, cut at LF alone, which is what line numbers count. A final line break begins no line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _said(lines: Sequence[str], piece: _Piece) -> str:
    if piece.end - piece.start == 1:
        return lines[piece.start].strip()
    return "\n".join(lines[piece.start : piece.end]).strip()


def _pieces(lines: Sequence[str], limits: Limits) -> Iterator[_Piece]:
    for block in _joined(blocks_of(lines), lines, limits.piece):
        match block.kind:
            case "paragraph":
                for start, end, kind in paragraph_cuts(lines, block.start, block.end, limits.piece):
                    yield _Piece(start, end, kind, block.headings)
            case "table":
                yield from _table(lines, block, limits.piece)
            case "item" | "code":
                limit = limits.code if block.kind == "code" else limits.piece
                for start, end in line_groups(lines, block.start, block.end, limit):
                    yield _Piece(start, end, block.kind, block.headings)
            case "heading":
                yield _Piece(block.start, block.end, "heading", block.headings)
            case "rule":
                pass


def _joined(blocks: Iterable[Block], lines: Sequence[str], limit: int) -> Iterator[Block]:
    """`blocks` with what belongs to one list item (its paragraphs, its code) as one, where that stays short."""
    current: Block | None = None
    for block in blocks:
        shared = current is not None and block.item and block.item == current.item
        if current is not None and shared and _size(lines, current.start, block.end) <= limit:
            current.kind, current.end = "item", block.end
            continue
        if current is not None:
            yield current
        current = block
    if current is not None:
        yield current


def _table(lines: Sequence[str], block: Block, limit: int) -> Iterator[_Piece]:
    """A small table whole; of a large one its head and each row, under the names of the columns."""
    if _size(lines, block.start, block.end) <= limit:
        yield _Piece(block.start, block.end, "table", block.headings)
        return
    body = block.start + 2
    yield _Piece(block.start, body, "table", block.headings)
    columns = lines[block.start].strip(" \t|")[:HEADING_CHARS]
    for number in range(body, block.end):
        yield _Piece(number, number + 1, "table", (*block.headings, columns))


def _size(lines: Sequence[str], start: int, end: int) -> int:
    """Characters, line breaks included."""
    return sum(map(len, lines[start:end])) + end - start
