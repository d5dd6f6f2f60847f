"""One session's transcript: append-only JSONL, opened from its end and never rewritten.

All calls block and are thread-safe; call them in a thread from the event loop. Appending requires the session's lock
(`locks.py`); reading does not.
"""

from __future__ import annotations

import threading
import uuid
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from msgspec import UNSET, UnsetType, structs

from clawbot.clock import Clock, epoch_ms, iso_utc
from clawbot.messages import Message, TextBlock, ToolResultMessage, UserBlock
from clawbot.sessions.conversation import ContextItem, HistoryItem, context_items, history_item
from clawbot.sessions.entries import (
    FORMAT_VERSION,
    CompactionEntry,
    Entry,
    Header,
    MessageEntry,
    decode_header,
    encode_entry,
    encode_header,
)
from clawbot.sessions.errors import Problem, SessionStoreError, store_error, store_errors
from clawbot.sessions.lines import ByteSource, LineAppender, first_line, line_numbers
from clawbot.sessions.names import SUFFIX
from clawbot.sessions.offsets import (
    EntrySpan,
    nth_span,
    read_at,
    read_entry,
    read_path,
    spans_backwards,
    tail,
    valid_end,
    walk,
)

# A result is stored up to the first number of characters, and each of its blocks at least up to the second.
RESULT_CHARS = 400_000
BLOCK_CHARS = 2_000
NOTICE_CHARS = 100


def capped(message: Message) -> Message:
    """`message` as it is stored: the text of a tool result truncated to the limit, with a note about the rest."""
    if not isinstance(message, ToolResultMessage) or len(message.text) <= RESULT_CHARS:
        return message
    left = RESULT_CHARS
    blocks: list[UserBlock] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            keep = max(left, BLOCK_CHARS)
            left = max(0, left - len(block.text))
            blocks.append(TextBlock(_cut(block.text, keep)))
        else:
            blocks.append(block)
    return structs.replace(message, content=blocks)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    kept = limit - NOTICE_CHARS
    return f"{text[:kept]}\n\n[The last {len(text) - kept:,} of {len(text):,} characters were not stored.]"


E = TypeVar("E", bound=Entry)

# Further problems of one file give no more information.
MAX_PROBLEMS = 100
# Positions of the last entries read, from which a reader may continue: more than a screen needs.
MAX_POSITIONS = 256
# An odd factor, so that different positions in a file of up to 4 GiB never give the same id.
_SPREAD = 0x9E3779B1


class TranscriptBranch(NamedTuple):
    """A `path` from the root to the last entry, and the position `at` in it before which another branch begins; `kept`
    are the entries that are read of that branch."""

    path: list[Entry]
    at: int
    kept: list[Entry]


