"""Text handling for tools: binary detection, line windows of large files, diffs, and truncation with a notice."""

from __future__ import annotations

import difflib
import mimetypes
from io import BufferedReader, BytesIO

from msgspec import Struct

from clawbot.text.encoding import as_utf8, decoded, encoding_of

PROBE_BYTES = 8192  # like git: a NUL in the first 8 KB marks a binary file
LINE_BYTES = 65536  # longer lines are processed in parts, to bound memory
COUNT_BYTES = 64 * 1024 * 1024  # up to this size a file's lines are counted, about 0.1 s
DIFF_LINES = 2000  # difflib is quadratic at worst; larger changes only get counts
DIFF_CHARS = 20000
CONTEXT_LINES = 3  # around a change, in a diff
WIDE_BYTES = 64 * 1024 * 1024  # of a file in UTF-16, which is held in memory to be read


class FileChange(Struct, frozen=True):
    """The lines `added` and `removed` by a write, and the unified `diff` for the screen."""

    added: int
    removed: int
    diff: str

    @property
    def summary(self) -> str:
        return f"+{self.added} -{self.removed}"


class LineWindow(Struct, frozen=True):
    """Lines `first` to `last` (1-based) of a file: `text` as it is in the file.

    `more`: the file goes on; `total` is its number of lines, None when it is too large to count; `cut` names
    lines that are too long and were cut; `lossy`: bytes were no UTF-8.
    """

    text: str
    first: int
    last: int
    more: bool
    total: int | None
    cut: tuple[int, ...] = ()
    lossy: bool = False


def is_binary(head: bytes) -> bool:
    """Whether a file that starts with `head` is binary: UTF-16 and UTF-32 with a byte order mark are text."""
    return b"\0" in head[:PROBE_BYTES] and not encoding_of(head).is_wide


def describe_binary(name: str, size: int) -> str:
    """`image/png, 1,234 bytes`."""
    return f"{mimetypes.guess_type(name)[0] or 'binary data'}, {size:,} bytes"


def decode(data: bytes) -> tuple[str, bool]:
    """`data` as text without its byte order mark, bad bytes replaced by U+FFFD, and whether there were any."""
    try:
        return decoded(data), False
    except UnicodeDecodeError:
        return decoded(data, errors="replace"), True


def in_utf8(stream: BufferedReader, size: int) -> tuple[BufferedReader, int]:
    """The open file `stream` of `size` bytes as one in UTF-8, and its size: itself, but for UTF-16 and UTF-32, of which
    no more than `WIDE_BYTES` are held."""
    if not encoding_of(stream.peek(4)[:4]).is_wide:
        return stream, size
    text, lossy = decode(stream.read(WIDE_BYTES))
    # What could not be decoded remains so, so that whoever reads on notices it.
    data = text.encode().replace("\ufffd".encode(), b"\xff") if lossy else text.encode()
    return BufferedReader(BytesIO(data)), len(data)


def read_window(stream: BufferedReader, size: int, first: int, limit: int, max_chars: int) -> LineWindow:
    """At most `limit` lines from line `first` on, complete ones within `max_chars`.

    A single longer line is truncated. `size` is the file's, in bytes.
    """
    skipped = _skip_lines(stream, first - 1)
    kept: list[bytes] = []
    cut: list[int] = []
    room = max_chars
    number = skipped
    while number - skipped < limit and room > 0:
        line, complete = _next_line(stream, max_chars)
        if not line:
            break
        chars = len(line.decode(errors="replace"))
        if chars > room and kept:
            stream.seek(-len(line), 1)
            break
        number += 1
        if chars > room or not complete:
            line = line.decode(errors="replace")[:room].encode()
            cut.append(number)
        kept.append(line)
        room -= chars
    more = bool(stream.peek(1))
    total = number + _count_lines(stream) if size <= COUNT_BYTES else (None if more else number)
    text, lossy = decode(b"".join(kept))
    return LineWindow(text, skipped + 1, number, more, total, tuple(cut), lossy)


