"""Finds the entries in the lines of a transcript: where each one lies, and its place in the tree.

An entry is known by its span until somebody wants what it holds; so a walk through a long file decodes next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct, UnsetType, structs

from clawbot.sessions.codec import PADDING, decode_entry, decode_head, mend
from clawbot.sessions.entries import Entry, EntryHead, OtherEntry
from clawbot.sessions.lines import ByteSource, Line, lines_backwards

HEADER = "session"
# How every program of this family begins an entry. Inside a string the quotes are escaped, so this is only found where
# an entry was written behind a torn one that had no line break.
_ENTRY_START = re.compile(rb'\{"type":"[a-z_]+","id":"[0-9a-f]{8}","parentId":')

Report = Callable[[int, str], object]
"""Told about each oddity: the byte where it lies, and what it is."""


class Span(Struct, frozen=True):
    """Where an entry lies (bytes `start` to `end`) and what links it to others.

    `id` is made from the place in the file where the entry has none. `parent_id` None is a root, UNSET means "the entry
    before it in the file" (files of version 1 are plain lists).
    """

    start: int
    end: int
    kind: str
    id: str
    parent_id: str | UnsetType | None
    first_kept: str | None = None
    first_kept_index: int | None = None


def spans_backwards(source: ByteSource, end: int, report: Report) -> Iterator[Span]:
    """The entries before byte `end`, last one first, headers included. Bad lines are reported and passed over."""
    for line in lines_backwards(source, end):
        head = decode_head(line.raw)
        if head is not None:
            yield _span(line, head)
            continue
        for piece in reversed(_pieces(line)):
            head = decode_head(piece.raw)
            if head is None:
                report(piece.start, _bad_line(piece.raw))
            else:
                yield _span(piece, head)


def _pieces(line: Line) -> list[Line]:
    """A line that is no entry, cut apart where entries begin in it."""
    starts = [0, *(found.start() for found in _ENTRY_START.finditer(line.raw) if found.start())]
    ends = [*starts[1:], len(line.raw)]
    return [
        Line(line.start + start, line.start + end, line.raw[start:end]) for start, end in zip(starts, ends, strict=True)
    ]


def _span(line: Line, head: EntryHead) -> Span:
    index = head.first_kept_entry_index
    return Span(
        start=line.start,
        end=line.end,
        kind=head.type,
        id=head.id or f"{line.start & 0xFFFFFFFF:08x}",
        parent_id=head.parent_id,
        first_kept=head.first_kept_entry_id,
        first_kept_index=int(index) if index is not None and index == int(index) else None,
    )


def read_entry(source: ByteSource, span: Span, report: Report, parent_id: str | None) -> Entry:
    """What the span holds. An entry whose body makes no sense is reported and comes as an `OtherEntry`."""
    entry = decode_entry(source.read(span.start, span.end), span.kind)
    if entry is None:
        report(span.start, f"an entry of type {span.kind} in a shape that is not understood; it is passed over")
        entry = OtherEntry(kind=span.kind)
    return structs.replace(entry, id=span.id, parent_id=parent_id)


def torn_end(source: ByteSource, end: int) -> int | None:
    """The byte where an unfinished last line begins; None when the file ends with a whole one.

    A line is torn when it is no entry and lacks its line break, or when zero bytes stand in it: a block that a power
    cut kept from the disk.
    """
    last = next(lines_backwards(source, end), None)
    if last is None:
        return None
    piece = _pieces(last)[-1] if decode_head(last.raw) is None else last
    broken = decode_head(piece.raw) is None
    return piece.start if broken and (last.end == end or b"\x00" in piece.raw) else None


def nth_span(source: ByteSource, end: int, index: int) -> Span | None:
    """The entry with the number `index`, counted from the header (0): how version 1 refers to entries.

    Unreadable lines don't count. Looks at everything before byte `end`.
    """
    spans = list(spans_backwards(source, end, lambda _offset, _text: None))[::-1]
    return spans[index] if 0 < index < len(spans) and spans[index].kind != HEADER else None


def _bad_line(raw: bytes) -> str:
    """What is wrong with a line that is no entry."""
    if not raw.strip(PADDING):
        return "a block of zero bytes, as a power cut leaves it; it is passed over"
    what = "a line that is JSON, but no entry" if mend(raw) is not None else "a line that can't be read"
    return f"{what}; it is kept in the file and passed over"
