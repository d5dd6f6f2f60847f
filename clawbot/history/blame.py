"""Names the session, message and author of each line of a memory file.

Three sources are asked in this order: the history of changes, the records that transcripts hold of what memory and the
tools wrote, and, as a guess, the message that shares most of the rare words of the line. What a dream made from other
lines goes back to the session of these.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from clawbot.authors import position_in
from clawbot.clock import iso_utc, moment_of
from clawbot.guarded import GuardedFolder
from clawbot.history.changes import History
from clawbot.history.values import UNKNOWN, Change
from clawbot.memory.dates.validity import validity_of
from clawbot.memory.documents.days import date_of
from clawbot.messages import AssistantMessage, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.sessions.entries import CustomEntry, MemoryWrite, MessageEntry, offer_of
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.lines import ByteSource
from clawbot.sessions.offsets import read_entry, spans_backwards
from clawbot.sessions.store import SessionStore
from clawbot.sessions.text import Spoken, is_spoken, spoken_part
from clawbot.text.encoding import as_utf8
from clawbot.text.tokens import tokens_of

MAX_BYTES = 20 * 1024**2  # of a file; the index takes no larger one
MAX_HASHED = 64 * 1024**2  # bytes compared to find a write again that is at another position now
MIN_SHARE = 0.6  # of the rarity of a line's words that a message must have for a guess
MIN_TOKENS = 2
MAX_STEPS = 12  # from a line to the one that a dream made it from
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_STAMP = re.compile(r"^(?:\d{4}-\d{2}-\d{2} )?\d{2}:\d{2} (?:user|assistant): ")
_DAY_MS = 24 * 3600 * 1000
NOTE_HOOK = "hook:session-memory"


class LineAuthor(Struct, frozen=True, rename="camel"):
    """Who wrote a line: `by` names the tool, hook, flush, dream or user. `session`, `key` and `entry` are the id and
    the key of the session and the message in it, "" if none; `time` is ISO 8601. `guess`: concluded from the text
    alone. `sources` are the positions of the lines that a dream made it from, newest first; the session is theirs."""

    by: str
    session: str = ""
    key: str = ""
    entry: str = ""
    time: str = ""
    guess: bool = False
    sources: tuple[str, ...] = ()


class BlamedLine(Struct, frozen=True, rename="camel"):
    """A line (from 1) of a file with its author; None if nothing is known of it."""

    line: int
    text: str
    author: LineAuthor | None = None


class _Written(NamedTuple):
    """What a transcript records of a write to the file: its lines without whitespace around, or their position. `first`
    and `last` are the entries that were offered to memory."""

    author: LineAuthor
    lines: frozenset[str] = frozenset()
    write: MemoryWrite | None = None
    first: str = ""
    last: str = ""


class _Spoken(NamedTuple):
    message: Spoken
    record: SessionRecord


def blame(workspace: Path, path: str, store: SessionStore, history: History) -> list[BlamedLine]:
    """Return all lines of the memory file `path`, relative to `workspace`, with their authors. Blocks: reads the
    transcripts that name the file, and all of them if lines are left. Raises OSError, SessionStoreError."""
    files = _Files(workspace, store, history)
    lines = files.lines(path, GuardedFolder(workspace).read(path, MAX_BYTES), history.changes(path))
    return [structs.replace(line, author=files.followed(line)) for line in lines]


class _Files:
    """The memory files of `workspace`, as they are and as they were."""

    def __init__(self, workspace: Path, store: SessionStore, history: History) -> None:
        self._workspace = workspace
        self._history = history
        self._search = _Transcripts(store, store.records())
        self._before = functools.cache(self._lines_before)
        self.followed = functools.cache(self._followed)

    def lines(self, path: str, content: bytes, changes: Sequence[Change]) -> list[BlamedLine]:
        """Return the lines of the file `path` with the `content` that it had after `changes`, newest first."""
        data, search = as_utf8(content), self._search
        lines = _lines(data)
        authors = owners_by_history(changes[::-1], self._history.content, lines)
        for at, author in enumerate(authors):
            if author is not None and author.session in search.keys:
                # The key it has now: another conversation has the one it had then.
                authors[at] = structs.replace(author, key=search.keys[author.session])
        _add_note_session(lines, path, authors, search)
        if any(author is None and line.strip() for author, line in zip(authors, lines, strict=True)):
            _add_recorded(data, lines, authors, search.written(path))
        _add_messages(lines, path, authors, search)
        return [BlamedLine(at, line, author) for at, (line, author) in enumerate(zip(lines, authors, strict=True), 1)]

    def _followed(self, line: BlamedLine, steps: int = MAX_STEPS) -> LineAuthor | None:
        """Return the author of `line`, with the newest session of the lines that a dream made it from."""
        author = line.author
        if author is None or not (author.sources and steps):
            return author
        found = sorted(self._sources(line.text, author, steps - 1), key=lambda each: each.time, reverse=True)
        origin = next((each for each in found if each.session), LineAuthor(""))
        names = dict.fromkeys(name for each in found for name in each.sources)
        return structs.replace(origin, by=author.by, time=author.time, sources=tuple(names))

    def _sources(self, text: str, author: LineAuthor, steps: int) -> Iterator[LineAuthor]:
        """Yield the authors of the lines that the line `text` was made from, with their positions; only of those that
        have a word in common with it."""
        words = {token.text for token in tokens_of(text)}
        for source in author.sources:
            path, number = position_in(source)
            lines = self._before(path, author.time)
            for line in lines if number is None else lines[number - 1 : number]:
                if line.text == text or (number and any(token.text in words for token in tokens_of(line.text))):
                    origin = self.followed(line, steps) or LineAuthor("")
                    time = origin.time or str(date_of(path) or "")
                    yield structs.replace(origin, time=time, sources=origin.sources or (f"{path}:{line.line}",))

    def _lines_before(self, path: str, time: str) -> list[BlamedLine]:
        """Return the lines of the file `path` as they were before `time`; as they are now if that is not stored."""
        changes = self._history.changes(path)
        older = [each for each in changes if each.time < time]
        data = self._history.content(older[0].after if older else changes[-1].before if changes else UNKNOWN)
        if data is None:
            with contextlib.suppress(OSError):
                data = GuardedFolder(self._workspace).read(path, MAX_BYTES)
        return self.lines(path, data or b"", older)


def owners_by_history(
    changes: Sequence[Change], content: Callable[[str], bytes | None], lines: Sequence[str]
) -> list[LineAuthor | None]:
    """Return the author of each of `lines` according to `changes`, oldest first; None for a line that no change
    added. What a version added whose content is unknown or was pruned belongs to nobody, and a line that a dream gave
    another date to the one who wrote it."""
    version: list[str] = []
    owners: list[LineAuthor | None] = []
    steps: list[tuple[str, LineAuthor | None]] = [(changes[0].before, None)] if changes else []
    for change in changes:
        by = change.author
        steps.append((change.after, LineAuthor(by.by, by.session, by.key, by.entry, change.time, sources=by.sources)))
    missed = False
    for digest, author in steps:
        text = content(digest) if digest else b""
        if text is not None:
            new = _lines(as_utf8(text))
            is_dream = author is not None and author.sources
            # A dream adds the end of a line that holds no longer: its author stays.
            old, now = ([validity_of(line).text for line in each] if is_dream else each for each in (version, new))
            version, owners = new, carried(old, owners, now, None if missed else author)
        missed = text is None
    return carried(version, owners, lines, None)


def carried(
    old: Sequence[str], owners: Sequence[LineAuthor | None], new: Sequence[str], owner: LineAuthor | None
) -> list[LineAuthor | None]:
    """Return the owners of the lines `new`, which replaced `old`: lines of both keep theirs, others get `owner`."""
    found: list[LineAuthor | None] = [owner] * len(new)
    limit = min(len(old), len(new))
    head = next((at for at in range(limit) if old[at] != new[at]), limit)
    tail = next((at for at in range(limit - head) if old[-1 - at] != new[-1 - at]), limit - head)
    found[:head] = owners[:head]
    if tail:
        found[-tail:] = owners[-tail:]
    middle = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for block in middle.get_matching_blocks():
        found[head + block.b : head + block.b + block.size] = owners[head + block.a : head + block.a + block.size]
    return found


class _Transcripts:
    """What the sessions of `store` say, and record about memory files."""

    def __init__(self, store: SessionStore, records: Sequence[SessionRecord]) -> None:
        self._store = store
        self._records = [record for record in records if store.path_of(record).is_file()]
        self.by_id = {record.session_id: record for record in self._records}
        self.keys = {record.session_id: record.key for record in records}
        self._spoken: dict[str, list[_Spoken]] = {}

    def written(self, path: str) -> list[_Written]:
        """Return the recorded writes to the file `path`, oldest first."""
        found = [each for record in self._records for each in self._of(record, path)]
        return sorted(found, key=lambda each: each.author.time)

    @cached_property
    def everything(self) -> _Messages:
        return _Messages([each for record in self._records for each in self.spoken(record)])

    def spoken(self, record: SessionRecord) -> list[_Spoken]:
        """The messages of a session, oldest first."""
        if record.session_id not in self._spoken:
            lines = spoken_part(self._store.path_of(record)).lines
            self._spoken[record.session_id] = [_Spoken(line, record) for line in lines]
        return self._spoken[record.session_id]

    def _of(self, record: SessionRecord, path: str) -> Iterator[_Written]:
        transcript = self._store.path_of(record)
        name = Path(path).name
        names = (name.encode(), name.encode("ascii", "backslashreplace"))
        forgotten = read_forgotten(transcript.parent)
        with ByteSource.open(transcript) as source:
            if not any(name in source.read(0, source.size) for name in names):
                return
            asked = ""
            calls: dict[str, ToolCallBlock] = {}
            for span in reversed(list(spans_backwards(source, source.size))):
                entry = read_entry(source, span)
                if forgotten.holds(transcript.name, span.id):
                    continue
                if isinstance(entry, CustomEntry) and (offer := offer_of(entry)) is not None:
                    by = offer.by if offer.by == "flush" else f"hook:{offer.by}"
                    author = LineAuthor(by, record.session_id, record.key, offer.last, entry.timestamp)
                    writes = [write for write in offer.writes if write.path == path]
                    yield from (_Written(author, write=write, first=offer.first, last=offer.last) for write in writes)
                if not isinstance(entry, MessageEntry):
                    continue
                match entry.message:
                    case UserMessage() as message if is_spoken(message):
                        asked = entry.id
                    case AssistantMessage(tool_calls=made):
                        calls |= {call.id: call for call in made}
                    case ToolResultMessage(is_error=False, details=dict(details)) as result if (
                        details.get("path") == path
                    ):
                        call = calls.get(result.tool_call_id)
                        text = details.get("diff") or ""
                        added = _added(text) if text else _strings(call.arguments if call else {})
                        author = LineAuthor(
                            f"tool:{result.tool_name}", record.session_id, record.key, asked, entry.timestamp
                        )
                        yield _Written(author, frozenset(added))


class _Messages:
    """Messages, to find the one that shares most of a line's rare words."""

    def __init__(self, messages: Sequence[_Spoken]) -> None:
        self._messages = messages
        self._tokens = [frozenset(token.text for token in tokens_of(each.message.text)) for each in messages]
        self._count = Counter(token for tokens in self._tokens for token in tokens)

    def closest(self, text: str, until: float = math.inf, min_tokens: int = 1) -> tuple[float, _Spoken] | None:
        """Return the share (0 to 1) of the rarity of the words in `text` that the best message has, and this message;
        of equal ones the first. `until` is the last moment in milliseconds since the epoch. None without a word."""
        wanted = {token.text for token in tokens_of(text)}
        rarity = {token: math.log(1 + len(self._messages) / max(1, self._count[token])) for token in wanted}
        total = sum(rarity.values())
        best = (0.0, -1)
        for at, tokens in enumerate(self._tokens):
            shared = wanted & tokens
            if len(shared) >= min_tokens and self._messages[at].message.timestamp <= until:
                best = max(best, (sum(rarity[token] for token in shared), -at))
        return (best[0] / total, self._messages[-best[1]]) if best[0] and total else None


