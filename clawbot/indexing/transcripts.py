"""The transcripts of an agent as documents of the memory index, under the line numbers of the JSONL file."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clawbot.clock import moment_of
from clawbot.memory.documents.days import DayMark
from clawbot.memory.documents.memory_files import UNSETTLED, Document, UnreadableDocumentError
from clawbot.memory.documents.walking import FileState, Listing, is_missing
from clawbot.memory.values import TRANSCRIPTS, Hit, Issue, MessageRef, Source, part_path, split_part
from clawbot.sessions.folder import TranscriptFile, file_state, list_transcripts
from clawbot.sessions.forgotten import FILE_NAME as FORGOTTEN_FILE
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.lines import ByteSource, line_breaks, line_end
from clawbot.sessions.names import END_MARK, SUFFIX
from clawbot.text.statements import is_refusal

if TYPE_CHECKING:
    from clawbot.config.schema_memory import SessionSyncSettings
    from clawbot.sessions.text import Spoken

PART_BYTES = 256 * 1024
"""Transcripts are indexed in parts of this size. They are append-only, so only the last part is read again."""

TEXT_VERSION = 1
"""Changes with the texts that count, so that all transcripts are read again."""

_END = END_MARK.encode()
_DAY = re.compile(r"# \d{4}-\d{2}-\d{2}")
_GONE = (errno.ENOENT, errno.ENOTDIR)
# SQLite's integers are signed.
_LARGEST = (1 << 63) - 1


class TranscriptDocuments:
    """A `DocumentSource` over a sessions folder, including ended and reset sessions.

    A growing transcript is due for indexing when it has grown by the configured amount. One that has ended, or is no
    longer the most recently written, is due after any growth. The first listing of a process reports all as they are,
    to catch up with earlier changes.
    """

    def __init__(self, folder: Path, settings: SessionSyncSettings, zone: dt.tzinfo | None) -> None:
        """`zone` is the user's; None for the machine's."""
        self._folder = folder
        self._settings = settings
        self._zone = zone
        self._shown: dict[str, TranscriptFile] = {}
        # Lines before each part, by inode and part number: they never change.
        self._lines_before: dict[tuple[int, int], int] = {}

    @property
    def source(self) -> Source:
        return "sessions"

    def list(self) -> Listing:
        """The parts of all transcripts, in the state in which each was last due. Blocks."""
        try:
            found = list_transcripts(self._folder)
            forgotten = read_forgotten(self._folder)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            folder = TRANSCRIPTS.rstrip("/")
            issue = Issue(folder, f"the transcripts can't be listed: {reason}")
            return Listing((), (issue,), {folder: issue})
        shown_before, lines, inodes = self._shown, self._lines_before, {each.inode for each in found}
        self._shown = {each.name: shown_before[each.name] for each in found if each.name in shown_before}
        self._lines_before = {part: lines[part] for part in [*lines] if part[0] in inodes}
        newest = max((transcript.mtime_ns for transcript in found), default=0)
        files: list[FileState] = []
        for transcript in found:
            shown = self._shown.get(transcript.name)
            if shown is None or self._is_due(shown, transcript, over=transcript.mtime_ns < newest):
                self._shown[transcript.name] = shown = transcript
            files += _parts(shown, forgotten.mark(shown.name) ^ TEXT_VERSION)
        return Listing(tuple(files), ())

    def read(self, state: FileState) -> Document | None:
        """The text of a part of a transcript; None if it is gone. Blocks. Raises UnreadableDocumentError."""
        # Deferred, here and below: a command without new messages and without hits in them reads none.
        from clawbot.sessions.text import spoken_part

        transcript, number = split_part(state.path)
        name = transcript.removeprefix(TRANSCRIPTS)
        path = self._folder / name
        try:
            # Stat before reading: a later write makes the next listing differ.
            found = file_state(name, path.stat())
            mark = read_forgotten(self._folder).mark(name) ^ TEXT_VERSION
            part = spoken_part(path, number * PART_BYTES, (number + 1) * PART_BYTES)
        except OSError as error:
            if error.errno in _GONE:
                return None
            reason = error.strerror or type(error).__name__
            raise UnreadableDocumentError(transcript, f"it can't be read ({reason})") from error
        self._shown[name] = found
        read = next((one for one in _parts(found, mark) if one.path == state.path), None)
        if read is None:
            return None
        if not part.settled:
            read = msgspec.structs.replace(read, mtime_ns=UNSETTLED)
        return self._document(read, part.lines)

    def describe(self, hit: Hit) -> Hit:
        """`hit` with the line numbers of the file, the speaker and the time. Blocks."""
        from clawbot.sessions.text import spoken_at

        transcript, number = split_part(hit.path)
        path = self._folder / transcript.removeprefix(TRANSCRIPTS)
        try:
            before = self._before(path, number)
            speaker = spoken_at(path, number * PART_BYTES, hit.line)
        except OSError:
            # Deleted since; the hit still contains the text.
            before, speaker = 0, None
        return msgspec.structs.replace(
            hit,
            path=transcript,
            start_line=before + hit.start_line,
            end_line=before + hit.end_line,
            line=before + hit.line,
            snippet="\n".join(line for line in hit.snippet.split("\n") if line.strip() and not _DAY.fullmatch(line)),
            said=MessageRef(speaker.entry, speaker.who, moment_of(speaker.timestamp, self._zone), speaker.by)
            if speaker
            else None,
        )

    def is_gone(self, path: str) -> bool:
        """Whether the transcript `path` was deleted. Blocks."""
        return is_missing(self._folder / path.removeprefix(TRANSCRIPTS)) and not is_missing(self._folder)

    def watched(self) -> tuple[Path, ...]:
        """The sessions folder, if it exists. Blocks."""
        return (self._folder,) if self._folder.is_dir() else ()

    def owns(self, path: Path) -> bool:
        """Whether a change of `path` may matter: a transcript that has grown enough, or the record of forgotten text.
        Blocks."""
        if path == self._folder / FORGOTTEN_FILE:
            return True
        if path.parent != self._folder or SUFFIX not in path.name:
            return False
        shown = self._shown.get(path.name)
        try:
            now = file_state(path.name, path.stat())
        except OSError:
            return True
        return shown is None or self._is_due(shown, now, over=False)

    def _document(self, state: FileState, spoken: tuple[Spoken, ...]) -> Document:
        kept = [one for one in spoken if one.who == "user" or not is_refusal(one.text)]
        days: list[DayMark] = []
        lines: list[str] = []
        numbers: list[int] = []
        for one in kept:
            day = self._day(one.timestamp)
            if one.timestamp and (not days or days[-1].days != (day,)):
                # Texts of different days are separate results.
                days.append(DayMark(one.line, (day,)))
                lines.append(f"# {day}")
                numbers.append(one.line)
            lines.append(one.labelled)
            numbers.append(one.line)
        text = "\n".join(lines)
        digest = hashlib.blake2b(f"{numbers}\n{text}".encode("utf-8", "replace"), digest_size=16).digest()
        last = next((one.timestamp for one in reversed(spoken) if one.timestamp), 0)
        marks = tuple(days) if len(days) > 1 else ()
        return Document(state, text, digest, self._day(last) if last else None, tuple(numbers), marks)

    def _day(self, timestamp: int) -> dt.date:
        return moment_of(timestamp, self._zone).date()

    def _before(self, path: Path, number: int) -> int:
        """The number of lines before the part `number`. Raises OSError."""
        if not number:
            return 0
        with ByteSource.open(path) as source:
            inode = path.stat().st_ino
            known = (self._lines_before.get((inode, nearer)) for nearer in range(number, 0, -1))
            lines, nearest = next(
                ((count, number - back) for back, count in enumerate(known) if count is not None), (0, 0)
            )
            if nearest < number:
                start = _first_line(source, nearest)
                lines += line_breaks(source, start, _first_line(source, number))
                self._lines_before[inode, number] = lines
        return lines

    def _is_due(self, shown: TranscriptFile, now: TranscriptFile, *, over: bool) -> bool:
        if now == shown:
            return False
        grown = now.size - shown.size
        bounds = (self._settings.delta_bytes, self._settings.delta_messages)
        if over or grown < 0 or 0 in bounds or grown >= bounds[0] or now.inode != shown.inode:
            return True
        try:
            with (self._folder / now.name).open("rb") as stream:
                stream.seek(shown.size)
                new = stream.read(bounds[0])
        except OSError:
            # Gone or unreadable; reading it as a document shows which.
            return True
        return new.count(b"\n") >= bounds[1] or _END in new


def _first_line(source: ByteSource, number: int) -> int:
    """The byte offset of the first line of the part `number`."""
    start = number * PART_BYTES
    return line_end(source, start - 1, source.size) if start else 0


def _parts(transcript: TranscriptFile, mark: int) -> Iterator[FileState]:
    """The parts of a transcript. Full parts use its inode as their time, because another file may replace the
    transcript. `mark` is the state of its forgotten texts; when that changes, all parts are read again."""
    path = f"{TRANSCRIPTS}{transcript.name}"
    full = max(0, transcript.size - 1) // PART_BYTES
    for number in range(full):
        yield FileState(part_path(path, number), "sessions", PART_BYTES, (transcript.inode ^ mark) & _LARGEST)
    yield FileState(part_path(path, full), "sessions", transcript.size - full * PART_BYTES, transcript.mtime_ns ^ mark)
