"""The one file that a silent turn may write, and only at its end: the tools for it, and the proof that what stood in
the file stayed as it was (reference sheet 8.4).

The model is not trusted. The file is opened for appending alone, by names that are walked without following links, so
no call can reach another file or a byte that is there already. Other programs are not hindered: an editor that saves
in between is noticed, and the text goes to the end of what it saved.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta

from clawbot.logs import redact
from clawbot.messages import ToolSpec
from clawbot.sessions.audit import MemoryWrite
from clawbot.sessions.silence import is_silent
from clawbot.tools.additions import addition, described, last_place, remainder
from clawbot.tools.arguments import Arguments, TypedTool, one_line, schema_of
from clawbot.tools.files import CHANGE_BYTES, append_whole, encode
from clawbot.tools.folder import MissingFileError, Place, WorkspaceFolder
from clawbot.tools.protocol import AnyTool, ToolError, ToolOutcome
from clawbot.tools.text import is_binary

log = logging.getLogger(__name__)

BeforeWrite = Callable[[MemoryWrite], None]

ATTEMPTS = 5  # a file that another program changed so often in a row is not going to hold still
TOTAL_BYTES = 256 * 1024  # more than that in one turn is a transcript, not notes


def note_place(path: str) -> Place:
    """The place of `path`, which is relative to the workspace and leads straight down; raises ToolError otherwise.
    Unlike `WorkspaceFolder.locate` it resolves no link, so opening the place refuses every link on the way."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ToolError(f"{one_line(path)!r} is no path of a note in the workspace.")
    return Place(parts)


def is_on_disk(folder: WorkspaceFolder, write: MemoryWrite) -> bool:
    """Whether the bytes of `write` stand where it says. Blocks; False as well when they can't be read."""
    try:
        with folder.reading(note_place(write.path)) as stream:
            stream.seek(write.offset)
            found = stream.read(write.size)
    except (ToolError, OSError, ValueError):
        return False
    return len(found) == write.size > 0 and hashlib.sha256(found).hexdigest() == write.digest


