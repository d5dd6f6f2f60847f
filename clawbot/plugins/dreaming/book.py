"""What a dream reads: MEMORY.md and the topic files, and the lines of the notes since the last dream."""

from __future__ import annotations

import contextlib
import math
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
from clawbot.plugins.dreaming.applying import MAIN, MAX_BYTES, edited, lines_of, read_file
from clawbot.plugins.dreaming.lines import BULLET, HEADING, is_order
from clawbot.plugins.dreaming.proposals import Proposal, SourceLine
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import find_secrets, holds_secret, secret_values

RECENT = timedelta(days=90)
"""How far before the notes that are read a fact may have been written, to count as repeated."""

_MAX_CHARS, _MIN_CHARS = 500, 4  # of a line: a longer one is a paste
_SPEAKER = lazy_re(r"(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?user:\s*")
_POINTER = lazy_re(r": memory/[^/\s]+\.md\Z")  # of a line that leads to a topic file
_FENCE = lazy_re(r"\s*(?:`{3,}|~{3,})")
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})


class Book(Struct, frozen=True):
    """`files` are the lines of MEMORY.md and the topic files, `notes` those of the notes that are read, oldest first,
    `before` those of older notes. `shown` are the lines that can be sources, by position: notes and entries of
    `files`. `closed` are the files that can't be read, and why. `secrets` are those of notes, in small letters.
    `added` are lines of proposals that wait, of the number 0."""

    files: dict[str, tuple[str, ...]]
    notes: tuple[SourceLine, ...]
    shown: dict[str, SourceLine]
    before: tuple[SourceLine, ...] = ()
    closed: dict[str, str] = {}
    secrets: frozenset[str] = frozenset()
    added: tuple[SourceLine, ...] = ()

    @property
    def entries(self) -> list[SourceLine]:
        """The entries of MEMORY.md and the topic files that can be sources and are still there, and what is added."""
        lines = (*self.shown.values(), *self.added)
        return [line for line in lines if line.text in self.files.get(line.path, ())]

    def lines(self, sources: Iterable[str]) -> list[SourceLine]:
        """Return the lines at `sources`, which were shown."""
        return [self.shown[source] for source in sources]

    def changed(self, proposal: Proposal) -> Book:
        """Return the book after `proposal`, which holds to the rules. The positions of sources remain."""
        changed = {path: edited(self.files.get(path, ("",)), proposal, path) for path in proposal.paths}
        files = self.files | {path: tuple(lines) for path, lines in changed.items()}
        new = SourceLine(proposal.file, 0, proposal.text, None)
        is_entry = proposal.kind not in ("move", "drop")
        return structs.replace(self, files=files, added=(*self.added, new) if is_entry else self.added)


def read_book(
    documents: MemoryDocuments, workspace: Path, first: date, changed: float = math.inf, *, with_before: bool = True
) -> Book:
    """Read what a dream works with: the notes of days from `first` on, and those that were changed after `changed`, in
    seconds since the epoch. Blocks. Files that can't be read are in `closed`; links count as such."""
    read, before, closed = list[Document](), list[Document](), dict[str, str]()
    files: dict[str, tuple[str, ...]] = {}
    folder = GuardedFolder(workspace)
    for state in documents.list().files:
        day, is_below = date_of(state.path), state.path.startswith(f"{MEMORY_FOLDER}/")
        try:
            if state.path == MAIN or (day is None and is_below):
                files[state.path] = tuple(lines_of(read_file(folder, state.path)))
            elif day is not None and is_below and state.size <= MAX_BYTES:
                is_read = day >= first or state.mtime_ns > changed * 1e9
                is_wanted = is_read or (with_before and day >= first - RECENT)
                if is_wanted and (document := documents.read(state)) is not None:
                    (read if is_read else before).append(document)
        except UnreadableDocumentError as error:
            closed[state.path] = error.issue.text
        except (OSError, UnicodeDecodeError) as error:
            closed[state.path] = (error.strerror if isinstance(error, OSError) else "") or "it is not in UTF-8"
    _close_links(folder, files, closed)
    secrets = frozenset(map(str.lower, secret_values(document.text for document in (*read, *before))))
    notes, earlier = _lines_of(read, secrets), _lines_of(before, secrets)
    shown = {line.source: line for line in (*notes, *earlier, *_entries(files))}
    return Book(files, notes, shown, earlier, closed, secrets)


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
            if is_entry and _is_plain(line) and not is_order(line) and not holds_secret(line):
                yield SourceLine(path, number, line, None)


def _close_links(folder: GuardedFolder, files: Collection[str], closed: dict[str, str]) -> None:
    """Add to `closed` what has the path of MEMORY.md or of a topic file and is no plain file: listings skip links."""
    with contextlib.suppress(FileNotFoundError):
        names = [f"{MEMORY_FOLDER}/{name}" for name in folder.names(MEMORY_FOLDER)]
        for path in (MAIN, *names):
            state = folder.state(path)
            if state is not None and path not in files and not stat.S_ISREG(state.st_mode):
                closed.setdefault(path, NO_PLAIN_FILE)


def _lines_of(documents: Iterable[Document], secrets: Collection[str]) -> tuple[SourceLine, ...]:
    """Return the lines of notes, oldest first, that have no secret, no order, and nothing invisible."""
    ordered = sorted(documents, key=lambda each: (each.date or date.min, each.state.path))
    return tuple(
        line
        for document in ordered
        for line in _stated(document)
        if _is_plain(line.text) and not is_order(line.text) and not any(value in line.text.lower() for value in secrets)
    )


def _stated(document: Document) -> Iterator[SourceLine]:
    """Yield the lines of a note that state something: those of the user in the note of a session, without headings and
    code, nor those with a secret, which may go over several."""
    text, path = document.text, document.state.path
    lines = indexed_text(document).split("\n")
    is_session = is_session_note(text)
    speakers = speakers_of(text.split("\n")) if is_session else iter([""] * len(lines))
    hidden = set(_secret_lines(text))
    is_code = False
    for number, (line, who) in enumerate(zip(lines, speakers, strict=True), 1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and number not in hidden and (who == "user" or not is_session):
            stated = _SPEAKER.sub("", line, count=1).lstrip("> ") if is_session else BULLET.sub("", line, count=1)
            if HEADING.match(stated) is None and _MIN_CHARS <= len(stated.strip()) <= _MAX_CHARS:
                yield SourceLine(path, number, stated.strip(), date_of(path))


def _secret_lines(text: str) -> Iterator[int]:
    for secret in find_secrets(text):
        first = text.count("\n", 0, secret.start) + 1
        yield from range(first, first + text.count("\n", secret.start, secret.end) + 1)


def _is_plain(text: str) -> bool:
    """Return whether `text` has no character that is not shown."""
    return (text.isascii() and text.isprintable()) or _HIDDEN.isdisjoint(map(unicodedata.category, text))
