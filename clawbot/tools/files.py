"""The tools that read, write, append to and edit files of the workspace."""

from __future__ import annotations

import difflib
import errno
import os
from io import BufferedReader, BytesIO
from typing import Annotated

from msgspec import Meta, to_builtins

from clawbot.authors import changing
from clawbot.files import version_of
from clawbot.text.encoding import Encoding, as_utf8, decoded, encoded_like, encoding_of
from clawbot.tools.arguments import PathArguments
from clawbot.tools.changing import CHANGE_BYTES, ChangingTool, PlannedChange, changed, ends_ritual
from clawbot.tools.folder import WorkspaceFolder, WorkspacePath
from clawbot.tools.listing import ReadingTool
from clawbot.tools.protocol import ToolError, ToolOutcome
from clawbot.tools.seen import VIEWS, Difference, Shown
from clawbot.tools.text import (
    PROBE_BYTES,
    FileChange,
    LineWindow,
    compare,
    decode,
    describe_binary,
    in_utf8,
    is_binary,
    read_window,
)

READ_LINES = 2000
DIFFERENCE_CHARS = 4000  # of the difference in a refusal; of a longer one the file is to be read
NOTICE_CHARS = 500  # reserved for notices after the content

Line = Annotated[int, Meta(ge=1)]


class ReadArguments(PathArguments, frozen=True):
    """Arguments of `read`."""

    offset: Annotated[Line, Meta(description="First line.")] = 1
    limit: Annotated[Line, Meta(description="Lines at most.")] = READ_LINES


