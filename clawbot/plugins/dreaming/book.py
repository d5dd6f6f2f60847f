"""What a dream reads: MEMORY.md and the topic files, and the lines of the notes since the last dream."""

from __future__ import annotations

import contextlib
import stat
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

from msgspec import Struct, structs

from clawbot.guarded import NO_PLAIN_FILE, GuardedFolder
from clawbot.llm.tokens import weigh_tokens
from clawbot.memory.documents.days import date_of
from clawbot.memory.documents.indexed_text import indexed_text, is_session_note, speakers_of
from clawbot.memory.documents.memory_files import MEMORY_FOLDER, Document, MemoryDocuments, UnreadableDocumentError
from clawbot.memory.documents.walking import FileState
from clawbot.plugins.dreaming.applying import MAIN, MAX_BYTES, edited, read_lines, received
from clawbot.plugins.dreaming.lines import BULLET, HEADING
from clawbot.plugins.dreaming.proposals import Proposal
from clawbot.plugins.dreaming.tables import is_order
from clawbot.text.encoding import decoded
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import find_secrets, secret_values

RECENT = timedelta(days=90)
"""How far before the notes that are read a fact may have been written, to count as repeated."""

_MAX_CHARS, _MIN_CHARS = 500, 4  # of a line: a longer one is a paste
_SPEAKER = lazy_re(r"(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?user:\s*")
_POINTER = lazy_re(r": memory/[^/\s]+\.md\Z")  # of a line that leads to a topic file
_FENCE = lazy_re(r"\s*(?:`{3,}|~{3,})")
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})


class SourceLine(Struct, frozen=True):
    """The line `number` (from 1) of the file `path`, of the `day`; None if it is of none."""

    path: str
    number: int
    text: str
    day: date | None

    @property
    def source(self) -> str:
        """Its position, as proposals name it."""
        return f"{self.path}:{self.number}"


class Book(Struct, frozen=True):
    """`files` are the lines of MEMORY.md and the topic files, `notes` those of the notes that are read, oldest first,
    `before` those of older notes. `shown` are the lines that can be sources, by position: notes and entries of
    `files`. `closed` are the files that can't be read, and why. `left_out` counts lines with a secret or an order;
    `secrets` are those that occurred. `added` are lines of proposals that wait, of the number 0."""

    files: dict[str, tuple[str, ...]]
    notes: tuple[SourceLine, ...]
    shown: dict[str, SourceLine]
    before: tuple[SourceLine, ...] = ()
    closed: dict[str, str] = {}
    left_out: int = 0
    secrets: frozenset[str] = frozenset()
    added: tuple[SourceLine, ...] = ()

    @property
    def topics(self) -> Collection[str]:
        """The topic files."""
        return self.files.keys() - {MAIN}

    @property
    def entries(self) -> list[SourceLine]:
        """The entries of MEMORY.md and the topic files that can be sources and are still there, and what is added."""
        lines = (*self.shown.values(), *self.added)
        return [line for line in lines if line.text in self.files.get(line.path, ())]

    def lines(self, sources: Iterable[str]) -> list[SourceLine]:
        """Return the lines at `sources`, which were shown."""
        return [self.shown[source] for source in sources]

    def has_secret(self, text: str) -> bool:
        """Return whether `text` has one of the secrets of the notes in it."""
        lowered = text.lower()
        return any(value.lower() in lowered for value in self.secrets)

    def changed(self, proposal: Proposal) -> Book:
        """Return the book after `proposal`, which holds to the rules. The positions of sources remain."""
        files = dict(self.files)
        if proposal.kind == "move":
            files[proposal.target] = tuple(received(files.get(proposal.target, ("",)), proposal))
        files[proposal.file] = tuple(edited(files.get(proposal.file, ("",)), proposal))
        new = SourceLine(proposal.file, 0, proposal.text, None)
        is_entry = proposal.kind not in ("move", "drop")
        return structs.replace(self, files=files, added=(*self.added, new) if is_entry else self.added)


class Span(Struct, frozen=True):
    """Which notes are read: those of days from `first` on, and those changed since `changed`, in seconds since the
    epoch (None: none of other days)."""

    first: date
    changed: float | None = None

    def has(self, state: FileState, day: date) -> bool:
        """Return whether the note of `day` is read."""
        return day >= self.first or (self.changed is not None and state.mtime_ns > self.changed * 1e9)


