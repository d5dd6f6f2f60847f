"""Finds the entries in the lines of a transcript: where each one lies, and which belong to the conversation
as it stands.

An entry is known by its span until somebody wants what it holds; so a walk through a long file decodes next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import UNSET, Struct, UnsetType, structs

from clawbot.sessions.entries import PADDING, Entry, EntryHead, OtherEntry, decode_entry, decode_head, mend
from clawbot.sessions.lines import ByteSource, RawLine, lines_backwards

HEADER = "session"
# How every program of this family begins an entry. Inside a string the quotes are escaped, so this is only found where
# an entry was written behind a torn one that had no line break.
_ENTRY_START = re.compile(rb'\{"type":"[a-z_]+","id":"[0-9a-f]{8}","parentId":')

Report = Callable[[int, str], object]
"""Told about each oddity: the byte where it lies, and what it is."""


class EntrySpan(Struct, frozen=True):
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


def _unreported(_offset: int, _text: str) -> None:
    """For readers that leave it to others to tell what is wrong with a file."""


def spans_backwards(source: ByteSource, end: int, report: Report = _unreported) -> Iterator[EntrySpan]:
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


def _pieces(line: RawLine) -> list[RawLine]:
    """A line that is no entry, cut apart where entries begin in it."""
    starts = [0, *(found.start() for found in _ENTRY_START.finditer(line.raw) if found.start())]
    ends = [*starts[1:], len(line.raw)]
    return [
        RawLine(line.start + start, line.start + end, line.raw[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]


def _span(line: RawLine, head: EntryHead) -> EntrySpan:
    index = head.first_kept_entry_index
    return EntrySpan(
        start=line.start,
        end=line.end,
        kind=head.type,
        id=head.id or f"{line.start & 0xFFFFFFFF:08x}",
        parent_id=head.parent_id,
        first_kept=head.first_kept_entry_id,
        first_kept_index=int(index) if index is not None and index == int(index) else None,
    )


def read_entry(
    source: ByteSource, span: EntrySpan, report: Report = _unreported, parent_id: str | None = None
) -> Entry:
    """What the span holds. An entry whose body makes no sense is reported and comes as an `OtherEntry`."""
    entry = decode_entry(source.read(span.start, span.end), span.kind)
    if entry is None:
        report(span.start, f"an entry of type {span.kind} in a shape that is not understood; it is passed over")
        entry = OtherEntry(kind=span.kind)
    return structs.replace(entry, id=span.id, parent_id=parent_id)


def whole_end(source: ByteSource, size: int) -> int:
    """The byte where the whole lines of a file of `size` bytes end, and an unfinished last one begins.

    A line is torn when it is no entry and lacks its line break, or when zero bytes stand in it: a block that a power
    cut kept from the disk.
    """
    last = next(lines_backwards(source, size), None)
    if last is None or decode_head(last.raw) is not None:
        return size
    piece = _pieces(last)[-1]
    broken = decode_head(piece.raw) is None
    return piece.start if broken and (last.end == size or b"\x00" in piece.raw) else size


def nth_span(source: ByteSource, end: int, index: int) -> EntrySpan | None:
    """The entry with the number `index`, counted from the header (0): how version 1 refers to entries.

    Unreadable lines don't count. Looks at everything before byte `end`.
    """
    spans = list(spans_backwards(source, end))[::-1]
    return spans[index] if 0 < index < len(spans) and spans[index].kind != HEADER else None


def _bad_line(raw: bytes) -> str:
    """What is wrong with a line that is no entry."""
    if not raw.strip(PADDING):
        return "a block of zero bytes, as a power cut leaves it; it is passed over"
    what = "a line that is JSON, but no entry" if mend(raw) is not None else "a line that can't be read"
    return f"{what}; it is kept in the file and passed over"


COMPACTION = "compaction"


class Tail(Struct, frozen=True):
    """The part of the path that the model's context is made of, oldest entry first.

    With a compaction in it, it begins at the first entry that this kept; `missing` is the id that it names when the
    path does not hold it.
    """

    spans: list[EntrySpan]
    compaction: EntrySpan | None = None
    missing: str | None = None


def walk(spans: Iterable[EntrySpan], wanted: str | UnsetType | None, report: Report) -> Iterator[EntrySpan]:
    """The path to the root, last entry first.

    `spans` come last one first and begin before the place that `wanted` is the parent of; UNSET takes the first of
    them. A parent is looked for further up in the file only, so no damage can make this walk go in circles. One that
    is not there is reported, and the entry before its child in the file stands in for it: what tore the chain is most
    likely a lost line just there.
    """
    ahead = iter(spans)
    skipped: list[EntrySpan] = []
    child: EntrySpan | None = None
    while wanted is not None:
        found = _next(ahead, wanted, skipped)
        if found is None:
            if child is not None and wanted is not UNSET:
                report(child.start, f"its parent {wanted} is missing; the entry before it stands in")
            if not skipped:
                return
            ahead, skipped, wanted = iter(skipped), [], UNSET
            continue
        skipped = []
        yield found
        child, wanted = found, found.parent_id


def _next(spans: Iterator[EntrySpan], wanted: str | UnsetType | None, skipped: list[EntrySpan]) -> EntrySpan | None:
    for span in spans:
        if span.kind == HEADER:
            continue
        if wanted is UNSET or span.id == wanted:
            return span
        skipped.append(span)
    return None


def tail(path: Iterable[EntrySpan], first_kept: Callable[[EntrySpan], str | None]) -> Tail:
    """Collect `path` (last entry first) back to what its last compaction kept, or to the root.

    `first_kept` tells the id that a compaction names.
    """
    taken: list[EntrySpan] = []
    compaction: EntrySpan | None = None
    since = 0
    target: str | None = None
    for span in path:
        taken.append(span)
        if compaction is None and span.kind == COMPACTION:
            compaction, target, since = span, first_kept(span), len(taken)
        if compaction is not None and (not target or span.id == target):
            return Tail(taken[::-1], compaction)
    if compaction is None:
        return Tail(taken[::-1])
    return Tail(taken[:since][::-1], compaction, missing=target)