def _next_line(stream: BufferedReader, max_chars: int) -> tuple[bytes, bool]:
    """The next line, and whether it is complete: the rest of a line beyond `max_chars` is passed over."""
    line = stream.readline(max(max_chars * 4, LINE_BYTES))
    complete = line.endswith(b"\n") or len(line) < max(max_chars * 4, LINE_BYTES)
    if not complete:
        _skip_lines(stream, 1)
    return line, complete


def _skip_lines(stream: BufferedReader, count: int) -> int:
    """Skip `count` lines; returns how many there were."""
    done = 0
    began = False
    while done < count and (block := stream.readline(LINE_BYTES)):
        began = not block.endswith(b"\n")
        done += not began
    return done + began


def _count_lines(stream: BufferedReader) -> int:
    """The number of lines from here to the end."""
    lines = 0
    last = b"\n"
    while block := stream.read(1 << 20):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


def compare(before: str, after: str, name: str) -> FileChange:
    """The changed lines from `before` to `after`."""
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    removed, added = len(old) - head - tail, len(new) - head - tail
    if max(removed, added) > DIFF_LINES:
        return FileChange(added, removed, "")
    lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return FileChange(added, removed, cut_middle("\n".join(lines), DIFF_CHARS))


def full_diff(before: bytes | None, after: bytes, name: str) -> str:
    """The unified diff from `before` (None: there is no file) to `after`, complete whatever its size: a patch
    that makes `after` of `before`. Where there are bytes that are no UTF-8, these are written as `\\xff`, and a
    backslash as two. UTF-16 is shown as the text that it is."""
    before, after = None if before is None else as_utf8(before), as_utf8(after)
    old, new = _with_breaks(before or b""), _with_breaks(after)
    if not (_is_utf8(before or b"") and _is_utf8(after)):
        old, new = (_with_breaks(data.replace(b"\\", b"\\\\")) for data in (before or b"", after))
    source, target = "/dev/null" if before is None else f"a/{_printable(name)}", f"b/{_printable(name)}"
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    if max(len(old), len(new)) - head - tail > DIFF_LINES:
        lines = _one_hunk(old, new, head, tail)
    else:
        lines = list(difflib.unified_diff(old, new, n=CONTEXT_LINES))[2:]
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return f"--- {source}\n+++ {target}\n{text}".removesuffix("\n")


def _one_hunk(old: list[str], new: list[str], head: int, tail: int) -> list[str]:
    """All that differs as one passage: `head` lines before it and `tail` lines behind it are the same."""
    first, last = max(head - CONTEXT_LINES, 0), min(tail, CONTEXT_LINES)
    sizes = (len(lines) - tail + last - first for lines in (old, new))
    removed, added = (f"{first + 1},{size}" if size else f"{first},0" for size in sizes)
    return [
        f"@@ -{removed} +{added} @@\n",
        *(f" {line}" for line in old[first:head]),
        *(f"-{line}" for line in old[head : len(old) - tail]),
        *(f"+{line}" for line in new[head : len(new) - tail]),
        *(f" {line}" for line in old[len(old) - tail : len(old) - tail + last]),
    ]


def _with_breaks(data: bytes) -> list[str]:
    """The lines of `data` with their line breaks, whose carriage returns belong to the line."""
    lines = data.decode(errors="backslashreplace").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _printable(name: str) -> str:
    """`name` on one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _common(left: list[str], right: list[str]) -> int:
    """How many elements at the beginning are the same."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def cut_middle(text: str, limit: int, hint: str = "") -> str:
    """`text`, or its start (three quarters of `limit` characters) and end around a line about what is left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 4, limit // 4
    notice = f"[... {len(text) - head - tail:,} of {len(text):,} characters left out here. {hint}".rstrip() + " ...]"
    return f"{text[:head]}\n{notice}\n{text[len(text) - tail :]}"
