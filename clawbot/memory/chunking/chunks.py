"""Splits a document into chunks, in the profiles `lines` and `classic`: at headings, items and paragraphs. Paragraphs
are split further if people speak in them or their lines are independent, but not if text is merely wrapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from clawbot.memory.chunking.markdown import HEADING_CHARS, Block, blocks_of
from clawbot.memory.values import ChunkKind
from clawbot.text.patterns import lazy_re

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings


CHARS_PER_TOKEN = 4
MIN_CHARS = 32
MAX_BYTES = 8_000
"""Maximum size of a chunk in UTF-8 bytes: within the limit of every embedding model."""

Segment = tuple[int, str]
"""A line, or a slice of one longer than a chunk, with its line number (from 1)."""


def classic_spans(text: str, tokens: int, overlap: int) -> Iterator[tuple[int, int, str]]:
    """First line, last line (from 1, inclusive) and text of each chunk; neighbours overlap.

    `tokens` (at least 1) is the size and `overlap` the repeated part, in tokens of four characters. A chunk contains
    complete segments, so it exceeds the size if the overlap is long. Blank chunks are left out. Sizes count code
    points; the system that this format comes from counts UTF-16 units, so emoji twice.
    """
    tokens = max(1, tokens)
    size = max(MIN_CHARS, tokens * CHARS_PER_TOKEN)
    carried = max(0, min(overlap, tokens - 1)) * CHARS_PER_TOKEN
    for segments in _packed(_segments(text, size), size, carried):
        joined = "\n".join(line for _, line in segments)
        if joined.strip():
            for part in _classic_within(joined, MAX_BYTES):
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
    """Return the shortest tail of segments with at least `chars` characters."""
    total, first = 0, len(segments)
    while first > 0 and total < chars:
        first -= 1
        total += len(segments[first][1]) + 1
    return segments[first:]


def _classic_within(text: str, limit: int) -> Iterator[str]:
    """Yield `text` in parts of at most `limit` bytes."""
    # A character takes at most four bytes.
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
"""A range of lines (from 0, end exclusive) and its kind."""

LONG_CHARS = 800
"""Longer paragraphs are split between lines."""

# Text is not wrapped at more columns: longer lines are complete in themselves.
_WIDEST_WRAP = 120
# Share of a paragraph's lines that must end a sentence for every line to be a chunk.
_ENDING_SHARE = 0.75
_ENDS = frozenset(".!?;:…。！？；：\\")
_CLOSERS = " \t\"'”’»」』）)]*_`~"

_TIME = r"(?:\[?(?:\d{4}-\d{2}-\d{2}[ T])?\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+(?:[-–—][ \t]+)?)?"
_SPEAKER = lazy_re(
    rf"[ \t]*(?:>[ \t]?)*{_TIME}[*_<@]{{0,3}}(?P<name>[^\W\d_][^\n:：*<>|/，。,!?！？]{{0,39}})[*_>]{{0,3}}"
    r"(?::[*_]{0,3}(?=\s)|：)"
)
_MAX_NAMES = 4
_ROLES = frozenset({"user", "assistant"})
_CLOCK = lazy_re(r"[ \t]*\[?\d{1,2}[:：]\d{2}(?::\d{2})?\b")
_MARKER = lazy_re(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+\S")


def paragraph_cuts(lines: Sequence[str], start: int, end: int, limit: int = LONG_CHARS) -> Iterator[Cut]:
    """Split the paragraph in `lines` from `start` to before `end`: covers all its lines, in order.

    Lines that begin with a name (`Anna: …`) are separate chunks together with their wrapped lines; so are lines of
    a log, which all begin with a time, and lines that are too long to be wrapped or mostly end sentences. Other
    text is not split, up to `limit` characters.
    """
    if end - start <= 1:
        if start < end:
            yield start, end, "dialogue" if _speaker(lines[start]) else "prose"
        return
    speakers = [_speaker(line) for line in lines[start:end]]
    is_dialogue = _is_dialogue(speakers)
    alone = _are_independent(lines[start:end])
    timed = _CLOCK.match(lines[start]) is not None
    first, kind = start, _kind(lines[start], is_speech=is_dialogue and speakers[0] is not None, inside="prose")
    for number in range(start + 1, end):
        is_speech = is_dialogue and speakers[number - start] is not None
        if is_speech or alone or _MARKER.match(lines[number]) or (timed and _CLOCK.match(lines[number])):
            yield from _within(lines, first, number, kind, limit)
            first, kind = (
                number,
                _kind(lines[number], is_speech=is_speech, inside="dialogue" if kind == "dialogue" else "prose"),
            )
    yield from _within(lines, first, end, kind, limit)


def line_groups(lines: Sequence[str], start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the lines from `start` to before `end` in groups of at most `limit` characters, or single longer lines."""
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