def _add_note_session(lines: Sequence[str], path: str, authors: list[LineAuthor | None], search: _Transcripts) -> None:
    """Name the session of a note that states it in its first lines."""
    head = "\n".join(lines[:12]).partition("\n## ")[0]
    record = next((search.by_id[found] for found in _ID.findall(head) if found in search.by_id), None)
    if record is not None and path.startswith("memory/"):
        time = iso_utc(moment_of(record.ended_at or record.used_at))
        author = LineAuthor(NOTE_HOOK, record.session_id, record.key, "", time)
        authors[:] = [known or author for known in authors]


def _add_recorded(
    data: bytes, lines: Sequence[str], authors: list[LineAuthor | None], written: Sequence[_Written]
) -> None:
    """Name the writers that transcripts record, for the lines that have no author yet."""
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    budget = MAX_HASHED
    for each in written:
        marked: Sequence[int]
        if each.write is None:
            marked = [at for at, line in enumerate(lines) if line.strip() and line.strip() in each.lines]
        else:
            marked, budget = _position(data, starts, each.write, budget)
        for at in marked:
            if at < len(lines) and authors[at] is None:
                authors[at] = each.author


def _position(data: bytes, starts: Sequence[int], write: MemoryWrite, budget: int) -> tuple[Sequence[int], int]:
    """Return the lines (from 0) that `write` added, if its bytes are in `data` still, and what is left of `budget`, the
    number of bytes that may be compared."""
    for offset in (write.offset, *starts):
        if budget < write.size or offset + write.size > len(data):
            continue
        budget -= write.size
        added = data[offset : offset + write.size]
        if hashlib.sha256(added).hexdigest() == write.digest:
            first = data.count(b"\n", 0, offset + len(added) - len(added.lstrip(b"\r\n")))
            return range(first, first + added.strip(b"\r\n").count(b"\n") + 1), budget
    return (), budget


