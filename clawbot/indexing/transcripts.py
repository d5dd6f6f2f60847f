"""The transcripts of an agent as documents of the memory index: what was said, under the lines of the JSONL file."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.memory.documents.memory_files import Document, FileState, Listing, UnreadableDocumentError
from clawbot.memory.values import Issue, Source
from clawbot.sessions.spoken import TranscriptFile, list_transcripts, spoken_lines

if TYPE_CHECKING:
    from clawbot.config.schema_memory import SessionSyncSettings

PREFIX = "sessions/"
_SUFFIX = ".jsonl"
_GONE = (errno.ENOENT, errno.ENOTDIR)


class TranscriptDocuments:
    """A `DocumentSource` over a sessions folder, those of reset sessions included (reference 12.7).

    A transcript that grows is due only when it has grown by as much as the settings say. The first listing of a
    process shows all as they are, so that what was written while nobody looked is caught up with.
    """

    def __init__(self, folder: Path, settings: SessionSyncSettings, zone: dt.tzinfo | None) -> None:
        """`zone` is the user's; None for the machine's."""
        self._folder = folder
        self._settings = settings
        self._zone = zone
        self._shown: dict[str, TranscriptFile] = {}

    @property
    def source(self) -> Source:
        """`sessions`."""
        return "sessions"

    def list(self) -> Listing:
        """All transcripts, as they were when they were due last. Blocks."""
        try:
            found = list_transcripts(self._folder)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            folder = PREFIX.rstrip("/")
            issue = Issue(folder, f"the transcripts can't be listed: {reason}")
            return Listing((), (issue,), {folder: issue})
        files = []
        for transcript in found:
            shown = self._shown.get(transcript.name)
            if shown is None or self._is_due(shown, transcript):
                self._shown[transcript.name] = shown = transcript
            files.append(FileState(f"{PREFIX}{shown.name}", self.source, shown.size, shown.mtime_ns))
        return Listing(tuple(files), ())

    def read(self, state: FileState) -> Document | None:
        """What was said in a transcript; None when it is gone. Blocks. Raises UnreadableDocumentError."""
        name = state.path.removeprefix(PREFIX)
        path = self._folder / name
        try:
            # Before it is read: what is written meanwhile makes the next listing differ.
            found = path.stat()
            lines, numbers = spoken_lines(path)
        except OSError as error:
            if error.errno in _GONE:
                return None
            reason = error.strerror or type(error).__name__
            raise UnreadableDocumentError(state.path, f"it can't be read ({reason})") from error
        self._shown[name] = TranscriptFile(name, found.st_size, found.st_mtime_ns)
        text = "\n".join(lines)
        digest = hashlib.blake2b(f"{numbers}\n{text}".encode("utf-8", "replace"), digest_size=16).digest()
        read = FileState(state.path, self.source, found.st_size, found.st_mtime_ns)
        day = dt.datetime.fromtimestamp(found.st_mtime, dt.UTC).astimezone(self._zone).date()
        return Document(read, text, digest, day, tuple(numbers))

    def watched(self) -> tuple[Path, ...]:
        """The sessions folder, as soon as there is one. Blocks."""
        return (self._folder,) if self._folder.is_dir() else ()

    def owns(self, path: Path) -> bool:
        """Whether `path` is a transcript by its name."""
        return path.parent == self._folder and _SUFFIX in path.name

    def _is_due(self, shown: TranscriptFile, now: TranscriptFile) -> bool:
        if now == shown:
            return False
        grown = now.size - shown.size
        bounds = (self._settings.delta_bytes, self._settings.delta_messages)
        if grown < 0 or 0 in bounds or grown >= bounds[0]:
            return True
        return self._new_lines(now.name, shown.size) >= bounds[1]

    def _new_lines(self, name: str, start: int) -> int:
        try:
            with (self._folder / name).open("rb") as stream:
                stream.seek(start)
                return stream.read(self._settings.delta_bytes).count(b"\n")
        except OSError:
            # Gone, or not to be read: reading it as a document tells which.
            return self._settings.delta_messages