class ReadTool(ReadingTool[ReadArguments]):
    """`read`: a text file or a part of it."""

    name = "read"
    description = "Read a text file. Of a long one go on with the offset that the notice names."
    arguments = ReadArguments

    def __init__(self, folder: WorkspaceFolder, max_chars: int) -> None:
        super().__init__(folder)
        self._max_chars = max(max_chars - NOTICE_CHARS, NOTICE_CHARS)

    def act(self, arguments: ReadArguments) -> ToolOutcome:
        path = self._folder.locate(arguments.path)
        with self._folder.reading(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            _demand_text(path, stream.peek(PROBE_BYTES), size)
            # Read at once where `write` is possible: the digest is of what is shown.
            data = stream.read(CHANGE_BYTES) if size < CHANGE_BYTES else b""
            text, size = in_utf8(BufferedReader(BytesIO(data)) if data else stream, len(data) or size)
            window = read_window(text, size, arguments.offset, arguments.limit, self._max_chars)
        return _shown(path, arguments.offset, window, version_of(data) if data else "")


def _shown(path: WorkspacePath, offset: int, window: LineWindow, digest: str) -> ToolOutcome:
    if window.last < offset:
        if offset == 1:
            return ToolOutcome(f"[{path.shown} is empty]", summary="empty")
        raise ToolError(f"{path.shown} has {window.last:,} lines; offset={offset} is behind its end.")
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
    record = Shown(path.shown, digest, len(text), window.first, window.last, window.total or count, window.cut)
    details = {"seen": to_builtins(record)} if digest else None
    return ToolOutcome(text, summary=f"{count:,} {'line' if count == 1 else 'lines'}", details=details)


class ContentArguments(PathArguments, frozen=True):
    """Arguments of `write` and `append`."""

    content: Annotated[str, Meta(description="The text.")]


class WriteTool(ChangingTool[ContentArguments]):
    """`write`: a complete file, new or replaced, atomically."""

    name = "write"
    description = "Write a whole file; `read` all that is in it before. `append` adds to notes, `edit` changes."
    arguments = ContentArguments

    def plan(self, path: WorkspacePath, arguments: ContentArguments) -> PlannedChange:
        """Replace the content of the file. Raises ToolError if the model has not seen all of it."""
        before = self._folder.read(path, CHANGE_BYTES)
        data = encode(arguments.content)
        old = decode(before or b"")[0]
        if before and old and before != data and not ends_ritual(path, data):
            _demand_seen(path, before, data)
        change = compare(old, arguments.content, path.shown)
        what = "Created" if before is None else "Replaced"
        message = f"{what} {path.shown} ({change.summary} lines, {len(data):,} bytes)."
        return PlannedChange(path, before, data, change, message, known=b"")


def _demand_seen(path: WorkspacePath, before: bytes, after: bytes) -> None:
    """Raise ToolError if the model has not seen all of `before` in its last view of the file, with what has changed
    since. If the error holds the complete difference, the model has seen it then."""
    views = VIEWS.get()()
    if views.has_seen(path.shown, before, after):
        return
    _demand_text(path, before, len(before))
    now, known = decode(before)[0].replace("\r\n", "\n"), views.known.get(path.shown)
    change = compare(known or "", now, path.shown)
    diff = change.diff.partition("+++")[2].partition("\n")[2]
    if not change.added + change.removed:
        diff = "(only line breaks, the end of the file or its encoding)"
    text = f"{path.shown} was not written: "
    if known is not None and 0 < len(diff) <= DIFFERENCE_CHARS:
        text += f"it has changed since you saw it ({change.summary} lines):\n{diff}\n"
        text += "Write it again with these changes in it, or use `edit` or `append`."
        record = Difference(path.shown, version_of(before), len(text), views.version(path.shown), version_of(after))
        raise ToolError(text, details={"seen": to_builtins(record)})
    if seen := views.count(before):
        total = len(now.removesuffix("\n").split("\n"))
        text += f"you have seen {seen:,} of its {total:,} lines, and a part is not the file."
    elif known is None:
        text += "it exists, and you have not read it, or no longer have what you read."
    else:
        text += f"it has changed since you saw it ({change.summary} lines), too much to show here."
    raise ToolError(f"{text} Read all of it, then `write` it with what should remain; or use `edit` or `append`.")


def _demand_text(path: WorkspacePath, head: bytes, size: int) -> None:
    if is_binary(head):
        raise ToolError(f"{path.shown} is no text: {describe_binary(path.shown, size)}.")


class AppendTool(ChangingTool[ContentArguments]):
    """`append`: add text at the end of a file, on new lines. Existing content is only rewritten after the user approved
    the complete change."""

    name = "append"
    description = "Add lines at the end of a file, which is made if missing: the way to write daily notes."
    arguments = ContentArguments

    def plan(self, path: WorkspacePath, arguments: ContentArguments) -> PlannedChange:
        before = self._folder.read(path, CHANGE_BYTES)
        addition = _fitted(as_utf8(before or b""), _content(arguments))
        change, message = _appended(path, addition, new=not before)
        after = (before or b"") + _as_in(addition, before or b"")
        return PlannedChange(path, before, after, change, message, known=before or b"")

    def act(self, path: WorkspacePath, arguments: ContentArguments) -> ToolOutcome:
        content = _content(arguments)
        with self._folder.appending(path) as handle:
            status = os.fstat(handle)
            before = os.pread(handle, CHANGE_BYTES, 0)
            addition = _fitted(_end_of(handle, status.st_size, encoding_of(before)), content)
            added = _as_in(addition, before)
            if status.st_nlink == 1:
                with changing(self._folder.root, path.shown, lambda: before or None, before + added):
                    append_all(handle, added)
        if status.st_nlink > 1:
            # Another hard link may be outside the workspace: give this name its own file.
            return self._make(self.plan(path, arguments))
        change, message = _appended(path, addition, new=status.st_size == 0)
        return changed(PlannedChange(path, before, before + added, change, message, before))


def _content(arguments: ContentArguments) -> bytes:
    if not arguments.content:
        raise ToolError("`content` is empty: there is nothing to append.")
    return encode(arguments.content)


def _appended(path: WorkspacePath, addition: bytes, *, new: bool) -> tuple[FileChange, str]:
    """The change by `addition`, and the text for the model."""
    change = compare("", decode(addition)[0].strip("\n"), path.shown)
    return change, f"{'Created' if new else 'Appended to'} {path.shown} (+{change.added} lines)."


def encode(text: str) -> bytes:
    """`text` as UTF-8; raises ToolError for lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text holds half a character at position {error.start}: send it as proper Unicode."
        ) from None


def _end_of(handle: int, size: int, encoding: Encoding) -> bytes:
    """The last two characters of an open file of `size` bytes, in UTF-8."""
    start = max(size - 2 * encoding.unit, len(encoding.mark))
    end = os.pread(handle, 2 * encoding.unit, start)
    return end.decode(encoding.name, errors="replace").encode() if encoding.is_wide else end


def _as_in(addition: bytes, head: bytes) -> bytes:
    """`addition` (UTF-8) in the encoding of a file that starts with `head`."""
    encoding = encoding_of(head)
    return addition.decode().encode(encoding.name) if encoding.is_wide else addition


def _fitted(end: bytes, addition: bytes) -> bytes:
    """`addition` on new lines after the file's `end` (its last two bytes), with the same line breaks."""
    if not addition.endswith(b"\n"):
        addition += b"\n"
    if end and not end.endswith(b"\n"):
        return b"\n" + addition
    return addition.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") if end.endswith(b"\r\n") else addition


def append_all(handle: int, addition: bytes) -> None:
    """Write all of `addition`, or nothing. Raises ToolError if the disk is full, OSError for other failures."""
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


NAMED_MATCHES = 10
SEARCHED_LINES = 20000  # how far the search for a similar line goes: about 0.1 s
SIMILAR_CHARS = 200


class EditArguments(PathArguments, frozen=True):
    """Arguments of `edit`."""

    old: Annotated[str, Meta(description="The exact text.", min_length=1)]
    new: Annotated[str, Meta(description="The new text.")]
    replace_all: Annotated[bool, Meta(description="All occurrences.")] = False


class EditTool(ChangingTool[EditArguments]):
    """`edit`: exact replacement, atomic. Works on bytes, so the rest is unchanged, valid UTF-8 or not."""

    name = "edit"
    description = "Replace text in a file. `old` must match exactly and once, unless replace_all is set."
    arguments = EditArguments

    def plan(self, path: WorkspacePath, arguments: EditArguments) -> PlannedChange:
        before = self._folder.read(path, CHANGE_BYTES)
        if before is None:
            raise ToolError(f"{path.shown} does not exist. Use `write` to make it.")
        _demand_text(path, before, len(before))
        after, count = _replaced(before, arguments, path.shown)
        change = compare(decode(before)[0], decode(after)[0], path.shown)
        times = "" if count == 1 else f" in {count} places"
        message = f"Edited {path.shown}{times} ({change.summary} lines)."
        return PlannedChange(path, before, after, change, message, known=before)


def _replaced(before: bytes, arguments: EditArguments, shown: str) -> tuple[bytes, int]:
    """Like `replace`, in the encoding of the file."""
    if not encoding_of(before).is_wide:
        return replace(before, arguments, shown)
    try:
        text = decoded(before)
    except UnicodeDecodeError:
        raise ToolError(f"{shown} is broken UTF-16: an edit would damage it further. Rewrite it.") from None
    after, count = replace(text.encode(), arguments, shown)
    return encoded_like(after.decode(), before), count


def replace(data: bytes, arguments: EditArguments, shown: str) -> tuple[bytes, int]:
    """`data` with the passage replaced, and the number of replacements. In a file with CRLF line breaks, those of `old`
    and `new` are converted. Raises ToolError with the locations unless there is exactly one."""
    old, new = encode(arguments.old), encode(arguments.new)
    if old == new:
        raise ToolError("`old` and `new` are the same: nothing to change.")
    if data.count(b"\r\n") * 2 > data.count(b"\n"):
        new = _crlf(new)
        old = old if old in data else _crlf(old)
    count = data.count(old)
    if count == 0:
        raise ToolError(f"`old` is not in {shown}. {_nearest(data, arguments.old)}")
    if count > 1 and not arguments.replace_all:
        lines = _lines_of(data, old)
        named = ", ".join(str(line) for line in lines[:NAMED_MATCHES]) + (", …" if len(lines) > NAMED_MATCHES else "")
        raise ToolError(
            f"`old` is {count} times in {shown}, on lines {named}. "
            "Add lines around it until it is unique, or set replace_all."
        )
    return data.replace(old, new), count


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _lines_of(data: bytes, wanted: bytes) -> list[int]:
    """The line numbers at which `wanted` starts; at most one more than is shown."""
    found: list[int] = []
    position = data.find(wanted)
    while position >= 0 and len(found) <= NAMED_MATCHES:
        found.append(data.count(b"\n", 0, position) + 1)
        position = data.find(wanted, position + len(wanted))
    return found


def _nearest(data: bytes, wanted: str) -> str:
    """A hint for an error: the location of text similar to the first line of `wanted`."""
    first = next((line.strip() for line in wanted.splitlines() if line.strip()), "")[:SIMILAR_CHARS]
    lines = [line.strip()[:SIMILAR_CHARS] for line in decode(data)[0].split("\n")[:SEARCHED_LINES]]
    if first and first in lines:
        number = lines.index(first) + 1
        return f"Its first line is line {number}, but white space or what follows differs: read the file there again."
    near = difflib.get_close_matches(first, set(lines) - {""}, n=1, cutoff=0.6) if first else []
    if near:
        return f"The nearest is line {lines.index(near[0]) + 1}: {near[0]}"
    return "Nothing in it is similar: read the file again."