def _add_messages(lines: Sequence[str], path: str, authors: list[LineAuthor | None], search: _Transcripts) -> None:
    """Name the message that a line goes back to; where nothing is known of a line, guess the session as well."""
    day = date_of(path)
    until = math.inf if day is None else (day.toordinal() - 719_163 + 2) * _DAY_MS
    within: dict[str, _Messages] = {}
    for at, (line, author) in enumerate(zip(lines, authors, strict=True)):
        text = _STAMP.sub("", line)
        if not text.strip() or (author is not None and author.by.startswith(("tool:", "user"))):
            continue
        if author is None:
            found = search.everything.closest(text, until, MIN_TOKENS)
            if found is not None and found[0] >= MIN_SHARE:
                spoken, record = found[1]
                time = iso_utc(moment_of(spoken.timestamp))
                authors[at] = LineAuthor("", record.session_id, record.key, spoken.entry, time, guess=True)
        elif author.session in search.by_id:
            own = within.get(author.session)
            if own is None:
                own = within[author.session] = _Messages(search.spoken(search.by_id[author.session]))
            if (found := own.closest(text)) is not None:
                authors[at] = structs.replace(author, entry=found[1].message.entry)


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return [line.removesuffix("\r") for line in text.split("\n")][: -1 if text.endswith("\n") or not text else None]


def _added(diff: str) -> list[str]:
    """The lines that a unified diff adds, without whitespace around."""
    return [line[1:].strip() for line in diff.split("\n") if line.startswith("+") and not line.startswith("+++ ")]


def _strings(arguments: Mapping[str, object]) -> list[str]:
    """The lines of all texts in the arguments of a call, without whitespace around."""
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return [line.strip() for text in texts for line in text.splitlines()]
