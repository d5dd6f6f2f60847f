"""Cuts a document into the chunks that are searched, in the profiles `lines` and `classic`: at headings, items and
paragraphs, and a paragraph where people speak, lines stand for themselves, or a text is only wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from clawbot.memory.chunking.markdown import HEADING_CHARS, Block, blocks_of
from clawbot.memory.values import ChunkKind

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings


CHARS_PER_TOKEN = 4
SMALLEST_CHARS = 32
LARGEST_BYTES = 8_000
"""UTF-8 bytes of one chunk: what an embedding model takes for sure."""

Segment = tuple[int, str]
"""A line, or a slice of one that is longer than a chunk, with the line's number (from 1)."""


def classic_spans(text: str, tokens: int, overlap: int) -> Iterator[tuple[int, int, str]]:
    """First line, last line (from 1, inclusive) and text of each chunk; the lines of neighbours overlap.

    `tokens` (at least 1) is the size and `overlap` what is repeated, both in tokens of four characters. A chunk holds
    whole segments: it outgrows the size when what is repeated is long. Chunks of white space alone are left out.
    Sizes are counted in code points; the system that these come from counts UTF-16 units, so emoji twice.
    """
    tokens = max(1, tokens)
    size = max(SMALLEST_CHARS, tokens * CHARS_PER_TOKEN)
    carried = max(0, min(overlap, tokens - 1)) * CHARS_PER_TOKEN
    for segments in _packed(_segments(text, size), size, carried):
        joined = "\n".join(line for _, line in segments)
        if joined.strip():
            for part in _classic_within(joined, LARGEST_BYTES):
                yield segments[0][0], segments[-1][0], part


def _segments(text: str, size: int) -> Iterator[Segment]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line:
            yield number, ""
        for start in range(0, len(line), size):
            yield number, line[start : start + size]


def _packed(segments: Iterable[Segment], size: int, carried: int) -> Iterator[list[Segment]]:
    current: list[Segment] = []
    chars = 0
    for segment in segments:
        length = len(segment[1]) + 1
        if current and chars + length > size:
            yield current
            current = _carried(current, carried)
            chars = sum(len(line) + 1 for _, line in current)
        current.append(segment)
        chars += length
    if current:
        yield current


def _carried(segments: list[Segment], chars: int) -> list[Segment]:
    """The last segments, as many as it takes to reach `chars`."""
    total, first = 0, len(segments)
    while first > 0 and total < chars:
        first -= 1
        total += len(segments[first][1]) + 1
    return segments[first:]


