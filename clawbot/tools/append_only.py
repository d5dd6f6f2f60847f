"""The tools for a silent turn's only writable file, which can only be appended to, with verification that its earlier
content is unchanged.

The model is not trusted. The file is opened for appending only, by walking its path without following links, so no call
can reach another file or an existing byte. Other programs are not blocked: if an editor saves in between, that is
detected, and the text is appended to the new content.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Collection
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta, structs

from clawbot.authors import changing
from clawbot.files import digest_of
from clawbot.messages import ToolSpec
from clawbot.sessions.entries import MemoryWrite
from clawbot.sessions.silence import is_silent
from clawbot.text.encoding import as_utf8, encoding_of
from clawbot.text.secrets import KINDS, cleaned
from clawbot.text.visible import one_line, title_of
from clawbot.tools.arguments import Arguments, TypedTool, schema_of
from clawbot.tools.changing import CHANGE_BYTES
from clawbot.tools.files import append_all, encode
from clawbot.tools.folder import MissingFileError, WorkspaceFolder, WorkspacePath
from clawbot.tools.protocol import AnyTool, ToolError, ToolOutcome
from clawbot.tools.text import decode, is_binary

_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


def addition(before: bytes, text: str) -> bytes:
    """The bytes to append `text` to `before`: on a new line and with a final line break. At most one leading blank line
    is kept; if `before` has CRLF line breaks, they are used, and so is its encoding.

    Raises ToolError for lone surrogates.
    """
    plain = _unified(text)
    body = _BLANK_LINES.sub("", plain).rstrip() + "\n"
    if before and body != plain.rstrip() + "\n":
        body = "\n" + body
    encoding, shown = encoding_of(before), as_utf8(before)
    if shown and not shown.endswith(b"\n"):
        body = "\n" + body
    data = encode(body.replace("\n", "\r\n") if _ends_lines_with_crlf(shown) else body)
    return data.decode().encode(encoding.name) if encoding.is_wide else data


def remainder(before: bytes, text: str) -> str:
    """The part of `text` that is new to a note with the content `before`: its rest if it starts with the complete note,
    else all of it. Whitespace at the note's end is ignored."""
    present = _unified(decode(before)[0]).rstrip()
    given = _unified(text).removeprefix("\ufeff")
    if not present or not given.startswith(present):
        return text
    rest = given[len(present) :]
    # If the last line became longer, it was changed, and nothing may be changed here.
    return text if rest and not rest[0].isspace() else _after_line_break(rest)


def _after_line_break(rest: str) -> str:
    """`rest` without the line break of the preceding line."""
    ending, line_break, following = rest.partition("\n")
    return following if line_break and not ending.strip() else rest.lstrip(" \t")


def described(path: str, holding: bytes, offset: int, added: bytes) -> MemoryWrite:
    """Return the position of `added` in `holding`, the note `path`, from byte `offset` on, without blank lines."""
    encoding = encoding_of(holding)
    text = added.decode(encoding.name, "replace")
    blank = text[: len(text) - len(text.lstrip("\r\n"))].count("\n")
    breaks = holding[:offset].decode(encoding.name, "replace").count("\n")
    return MemoryWrite(
        path=path,
        offset=offset,
        size=len(added),
        line=breaks + blank + 1,
        end_line=breaks + text.count("\n"),
        digest=digest_of(added),
    )


def last_position(data: bytes, added: bytes) -> int | None:
    """The last position in `data` of the complete lines `added`; None if there is none."""
    encoding = encoding_of(data)
    line_break = "\n".encode(encoding.name)
    begins = added.startswith(("\r".encode(encoding.name), line_break))
    offset = data.rfind(added)
    while offset > len(encoding.mark) and not (
        offset % encoding.unit == 0 and (begins or data[:offset].endswith(line_break))
    ):
        offset = data.rfind(added, 0, offset + len(added) - 1)
    return None if offset < 0 else offset


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n")


