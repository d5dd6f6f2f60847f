"""The pieces of older systems: equal size by characters, each beginning with the end of the one before (sheet 12.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

CHARS_PER_TOKEN = 4
SMALLEST_CHARS = 32
LARGEST_BYTES = 8_000
"""UTF-8 bytes of one piece: what an embedding model takes for sure."""

Segment = tuple[int, str]
"""A line, or a slice of one that is longer than a piece, with the line's number (from 1)."""


def classic_spans(text: str, tokens: int, overlap: int) -> Iterator[tuple[int, int, str]]:
    """First line, last line (from 1, inclusive) and text of each piece; the lines of neighbours overlap.

    `tokens` (at least 1) is the size and `overlap` what is repeated, both in tokens of four characters. A piece holds
    whole segments: it outgrows the size when what is repeated is long. Pieces of white space alone are left out.
    Sizes are counted in code points; the system that these come from counts UTF-16 units, so emoji twice.
    """
    tokens = max(1, tokens)
    size = max(SMALLEST_CHARS, tokens * CHARS_PER_TOKEN)
    carried = max(0, min(overlap, tokens - 1)) * CHARS_PER_TOKEN
    for segments in _packed(_segments(text, size), size, carried):
        joined = "\n".join(line for _, line in segments)
        if joined.strip():
            for part in _within(joined, LARGEST_BYTES):
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


def _within(text: str, limit: int) -> Iterator[str]:
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