def _kind(line: str, *, is_speech: bool, inside: Literal["prose", "dialogue"]) -> Literal["prose", "dialogue", "item"]:
    if is_speech:
        return "dialogue"
    return "item" if _MARKER.match(line) else inside


def _speaker(line: str) -> str | None:
    """Return the speaker of the line, if it has the form of speech."""
    found = _SPEAKER.match(line)
    if found is None:
        return None
    name = found["name"].strip()
    return name if len(name.split()) <= _MAX_NAMES else None


def _is_dialogue(speakers: Sequence[str | None]) -> bool:
    """Return whether the lines of a paragraph are speech, rather than prose with colons.

    Names start with a capital, are of a script without capitals, or those of a chat with a model; if every line has
    one, any word counts.
    """
    named = [name for name in speakers if name is not None]
    proper = [name for name in named if name in _ROLES or not any(word[0].islower() for word in name.split())]
    return len(named) == len(speakers) or (len(proper) > 1 and len(proper) == len(named)) or speakers[0] in proper


def _are_independent(lines: Sequence[str]) -> bool:
    """Return whether each line is complete in itself rather than part of wrapped text."""
    if any(len(line) > _WIDEST_WRAP or _columns(line) > _WIDEST_WRAP for line in lines):
        return True
    inner = lines[:-1]
    ending = sum(line.endswith("  ") or line.rstrip(_CLOSERS)[-1:] in _ENDS for line in inner)
    return ending >= _ENDING_SHARE * len(inner)


def _columns(line: str) -> int:
    """Approximate terminal columns of `line`: two for each CJK character."""
    return len(line) if line.isascii() else len(line) + sum(char >= "\u2e80" for char in line)


_SENTENCE_END = lazy_re(r"[.!?][\"'”’)]*\s+|[。！？；][”’」』)）]*")
_BLANK = lazy_re(r"\s+")

CHUNKER_VERSION = 9
"""Increment when the same text yields other chunks, or other flags of them, than before."""

CODE_CHARS = 2_000
"""Longer code is split between lines, in characters."""


class Chunk(Struct, frozen=True, gc=False):
    """A chunk: the lines from `start_line` to `end_line` (from 1, inclusive), and their stripped text.

    `headings` are those above it, outermost first, without "#"; for a table row the header row comes last.
    """

    start_line: int
    end_line: int
    text: str
    kind: ChunkKind
    headings: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
    """Sizes in characters above which chunks are split between lines: for code, and for everything else."""

    text: int = LONG_CHARS
    code: int = CODE_CHARS


USUAL = Limits()


class _Part(Struct, gc=False):
    start: int
    end: int
    kind: ChunkKind
    headings: tuple[str, ...]


def chunk(text: str, settings: MemorySearchSettings) -> list[Chunk]:
    """Return the chunks of `text` in the profile of the settings."""
    if settings.profile == "classic":
        return chunk_classic(text, settings.chunking.tokens, settings.chunking.overlap)
    return chunk_lines(text, Limits(settings.chunking.piece_chars, settings.chunking.code_chars))