class Transcript:
    """An open transcript. `entries` is the path of the conversation from the first entry kept by the last compaction,
    oldest first; `problems` are those survived while reading; `torn` is the side file with an unfinished last line."""

    def __init__(self, path: Path, source: ByteSource, clock: Clock) -> None:
        self.path = path
        self.header: Header | None = None
        self.entries: list[Entry] = []
        self.torn: Path | None = None
        self._source = source
        self._appender: LineAppender | None = None
        self._clock = clock
        self._lock = threading.RLock()
        self._problems: dict[int, str] = {}  # by byte offset; below 0 those of the file itself
        self._read_to = 0
        self._ids: set[str] = set()  # of `entries`
        self._positions: dict[str, tuple[int, str | UnsetType | None]] = {}

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        cwd: Path,
        clock: Clock,
        session_id: str | None = None,
        parent: Path | None = None,
        key: str | None = None,
    ) -> Transcript:
        """A new transcript in `folder`, with its header on disk. `parent` is its predecessor. Raises
        SessionStoreError."""
        header = Header(
            version=FORMAT_VERSION,
            id=session_id or str(uuid.uuid4()),
            timestamp=iso_utc(clock.now()),
            cwd=str(cwd),
            parent_session=str(parent) if parent else None,
            session_key=key,
        )
        path = folder / f"{header.id}{SUFFIX}"
        LineAppender.create(path, encode_header(header)).close()
        return cls.open(path, clock=clock)

    @classmethod
    def open(cls, path: Path, *, clock: Clock, writable: bool = True) -> Transcript:
        """Open `path` and read what follows its last compaction. Raises SessionStoreError. With `writable` an
        unfinished last line is moved to a side file; otherwise nothing in the folder changes."""
        return cls._opened(path, clock, partial(cls._load, writable=writable))

    @classmethod
    def open_history(cls, path: Path, *, clock: Clock) -> Transcript:
        """Open `path` only for its `history`: reads on demand, and `entries` is empty. Raises SessionStoreError."""
        return cls._opened(path, clock, cls._load_end)

    @classmethod
    def _opened(cls, path: Path, clock: Clock, load: Callable[[Transcript], None]) -> Transcript:
        with store_errors("open", path):
            opened = cls(path, ByteSource.open(path), clock)
        try:
            load(opened)
        except BaseException as error:
            opened.close()
            if isinstance(error, OSError):
                raise store_error("read", path, error) from error
            raise
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; idempotent. Whoever still shows the session has its size and its history."""
        with self._lock:
            if self._appender is not None:
                self._read_to = self._appender.size
                self._appender.close()
                self._appender = None
            self._source.close()

    @property
    def session_id(self) -> str:
        """The id in the header; without one, the file's name."""
        return self.header.id if self.header else self.path.name.removesuffix(SUFFIX)

    @property
    def leaf_id(self) -> str | None:
        """The parent of the next entry; None in an empty session."""
        return self.entries[-1].id if self.entries else None

    @property
    def size(self) -> int:
        """The number of valid bytes, from the header to the last complete line; for a reader, as of opening the
        file."""
        with self._lock:
            return self._appender.size if self._appender else self._read_to

    @property
    def bytes_read(self) -> int:
        """The number of bytes read so far."""
        return self._source.bytes_read

    @property
    def problems(self) -> list[Problem]:
        """The problems survived so far, in file order. Counts lines, so it may have to read the file up to there."""
        with self._lock:
            shown = sorted(self._problems, key=lambda offset: (offset >= 0, abs(offset)))[:MAX_PROBLEMS]
            numbers = line_numbers(self._source, [offset for offset in shown if offset >= 0])
            found = [Problem(str(self.path), self._problems[offset], numbers.get(offset)) for offset in shown]
            more = len(self._problems) - len(shown)
            return [*found, Problem(str(self.path), f"{more} more lines with problems")] if more else found

    def context(self) -> list[ContextItem]:
        """The model's messages: the last summary, the entries it kept, and everything after it."""
        with self._lock:
            return context_items(self.entries)

    def append_message(self, message: Message, *, sync: bool = False) -> MessageEntry:
        """Store `message` (tool results truncated, timestamp added if missing); returns its entry. `sync`: it is on
        disk when this returns. Raises SessionStoreError; then nothing was stored."""
        if not message.timestamp:
            message = structs.replace(message, timestamp=epoch_ms(self._clock.now()))
        return self.append(MessageEntry(message=capped(message)), sync=sync)

    def append(self, entry: E, *, sync: bool = False) -> E:
        """Store `entry` after the leaf; returns it with its id, parent and timestamp. Raises SessionStoreError."""
        with self._lock:
            if self._appender is None:
                raise SessionStoreError(f"{self.path} is closed, or open read-only.", hint="Open the session to write.")
            linked = structs.replace(
                entry, id=self._new_id(), parent_id=self.leaf_id, timestamp=iso_utc(self._clock.now())
            )
            stored, line = encode_entry(linked)
            self._appender.append(line, sync=sync)
            self.entries.append(stored)
            self._ids.add(stored.id)
            if isinstance(stored, CompactionEntry):
                self._forget_before(stored)
            return stored

    def branch_before(self, entry_id: str) -> TranscriptBranch:
        """The path of the conversation, and what of it would be read if it ended before the entry `entry_id` ("": where
        it ends). Reads the entire path. Raises SessionStoreError, also for an entry that is not on it."""
        with self._lock, store_errors("read", self.path):
            spans = list(self._walk(self.size, UNSET))
            ends = {"": -1, **{span.id: index for index, span in enumerate(spans)}}
            if (at := ends.get(entry_id)) is None:
                raise SessionStoreError(f"{entry_id} is no part of this conversation.", hint="Choose another place.")
            path = self._decoded(spans[::-1])
            found = tail(iter(spans[at + 1 :]), self._first_kept)
            return TranscriptBranch(path, len(spans) - 1 - at, self._decoded(found.spans))

    def lines(self) -> Iterator[tuple[EntrySpan, bytes]]:
        """The lines of the path, oldest first. What a compaction kept is named by its id, also in files of version 1.
        Raises OSError, also while it is read."""
        with self._lock:
            spans = list(self._walk(self.size, UNSET))
        for span in reversed(spans):
            with self._lock:
                kept = self._first_kept(span) if span.first_kept_index is not None else span.first_kept
                yield structs.replace(span, first_kept=kept), self._source.read(span.start, span.end)

    def go_on_from(self, branch: TranscriptBranch, mark: E) -> E:
        """Go on at the end of `branch` with `mark`, which is on disk when this returns: from then on the last line of
        the file belongs to it. What followed remains in the file. Raises SessionStoreError; then nothing has
        changed."""
        with self._lock:
            left = self.entries
            self.entries = branch.kept
            try:
                return self.append(mark, sync=True)
            except BaseException:
                self.entries = left
                raise
            finally:
                self._ids = {entry.id for entry in self.entries}

    def history(self, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        """The last `limit` items before the entry `before` (None: the end) for the screen, oldest first. Reads the file
        backwards, so it reaches beyond compactions. Empty at the start, and for an id that is not on the path. Raises
        SessionStoreError."""
        with self._lock, store_errors("read", self.path):
            if self._source.is_closed:  # the session ended while its screen is drawn
                with Transcript.open(self.path, clock=self._clock, writable=False) as again:
                    return again.history(before, limit)
            return list(islice(self._items_before(before), max(0, limit)))[::-1]

    def history_after(self, entry_id: str) -> tuple[bool, Iterator[HistoryItem]]:
        """What follows the entry `entry_id` ("": everything) for a reader, oldest first, and whether that entry is on
        the path; if not, everything. Of a long transcript only positions are kept. Raises SessionStoreError, also while
        it is read."""
        starts, ends = array("Q"), array("Q")
        with store_errors("read", self.path), self._lock:
            for span in self._walk(self.size, UNSET):
                if span.id == entry_id:
                    return True, self._items_at(starts, ends)
                starts.append(span.start)
                ends.append(span.end)
        return not entry_id, self._items_at(starts, ends)

    def _items_at(self, starts: Sequence[int], ends: Sequence[int]) -> Iterator[HistoryItem]:
        """The items between these bytes, the last one first."""
        with store_errors("read", self.path):
            for start, end in zip(reversed(starts), reversed(ends), strict=True):
                with self._lock:
                    item = history_item(read_at(self._source, start, end))
                if item is not None:
                    yield item

    def _load(self, *, writable: bool) -> None:
        self._appender = LineAppender(self.path) if writable else None
        self._load_end()
        end = self._read_to
        self.header = decode_header(first_line(self._source))
        if self.header is None:
            self._start_over() if end == 0 else self._report_file(
                "the header is missing or broken; the entries are read anyway"
            )
        elif self.header.version > FORMAT_VERSION:
            self._report_file(
                f"format version {self.header.version} is newer than this program; read as {FORMAT_VERSION}"
            )
        found = tail(self._walk(end, UNSET), self._first_kept)
        if found.compaction is not None and found.missing:
            self._report(found.compaction.start, f"what it kept begins at {found.missing}, which is missing")
        self.entries = self._decoded(found.spans)
        self._ids = {entry.id for entry in self.entries}

    def _decoded(self, spans: Sequence[EntrySpan]) -> list[Entry]:
        """The entries of a part of a path, oldest first."""
        return list(read_path(self._source, spans, self._report))

    def _load_end(self) -> None:
        """Handle an unfinished last line, and set the end of the valid lines."""
        size = self._source.size
        start = self._read_to = valid_end(self._source, size)
        try:
            if start < size and self._appender is not None:
                self.torn = self._appender.cut_off(start)
                self._report_file(f"the last line was unfinished; its {size - start} bytes were moved to {self.torn}")
            elif start < size:
                self._report_file("the last line is unfinished: it is being written, or torn by a crash; it is skipped")
            if self._appender is not None:
                self._appender.complete()
        except SessionStoreError as error:
            # A full disk must not prevent reading; the next line will start on a new line.
            self._report_file(error.message)

    def _start_over(self) -> None:
        """Write the missing header of an empty file (left by a crash during creation)."""
        if self._appender is None:
            return
        header = Header(
            version=FORMAT_VERSION, id=self.session_id, timestamp=iso_utc(self._clock.now()), cwd=str(Path.cwd())
        )
        self._appender.append(encode_header(header), sync=True)
        self.header = header

    def _first_kept(self, span: EntrySpan) -> str | None:
        if span.first_kept_index is None:
            return span.first_kept
        found = nth_span(self._source, span.start, span.first_kept_index)
        return found.id if found else None

    def _forget_before(self, compaction: CompactionEntry) -> None:
        """Keep only those entries in memory that a fresh start would read."""
        ids = [entry.id for entry in self.entries]
        kept = ids.index(compaction.first_kept_entry_id) if compaction.first_kept_entry_id in ids else len(ids) - 1
        del self.entries[:kept]
        self._ids = {entry.id for entry in self.entries}

    def _new_id(self) -> str:
        """Eight hex digits derived from the file position: unique without reading the rest."""
        size = self._appender.size if self._appender else 0
        number = (size * _SPREAD + zlib.crc32(self.session_id.encode())) & 0xFFFFFFFF
        while (name := f"{number:08x}") in self._ids:
            number = (number + 1) & 0xFFFFFFFF
        return name

    def _items_before(self, before: str | None) -> Iterator[HistoryItem]:
        for span in self._path_before(before):
            item = history_item(read_entry(self._source, span, self._report))
            if item is not None:
                self._remember_position(item.entry_id, span)
                yield item

    def _remember_position(self, entry_id: str, span: EntrySpan) -> None:
        self._positions.pop(entry_id, None)
        self._positions[entry_id] = (span.start, span.parent_id)
        if len(self._positions) > MAX_POSITIONS:
            del self._positions[next(iter(self._positions))]

    def _path_before(self, before: str | None) -> Iterator[EntrySpan]:
        """The path from the entry before `before` to the root, last entry first."""
        if before is None:
            return self._walk(self.size, UNSET)
        if before in self._positions:
            return self._walk(*self._positions[before])
        path = self._walk(self.size, UNSET)
        for span in path:
            if span.id == before:
                break
        return path

    def _walk(self, end: int, wanted: str | UnsetType | None) -> Iterator[EntrySpan]:
        return walk(spans_backwards(self._source, end, self._report), wanted, self._report)

    def _report(self, offset: int, text: str) -> None:
        self._problems.setdefault(offset, text)

    def _report_file(self, text: str) -> None:
        """Report a problem of the file itself; these come first, in order."""
        self._problems[min((0, *self._problems)) - 1] = text
