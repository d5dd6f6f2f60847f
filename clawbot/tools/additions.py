"""What is added at the end of a note, as bytes: on lines of its own, with the line breaks that the note uses, without
what stands in it already. Pure: the note comes in as bytes."""

from __future__ import annotations

import hashlib
import re

from clawbot.sessions.audit import MemoryWrite
from clawbot.tools.files import encode
from clawbot.tools.text import decode

_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


def addition(before: bytes, text: str) -> bytes:
    """`text` as the bytes that go behind `before`: it begins on a line of its own and ends with a line break. Of blank
    lines at its start one is kept; where `before` ends with `\\r\\n` lines, it has such lines, too.

    Raises ToolError for half characters.
    """
    plain = _unified(text)
    body = _BLANK_LINES.sub("", plain).rstrip() + "\n"
    if before and body != plain.rstrip() + "\n":
        body = "\n" + body
    if before and not before.endswith(b"\n"):
        body = "\n" + body
    return encode(body.replace("\n", "\r\n") if _ends_lines_with_crlf(before) else body)


def remainder(before: bytes, text: str) -> str:
    """What `text` adds to a note that holds `before`: the rest of it when it begins with the whole note, else all of
    it. Line breaks and space at the note's end are not compared."""
    present = _unified(decode(before)[0]).rstrip()
    given = _unified(text).removeprefix("\ufeff")
    if not present or not given.startswith(present):
        return text
    rest = given[len(present) :]
    # A last line that is longer than it was is a changed line, and nothing is changed here.
    return text if rest and not rest[0].isspace() else _after_line_break(rest)


def _after_line_break(rest: str) -> str:
    """`rest` without the end of the line that it follows."""
    ending, line_break, following = rest.partition("\n")
    return following if line_break and not ending.strip() else rest.lstrip(" \t")


def described(path: str, holding: bytes, offset: int, added: bytes) -> MemoryWrite:
    """Where `added` stands in `holding`, the content of the note `path` up to it at least, from byte `offset` on. Its
    first line is the first one that is not blank."""
    blank = added[: len(added) - len(added.lstrip(b"\r\n"))].count(b"\n")
    breaks = holding.count(b"\n", 0, offset)
    return MemoryWrite(
        path=path,
        offset=offset,
        size=len(added),
        line=breaks + blank + 1,
        end_line=breaks + added.count(b"\n"),
        digest=hashlib.sha256(added).hexdigest(),
    )


def last_place(data: bytes, added: bytes) -> int | None:
    """Where in `data` the lines `added` stand for the last time, as whole lines; None when nowhere."""
    offset = data.rfind(added)
    while offset > 0 and added[:1] not in (b"\r", b"\n") and data[offset - 1 : offset] != b"\n":
        offset = data.rfind(added, 0, offset + len(added) - 1)
    return None if offset < 0 else offset


def _unified(text: str) -> str:
    return text.replace("\r\n", "\n")


def _ends_lines_with_crlf(before: bytes) -> bool:
    """Whether the last line break of `before` is that of Windows."""
    at = before.rfind(b"\n")
    return at > 0 and before[at - 1 : at] == b"\r"