def _ends_lines_with_crlf(before: bytes) -> bool:
    """Whether the last line break of `before` is CRLF."""
    at = before.rfind(b"\n")
    return at > 0 and before[at - 1 : at] == b"\r"


log = logging.getLogger(__name__)

BeforeWrite = Callable[[MemoryWrite], None]

ATTEMPTS = 5  # give up on a file that another program keeps changing
TOTAL_BYTES = 256 * 1024  # more than that in one turn is a transcript, not notes


def note_path(path: str) -> WorkspacePath:
    """The workspace path of `path`, relative and without `..`; raises ToolError otherwise. Unlike
    `WorkspaceFolder.locate` it resolves no links, so opening it refuses every link."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ToolError(f"{one_line(path)!r} is not the path of a note in the workspace.")
    return WorkspacePath(parts)


def is_on_disk(folder: WorkspaceFolder, write: MemoryWrite) -> bool:
    """Whether the bytes of `write` are at its position. Blocks; False if they can't be read."""
    try:
        with folder.reading(note_path(write.path)) as stream:
            stream.seek(write.offset)
            found = stream.read(write.size)
    except (ToolError, OSError, ValueError):
        return False
    return len(found) == write.size > 0 and digest_of(found) == write.digest


class _JunkError(ToolError):
    """The model wrote what is of no use."""


