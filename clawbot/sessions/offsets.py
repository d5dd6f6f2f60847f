"""Recognises transcripts, and locates the entries in their lines and the path that forms the current conversation.

Entries are represented by their spans and decoded on demand, so walking through a long file decodes very little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType, structs

from clawbot.sessions.entries import (
    ENTRY_TYPES,
    PADDING,
    Entry,
    EntryHead,
    Header,
    OtherEntry,
    as_object,
    decode_entry,
    decode_head,
    decode_header,
    mend,
)
from clawbot.sessions.lines import HEAD_BYTES, LARGEST_BLOCK, ByteSource, RawLine, lines_backwards
from clawbot.sessions.names import SUFFIX

HEADER = "session"
# The start of an entry as written by related programs. Quotes inside strings are escaped, so this only matches where an
# entry was appended to a partial one without a line break.
ENTRY_START = re.compile(rb'\{"type":"[a-z_]+","id":"([0-9a-f]{8})","parentId":')

Report = Callable[[int, str], object]
"""Called for each problem with its byte offset and description."""


class EntrySpan(Struct, frozen=True, gc=False):
    """The position of an entry (bytes `start` to `end`) and its links. `id` is derived from the position if the entry
    has none. `parent_id` None is a root, UNSET means "the entry before it in the file" (files of version 1 are plain
    lists)."""

    start: int
    end: int
    kind: str
    id: str
    parent_id: str | UnsetType | None
    first_kept: str | None = None
    first_kept_index: int | None = None


def _unreported(_offset: int, _text: str) -> None:
    """For readers that leave reporting problems to others."""


def spans_backwards(source: ByteSource, end: int, report: Report = _unreported) -> Iterator[EntrySpan]:
    """The entries before byte `end`, last one first, including headers. Bad lines are reported and skipped."""
    for line in lines_backwards(source, end):
        head = decode_head(line.raw)
        if head is not None:
            yield _span(line, head)
            continue
        for part in reversed(_parts(line)):
            head = decode_head(part.raw)
            if head is None:
                report(part.start, _bad_line(part.raw))
            else:
                yield _span(part, head)


def _parts(line: RawLine) -> list[RawLine]:
    """An invalid line, split where entries begin in it."""
    starts = [0, *(found.start() for found in ENTRY_START.finditer(line.raw) if found.start())]
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


def read_entry(source: ByteSource, span: EntrySpan, report: Report = _unreported) -> Entry:
    """Decode a span. An entry with an invalid body is reported and returned as an `OtherEntry`."""
    return _entry_in(source.read(span.start, span.end), span, report, None)


def read_path(source: ByteSource, spans: Sequence[EntrySpan], report: Report = _unreported) -> Iterator[Entry]:
    """Decode the spans of a path, oldest first, like `read_entry`. Each has the one before it for a parent. Lines that
    follow each other are read together."""
    parent = spans[0].parent_id if spans else None
    for lines in _neighbours(spans):
        start = lines[0].start
        data = source.read(start, lines[-1].end)
        for span in lines:
            raw = data[span.start - start : span.end - start]
            yield _entry_in(raw, span, report, None if parent is UNSET else parent)
            parent = span.id


def _neighbours(spans: Sequence[EntrySpan]) -> Iterator[Sequence[EntrySpan]]:
    """`spans` in groups of lines that follow each other in the file, of at most a block."""
    first = 0
    for index, span in enumerate(spans):
        if index and (span.start != spans[index - 1].end + 1 or span.end - spans[first].start > LARGEST_BLOCK):
            yield spans[first:index]
            first = index
    if spans:
        yield spans[first:]


def _entry_in(raw: bytes, span: EntrySpan, report: Report, parent_id: str | None) -> Entry:
    entry = decode_entry(raw, span.kind)
    if entry is None:
        report(span.start, f"an entry of type {span.kind} in an unknown format; it is skipped")
        entry = OtherEntry(kind=span.kind)
    return structs.replace(entry, id=span.id, parent_id=parent_id)


def read_at(source: ByteSource, start: int, end: int) -> Entry:
    """Decode the entry between two bytes, which are those of a span; its problems were reported with that."""
    raw = source.read(start, end)
    head = decode_head(raw)
    entry = None if head is None else decode_entry(raw, head.type)
    span = None if head is None else _span(RawLine(start, end, raw), head)
    return structs.replace(entry or OtherEntry(kind=""), id=span.id if span else "")


def valid_end(source: ByteSource, size: int) -> int:
    """The byte offset at which the complete lines of a file of `size` bytes end and an unfinished last one begins. A
    line is unfinished if it is not an entry and lacks its line break, or if it contains zero bytes: a block that did
    not reach the disk before a power cut."""
    last = next(lines_backwards(source, size), None)
    if last is None or decode_head(last.raw) is not None:
        return size
    part = _parts(last)[-1]
    broken = decode_head(part.raw) is None
    return part.start if broken and (last.end == size or b"\x00" in part.raw) else size


def nth_span(source: ByteSource, end: int, index: int) -> EntrySpan | None:
    """The entry number `index`, counted from the header (0): the references of version 1. Unreadable lines don't count.
    Reads everything before byte `end`."""
    spans = list(spans_backwards(source, end))[::-1]
    return spans[index] if 0 < index < len(spans) and spans[index].kind != HEADER else None


def _bad_line(raw: bytes) -> str:
    """The problem of a line that is not an entry."""
    if not raw.strip(PADDING):
        return "a block of zero bytes, left by a power cut; it is skipped"
    what = "a line that is JSON, but not an entry" if mend(raw) is not None else "a line that can't be read"
    return f"{what}; it is kept in the file and skipped"


COMPACTION = "compaction"


class Tail(Struct, frozen=True):
    """The part of the path that forms the model's context, oldest entry first. After a compaction, it begins with the
    first entry that was kept; `missing` is that entry's id if it is not on the path."""

    spans: list[EntrySpan]
    compaction: EntrySpan | None = None
    missing: str | None = None


