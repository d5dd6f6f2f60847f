"""Who changes a memory file, and the recorder that every change passes on its way to the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from clawbot.text.numbers import whole_number

NOTES = (".md", ".markdown")
"""Suffixes of memory files, in small letters."""


class Author(Struct, frozen=True, omit_defaults=True):
    """Who makes a change: `by` is the part of the program ("tool:edit", "flush", "import") or "user".

    `session` is the id of the session, `key` its key, `entry` the id of the message that asked for it, `job` the name
    of the schedule's job, or the id of all that a dream wrote at once; `undoes` is the id of the change that this one
    takes back. `sources` are the lines that a dream made it from: `FILE:LINE` before the change, or `FILE` for the
    lines with the same text.
    """

    by: str
    session: str = ""
    key: str = ""
    entry: str = ""
    job: str = ""
    undoes: str = ""
    sources: tuple[str, ...] = ()


class Step(Struct, frozen=True):
    """A change of the file `path` (relative to the folder `root`, or absolute): `before` reads the content (None: no
    file, or it can't be read), `after` is the new one (None: it is deleted). `was` is the path before a rename."""

    root: Path
    path: str
    before: Callable[[], bytes | None]
    after: bytes | None
    was: str = ""


class Recorder(Protocol):
    """Records the changes of memory files. Blocks; raises nothing of its own, so that no change fails by it."""

    def change(self, author: Author, step: Step) -> contextlib.AbstractContextManager[None]:
        """Record that `step` is planned, and at the end of the context that it is done, or failed if it raises."""
        ...

    def notice_since(self, author: Author, since: float) -> None:
        """Record what changed without the program since the time `since` (seconds since the epoch) as changes by
        `author`, and what changed before as changes by the user."""
        ...


def position_in(target: str) -> tuple[str, int | None]:
    """Return the file and the line that `FILE:LINE` names; None for the file alone."""
    name, _, last = target.rpartition(":")
    number = whole_number(last) if name else None
    return (target if number is None else name), number


JOB: ContextVar[str] = ContextVar("job", default="")
"""The name of the schedule's job that takes this turn, "" for none."""
_CURRENT: ContextVar[tuple[Recorder, Author] | None] = ContextVar("recorder", default=None)
_NOTHING = contextlib.nullcontext()


@contextlib.contextmanager
def recording(recorder: Recorder | None, author: Author) -> Iterator[None]:
    """Let `recorder` record the changes of this context, and of threads started in it, as made by `author`; None:
    record nothing."""
    token = _CURRENT.set(None if recorder is None else (recorder, author))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def changing(
    root: Path, path: str | Path, before: Callable[[], bytes | None], after: bytes | None, *, was: str = ""
) -> contextlib.AbstractContextManager[None]:
    """The context in which a file is changed, see `Step`; for other files than notes it does nothing."""
    current = _CURRENT.get()
    if current is None or not str(path).lower().endswith(NOTES):
        return _NOTHING
    recorder, author = current
    return recorder.change(author, Step(root, str(path), before, after, was))