class AppendOnlyFile:
    """One file of the workspace, `path`, with the tools that add to it.

    `before_write` is called in the tool's thread with what is about to be added, before the bytes go to disk; when it
    raises, nothing is written. It is called again when another program changed the file in between. `trouble` says why
    the last try to write failed, when that was not the model's mistake; "" otherwise.
    """

    def __init__(self, folder: WorkspaceFolder, path: str, before_write: BeforeWrite) -> None:
        self._folder = folder
        self._place = note_place(path)
        self._before_write = before_write
        self._texts: set[str] = set()
        self._writes: list[MemoryWrite] = []
        self.path = self._place.shown
        self.trouble = ""

    @property
    def writes(self) -> tuple[MemoryWrite, ...]:
        """What was added so far, where it is now on disk, oldest first."""
        return tuple(self._writes)

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """`append`, and a `write` that adds at the end as well."""
        return (_NoteTool(self, "append", whole=False), _NoteTool(self, "write", whole=True))

    def add(self, asked: str, text: str, *, whole: bool) -> ToolOutcome:
        """Add `text` at the end of the file; of a `whole` new content that begins with the present one, the rest.

        `asked` is the path that the model named, "" for none. Blocks. Raises ToolError with the reason for the model.
        """
        self._check_path(asked)
        self._check_text(text)
        if text.strip() in self._texts:
            return ToolOutcome(f"{self.path} holds that already: it was added in this turn.", summary="+0")
        try:
            write = self._write(text, whole=whole)
        except ToolError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        if write is None:
            return ToolOutcome(f"{self.path} holds all of that already: nothing was added.", summary="+0")
        self._texts.add(text.strip())
        self._writes.append(write)
        count = write.end_line - write.line + 1
        return ToolOutcome(
            f"Added lines {write.line}-{write.end_line} to {self.path}.",
            summary=f"+{count}",
            details={"path": self.path, "line": write.line},
        )

    def _check_path(self, asked: str) -> None:
        if asked.strip().removeprefix("./") not in ("", self.path):
            raise ToolError(
                f"{one_line(asked)} is refused: in this turn only {self.path} can be written, and only at its end. "
                "Every other file is read-only."
            )

    def _check_text(self, text: str) -> None:
        if not text.strip():
            raise ToolError("`content` is empty: there is nothing to add.")
        if is_silent(text):
            raise ToolError("That is a reply, not a note: say it instead of writing it down.")
        if "\0" in text:
            raise ToolError("`content` holds a NUL character, which no text file can have: send it without.")
        if redact(text) != text:
            raise ToolError(f"{_hidden_lines(text)}. Notes keep no secrets: leave it out and send the rest again.")
        written = sum(write.size for write in self._writes)
        if written + len(encode(text)) > TOTAL_BYTES:
            raise ToolError(
                f"That is too much: {TOTAL_BYTES:,} bytes can be added in one turn, {written:,} have been. "
                "Keep to what must be remembered."
            )

    def _write(self, text: str, *, whole: bool) -> MemoryWrite | None:
        """Add `text`; where it stands now, None when there was nothing left to add."""
        for _ in range(ATTEMPTS):
            present = self._look()
            before = present or b""
            rest = remainder(before, text) if whole else text
            if not rest.strip():
                return None
            added = addition(before, rest)
            self._announce(described(self.path, before, len(before), added))
            if not self._append(before, added):
                continue
            if present is None:
                self._keep_name()
            if (write := self._prove(before, added)) is not None:
                return write
        raise ToolError(f"Another program keeps changing {self.path}: nothing was added. Try again later.")

    def _look(self) -> bytes | None:
        """The file as it is now, None when there is none. Raises ToolError when it can't be read, or when appending to
        it would change something else."""
        try:
            with self._folder.reading(self._place) as stream:
                status = os.fstat(stream.fileno())
                data = stream.read(CHANGE_BYTES + 1)
        except MissingFileError:
            return None
        if status.st_nlink > 1:
            raise ToolError(
                f"{self.path} is refused: it is a hard link, so another file would change with it. "
                "Only a plain file of that name can be written in this turn."
            )
        if len(data) > CHANGE_BYTES:
            raise ToolError(f"{self.path} is larger than {CHANGE_BYTES:,} bytes: too large for notes of a day.")
        if is_binary(data):
            raise ToolError(f"{self.path} is no text: refused.")
        return data

    def _announce(self, write: MemoryWrite) -> None:
        try:
            self._before_write(write)
        except Exception as error:
            raise ToolError(f"Nothing was added to {self.path}, as no record of it could be kept: {error}") from error

    def _append(self, before: bytes, added: bytes) -> bool:
        """Add the bytes if the file still holds what it held `before`. Whether it did."""
        with self._folder.appending(self._place) as handle:
            if os.fstat(handle).st_nlink > 1 or os.pread(handle, len(before) + 1, 0) != before:
                return False
            append_whole(handle, added)
        return True

    def _prove(self, before: bytes, added: bytes) -> MemoryWrite | None:
        """Read the file again: where the new bytes stand, behind what stood there `before`. None when they are gone,
        as another program put its own file in place of the one that was appended to."""
        after = self._look() or b""
        if not after.startswith(before):
            # Appending can't do that: another program wrote its own version while it was done.
            log.warning("%s was changed by another program while a note was added to it", self.path)
        offset = last_place(after, added)
        return None if offset is None else described(self.path, after, offset, added)

    def _keep_name(self) -> None:
        """Let the name of a new file, and of its new folder, survive a power cut; file systems without that are left
        alone."""
        parents = self._place.parts[:-1]
        for depth in range(len(parents), -1, -1):
            # A folder that is gone again is seen when the file is read again.
            with contextlib.suppress(OSError, ToolError), self._folder.folder(parents[:depth]) as handle:
                os.fsync(handle)


def _hidden_lines(text: str) -> str:
    """Which lines of `text` look like they hold a secret, with the secret left out."""
    for number, line in enumerate(text.splitlines(), start=1):
        if (clean := redact(line)) != line:
            return f"Line {number} of `content` looks like it holds a key or a password ({one_line(clean)})"
    return "`content` looks like it holds a key or a password"


class NoteArguments(Arguments, frozen=True):
    """Arguments of the tools that add to the one file."""

    content: Annotated[str, Meta(description="The text to add, as Markdown.")]
    path: Annotated[str, Meta(description="The file; there is one only, so it may be left out.")] = ""


class _NoteTool(TypedTool[NoteArguments]):
    """`append` or `write`, bound to the one file. Of a `whole` content the present text is not written twice."""

    read_only = False
    arguments = NoteArguments

    def __init__(self, file: AppendOnlyFile, name: str, *, whole: bool) -> None:
        self._file = file
        self._name = name
        self._whole = whole

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it: its description names the file."""
        description = (
            f"Add text at the end of {self._file.path}, on lines of its own. This tool appends only, and to this file "
            "only: what the file holds stays as it is, and no other file can be written in this turn."
        )
        return ToolSpec(self._name, description, schema_of(self.arguments))

    def title(self, arguments: dict[str, object]) -> str:
        """`append memory/2026-11-20.md`, or the path that the model named."""
        return one_line(f"{self._name} {arguments.get('path') or self._file.path}")

    def act(self, arguments: NoteArguments) -> ToolOutcome:
        """Add the text."""
        return self._file.add(arguments.path, arguments.content, whole=self._whole)
