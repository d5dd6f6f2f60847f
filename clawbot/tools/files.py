"""The tools that read, write and append whole files of the workspace."""

from __future__ import annotations

import errno
import os
from typing import Annotated

from msgspec import Meta

from clawbot.tools.arguments import Arguments
from clawbot.tools.folder import Place, WorkspaceFolder
from clawbot.tools.folder_tool import FolderTool
from clawbot.tools.protocol import ToolError, ToolOutcome
from clawbot.tools.text import (
    PROBE_BYTES,
    Change,
    LineWindow,
    compare,
    decode,
    describe_binary,
    is_binary,
    read_window,
)

READ_LINES = 2000
NOTICE_CHARS = 500  # room for what a tool says beside the content, within the output cap
CHANGE_BYTES = 16 * 1024 * 1024  # a file beyond that is no note and no source; it would be held in memory twice

PathArgument = Annotated[str, Meta(description="Path in the workspace, relative to it or absolute.", min_length=1)]
Line = Annotated[int, Meta(ge=1)]


class ReadArguments(Arguments, frozen=True):
    """Arguments of `read`."""

    path: PathArgument
    offset: Annotated[Line, Meta(description="First line to read, counted from 1.")] = 1
    limit: Annotated[Line, Meta(description="How many lines at most.")] = READ_LINES


class ReadTool(FolderTool[ReadArguments]):
    """`read`: a text file or a part of it."""

    name = "read"
    description = (
        "Read a text file of the workspace. Long files come in parts: go on with the offset that the notice names."
    )
    arguments = ReadArguments

    def __init__(self, folder: WorkspaceFolder, max_chars: int) -> None:
        super().__init__(folder)
        self._max_chars = max(max_chars - NOTICE_CHARS, NOTICE_CHARS)

    def act(self, arguments: ReadArguments) -> ToolOutcome:
        """Read the lines that were asked for."""
        place = self._folder.locate(arguments.path)
        with self._folder.reading(place) as stream:
            size = os.fstat(stream.fileno()).st_size
            if is_binary(stream.peek(PROBE_BYTES)[:PROBE_BYTES]):
                raise ToolError(f"{place.shown} is no text: {describe_binary(place.shown, size)}.")
            window = read_window(stream, size, arguments.offset, arguments.limit, self._max_chars)
        return _shown(place, arguments.offset, window)


def _shown(place: Place, offset: int, window: LineWindow) -> ToolOutcome:
    if window.last < offset:
        if offset == 1:
            return ToolOutcome(f"[{place.shown} is empty]", summary="empty")
        raise ToolError(f"{place.shown} has {window.last:,} lines; offset={offset} is behind its end.")
    total = "many" if window.total is None else f"{window.total:,}"
    notices = []
    if window.first > 1 or window.more:
        further = f"; continue with offset={window.last + 1}" if window.more else ""
        notices.append(f"showing lines {window.first:,}-{window.last:,} of {total}{further}")
    notices += [f"line {number:,} is very long and was cut" for number in window.cut]
    if window.lossy:
        notices.append("the file is not valid UTF-8: bad bytes are shown as \ufffd")
    text = window.text
    if notices:
        text = f"{text}{'' if text.endswith(chr(10)) else chr(10)}[{'; '.join(notices)}]"
    count = window.last - window.first + 1
    return ToolOutcome(text, summary=f"{count:,} {'line' if count == 1 else 'lines'}")


class ContentArguments(Arguments, frozen=True):
    """Arguments of `write` and `append`."""

    path: PathArgument
    content: Annotated[str, Meta(description="The text.")]


class WriteTool(FolderTool[ContentArguments]):
    """`write`: a whole file, new or replaced."""

    name = "write"
    description = (
        "Write a whole file of the workspace; what was in it is replaced, missing folders are made. "
        "Use `append` to add to notes and `edit` for changes."
    )
    read_only = False
    arguments = ContentArguments

    def act(self, arguments: ContentArguments) -> ToolOutcome:
        """Replace the file atomically."""
        place = self._folder.locate_for_change(arguments.path)
        before = self._folder.read(place, CHANGE_BYTES)
        data = encode(arguments.content)
        self._folder.replace(place, data)
        change = compare(decode(before or b"")[0], arguments.content, place.shown)
        what = "Created" if before is None else "Replaced"
        return changed(place, f"{what} {place.shown} ({change.summary} lines, {len(data):,} bytes).", change)


class AppendTool(FolderTool[ContentArguments]):
    """`append`: text at the end of a file, on lines of its own."""

    name = "append"
    description = (
        "Add text at the end of a file of the workspace, on lines of its own; the file and its folders are made when "
        "missing. The way to write daily notes."
    )
    read_only = False
    arguments = ContentArguments

    def act(self, arguments: ContentArguments) -> ToolOutcome:
        """Append; what the file holds is never rewritten."""
        place = self._folder.locate_for_change(arguments.path)
        if not arguments.content:
            raise ToolError("`content` is empty: there is nothing to append.")
        with self._folder.appending(place) as handle:
            shared = os.fstat(handle).st_nlink > 1
            new = os.fstat(handle).st_size == 0
            addition = _fitted(handle, encode(arguments.content))
            if not shared:
                append_whole(handle, addition)
        if shared:
            # The other name of the file may lie outside the workspace: give this name a file of its own.
            self._folder.replace(place, (self._folder.read(place, CHANGE_BYTES) or b"") + addition)
        added = decode(addition)[0].strip("\n")
        change = compare("", added, place.shown)
        return changed(place, f"{'Created' if new else 'Appended to'} {place.shown} (+{change.added} lines).", change)


def changed(place: Place, text: str, change: Change) -> ToolOutcome:
    """The outcome of a changed file, with the diff for the screen."""
    return ToolOutcome(text, summary=change.summary, details={"path": place.shown, "diff": change.diff})


def encode(text: str) -> bytes:
    """`text` as UTF-8; raises ToolError for half characters (lone surrogates), which no file can hold."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text holds half a character at position {error.start}: send it as proper Unicode."
        ) from None


def _fitted(handle: int, addition: bytes) -> bytes:
    """`addition` on lines of its own behind what the file ends with, with the line breaks that it uses."""
    size = os.fstat(handle).st_size
    end = os.pread(handle, 2, max(size - 2, 0))
    if not addition.endswith(b"\n"):
        addition += b"\n"
    if end and not end.endswith(b"\n"):
        addition = b"\n" + addition
    elif end == b"\r\n":
        addition = addition.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return addition


def append_whole(handle: int, addition: bytes) -> None:
    """Write all of `addition`; when the disk is full, take back what came through, so that no half note stays. Raises
    ToolError for a full disk, OSError for other failures."""
    start = os.fstat(handle).st_size
    done = 0
    try:
        while done < len(addition):
            done += os.write(handle, addition[done:])
        os.fsync(handle)
    except OSError as error:
        if os.fstat(handle).st_size == start + done:
            os.ftruncate(handle, start)
        if error.errno == errno.ENOSPC:
            raise ToolError("Nothing was appended: the disk is full.") from error
        raise
