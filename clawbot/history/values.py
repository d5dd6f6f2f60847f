"""The entries of the history, the lines of its log, and what an undo came to."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from clawbot.authors import NOTES, Author
from clawbot.errors import ClawbotError

UNKNOWN = "?"
"""Instead of a digest: the content is not known."""
USER = Author("user")
ROOT_FILES = ("MEMORY.md", "memory.md", "USER.md")
FOLDER = "memory/"


class HistoryError(ClawbotError):
    """There is no such change, or it can't be undone."""


class Change(Struct, frozen=True, omit_defaults=True):
    """One entry of the history. `time` is UTC in ISO format; `before` and `after` are the SHA-256 of the contents of
    `path`, "" for no file, "?" for an unknown content. `was` is the path before a rename."""

    id: str
    time: str
    path: str
    author: Author
    before: str
    after: str
    was: str = ""


class Known(Struct, frozen=True, array_like=True):
    """A memory file as it was last seen: bytes, time of its last change in nanoseconds, SHA-256 of its content."""

    size: int
    changed_ns: int
    digest: str


class Line(Struct, omit_defaults=True):
    """A line of the log. `change` is "planned"; a line with its `id` follows: "done" or "void". "noticed" is a change
    that was found, "kept" one of the time before the log was rewritten. `known` is how `path` was seen then, None for
    a missing file; "seen" has nothing else. `after`: what the change came to if it was interrupted."""

    step: Literal["planned", "done", "void", "noticed", "kept", "seen"]
    id: str = ""
    change: Change | None = None
    path: str = ""
    known: Known | None = None
    after: str = ""


class Undone(Struct, frozen=True):
    """What an undo came to: the `path`, the id of the change that it made ("": none), and the first and last line that
    it concerns, 0 for none. `conflict` is a diff of what stands in its way; then nothing was changed."""

    path: str
    id: str = ""
    lines: tuple[int, int] = (0, 0)
    conflict: str = ""
    removed: bool = False


class Rewrite(Protocol):
    """Decides what remains of the history."""

    def changed(self, data: bytes) -> bytes:
        """Return what a stored content becomes."""
        ...

    def entry(self, change: Change) -> Change | None:
        """Return what a change becomes, whose contents have their new digests; None: it is dropped."""
        ...


def is_memory(path: str) -> bool:
    """Return whether `path`, relative to the workspace, is a memory file."""
    return path in ROOT_FILES or (path.startswith(FOLDER) and path.lower().endswith(NOTES))