class AppendOnlyFile:
    """The workspace file `path`, with the tools that append to it.

    `before_write` is called on the tool's thread with the planned write, before the bytes go to disk; if it raises,
    nothing is written. It is called again if another program changes the file in between. `trouble` is why the last
    write failed, unless the model caused it; "" otherwise.

    Secrets are redacted, `known` ones in any wording, except those that the user `consented` to keep; each write
    reports how many and of what kinds.
    `judge` returns why a text is useless, else ""; a useless one is refused, which sets `refused_junk`.
    """

    def __init__(
        self,
        folder: WorkspaceFolder,
        path: str,
        before_write: BeforeWrite,
        known: Collection[str] = (),
        judge: Callable[[str], str] = lambda _: "",
        *,
        consented: Collection[str] = (),
    ) -> None:
        self._folder = folder
        self._location = note_path(path)
        self._before_write = before_write
        self._known = known
        self._consented = consented
        self._texts: set[str] = set()
        self._writes: list[MemoryWrite] = []
        self.path = self._location.shown
        self._judge = judge
        self.trouble = ""
        self.refused_junk = False

    @property
    def writes(self) -> tuple[MemoryWrite, ...]:
        """The writes so far, at their current positions, oldest first."""
        return tuple(self._writes)

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """`append`, and a `write` that appends too."""
        return (_NoteTool(self, "append", complete=False), _NoteTool(self, "write", complete=True))

    def add(self, asked: str, text: str, *, complete: bool) -> ToolOutcome:
        """Append `text`; if it is a `complete` new content that starts with the present one, only the rest.

        `asked` is the path given by the model, "" for none. Blocks. Raises ToolError with the reason for the model.
        """
        self._check_path(asked)
        self._check_text(text)
        if text.strip() in self._texts:
            return ToolOutcome(f"{self.path} holds that already: it was added in this turn.", summary="+0")
        try:
            write = self._write(text, complete=complete)
        except _JunkError:
            self.refused_junk = True
            raise
        except ToolError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        if write is None:
            return ToolOutcome(f"{self.path} holds all of that already: nothing was added.", summary="+0")
        self._texts.add(text.strip())
        self._writes.append(write)
        count = write.end_line - write.line + 1
        without = ""
        if write.secrets:
            kinds = " and ".join(KINDS[kind] for kind in write.kinds)
            secrets = f"{write.secrets:,} {'secret' if write.secrets == 1 else 'secrets'}"
            without = f", {secrets} left out: looks like {kinds}; only the user keeps it, by typing `remember --keep …`"
        return ToolOutcome(
            f"Added lines {write.line}-{write.end_line} to {self.path}{without}.",
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
        written = sum(write.size for write in self._writes)
        if written + len(encode(text)) > TOTAL_BYTES:
            raise ToolError(
                f"That is too much: {TOTAL_BYTES:,} bytes can be added in one turn, {written:,} have been. "
                "Keep to what must be remembered."
            )

    def _write(self, text: str, *, complete: bool) -> MemoryWrite | None:
        for _ in range(ATTEMPTS):
            present = self._read()
            before = present or b""
            rest = remainder(before, text) if complete else text
            if not rest.strip():
                return None
            if useless := self._judge(rest):
                raise _JunkError(f"Not added: {useless}. Add only what must be remembered of this conversation.")
            clean, secrets = cleaned(rest, self._known, self._consented)
            added = addition(before, clean)
            left = {"secrets": len(secrets), "kinds": tuple(dict.fromkeys(secret.kind for secret in secrets))}
            self._record(structs.replace(described(self.path, before, len(before), added), **left))
            if not self._append(present, added):
                continue
            if present is None:
                self._keep_name()
            if (write := self._prove(before, added)) is not None:
                return structs.replace(write, **left)
        raise ToolError(f"Another program keeps changing {self.path}: nothing was added. Try again later.")

    def _read(self) -> bytes | None:
        """Return the content, None if there is no file. Raises ToolError if nothing can or may be appended."""
        try:
            with self._folder.reading(self._location) as stream:
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

    def _record(self, write: MemoryWrite) -> None:
        try:
            self._before_write(write)
        except Exception as error:
            raise ToolError(f"Nothing was added to {self.path}, as no record of it could be kept: {error}") from error

    def _append(self, present: bytes | None, added: bytes) -> bool:
        """Append the bytes if the file is unchanged since it was `present` (None: missing); returns whether it was."""
        before = present or b""
        with self._folder.appending(self._location) as handle:
            if os.fstat(handle).st_nlink > 1 or os.pread(handle, len(before) + 1, 0) != before:
                return False
            with changing(self._folder.root, self.path, lambda: present, before + added):
                append_all(handle, added)
        return True

    def _prove(self, before: bytes, added: bytes) -> MemoryWrite | None:
        """Reread the file and return the position of the new bytes; None if another program replaced the file."""
        after = self._read() or b""
        if not after.startswith(before):
            # Appending can't cause this: another program wrote its own version.
            log.warning("%s was changed by another program while a note was added to it", self.path)
        offset = last_position(after, added)
        return None if offset is None else described(self.path, after, offset, added)

    def _keep_name(self) -> None:
        """Sync the names of a new file and its new folder to disk, where the file system supports it."""
        parents = self._location.parts[:-1]
        for depth in range(len(parents), -1, -1):
            # A deleted folder is noticed when the file is reread.
            with contextlib.suppress(OSError, ToolError), self._folder.folder(parents[:depth]) as handle:
                os.fsync(handle)


class NoteArguments(Arguments, frozen=True):
    """Arguments of the tools that add to the one file."""

    content: Annotated[str, Meta(description="The text to add, as Markdown.")]
    path: Annotated[str, Meta(description="The file; there is one only, so it may be left out.")] = ""


class _NoteTool(TypedTool[NoteArguments]):
    """`append` or `write`, bound to the file. With `complete`, present content is not written twice."""

    read_only = False
    needs = frozenset({"notes"})
    arguments = NoteArguments

    def __init__(self, file: AppendOnlyFile, name: str, *, complete: bool) -> None:
        self._file = file
        self._name = name
        self._complete = complete

    @property
    def spec(self) -> ToolSpec:
        description = (
            f"Add text at the end of {self._file.path}, on lines of its own. This tool appends only, and to this file "
            "only: what the file holds is not changed, and no other file can be written in this turn."
        )
        return ToolSpec(self._name, description, schema_of(self.arguments))

    def title(self, arguments: dict[str, object]) -> str:
        """`append memory/2026-11-20.md`, or the path given by the model."""
        return title_of(self._name, arguments.get("path") or self._file.path)

    def act(self, arguments: NoteArguments) -> ToolOutcome:
        return self._file.add(arguments.path, arguments.content, complete=self._complete)