def _classic_within(text: str, limit: int) -> Iterator[str]:
    """`text` in parts of at most `limit` bytes each."""
    # No character takes more than four.
    if len(text) * 4 <= limit:
        yield text
        return
    data = text.encode("utf-8", "surrogatepass")
    start = 0
    while start < len(data):
        end = min(start + limit, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode("utf-8", "surrogatepass")
        start = end


Cut = tuple[int, int, Literal["prose", "dialogue", "item"]]
"""Lines from the first up to the second (from 0, without it), and what they are."""

LONG_CHARS = 800
"""What is longer, in characters, is split between lines, and one line between sentences."""

# Nobody wraps text at more columns than this: such lines end where a thought ends.
_WIDEST_WRAP = 120
# Of the lines of a paragraph, the share that must end a sentence for each to stand for itself.
_ENDING_SHARE = 0.75
_ENDS = frozenset(".!?;:…。！？；：\\")
_CLOSERS = " \t\"'”’»」』）)]*_`~"

_TIME = r"(?:\[?(?:\d{4}-\d{2}-\d{2}[ T])?\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+(?:[-–—][ \t]+)?)?"
_SPEAKER = re.compile(
    rf"[ \t]*(?:>[ \t]?)*{_TIME}[*_<@]{{0,3}}(?P<name>[^\W\d_][^\n:：*<>|/，。,!?！？]{{0,39}})[*_>]{{0,3}}"
    r"(?::[*_]{0,3}(?=\s)|：)"
)
_MOST_NAMES = 4
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+\S")


def paragraph_cuts(lines: Sequence[str], start: int, end: int, limit: int = LONG_CHARS) -> Iterator[Cut]:
    """Cut the paragraph in `lines` from `start` up to `end`: all its lines come back, in order.

    Lines that begin with a name (`Anna: …`) are each a chunk, with what is wrapped below them; so are lines that are
    too long to be wrapped ones or that mostly end sentences. Other text stays whole, up to `limit` characters.
    """
    if end - start == 1:
        yield start, end, "dialogue" if _speaker(lines[start]) else "prose"
        return
    speakers = [_speaker(line) for line in lines[start:end]]
    is_talk = _is_talk(speakers)
    alone = _stand_alone(lines[start:end])
    first, kind = start, _kind(lines[start], talks=is_talk and speakers[0] is not None, inside="prose")
    for number in range(start + 1, end):
        talks = is_talk and speakers[number - start] is not None
        if talks or alone or _MARKER.match(lines[number]):
            yield from _within(lines, first, number, kind, limit)
            first, kind = (
                number,
                _kind(lines[number], talks=talks, inside="dialogue" if kind == "dialogue" else "prose"),
            )
    yield from _within(lines, first, end, kind, limit)


def line_groups(lines: Sequence[str], start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """The lines from `start` up to `end` in groups of at most `limit` characters, or of one line that is longer."""
    first, size = start, 0
    for number in range(start, end):
        length = len(lines[number]) + 1
        if number > first and size + length > limit:
            yield first, number
            first, size = number, 0
        size += length
    yield first, end


def _within(
    lines: Sequence[str], start: int, end: int, kind: Literal["prose", "dialogue", "item"], limit: int
) -> Iterator[Cut]:
    for first, last in line_groups(lines, start, end, limit):
        yield first, last, kind


def _kind(line: str, *, talks: bool, inside: Literal["prose", "dialogue"]) -> Literal["prose", "dialogue", "item"]:
    if talks:
        return "dialogue"
    return "item" if _MARKER.match(line) else inside


def _speaker(line: str) -> str | None:
    """Who says the line, when it looks like something said."""
    found = _SPEAKER.match(line)
    if found is None:
        return None
    name = found["name"].strip()
    return name if len(name.split()) <= _MOST_NAMES else None


def _is_talk(speakers: Sequence[str | None]) -> bool:
    """Whether the lines of a paragraph are said by somebody, and not prose with a colon in it.

    Names begin with a capital, or are of a script without; where every line has one, any word will do.
    """
    named = [name for name in speakers if name is not None]
    proper = [name for name in named if not any(word[0].islower() for word in name.split())]
    return len(named) == len(speakers) or (len(proper) > 1 and len(proper) == len(named)) or speakers[0] in proper


def _stand_alone(lines: Sequence[str]) -> bool:
    """Whether each line is a thought of its own, and not a part of wrapped text."""
    if any(len(line) > _WIDEST_WRAP or _columns(line) > _WIDEST_WRAP for line in lines):
        return True
    inner = lines[:-1]
    ending = sum(line.endswith("  ") or line.rstrip(_CLOSERS)[-1:] in _ENDS for line in inner)
    return ending >= _ENDING_SHARE * len(inner)


def _columns(line: str) -> int:
    """About how many columns a terminal needs for `line`: two for a character of Chinese, Japanese or Korean."""
    return len(line) if line.isascii() else len(line) + sum(char >= "\u2e80" for char in line)


_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+|[。！？；][”’」』)）]*")
_BLANK = re.compile(r"\s+")

CHUNKER_VERSION = 5
"""To be counted up when the same text gives other chunks than before."""

CODE_CHARS = 2_000
"""Code that is longer is split between lines, in characters."""


class Chunk(Struct, frozen=True):
    """A chunk: the lines from `start_line` to `end_line` (from 1, inclusive), and their text without blank edges.

    `headings` are those that it stands under, the outermost first, without "#"; for a row of a table the header row
    comes last.
    """

    start_line: int
    end_line: int
    text: str
    kind: ChunkKind
    headings: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
    """From which size on, in characters, chunks are split: code, and everything else."""

    text: int = LONG_CHARS
    code: int = CODE_CHARS


USUAL = Limits()


class _Part(Struct):
    start: int
    end: int
    kind: ChunkKind
    headings: tuple[str, ...]


def chunk(text: str, settings: MemorySearchSettings) -> list[Chunk]:
    """The chunks of `text` in the profile of the settings."""
    if settings.profile == "classic":
        return chunk_classic(text, settings.chunking.tokens, settings.chunking.overlap)
    return chunk_lines(text, Limits(settings.chunking.piece_chars, settings.chunking.code_chars))


def chunk_classic(text: str, tokens: int, overlap: int) -> list[Chunk]:
    """Chunks of `tokens` (of four characters) that share `overlap`, as reference sheet 12.3 says."""
    return [Chunk(first, last, part, "prose") for first, last, part in classic_spans(text, tokens, overlap)]


def chunk_lines(text: str, limits: Limits = USUAL) -> list[Chunk]:
    """Small chunks by the structure of Markdown.

    Their line ranges are a partition of the file's lines: blank lines and thematic breaks belong to the chunk before
    them, at the top of the file to the first. A final line break begins no line. Text that is blank has no chunks.
    A line that is longer than a chunk may be becomes several chunks with its number.
    """
    lines = document_lines(text)
    shown = [(part, said) for part in _parts(lines, limits) if (said := _said(lines, part))]
    if not shown:
        # Nothing but thematic breaks, or nothing at all.
        return [Chunk(1, len(lines), text.strip(), "prose")] if text.strip() else []
    starts = [0, *(part.start for part, _ in shown[1:]), len(lines)]
    return [
        Chunk(start + 1, end, slice_, part.kind, part.headings)
        for (part, said), start, end in zip(shown, starts, starts[1:], strict=False)
        for slice_ in _slices(said, part, limits)
    ]


def _slices(said: str, part: _Part, limits: Limits) -> Iterator[str]:
    """`said`, or where it is one line that is longer than a chunk may be, that line in several: cut behind a sentence,
    else between words, else anywhere. A heading stays whole, as chunks stand under it."""
    limit = limits.code if part.kind == "code" else limits.text
    start = 0
    while len(said) - start > limit and "\n" not in said and part.kind != "heading":
        end = _slice_end(said, start, start + limit)
        yield said[start:end].strip()
        start = end
    yield said[start:].strip()


def _slice_end(line: str, start: int, end: int) -> int:
    least = start + (end - start) // 2
    for border in (_SENTENCE_END, _BLANK):
        if ends := [found.end() for found in border.finditer(line, least, end)]:
            return ends[-1]
    return end


def document_lines(text: str) -> list[str]:
    """The lines of `text`, cut at LF alone, which is what line numbers count. A final line break begins no line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _said(lines: Sequence[str], part: _Part) -> str:
    if part.end - part.start == 1:
        return lines[part.start].strip()
    return "\n".join(lines[part.start : part.end]).strip()


def _parts(lines: Sequence[str], limits: Limits) -> Iterator[_Part]:
    for block in _joined(blocks_of(lines), lines, limits.text):
        match block.kind:
            case "paragraph":
                for start, end, kind in paragraph_cuts(lines, block.start, block.end, limits.text):
                    yield _Part(start, end, kind, block.headings)
            case "table":
                yield from _table(lines, block, limits.text)
            case "item" | "code":
                limit = limits.code if block.kind == "code" else limits.text
                for start, end in line_groups(lines, block.start, block.end, limit):
                    yield _Part(start, end, block.kind, block.headings)
            case "heading":
                yield _Part(block.start, block.end, "heading", block.headings)
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


def _table(lines: Sequence[str], block: Block, limit: int) -> Iterator[_Part]:
    """A small table whole; of a large one its head and each row, under the names of the columns."""
    if _size(lines, block.start, block.end) <= limit:
        yield _Part(block.start, block.end, "table", block.headings)
        return
    body = block.start + 2
    yield _Part(block.start, body, "table", block.headings)
    columns = lines[block.start].strip(" \t|")[:HEADING_CHARS]
    for number in range(body, block.end):
        yield _Part(number, number + 1, "table", (*block.headings, columns))


def _size(lines: Sequence[str], start: int, end: int) -> int:
    """Characters, line breaks included."""
    return sum(map(len, lines[start:end])) + end - start
