"""How an attachment is written in a message: `@notes.md`, `@src/`, `@src/a.py:10-40`, `@"my notes.md"`, `@~/x.png`; and
the types of pictures."""

from __future__ import annotations

import re
from mimetypes import guess_type

from msgspec import Struct

# After a letter it is an address (ada@example.org), and what a sentence puts behind a path is no part of it.
_MENTION = re.compile(
    r"""(?:^|(?<=[\s(\[{"']))@(?:"(?P<quoted>[^"\n]+)"(?P<behind>:\d+(?:-\d+)?)?|(?P<plain>[^\s"@]\S*))"""
)
_RANGE = re.compile(r"(?P<path>.+?):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")
_BEHIND = ".,;:!?)]}'\"…，。；：！？）】」』"
_CODE = re.compile(r"[(){}<>=]")
_PLAIN = re.compile(r"[^\s\"]+")
MAX_MENTIONS = 100  # of one message
# What follows in a longer or deeper one is no path of anybody, and resolving it takes a second.
MAX_CHARS, MAX_PARTS = 4096, 64


class Mention(Struct, frozen=True):
    """One `@path` of a message; with a range the lines `first` to `last` (1-based), else 0."""

    path: str
    first: int = 0
    last: int = 0

    @property
    def name(self) -> str:
        """The path with the range, as the user reads it."""
        if not self.first:
            return self.path
        return f"{self.path}:{self.first}" if self.first == self.last else f"{self.path}:{self.first}-{self.last}"

    @property
    def looks_like_a_path(self) -> bool:
        """Whether it is a path rather than a name (`@ada`, `@app.get("/x")`), should there be no such file."""
        if _CODE.search(self.path):
            return False
        return bool(self.first) or "/" in self.path or guess_type(self.path)[0] is not None


def mentions(text: str) -> list[Mention]:
    """The first mentions in `text`, each once, in their order. What is too long for a path is none."""
    found: dict[Mention, None] = {}
    for match in _MENTION.finditer(text):
        path = match["quoted"] + (match["behind"] or "") if match["quoted"] else match["plain"].rstrip(_BEHIND)
        if path and len(path) <= MAX_CHARS and path.count("/") < MAX_PARTS and len(found) < MAX_MENTIONS:
            found[_mention(path)] = None
    return list(found)


def _mention(written: str) -> Mention:
    match = _RANGE.fullmatch(written)
    if match is None:
        return Mention(written)
    first, last = int(match["first"]), int(match["last"] or match["first"])
    return Mention(match["path"], max(1, min(first, last)), max(1, first, last))


def written(path: str) -> str:
    """`path` as a mention; in quotes where it would end early."""
    plain = _PLAIN.fullmatch(path) and path[-1] not in _BEHIND
    return f"@{path}" if plain else f'@"{path}"'


_HEADS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
HEAD = 16
"""Bytes that tell."""


def picture_type(head: bytes) -> str:
    """The MIME type of the picture that begins with `head`; "" for anything else."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _HEADS if head.startswith(magic)), "")
