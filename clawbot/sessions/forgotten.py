"""The ids of forgotten sessions and entries, in `forgotten.json` next to the transcripts; it contains no text.

Everything else is derived from transcripts. So all that reads them (the index, notes, offers to memory, titles, the
model's context) checks here what the user had forgotten. All calls block; they raise OSError.
"""

from __future__ import annotations

import errno
import functools
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from clawbot.files import PRIVATE_FILE, ensure_private_dir, locked, write_atomic
from clawbot.sessions.names import SUFFIX

FILE_NAME = "forgotten.json"
MARK = "[forgotten]"
"""Replaces forgotten text."""


class Forgotten(Struct, frozen=True, omit_defaults=True):
    """`sessions` are forgotten entirely; `entries` are those of other sessions, by session id. `unfinished`: a command
    that forgets was interrupted."""

    sessions: tuple[str, ...] = ()
    entries: Mapping[str, tuple[str, ...]] = {}
    unfinished: bool = False

    def holds(self, transcript: str, entry: str) -> bool:
        """Whether the entry of the file `transcript` is forgotten."""
        session = session_of(transcript)
        return session in self.sessions or entry in self.entries.get(session, ())

    def is_whole(self, transcript: str) -> bool:
        """Whether all of the file `transcript` is forgotten."""
        return session_of(transcript) in self.sessions

    def mark(self, transcript: str) -> int:
        """A number that changes with what is forgotten of `transcript`; 0 for nothing."""
        return zlib.crc32(" ".join(self.entries.get(session_of(transcript), ())).encode())


def session_of(transcript: str) -> str:
    """The session id in the name of a transcript, including archived ones."""
    return transcript.partition(SUFFIX)[0]


def read_forgotten(folder: Path) -> Forgotten:
    """What is forgotten of the transcripts in `folder`. A damaged file raises an error, so that nothing forgotten
    reappears."""
    path = folder / FILE_NAME
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return Forgotten()
    return _parsed(str(path), (found.st_ino, found.st_size, found.st_mtime_ns))


@functools.lru_cache(maxsize=8)
def _parsed(path: str, _mark: tuple[int, ...]) -> Forgotten:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Forgotten)
    except ValueError:
        raise OSError(errno.EINVAL, "is damaged; it lists what is forgotten: repair it, or delete it", path) from None


def forget(folder: Path, sessions: Iterable[str], entries: Mapping[str, Collection[str]]) -> None:
    """Add to what is forgotten; marked as unfinished until `finish`."""
    with _alone(folder):
        known = read_forgotten(folder)
        merged = {
            session: tuple(sorted({*known.entries.get(session, ()), *entries.get(session, ())}))
            for session in sorted({*known.entries, *entries})
        }
        _write(folder, Forgotten(tuple(sorted({*known.sessions, *sessions})), merged, unfinished=True))


def forget_copies(folder: Path, session: str, entries: Collection[str]) -> None:
    """Add the `entries` of the new `session`, which are copies of forgotten ones."""
    with _alone(folder):
        known = read_forgotten(folder)
        _write(folder, structs.replace(known, entries={**known.entries, session: tuple(sorted(entries))}))


def finish(folder: Path) -> None:
    """Record that everything derived from the forgotten text is gone."""
    with _alone(folder):
        known = read_forgotten(folder)
        if known.unfinished:
            _write(folder, structs.replace(known, unfinished=False))


def _alone(folder: Path) -> AbstractContextManager[None]:
    return locked(ensure_private_dir(folder) / f"{FILE_NAME}.lock")


def _write(folder: Path, forgotten: Forgotten) -> None:
    write_atomic(folder / FILE_NAME, msgspec.json.encode(forgotten) + b"\n", mode=PRIVATE_FILE)