def chunk_classic(text: str, tokens: int, overlap: int) -> list[Chunk]:
    """Return chunks of `tokens` (four characters each) with an overlap of `overlap`."""
    return [Chunk(first, last, part, "prose") for first, last, part in classic_spans(text, tokens, overlap)]


def chunk_lines(text: str, limits: Limits = USUAL) -> list[Chunk]:
    """Small chunks by the structure of Markdown.

    Their line ranges partition the file: blank lines and thematic breaks belong to the preceding chunk, at the top of
    the file to the first one. A final line break starts no new line. Blank text has no chunks.
    """
    lines = document_lines(text)
    shown = [(part, content) for part in _parts(lines, limits) if (content := _text_of(lines, part))]
    if not shown:
        # Only thematic breaks, or nothing.
        return [Chunk(1, len(lines), text.strip(), "prose")] if text.strip() else []
    starts = [0, *(part.start for part, _ in shown[1:]), len(lines)]
    return [
        Chunk(start + 1, end, slice_, part.kind, part.headings)
        for (part, content), start, end in zip(shown, starts, starts[1:], strict=False)
        for slice_ in _slices(content, part, limits)
    ]


def _slices(text: str, part: _Part, limits: Limits) -> Iterator[str]:
    """`text`, or where it is one line that is longer than a chunk may be, that line in several: cut behind a sentence,
    else between words, else anywhere. A heading is not split: chunks refer to it."""
    limit = limits.code if part.kind == "code" else limits.text
    if len(text) <= limit:
        yield text
        return
    start = 0
    while len(text) - start > limit and "\n" not in text and part.kind != "heading":
        end = _slice_end(text, start, start + limit)
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()


def _slice_end(line: str, start: int, end: int) -> int:
    least = start + (end - start) // 2
    for border in (_SENTENCE_END, _BLANK):
        if ends := [found.end() for found in border.finditer(line, least, end)]:
            return ends[-1]
    return end


def document_lines(text: str) -> list[str]:
    """Return the lines of `text`, split only at LF, as line numbers count. A final line break starts no new line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _text_of(lines: Sequence[str], part: _Part) -> str:
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
            case "item":
                yield from _item(lines, block, limits.text)
            case "code":
                for start, end in line_groups(lines, block.start, block.end, limits.code):
                    yield _Part(start, end, "code", block.headings)
            case "heading":
                yield _Part(block.start, block.end, "heading", block.headings)
            case "rule":
                pass


def _item(lines: Sequence[str], block: Block, limit: int) -> Iterator[_Part]:
    """An item up to the first line below it that is not indented and begins with a name: Markdown adds such a line to
    the item, but somebody speaks after a list."""
    if block.end == block.start + 1:
        yield _Part(block.start, block.end, "item", block.headings)
        return
    below = range(block.start + 1, block.end)
    speech = next((each for each in below if lines[each][:1].strip() and _speaker(lines[each])), block.end)
    for start, end in line_groups(lines, block.start, speech, limit):
        yield _Part(start, end, "item", block.headings)
    for start, end, kind in paragraph_cuts(lines, speech, block.end, limit):
        yield _Part(start, end, kind, block.headings)


def _joined(blocks: Iterable[Block], lines: Sequence[str], limit: int) -> Iterator[Block]:
    """`blocks`, with those of one list item (paragraphs, code) merged if they are short."""
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
    """A small table as one chunk; a large one as its header and single rows, under the column names."""
    if _size(lines, block.start, block.end) <= limit:
        yield _Part(block.start, block.end, "table", block.headings)
        return
    body = block.start + 2
    yield _Part(block.start, body, "table", block.headings)
    columns = lines[block.start].strip(" \t|")[:HEADING_CHARS]
    for number in range(body, block.end):
        yield _Part(number, number + 1, "table", (*block.headings, columns))


def _size(lines: Sequence[str], start: int, end: int) -> int:
    return sum(map(len, lines[start:end])) + end - start