def read_book(documents: MemoryDocuments, workspace: Path, span: Span, *, with_before: bool = True) -> Book:
    """Read what a dream works with. Blocks. Files that can't be read are in `closed`; links count as such."""
    read, before, closed = list[Document](), list[Document](), dict[str, str]()
    files: dict[str, tuple[str, ...]] = {}
    for state in documents.list().files:
        day = date_of(state.path)
        if state.path == MAIN or (day is None and _is_below_memory(state.path)):
            _read_entries(workspace, state.path, files, closed)
        elif day is not None and _is_below_memory(state.path):
            chosen = read if span.has(state, day) else before if with_before and day >= span.first - RECENT else None
            if chosen is not None and (document := _document(documents, state, closed)) is not None:
                chosen.append(document)
    _close_links(workspace, files, closed)
    secrets = secret_values(document.text for document in (*read, *before))
    lines, older = ([line for each in sorted(part, key=_by_day) for line in _lines_of(each)] for part in (read, before))
    kept = _without_left_out(lines, secrets)
    earlier = _without_left_out(older, secrets)
    shown = {line.source: line for line in (*kept, *earlier, *_entries(files))}
    return Book(files, kept, shown, earlier, closed, len(lines) - len(kept), secrets)


def newest(lines: Sequence[SourceLine], max_tokens: int) -> list[SourceLine]:
    """Return the newest of `lines` within `max_tokens`, in order."""
    kept: list[SourceLine] = []
    for line in reversed(lines):
        max_tokens -= weigh_tokens(f"{line.source}| {line.text}\n")
        if max_tokens < 0:
            break
        kept.append(line)
    return kept[::-1]


def _entries(files: dict[str, tuple[str, ...]]) -> Iterator[SourceLine]:
    for path, lines in files.items():
        for number, line in enumerate(lines, 1):
            is_entry = BULLET.match(line) and not _POINTER.search(line)
            if is_entry and _is_plain(line) and not is_order(line) and not find_secrets(line):
                yield SourceLine(path, number, line, None)


def _is_below_memory(path: str) -> bool:
    return path.startswith(f"{MEMORY_FOLDER}/")


def _by_day(document: Document) -> tuple[date, str]:
    return document.date or date.min, document.state.path


def _read_entries(workspace: Path, path: str, files: dict[str, tuple[str, ...]], closed: dict[str, str]) -> None:
    try:
        data = read_lines(GuardedFolder(workspace), path)
        files[path] = tuple(decoded(data or b"").replace("\r\n", "\n").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        closed[path] = (error.strerror if isinstance(error, OSError) else "") or "it is not in UTF-8"


def _close_links(workspace: Path, files: dict[str, tuple[str, ...]], closed: dict[str, str]) -> None:
    """Add to `closed` what has the path of MEMORY.md or of a topic file and is no plain file: listings skip links."""
    folder = GuardedFolder(workspace)
    with contextlib.suppress(FileNotFoundError):
        names = [f"{MEMORY_FOLDER}/{name}" for name in folder.names(MEMORY_FOLDER)]
        for path in (MAIN, *names):
            state = folder.state(path)
            if state is not None and path not in files and not stat.S_ISREG(state.st_mode):
                closed.setdefault(path, NO_PLAIN_FILE)


def _document(documents: MemoryDocuments, state: FileState, closed: dict[str, str]) -> Document | None:
    try:
        return documents.read(state) if state.size <= MAX_BYTES else None
    except UnreadableDocumentError as error:
        closed[state.path] = error.issue.text
        return None


def _lines_of(document: Document) -> Iterator[SourceLine]:
    """Yield the lines of a note that state something: those of the user in the note of a session, without headings and
    code. Lines with a secret, which may go over several, are blank."""
    text = document.text
    lines = indexed_text(document).split("\n")
    is_session = is_session_note(text)
    speakers = speakers_of(text.split("\n")) if is_session else iter([""] * len(lines))
    hidden = set(_secret_lines(text))
    is_code = False
    for number, (line, who) in enumerate(zip(lines, speakers, strict=True), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (who == "user" or not is_session):
            stated = _SPEAKER.sub("", line, count=1).lstrip("> ") if is_session else BULLET.sub("", line, count=1)
            if HEADING.match(stated) is None and _MIN_CHARS <= len(stated.strip()) <= _MAX_CHARS:
                shown = "" if number in hidden else stated.strip()
                yield SourceLine(document.state.path, number, shown, date_of(document.state.path))


def _secret_lines(text: str) -> Iterator[int]:
    for secret in find_secrets(text):
        first = text.count("\n", 0, secret.start) + 1
        yield from range(first, first + text.count("\n", secret.start, secret.end) + 1)


def _without_left_out(lines: Sequence[SourceLine], secrets: Collection[str]) -> tuple[SourceLine, ...]:
    values = [value.lower() for value in secrets]
    return tuple(line for line in lines if line.text and _is_plain(line.text) and not _is_left_out(line.text, values))


def _is_left_out(text: str, values: Sequence[str]) -> bool:
    lowered = text.lower()
    return is_order(text) or any(value in lowered for value in values)


def _is_plain(text: str) -> bool:
    """Return whether `text` has no character that is not shown."""
    return (text.isascii() and text.isprintable()) or _HIDDEN.isdisjoint(map(unicodedata.category, text))