def walk(spans: Iterable[EntrySpan], wanted: str | UnsetType | None, report: Report) -> Iterator[EntrySpan]:
    """The path to the root, last entry first.

    `spans` come last one first and begin before the child whose parent is `wanted`; UNSET takes the first of them. A
    parent is only searched earlier in the file, so damage can't cause cycles. A missing parent is reported, and the
    entry before the child is used: most likely a line was lost just there.
    """
    ahead = iter(spans)
    skipped: list[EntrySpan] = []
    child: EntrySpan | None = None
    while wanted is not None:
        found = _next(ahead, wanted, skipped)
        if found is None:
            if child is not None and wanted is not UNSET:
                report(child.start, f"its parent {wanted} is missing; the entry before it is used instead")
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
    """Collect `path` (last entry first) back to the first entry kept by its last compaction, or to the root.
    `first_kept` returns the id that a compaction names."""
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


EMPTY = "empty files"
ZEROED = "files of zero bytes, as a power cut leaves them"
CLAUDE_CODE = "Claude Code transcripts"

FOREIGN_FORMS: tuple[tuple[str, str, str], ...] = (
    # What the file is; the program and version that it was seen in; a pattern found in its first lines.
    (CLAUDE_CODE, "Claude Code 1.0 to 2.1", r'"(?:parentUuid|leafUuid|isSidechain)"\s*:|"file-history-'),
    ("Codex rollouts", "Codex 0.44", r'"type"\s*:\s*"(?:session_meta|response_item|turn_context|event_msg)"'),
    ("Codex rollouts", "Codex 0.2", r'"record_type"\s*:\s*"state"|"instructions"\s*:.{0,9000}"git"\s*:'),
    ("ChatGPT exports", "chatgpt.com, 2023 to 2026", r'"mapping"\s*:\s*\{|"current_node"\s*:'),
    ("Claude.ai exports", "claude.ai, 2024 to 2026", r'"chat_messages"\s*:'),
    ("Gemini CLI sessions", "Gemini CLI 0.1 to 0.20", r'"projectHash"\s*:'),
    ("Copilot CLI events", "Copilot CLI 0.0.3", r'"type"\s*:\s*"session\.start"'),
    ("OpenClaw trajectories", "OpenClaw 2026.4", r'"traceSchema"\s*:'),
    ("OpenClaw job logs", "OpenClaw 2026.1", r'"jobId"\s*:.{0,900}"action"\s*:'),
    ("prompt histories", "Claude Code 2.0, Codex 0.44", r'"pastedContents"\s*:|\A\s*\{"session_id":"[^"]*","ts":'),
    (
        "training data",
        "OpenAI and Hugging Face formats",
        r'\A\s*\{\s*"(?:messages|prompt|instruction|conversations)"\s*:',
    ),
    ("other JSON", "", r"\A\s*[\[{]"),
)


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEADER_START = b'{"type":"session",'
_MIN_BEGUN = 10  # bytes of a header's beginning that no other program writes


