"""Reads lines of a memory file for somebody who asks for them by path."""

from __future__ import annotations

from clawbot.memory.chunking.chunks import document_lines
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.memory.values import Excerpt

DEFAULT_LINES = 120
"""Lines of an excerpt when none are asked for; see reference 14.2."""

MOST_CHARS = 12_000
"""Characters of an excerpt: whole lines up to this, and at least one."""


def read_excerpt(
    documents: MemoryDocuments, path: str, from_line: int | None = None, lines: int | None = None
) -> Excerpt:
    """Lines `from_line` (from 1) and following of the memory file `path`, as they are on disk now. Blocks.

    A file that is not there is an excerpt with `found` False. Raises ForbiddenPathError, UnreadableDocumentError.
    """
    document = documents.read_path(path)
    if document is None:
        return Excerpt(path, "", 0, 0, 0, found=False)
    whole = document_lines(document.text)
    first = max(1, from_line or 1)
    wanted = whole[first - 1 : first - 1 + max(1, lines or DEFAULT_LINES)]
    taken = wanted[: _fitting(wanted)]
    shown = document.state.path
    if not taken:
        return Excerpt(shown, "", 0, 0, len(whole))
    last = first + len(taken) - 1
    more = last < len(whole)
    return Excerpt(shown, "\n".join(taken), first, last, len(whole), more, last + 1 if more else None)


def read_whole(documents: MemoryDocuments, path: str) -> str:
    """The text of the memory file `path` as it is on disk now; empty for one that is not there. Blocks.

    Raises ForbiddenPathError, UnreadableDocumentError.
    """
    document = documents.read_path(path)
    return "" if document is None else document.text


def _fitting(lines: list[str]) -> int:
    """How many of the first lines stay within MOST_CHARS; a first line that is longer by itself counts."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if number and size > MOST_CHARS:
            return number
    return len(lines)