class SeenFile(NamedTuple):
    """What is known of a file: `kind` is "" for a transcript, else what it is; `first` is the id of its first entry."""

    kind: str
    header: Header | None = None
    first: str = ""
    size: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the file may become a transcript."""
        return self.kind in (EMPTY, ZEROED)


def recognise(source: ByteSource, size: int, name: str) -> SeenFile:
    """A transcript begins with a header whose version is a number, or, if that is lost, with an entry that has an id
    and a parent. Damaged lines decide nothing, lines of other shapes only without one of an entry."""
    head = source.read(0, HEAD_BYTES)
    header: Header | None = None
    strange = False
    for raw in head.split(b"\n"):
        found = decode_header(raw) if header is None else None
        value = None if found or ENTRY_START.match(raw) else as_object(raw)
        if found and (found.timestamp or found.cwd):
            header = found
        elif first := _entry_id(raw, value, header):
            return SeenFile("", header, first, size)
        strange = strange or (value is not None and value.get("type") != HEADER)
        if strange and header is None:
            break
    if strange or (header is None and size > len(head)):
        end = ENTRY_START.search(source.read(max(0, size - HEAD_BYTES), size)) if not strange else None
        return SeenFile("", None, end[1].decode(), size) if end else SeenFile(_kind_of(head), size=size)
    return SeenFile("" if header else _blank_kind(head, name), header, size=size)


def _entry_id(raw: bytes, value: dict[str, Any] | None, header: Header | None) -> str:
    """The id of the entry in a line with the JSON `value`, or after a partial one; "" if there is none."""
    if value is None:
        entry = ENTRY_START.search(raw)
        return entry[1].decode() if entry else ""
    known = str(value.get("type")) in ENTRY_TYPES
    linked = isinstance(value.get("id"), str) and isinstance(value.get("parentId", 0), str | None)
    # After a header also one of version 1, or of a later type.
    is_entry = known and linked if header is None else known or (linked and isinstance(value.get("type"), str))
    return str(value.get("id") or value.get("timestamp") or "?") if is_entry else ""


def _blank_kind(head: bytes, name: str) -> str:
    """What a file is whose lines are no JSON: an empty one under a name that only we give, and one with the beginning
    of a header, are transcripts that a crash left."""
    is_new = _UUID.fullmatch(name.removesuffix(SUFFIX)) if not head.strip() else _is_begun(head)
    return "" if is_new and b"\0" not in head else _kind_of(head)


def _is_begun(head: bytes) -> bool:
    """Whether `head` has a header that was never finished."""
    rest = head.strip(PADDING + b"\n")
    return len(rest) >= _MIN_BEGUN and (rest.startswith(_HEADER_START) or _HEADER_START.startswith(rest))


def _kind_of(head: bytes) -> str:
    is_blank = not head.strip(PADDING + b"\n")
    if b"\0" in head and (is_blank or _is_begun(head)):
        return ZEROED
    if is_blank:
        return EMPTY
    text = head.decode("utf-8", "replace")
    return next((kind for kind, _, form in FOREIGN_FORMS if re.search(form, text, re.DOTALL)), "other files")
